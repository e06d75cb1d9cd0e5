// Logits, loss and every gradient against transformers.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "test_model.hpp"

using namespace ringshard;
using config::ActivationPolicy;
using test::TestModel;

namespace {

using Golden = std::map<std::string, at::Tensor>;

// The rows of a golden as documents: without their padding, or packed.
struct Case {
    data::FlatBatch batch;
    std::vector<at::Tensor> logits;  // per document
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
            length = golden.at("attention_mask")[row].sum().item<int64_t>();
            lengths.push_back(static_cast<int32_t>(length));
        }
        add(golden.at("input_ids")[row].narrow(0, 0, length),
            golden.at("labels")[row].narrow(0, 0, length), lengths);
        made.logits.push_back(golden.at("logits")[row].narrow(0, 0, length));
    }
    made.batch = data::flatten(test::one_row_each(std::move(rows)), numbers);
    return made;
}

std::map<std::string, at::Tensor> check_against(const std::string& file,
                                                const TestModel::Options& options) {
    const Golden golden = test::read_golden(test::golden_folder() / "forward" / file);
    const Case made = make_case(golden);
    TestModel model(test::world(), test::golden_folder() / "models" / "qwen2-tiny", options);

    BOOST_TEST(test::largest_difference(model.logits(made.batch), at::cat(made.logits)) < 2e-5);

    const int64_t targets = golden.at("num_targets").item<int64_t>();
    const auto sums = model.transformer.forward_backward(model.cut(made.batch),
                                                         1.0 / static_cast<double>(targets));
    model.zero.finish_gradients();
    BOOST_TEST(sums.num_targets == targets);
    BOOST_TEST(std::abs(sums.loss / static_cast<double>(targets) -
                        golden.at("loss_mean").item<double>()) < 2e-6);
    BOOST_TEST(std::abs(model.transformer.evaluate(model.cut(made.batch)).loss - sums.loss) < 1e-4);

    const auto gradients = model.gradients();
    for (const auto& [name, gradient] : gradients) {
        BOOST_TEST_INFO_SCOPE(name);
        BOOST_TEST(test::relative_distance(gradient, golden.at("grad." + name)) < 1e-5);
    }
    return gradients;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_and_packed_documents_give_transformers_numbers) {
    for (const auto* file : {"qwen2-tiny.safetensors", "qwen2-tiny.packed.safetensors"}) {
        BOOST_TEST_INFO_SCOPE(file);
        const auto all = check_against(file, {.policy = ActivationPolicy::all});
        for (const ActivationPolicy policy :
             {ActivationPolicy::attention, ActivationPolicy::input}) {
            const auto other = check_against(file, {.policy = policy});
            for (const auto& [name, gradient] : all)
                BOOST_TEST(test::relative_distance(other.at(name), gradient) < 1e-6);
        }
    }
}

BOOST_AUTO_TEST_CASE(bf16_is_as_near_as_transformers_bf16) {
    const Golden golden =
        test::read_golden(test::golden_folder() / "forward" / "qwen2-tiny.safetensors");
    const Case made = make_case(golden);
    for (const ActivationPolicy policy :
         {ActivationPolicy::all, ActivationPolicy::attention, ActivationPolicy::input}) {
        TestModel model(test::world(), test::golden_folder() / "models" / "qwen2-tiny",
                        {.compute = at::kBFloat16, .policy = policy});
        BOOST_TEST(test::largest_difference(model.logits(made.batch), at::cat(made.logits)) < 0.15);
        const auto targets = golden.at("num_targets").item<double>();
        const auto sums = model.transformer.forward_backward(model.cut(made.batch), 1.0 / targets);
        model.zero.finish_gradients();
        BOOST_TEST(std::abs(sums.loss / targets - golden.at("loss_mean").item<double>()) < 2e-2);
        for (const auto& [name, gradient] : model.gradients()) {
            BOOST_TEST_INFO_SCOPE(name);
            // The gradient of a key bias nearly cancels.
            if (!name.ends_with("k_proj.bias"))
                BOOST_TEST(test::relative_distance(gradient, golden.at("grad." + name)) < 4e-2);
        }
    }
}
