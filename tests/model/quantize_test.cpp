// Weights in four and eight bits: the ranks quantise their parts, and each one gathers what one
// rank alone would have made.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "mpi_test.hpp"
#include "ringshard/hub/weights.hpp"
#include "ringshard/model/quantize.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/offload/host_offload_store.hpp"
#include "ringshard/ops/int8.hpp"
#include "ringshard/peft/named_adapters.hpp"

using namespace ringshard;
using shard::Codec;
using shard::UnitLayout;
using shard::Zero;

namespace {

struct Layout {
    UnitLayout unit{"block", "layer."};
    shard::ParameterId norm = unit.add({{{"norm", {65}}}});
    shard::ParameterId qk = unit.add({{{"q", {130, 65}}, {"k", {33, 65}}}});
    shard::ParameterId out = unit.add({{{"out", {67, 300}}}});

    explicit Layout(Codec form) {
        unit.freeze({"layer.norm", "layer.q", "layer.k", "layer.out"});
        unit.set_codec(form);
    }
};

at::Tensor weights_of(const std::string& name, int64_t rows, int64_t columns) {
    at::manual_seed(static_cast<uint64_t>(name.size() * 100 + static_cast<size_t>(name.back())));
    return (at::randn({rows, columns}) * 0.02).to(at::kBFloat16).to(at::kFloat);
}

std::map<std::string, at::Tensor> model() {
    return {{"layer.norm", weights_of("layer.norm", 1, 65)},
            {"layer.q", weights_of("layer.q", 130, 65)},
            {"layer.k", weights_of("layer.k", 33, 65)},
            {"layer.out", weights_of("layer.out", 67, 300)}};
}

shard::ReadWeight reader_of(const std::map<std::string, at::Tensor>& tensors) {
    return [&tensors](const std::string& name, int64_t first,
                      std::span<float> into) -> std::optional<Failure> {
        const auto* const from = static_cast<const float*>(tensors.at(name).const_data_ptr());
        std::copy_n(from + first, into.size(), into.begin());
        return std::nullopt;
    };
}

std::span<const float> span_of(const at::Tensor& tensor) {
    return {static_cast<const float*>(tensor.const_data_ptr()),
            static_cast<size_t>(tensor.numel())};
}

at::Tensor round_trip_int8(const at::Tensor& weights, at::ScalarType type) {
    std::vector<uint8_t> codes(static_cast<size_t>(weights.numel()));
    std::vector<float> scales(static_cast<size_t>(weights.size(0)));
    BOOST_REQUIRE(ops::quantize_int8(span_of(weights), weights.size(1), codes, scales));
    at::Tensor dense = at::empty(weights.sizes(), at::TensorOptions(type));
    ops::dequantize_int8(dense,
                         {at::tensor(codes, at::TensorOptions(at::kByte)), at::tensor(scales)});
    return dense;
}

// What one rank makes of a matrix.
at::Tensor round_trip(const at::Tensor& weights, Codec form, at::ScalarType type) {
    if (form == Codec::int8) return round_trip_int8(weights, type);
    const auto blocks =
        static_cast<size_t>((weights.numel() + ops::nf4_block - 1) / ops::nf4_block);
    std::vector<uint8_t> codes(blocks * ops::nf4_block_bytes);
    std::vector<float> scales(blocks);
    ops::quantize_nf4(span_of(weights), codes, scales);
    ops::Nf4Matrix matrix{
        at::tensor(codes, at::TensorOptions(at::kByte)), at::tensor(scales), {}, {}};
    if (form == Codec::nested_nf4) {
        const ops::NestedScales nested = ops::quantize_scales(scales);
        matrix.scales = at::tensor(nested.codes, at::TensorOptions(at::kByte));
        matrix.nested_scales = at::tensor(nested.scales);
        matrix.mean = at::tensor({nested.mean});
    }
    at::Tensor dense = at::empty(weights.sizes(), at::TensorOptions(type));
    ops::dequantize_nf4(dense, matrix);
    return dense;
}

void check(Codec form, const mesh::Cuts& cuts, at::ScalarType type,
           const Zero::Offloading& offloading = {}) {
    const mesh::Mesh mesh(test::world(), {.shard = test::world().size()}, at::kCPU);
    const Layout layout(form);
    const std::map<std::string, at::Tensor> tensors = model();
    Zero zero(layout.unit.finish(mesh.shape().zero()), cuts, {type, at::kFloat}, mesh, offloading);
    BOOST_REQUIRE(zero.num_units() == 2);
    if (offloading.any()) BOOST_REQUIRE(!offloading.weights->allocate());

    const std::set<std::string> names{"layer.q", "layer.k", "layer.out"};
    shard::TensorSums sums(names);
    hub::CodeScales scales;
    BOOST_REQUIRE(!hub::load_coded_weights(reader_of(tensors), zero, scales, sums));
    hub::write_scales(scales, zero);
    zero.refresh_compute_weights();
    shard::TensorSums expected(names);
    if (test::world().is_root())
        for (const std::string& name : names) expected.add(name, 0, span_of(tensors.at(name)));
    BOOST_TEST((sums.over(test::world()) == expected.over(test::world())));

    zero.begin_pass({1});
    const shard::UnitTensors weights({{&zero.units()[1], zero.weights(1), type}});
    const at::Tensor qk = at::cat({round_trip(tensors.at("layer.q"), form, type),
                                   round_trip(tensors.at("layer.k"), form, type)});
    BOOST_TEST(weights[layout.qk].equal(qk));
    BOOST_TEST(weights[layout.out].equal(round_trip(tensors.at("layer.out"), form, type)));
    BOOST_TEST(!weights[layout.norm].defined());
    zero.release(1, Zero::NextUse::none);

    // Bytes at rest: those of codes and scales.
    const shard::CodeLayout& places = *zero.units()[1].codes();
    const int64_t ranks = cuts.weights ? test::world().size() : 1;
    const int64_t at_rest = zero.units()[1].size() / ranks;
    BOOST_TEST(zero.units()[1].size() - places.bytes() < 32 * test::world().size());
    if (!offloading.any())
        BOOST_TEST(zero.memory().weights ==
                   at_rest + zero.units()[0].size() / ranks * c10::elementSize(type));
}

constexpr mesh::Cuts nothing{false, false, false, true};
constexpr mesh::Cuts optimizer{true, false, false, true};
constexpr mesh::Cuts everything{true, true, true, false};

}  // namespace

BOOST_AUTO_TEST_CASE(every_rank_gathers_what_one_rank_would_have_made) {
    const c10::InferenceMode no_autograd;
    for (const Codec form : {Codec::nf4, Codec::nested_nf4, Codec::int8})
        for (const mesh::Cuts& cuts : {nothing, optimizer, everything})
            for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) check(form, cuts, type);
}

BOOST_AUTO_TEST_CASE(codes_may_be_offloaded) {
    const c10::InferenceMode no_autograd;
    offload::HostOffloadStore store(at::kCPU);
    check(Codec::nested_nf4, everything, at::kBFloat16, {&store, nullptr});
    offload::HostOffloadStore of_rows(at::kCPU);
    check(Codec::int8, everything, at::kBFloat16, {&of_rows, nullptr});
}

namespace {

// Adapters that change something: B is not 0.
shard::ReadWeight with_large_b(shard::ReadWeight read) {
    return [read = std::move(read)](const std::string& name, int64_t first,
                                    std::span<float> into) -> std::optional<Failure> {
        if (!name.ends_with("lora_B.weight")) return read(name, first, into);
        for (size_t i = 0; i < into.size(); ++i)
            into[i] = 0.05F * std::sin(static_cast<float>(first) + static_cast<float>(i));
        return std::nullopt;
    };
}

// One document of a row, on every rank.
model::TokenBatch make_batch(const mesh::Mesh& mesh, const model::ModelSpec& spec) {
    constexpr int64_t length = 24;
    const auto whole = at::TensorOptions(at::kLong);
    const attention::SequencePartition partition(length, {0}, 1, 1);
    const at::Tensor tokens = (at::arange(length, whole) * 37 + 5).remainder(spec.vocabulary);
    return {tokens,
            at::arange(length, whole),
            at::arange(length - 1, whole),
            tokens.narrow(0, 1, length - 1).contiguous(),
            std::nullopt,
            attention::make_plans(partition, mesh.coordinates().ring, spec.masks()),
            std::nullopt,
            at::full({length}, length, whole)};
}

struct Result {
    at::Tensor token_stats;
    std::vector<at::Tensor> gradients;
};

Result forward_backward(const model::ModelSpec& spec, Zero& zero, const mesh::Mesh& mesh) {
    const model::Transformer transformer(spec, zero, mesh, {});
    zero.clear_gradients();
    zero.begin_last_micro_batch();
    Result result{transformer.forward_backward(make_batch(mesh, spec), 0.1), {}};
    zero.finish_gradients();
    for (size_t chunk = 0; chunk < zero.shelves().front().chunks.size(); ++chunk)
        result.gradients.push_back(
            zero.shelves().front().gradients->load(chunk, shard::Access::read).clone());
    return result;
}

// The quantised model computes what the model of its dequantised weights computes.
void check_training(Codec form, const mesh::Cuts& cuts, at::ScalarType type,
                    peft::LoraConfig adapters) {
    const std::filesystem::path folder =
        std::filesystem::path(RINGSHARD_GOLDENS) / "models" / "qwen3-tiny";
    const mesh::Mesh mesh(test::world(), {.shard = test::world().size()}, at::kCPU);
    model::ModelSpec dense_spec = model::read_model_spec(folder / "config.json").value();
    BOOST_REQUIRE(!peft::add_adapter(dense_spec, adapters));
    model::ModelSpec spec = dense_spec;
    BOOST_REQUIRE(!model::quantize_frozen(spec, form));
    const auto stored = hub::StoredModel::open(folder);
    ByteCounter& bytes = test::world().flight_recorder().bytes();
    const std::vector<peft::AdapterOrigin> origins{{{.seed = 1}}};
    const shard::ReadWeight read = with_large_b(
        peft::with_adapters(hub::reader_of(stored.value(), spec, bytes), spec, origins));
    const auto load = [&](Zero& zero) {
        shard::TensorSums none({});
        hub::CodeScales scales;
        BOOST_REQUIRE(!hub::load_weights(read, spec, zero, zero.all_weights(), none));
        BOOST_REQUIRE(!hub::load_coded_weights(read, zero, scales, none));
        hub::write_scales(scales, zero);
        zero.refresh_compute_weights();
    };
    Zero quantized(model::make_units(spec, mesh.shape().zero()), cuts, {type, at::kFloat}, mesh);
    load(quantized);
    const auto begin_magnitudes = [&](const model::ModelSpec& of, Zero& zero) {
        peft::set_magnitudes(of, zero);
        zero.refresh_compute_weights();
    };
    begin_magnitudes(spec, quantized);
    Zero dense(model::make_units(dense_spec, mesh.shape().zero()), cuts, {type, at::kFloat}, mesh);
    load(dense);
    begin_magnitudes(dense_spec, dense);
    const Result other = forward_backward(dense_spec, dense, mesh);
    model::copy_dequantized(quantized, dense);
    dense.refresh_compute_weights();
    begin_magnitudes(dense_spec, dense);
    const Result expected = forward_backward(dense_spec, dense, mesh);
    const Result result = forward_backward(spec, quantized, mesh);
    BOOST_TEST(result.token_stats.equal(expected.token_stats));
    BOOST_TEST(!result.token_stats.equal(other.token_stats));
    BOOST_REQUIRE(result.gradients.size() == expected.gradients.size());
    for (size_t chunk = 0; chunk < result.gradients.size(); ++chunk)
        BOOST_TEST(result.gradients[chunk].equal(expected.gradients[chunk]));
}

}  // namespace

BOOST_AUTO_TEST_CASE(adapters_are_trained_beside_the_weights_that_codes_stand_for) {
    const c10::InferenceMode no_autograd;
    const peft::LoraConfig plain{.r = 4, .target_modules = {"all-linear"}};
    check_training(Codec::nf4, everything, at::kFloat, plain);
    check_training(Codec::nested_nf4, everything, at::kBFloat16, plain);
    check_training(Codec::nested_nf4, nothing, at::kFloat, plain);
    check_training(Codec::int8, everything, at::kFloat, plain);
    check_training(Codec::int8, nothing, at::kBFloat16, plain);
    peft::LoraConfig dora = plain;
    dora.use_dora = true;
    check_training(Codec::nf4, everything, at::kBFloat16, dora);
    check_training(Codec::nested_nf4, nothing, at::kFloat, dora);
    check_training(Codec::int8, everything, at::kBFloat16, dora);
}
