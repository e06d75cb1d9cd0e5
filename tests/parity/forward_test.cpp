// Logits, loss and every gradient against transformers.
#include <ATen/ATen.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "test_model.hpp"

using namespace ringshard;
using config::ActivationPolicies;
using config::ActivationPolicy;
using test::TestModel;

namespace {

using Golden = std::map<std::string, at::Tensor>;

// The rows of a golden as documents: without their padding, or packed.
struct Case {
    data::FlatBatch batch;
    // Per row, of all its tokens: some columns of the logits, the labels, and the log-probability
    // of the next token's label, 0 where that is ignored.
    std::vector<at::Tensor> logits;
    std::vector<at::Tensor> labels;
    std::vector<at::Tensor> log_probabilities;
};

Case make_case(const Golden& golden) {
    data::SampleList rows;
    std::vector<int64_t> numbers;
    Case made;
    const auto add = [&](const at::Tensor& ids, const at::Tensor& labels,
                         const std::vector<int32_t>& lengths) {
        const auto to_vector = [](const at::Tensor& tensor) {
            const at::Tensor ints = tensor.to(at::kInt).contiguous();
            return std::vector<int32_t>(ints.data_ptr<int32_t>(),
                                        ints.data_ptr<int32_t>() + ints.numel());
        };
        rows.add(to_vector(ids), to_vector(labels), lengths);
        numbers.push_back(static_cast<int64_t>(numbers.size()));
    };
    for (int64_t row = 0; row < golden.at("input_ids").size(0); ++row) {
        int64_t length = golden.at("input_ids").size(1);
        std::vector<int32_t> lengths;
        if (golden.contains("lengths")) {
            for (int64_t i = 0; i < golden.at("lengths").numel(); ++i)
                lengths.push_back(golden.at("lengths")[i].item<int32_t>());
        } else {
            if (golden.contains("attention_mask"))
                length = golden.at("attention_mask")[row].sum().item<int64_t>();
            lengths.push_back(static_cast<int32_t>(length));
        }
        add(golden.at("input_ids")[row].narrow(0, 0, length),
            golden.at("labels")[row].narrow(0, 0, length), lengths);
        if (!golden.contains("positions"))
            made.logits.push_back(golden.at("logits")[row].narrow(0, 0, length));
        made.labels.push_back(golden.at("labels")[row].narrow(0, 0, length));
        made.log_probabilities.push_back(golden.at("logprobs")[row].narrow(0, 0, length - 1));
    }
    made.batch = data::flatten(test::one_row_each(std::move(rows)), numbers);
    return made;
}

// Where the whole gradient is left out of the golden: its l2 norm and its sum.
void check_norm_and_sum(const at::Tensor& gradient, const at::Tensor& norm_and_sum) {
    const at::Tensor ours = gradient.to(at::kDouble);
    const double norm = norm_and_sum[0].item<double>();
    BOOST_TEST(std::abs(ours.norm().item<double>() - norm) < 1e-5 * norm);
    BOOST_TEST(std::abs(ours.sum().item<double>() - norm_and_sum[1].item<double>()) <
               1e-5 * norm * std::sqrt(static_cast<double>(ours.numel())));
}

// The distance of a gradient from the golden's, which has every row or, of matrices, every fourth
// or eighth.
double distance_of_rows(const at::Tensor& gradient, const at::Tensor& golden) {
    const int64_t step = gradient.size(0) / golden.size(0);
    return test::relative_distance(gradient.slice(0, 0, std::nullopt, step), golden);
}

// A golden has a gradient, or its norm and sum, or both where it has some rows of the gradient.
void check_gradients(TestModel& model, const Golden& golden) {
    for (const auto& [name, gradient] : model.gradients()) {
        BOOST_TEST_INFO_SCOPE(name);
        const bool has_rows = golden.contains("grad." + name);
        if (has_rows) BOOST_TEST(distance_of_rows(gradient, golden.at("grad." + name)) < 1e-5);
        if (!has_rows || golden.at("grad." + name).size(0) < gradient.size(0))
            check_norm_and_sum(gradient, golden.at("gradnorm." + name));
    }
}

// The largest difference of our log-probabilities of labels, for which all logits are summed.
double distance_of_log_probabilities(const at::Tensor& logits, const Case& made) {
    double largest = 0;
    int64_t first = 0;
    for (size_t row = 0; row < made.labels.size(); ++row) {
        const int64_t length = made.labels[row].size(0);
        const at::Tensor next = made.labels[row].narrow(0, 1, length - 1).unsqueeze(1);
        const at::Tensor ours = logits.narrow(0, first, length - 1)
                                    .to(at::kFloat)
                                    .log_softmax(1)
                                    .gather(1, next.clamp_min(0))
                                    .mul(next >= 0)
                                    .squeeze(1);
        largest = std::max(largest, test::largest_difference(ours, made.log_probabilities[row]));
        first += length;
    }
    return largest;
}

// A golden has some columns of the logits of all tokens, or all of some tokens.
double distance_of_logits(const at::Tensor& ours, const Golden& golden, const Case& made) {
    if (golden.contains("positions"))
        return test::largest_difference(ours.index_select(0, golden.at("positions")),
                                        golden.at("logits"));
    return test::largest_difference(ours.index_select(1, golden.at("columns")),
                                    at::cat(made.logits));
}

std::filesystem::path model_folder(const std::string& file) {
    return test::golden_folder() / "models" / file.substr(0, file.find('.'));
}

// Returns the gradients.
std::map<std::string, at::Tensor> check_against(const std::string& file,
                                                const ActivationPolicies& policies) {
    const Golden golden = test::read_golden(test::golden_folder() / "forward" / file);
    const Case made = make_case(golden);
    TestModel model(test::world(), model_folder(file), {.policies = policies});
    const at::Tensor logits = model.logits(made.batch);
    BOOST_TEST(distance_of_logits(logits, golden, made) < 2e-5);
    BOOST_TEST(distance_of_log_probabilities(logits, made) < 2e-5);

    const int64_t targets = golden.at("num_targets").item<int64_t>();
    const auto sums = ops::add_up(model.transformer.forward_backward(
        model.cut(made.batch), 1.0 / static_cast<double>(targets)));
    model.zero.finish_gradients();
    BOOST_TEST(sums.num_targets == targets);
    BOOST_TEST(std::abs(sums.loss / static_cast<double>(targets) -
                        golden.at("loss_mean").item<double>()) < 2e-6);
    BOOST_TEST(std::abs(ops::add_up(model.transformer.evaluate(model.cut(made.batch))).loss -
                        sums.loss) < 1e-4);
    check_gradients(model, golden);
    return model.gradients();
}

std::vector<std::string> golden_files() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(test::golden_folder() / "forward"))
        files.push_back(entry.path().filename().string());
    std::ranges::sort(files);
    return files;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_and_packed_documents_give_transformers_numbers) {
    BOOST_TEST(golden_files().size() >= 19U);
    for (const std::string& file : golden_files()) {
        BOOST_TEST_INFO_SCOPE(file);
        const auto all = check_against(file, ActivationPolicy::all);
        const auto attention = check_against(file, ActivationPolicy::attention);
        for (const auto& [name, gradient] : all)
            BOOST_TEST(test::relative_distance(attention.at(name), gradient) < 1e-6);
        // Kept rows are those that would be made again.
        for (const auto& [name, gradient] : check_against(file, ActivationPolicy::everything))
            BOOST_TEST(all.at(name).equal(gradient));
        // All that keep no inner rows of the MLP make the same products.
        for (const ActivationPolicy policy :
             {ActivationPolicy::all_but_gate_up, ActivationPolicy::input})
            for (const auto& [name, gradient] : check_against(file, policy))
                BOOST_TEST(attention.at(name).equal(gradient));
        const ActivationPolicies one_of_each(
            {{ActivationPolicy::all, 1}, {ActivationPolicy::input}});
        for (const auto& [name, gradient] : check_against(file, one_of_each))
            BOOST_TEST(test::relative_distance(gradient, all.at(name)) < 1e-6);
    }
}

BOOST_AUTO_TEST_CASE(positions_turn_as_in_transformers) {
    for (const auto* name : {"llama3-tiny", "qwen2-yarn-tiny"}) {
        const std::string file = format_text("{}.long.safetensors", name);
        const Golden golden = test::read_golden(test::golden_folder() / "forward" / file);
        const auto spec = model::read_model_spec(model_folder(file) / "config.json");
        const at::Tensor ours =
            model::inverse_frequencies(spec.value().ropes.front(), spec.value().heads().head_dim);
        BOOST_TEST(test::relative_distance(ours, golden.at("inv_freq")) < 1e-7);
        BOOST_TEST(std::abs(spec.value().ropes.front().attention_scaling -
                            golden.at("attention_scaling").item<double>()) < 1e-7);
    }
}

namespace {

void check_bf16(const std::string& file) {
    const Golden golden = test::read_golden(test::golden_folder() / "forward" / file);
    const Case made = make_case(golden);
    for (const ActivationPolicy policy :
         {ActivationPolicy::everything, ActivationPolicy::all, ActivationPolicy::all_but_gate_up,
          ActivationPolicy::attention, ActivationPolicy::input}) {
        TestModel model(test::world(), model_folder(file),
                        {.compute = at::kBFloat16, .policies = policy});
        const at::Tensor logits = model.logits(made.batch);
        BOOST_TEST(distance_of_logits(logits, golden, made) < 0.15);
        BOOST_TEST(distance_of_log_probabilities(logits, made) < 0.15);
        const auto targets = golden.at("num_targets").item<double>();
        const auto sums =
            ops::add_up(model.transformer.forward_backward(model.cut(made.batch), 1.0 / targets));
        model.zero.finish_gradients();
        BOOST_TEST(std::abs(sums.loss / targets - golden.at("loss_mean").item<double>()) < 2e-2);
        for (const auto& [name, gradient] : model.gradients()) {
            BOOST_TEST_INFO_SCOPE(name);
            // The gradient of a key bias nearly cancels.
            if (golden.contains("grad." + name) && !name.ends_with("k_proj.bias"))
                BOOST_TEST(distance_of_rows(gradient, golden.at("grad." + name)) < 4e-2);
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(bf16_is_as_near_as_transformers_bf16) {
    for (const auto* file :
         {"qwen2-tiny.safetensors", "llama3-tiny.safetensors", "qwen3-tiny.safetensors",
          "phi3-tiny.safetensors", "olmo2-tiny.safetensors"}) {
        BOOST_TEST_INFO_SCOPE(file);
        check_bf16(file);
    }
}
