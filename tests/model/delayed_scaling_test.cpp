// The history of delayed scaling, the scales that follow from it, and its text in a checkpoint;
// what products take and record.
#include "ringshard/model/delayed_scaling.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <bit>
#include <boost/test/unit_test.hpp>
#include <limits>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "test_model.hpp"

using namespace ringshard;
using model::DelayedScaling;
using ops::Fp8Format;

namespace {

model::ModelSpec spec_of(const char* name) {
    return model::read_model_spec(test::golden_folder() / "models" / name / "config.json").value();
}

int64_t bits_of(float number) { return std::bit_cast<int32_t>(number); }

// The magnitudes of a step: one of all inputs, and one of all output gradients.
std::vector<int64_t> maxima(const DelayedScaling& scaling, float of_inputs, float of_gradients) {
    std::vector<int64_t> all;
    for (size_t tensor = 0; tensor < scaling.num_tensors(); ++tensor)
        all.push_back(bits_of(tensor % 2 == 0 ? of_inputs : of_gradients));
    return all;
}

int exponent_of(const DelayedScaling& scaling, size_t tensor) {
    return scaling.scale_of(tensor, 0).exponent.item<int32_t>();
}

data::FlatBatch batch_of(int64_t tokens, int64_t seed) {
    data::FlatBatch batch;
    batch.document_starts = {0};
    for (int64_t i = 0; i < tokens; ++i) {
        batch.tokens.push_back((31 * i + 17 * seed) % 480);
        batch.targets.push_back(i + 1 < tokens ? (29 * i + seed) % 480 : -100);
    }
    return batch;
}

test::TestModel::Options in_fp8(Fp8Format gradients) {
    return {.compute = at::kBFloat16,
            .fp8 = model::Fp8Options{gradients},
            .delayed_scaling = DelayedScaling::Options{gradients, 4, true, 0}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(scales_follow_from_the_history) {
    DelayedScaling largest(spec_of("qwen2-tiny"), {Fp8Format::e5m2, 2, true, 0}, at::kCPU);
    DelayedScaling newest(spec_of("qwen2-tiny"), {Fp8Format::e4m3, 2, false, 3}, at::kCPU);
    BOOST_TEST(largest.num_tensors() == 18);  // 9 of its 12 products are in FP8
    for (DelayedScaling* const scaling : {&largest, &newest}) {
        BOOST_TEST(!scaling->has_scale(0));
        BOOST_TEST(!scaling->scale_of(0, 5).exponent.defined());
        BOOST_TEST(scaling->scale_of(0, 5).counted == 5);
        BOOST_TEST(!scaling->scale_of(0, 0).maximum.defined());
        BOOST_TEST(scaling->generation() == 0);
        scaling->push(maxima(*scaling, 7.0F, 0.0F));
        BOOST_TEST(scaling->generation() == 1);
        BOOST_TEST(scaling->has_scale(0));
        BOOST_TEST(!scaling->has_scale(1));  // zeros alone
        scaling->push(maxima(*scaling, 1.0F, 1.75F));
        BOOST_TEST(scaling->generation() == 2);
    }
    BOOST_TEST(exponent_of(largest, 0) == 6);  // 7 x 2^6 = 448
    BOOST_TEST(exponent_of(largest, 1) == 15);
    BOOST_TEST(exponent_of(newest, 0) == 8 - 3);
    BOOST_TEST(exponent_of(newest, 1) == 8 - 3);
    // What is older than the history no longer counts.
    largest.push(maxima(largest, 1.0F, 1.0F));
    BOOST_TEST(largest.steps_in_history() == 2);
    BOOST_TEST(exponent_of(largest, 0) == 8);
    BOOST_TEST(largest.generation() == 2);
    // What is not finite counts as nothing.
    for (const float broken :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        largest.push(maxima(largest, broken, 1.0F));
        BOOST_TEST(largest.has_scale(0) == (broken > 0));  // one step with a number is left
        newest.push(maxima(newest, broken, 1.0F));
        BOOST_TEST(!newest.has_scale(0));
    }
    largest.forget();
    BOOST_TEST(!largest.has_scale(1));
    BOOST_TEST(largest.steps_in_history() == 0);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_has_the_history_as_text) {
    const model::ModelSpec spec = spec_of("qwen2-tiny");
    DelayedScaling scaling(spec, {Fp8Format::e5m2, 8, true, 0}, at::kCPU);
    for (const float step : {1.5F, 0.0F, 3e38F, 1e-38F, 0.25F})
        scaling.push(maxima(scaling, at::tensor(step).to(at::kBFloat16).item<float>(), 2.0F));
    const std::string text = scaling.to_text();
    for (const int64_t length : {8, 5, 2}) {
        DelayedScaling other(spec, {Fp8Format::e5m2, length, true, 0}, at::kCPU);
        BOOST_TEST(!other.load(text, "state.h5"));
        BOOST_TEST(other.steps_in_history() == std::min<int64_t>(5, length));
        BOOST_TEST((other.to_text() == text) == (length >= 5));
        BOOST_TEST(exponent_of(other, 0) == (length == 2 ? 10 : -119));
    }
    const auto refuses = [&](const std::string& damaged, const char* words) {
        const auto failure = scaling.load(damaged, "state.h5");
        BOOST_TEST_REQUIRE(bool(failure));
        BOOST_TEST((failure->code == ExitCode::bad_data));
        BOOST_TEST_INFO_SCOPE(failure->message);
        BOOST_TEST(failure->message.find(words) != std::string::npos);
        BOOST_TEST(scaling.steps_in_history() == 0);
    };
    refuses("", "is no history");
    refuses("[]", "is no history");
    refuses(R"({"maxima": 3})", "is no history");
    refuses(R"({"maxima": [3]})", "other than finite numbers");
    refuses(R"({"maxima": ["3f8"]})", "other than finite numbers");
    refuses(R"({"maxima": ["3F80"]})", "other than finite numbers");
    refuses(R"({"maxima": ["7f80"]})", "other than finite numbers");
    refuses(R"({"maxima": ["bf80"]})", "other than finite numbers");
    refuses(R"({"maxima": ["3f80"]})", "has 1 maxima of a step, and this model has products of 18");
}

BOOST_AUTO_TEST_CASE(a_pass_records_what_the_products_take) {
    const c10::InferenceMode no_autograd;
    for (const auto policy : {config::ActivationPolicy::all, config::ActivationPolicy::input}) {
        test::TestModel::Options options = in_fp8(Fp8Format::e4m3);
        options.policies = policy;
        options.chunks = model::Chunks{.mlp = 7};  // as in one chunk
        test::TestModel one(test::world(), test::golden_folder() / "models" / "qwen2-tiny",
                            in_fp8(Fp8Format::e4m3));
        test::TestModel other(test::world(), test::golden_folder() / "models" / "qwen2-tiny",
                              options);
        const model::TokenBatch batch = one.cut(batch_of(40, 1));
        const at::Tensor of_one = one.transformer.forward_backward(batch, 0.01);
        BOOST_TEST(other.transformer.forward_backward(batch, 0.01).equal(of_one));
        const std::vector<int64_t> recorded = one.stack.delayed_scaling->take_maxima();
        BOOST_TEST(other.stack.delayed_scaling->take_maxima() == recorded,
                   boost::test_tools::per_element());
        for (const int64_t bits : recorded) {
            BOOST_TEST(bits > 0);
            BOOST_TEST(bits < bits_of(1e4F));
        }
        for (const int64_t bits : one.stack.delayed_scaling->take_maxima()) BOOST_TEST(bits == 0);
        one.transformer.evaluate(batch);
        for (const int64_t bits : one.stack.delayed_scaling->take_maxima()) BOOST_TEST(bits == 0);
        // Until a step ends, rows have scales; then the tensors have.
        test::TestModel::Options by_rows = in_fp8(Fp8Format::e4m3);
        by_rows.delayed_scaling.reset();
        test::TestModel rowwise(test::world(), test::golden_folder() / "models" / "qwen2-tiny",
                                by_rows);
        BOOST_TEST(rowwise.transformer.evaluate(batch).equal(one.transformer.evaluate(batch)));
        // Of a step whose numbers were smaller.
        DelayedScaling& scaling = *one.stack.delayed_scaling;
        scaling.push(maxima(scaling, 0.25F, 0x1p-10F));
        BOOST_TEST(!rowwise.transformer.evaluate(batch).equal(one.transformer.evaluate(batch)));
        // The last tokens of a batch that is filled up do not count.
        model::TokenBatch filled = one.cut(batch_of(40, 1));
        filled.num_fillers = 40;
        one.transformer.forward_backward(filled, 0.01);
        for (const int64_t bits : one.stack.delayed_scaling->take_maxima()) BOOST_TEST(bits == 0);
    }
}
