// Recorded and replayed blocks give the results of unrecorded ones, to the bit: for other tokens,
// under every sharding of the weights, and beside batches of other shapes. On the CPU a stand-in
// for CUDA graphs repeats the work and writes its results to the addresses of the first time; like
// a graph, it does not see data at any other address.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <boost/test/unit_test.hpp>
#include <random>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "test_model.hpp"

using namespace ringshard;
using test::TestModel;

namespace {

class Repetition final : public model::Recording {
public:
    Repetition(model::Recorder::Work work, std::vector<at::Tensor> made)
        : work_(std::move(work)), made_(std::move(made)) {}
    void replay() override {
        if (std::exchange(is_first_, false)) return;  // record() has computed it
        const std::vector<at::Tensor> again = work_();
        BOOST_REQUIRE(again.size() == made_.size());
        for (size_t i = 0; i < made_.size(); ++i)
            if (made_[i].defined() && !made_[i].is_same(again[i])) made_[i].copy_(again[i]);
    }

private:
    model::Recorder::Work work_;
    std::vector<at::Tensor> made_;
    bool is_first_ = true;
};

class HostRecorder final : public model::Recorder {
public:
    Recorded record(Work work) override {
        ++count;
        std::vector<at::Tensor> made = work();
        auto repetition = std::make_unique<Repetition>(std::move(work), made);
        return {std::move(repetition), std::move(made)};
    }
    int count = 0;
};

// Counts what another one records.
class CountingRecorder final : public model::Recorder {
public:
    explicit CountingRecorder(model::Recorder& recorder) : recorder_(recorder) {}
    Recorded record(Work work) override {
        ++count;
        return recorder_.record(std::move(work));
    }
    int count = 0;

private:
    model::Recorder& recorder_;
};

std::unique_ptr<model::Recorder> recorder_of_this_device() {
    if (test::device().is_cuda()) return model::make_recorder(test::device());
    return std::make_unique<HostRecorder>();
}

// Rows with tokens of their own; every row is a document.
data::FlatBatch batch_of(const std::vector<int64_t>& lengths, uint32_t seed) {
    std::mt19937 random(seed);
    data::FlatBatch batch;
    for (const int64_t length : lengths) {
        batch.document_starts.push_back(static_cast<int64_t>(batch.tokens.size()));
        for (int64_t i = 0; i < length; ++i) {
            batch.tokens.push_back(static_cast<int64_t>(random() % 500));
            batch.targets.push_back(i + 1 < length ? static_cast<int64_t>(random() % 500) : -100);
        }
    }
    return batch;
}

// What a step over some batches leaves behind: the losses of tokens, and the gradients.
struct Outcome {
    std::vector<at::Tensor> losses;
    std::map<std::string, at::Tensor> gradients;
};

Outcome step_over(TestModel& model, const std::vector<data::FlatBatch>& batches) {
    Outcome outcome;
    model.zero.clear_gradients();
    for (const data::FlatBatch& batch : batches) {
        if (&batch == &batches.back()) model.zero.begin_last_micro_batch();
        outcome.losses.push_back(
            model.transformer.forward_backward(model.cut(batch), 0.01).clone());
    }
    model.zero.finish_gradients();
    outcome.gradients = model.gradients();
    return outcome;
}

// A GPU's attention in bf16 adds up in an order that differs from one time to the next.
bool are_same(const at::Tensor& one, const at::Tensor& other, at::ScalarType type) {
    if (test::device().is_cuda() && type == at::kBFloat16)
        return (one - other).norm().item<double>() <= 1e-2 * other.norm().item<double>();
    return at::equal(one, other);
}

void check_same(const Outcome& one, const Outcome& other, at::ScalarType type) {
    BOOST_REQUIRE(one.losses.size() == other.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i)
        BOOST_TEST(are_same(one.losses[i], other.losses[i], type), "losses of batch " << i);
    for (const auto& [name, gradient] : one.gradients)
        BOOST_TEST(are_same(gradient, other.gradients.at(name), type), name);
}

constexpr mesh::Cuts nothing_cut{};
constexpr mesh::Cuts zero2{
    .optimizer = true, .gradients = true, .keeps_weights_after_forward = false};
constexpr mesh::Cuts zero3{
    .optimizer = true, .gradients = true, .weights = true, .keeps_weights_after_forward = false};

const std::vector<int64_t> rows{24, 24, 24};
const std::vector<int64_t> other_rows{16, 16};
const std::vector<int64_t> documents{9, 30, 5};

// Four steps of a model that is recorded and of one that is not.
void compare_steps(const TestModel::Options& options) {
    const comm::Group& world = test::world();
    const auto folder = test::golden_folder() / "models" / "qwen3-tiny";
    const auto recorder = recorder_of_this_device();
    CountingRecorder counting(*recorder);
    TestModel common(world, folder, options);
    TestModel::Options with_recorder = options;
    with_recorder.recorder = &counting;
    TestModel recorded(world, folder, with_recorder);
    int recordings_before = 0;
    for (uint32_t step = 0; step < 4; ++step) {
        const uint32_t seed = 100 * step + static_cast<uint32_t>(world.rank());
        const std::vector<data::FlatBatch> batches{
            batch_of(rows, seed), batch_of(rows, seed + 10), batch_of(other_rows, seed),
            batch_of(documents, seed), batch_of(rows, seed + 20)};
        check_same(step_over(recorded, batches), step_over(common, batches), options.compute);
        if (step == 3) BOOST_TEST(counting.count == recordings_before);
        recordings_before = counting.count;
    }
    BOOST_TEST(counting.count > 0);
    // Three of every step; the very first batch had not come before.
    BOOST_TEST(recorded.transformer.replays().batches == 20);
    BOOST_TEST(recorded.transformer.replays().replayed == 11);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_replayed_is_what_would_be_computed) {
    using config::ActivationPolicies;
    using config::ActivationPolicy;
    const c10::InferenceMode no_autograd;
    for (const mesh::Cuts& cuts : {nothing_cut, zero2, zero3})
        for (const ActivationPolicies& policies :
             {ActivationPolicies(ActivationPolicy::all),
              ActivationPolicies(ActivationPolicy::all_but_gate_up),
              ActivationPolicies(ActivationPolicy::attention),
              ActivationPolicies(ActivationPolicy::input),
              ActivationPolicies({{ActivationPolicy::all, 1}, {ActivationPolicy::input}})})
            for (const auto type : {at::kFloat, at::kBFloat16}) {
                BOOST_TEST_INFO_SCOPE(to_text(cuts)
                                      << ", " << to_text(policies) << ", " << c10::toString(type));
                compare_steps({.shape = {.shard = test::world().size()},
                               .cuts = cuts,
                               .compute = type,
                               .policies = policies});
            }
}

// A GPU's calls for documents of all lengths are prepared with the batch, and can be recorded. The
// CPU's are made where they run: such batches go the common way.
BOOST_AUTO_TEST_CASE(documents_of_all_lengths_are_replayed_where_their_calls_are_prepared) {
    const c10::InferenceMode no_autograd;
    const auto recorder = recorder_of_this_device();
    const TestModel::Options common_options{.shape = {.shard = test::world().size()}};
    TestModel::Options options = common_options;
    options.recorder = recorder.get();
    const auto tiny = test::golden_folder() / "models" / "qwen2-tiny";
    TestModel recorded(test::world(), tiny, options);
    TestModel common(test::world(), tiny, common_options);
    for (uint32_t step = 0; step < 3; ++step)
        check_same(step_over(recorded, {batch_of(documents, step)}),
                   step_over(common, {batch_of(documents, step)}), options.compute);
    BOOST_TEST(recorded.transformer.replays().batches == 3);
    BOOST_TEST(recorded.transformer.replays().replayed == (test::device().is_cuda() ? 2 : 0));
}

BOOST_AUTO_TEST_CASE(another_shape_that_comes_again_takes_the_place) {
    const c10::InferenceMode no_autograd;
    const auto recorder = recorder_of_this_device();
    TestModel model(test::world(), test::golden_folder() / "models" / "qwen2-tiny",
                    {.shape = {.shard = test::world().size()}, .recorder = recorder.get()});
    for (const auto& lengths : {rows, rows, other_rows, other_rows, other_rows, rows})
        step_over(model, {batch_of(lengths, 1)});
    BOOST_TEST(model.transformer.replays().replayed == 3);
}

BOOST_AUTO_TEST_CASE(blocks_are_recorded_again_when_tensors_get_scales) {
    const c10::InferenceMode no_autograd;
    const auto recorder = recorder_of_this_device();
    CountingRecorder counting(*recorder);
    TestModel::Options options{
        .shape = {.shard = test::world().size()},
        .compute = at::kBFloat16,
        .fp8 = model::Fp8Options{ops::Fp8Format::e4m3},
        .delayed_scaling = model::DelayedScaling::Options{ops::Fp8Format::e4m3, 2, true, 0}};
    const auto folder = test::golden_folder() / "models" / "qwen2-tiny";
    TestModel common(test::world(), folder, options);
    options.recorder = &counting;
    TestModel recorded(test::world(), folder, options);
    std::vector<int> recordings;
    for (uint32_t step = 0; step < 4; ++step) {
        const std::vector<data::FlatBatch> batches{batch_of(rows, step), batch_of(rows, step + 9)};
        check_same(step_over(recorded, batches), step_over(common, batches), at::kBFloat16);
        const auto maxima = recorded.stack.delayed_scaling->take_maxima();
        BOOST_TEST(maxima == common.stack.delayed_scaling->take_maxima(),
                   boost::test_tools::per_element());
        for (TestModel* const model : {&recorded, &common})
            model->stack.delayed_scaling->push(test::world().maximum(maxima));
        recordings.push_back(counting.count);
    }
    BOOST_TEST(recordings[1] == 2 * recordings[0]);
    BOOST_TEST(recordings[3] == recordings[1]);
}
