// Logits of PEFT's adapters, and weights that PEFT merges them into (generator/adapter_outputs.py).
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "ringshard/peft/merge_adapters.hpp"
#include "test_model.hpp"

using namespace ringshard;

namespace {

data::FlatBatch document_of(const at::Tensor& ids) {
    const at::Tensor ints = ids.to(at::kInt).contiguous();
    const std::vector<int32_t> tokens(ints.data_ptr<int32_t>(),
                                      ints.data_ptr<int32_t>() + ints.numel());
    data::SampleList rows;
    const std::vector<int32_t> lengths{static_cast<int32_t>(tokens.size())};
    rows.add(tokens, tokens, lengths);
    const std::vector<int64_t> numbers{0};
    return data::flatten(test::one_row_each(std::move(rows)), numbers);
}

}  // namespace

BOOST_AUTO_TEST_CASE(adapters_give_the_logits_and_merged_weights_of_peft) {
    const auto folder = test::golden_folder() / "adapters";
    const auto golden = test::read_golden(folder / "outputs.safetensors");
    constexpr const char* merged = "model.layers.2.self_attn.v_proj.weight";
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "start")) {
        const std::string name = entry.path().filename();
        BOOST_TEST_INFO_SCOPE(name);
        const std::string base = name.substr(0, name.find('_')) + "-tiny";
        test::TestModel model(test::world(), test::golden_folder() / "models" / base,
                              {.cuts = {true, true, true, false}, .adapter = entry.path()});
        const at::Tensor logits = model.logits(document_of(golden.at(name + ".input_ids")));
        const at::Tensor expected = golden.at(name + ".logits");  // of the last tokens
        const at::Tensor last =
            logits.narrow(0, logits.size(0) - expected.size(0), expected.size(0));
        BOOST_TEST(test::largest_difference(last, expected) < 1e-5);
        const auto of_peft = golden.find(name + ".float32." + merged);
        if (of_peft == golden.end()) continue;
        peft::merge_adapters(model.spec, model.zero);
        BOOST_TEST(test::largest_difference(model.weights().at(merged), of_peft->second) < 1e-6);
        ++count;
    }
    BOOST_TEST(count >= 8);
}

// A is normal with the deviation 1 / r, and magnitudes are the norms of rows.
BOOST_AUTO_TEST_CASE(adapters_begin_as_those_of_peft) {
    peft::LoraConfig config{.r = 8, .target_modules = {"all-linear"}};
    config.use_dora = true;
    config.init.kind = config::AdapterInit::Kind::normal;
    test::TestModel model(test::world(), test::golden_folder() / "models" / "qwen3-tiny",
                          {.cuts = {true, true, true, false}, .adapters = config});
    const auto weights = model.weights();
    const std::string ending = "lora_magnitude_vector";
    std::vector<at::Tensor> all_a;
    for (const auto& [name, tensor] : weights) {
        if (name.ends_with("lora_A.weight")) all_a.push_back(tensor.flatten());
        if (!name.ends_with(ending)) continue;
        const std::string layer = name.substr(0, name.size() - ending.size());
        BOOST_TEST(test::relative_distance(tensor, weights.at(layer + "weight").norm(2, 1)) < 1e-6);
        BOOST_TEST(weights.at(layer + "lora_B.weight").eq(0).all().item<bool>());
    }
    const at::Tensor a = at::cat(all_a).to(at::kDouble);
    BOOST_TEST(a.numel() > 10000);
    BOOST_TEST(std::abs(a.mean().item<double>()) < 0.003);
    BOOST_TEST(std::abs(a.std().item<double>() - 0.125) < 0.003);
    const double kurtosis = (a.pow(4).mean() / a.square().mean().square()).item<double>();
    BOOST_TEST(std::abs(kurtosis - 3) < 0.2);
}
