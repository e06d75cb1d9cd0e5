// Blocks of every kind of part against autograd in double precision: output, gradient of the input
// and gradients of all tensors, whatever the policy keeps.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <deque>
#include <set>

#include "autograd.hpp"
#include "model_parts.hpp"
#include "mpi_test.hpp"
#include "parts/expert_adapter.hpp"
#include "plain_block.hpp"
#include "ringshard/base/mix.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/model_tensors.hpp"
#include "ringshard/model/rope_spec.hpp"
#include "ringshard/ops/dropout.hpp"
#include "ringshard/ops/linear.hpp"

using namespace ringshard;
using namespace ringshard::model;
using config::ActivationPolicy;

namespace {

BlockSpec plain_spec() {
    BlockSpec spec{.width = width, .norm = {.epsilon = epsilon}};
    spec.attention().heads = {4, 2, 8};
    spec.mlp().intermediate = 20;
    return spec;
}

std::map<std::string, BlockSpec> specs() {
    std::map<std::string, BlockSpec> specs{{"plain", plain_spec()}};
    BlockSpec& biases = specs["biases, every head normed"] = plain_spec();
    biases.attention().has_bias = biases.attention().has_out_bias = true;
    biases.attention().head_norm = HeadNormKind::each_head;
    BlockSpec& fused = specs["fused"] = plain_spec();
    fused.attention().is_fused = fused.mlp().is_fused = true;
    BlockSpec& behind = specs["norms behind, all heads normed"] = plain_spec();
    behind.attention().head_norm = HeadNormKind::all_heads;
    behind.mixer().norms = {.before = {}, .behind = "a"};
    behind.feed_forward().norms = {.before = {}, .behind = "b"};
    BlockSpec& around = specs["norms before and behind"] = plain_spec();
    around.mixer().norms = {.before = "a", .behind = "b"};
    around.feed_forward().norms = {.before = "c", .behind = "d"};
    BlockSpec& parallel = specs["parallel, one norm, no gate"] = plain_spec();
    parallel.feed_forward().is_parallel = true;
    parallel.feed_forward().norms = {};
    parallel.mlp().is_gated = false;
    parallel.mlp().has_bias = true;
    parallel.mlp().activation = ops::Activation::gelu_tanh;
    BlockSpec& scaled = specs["parallel, two norms, scaled branches, no positions"] = plain_spec();
    scaled.feed_forward().is_parallel = true;
    scaled.residual_multiplier = 0.3;
    scaled.norm.adds_one = true;
    scaled.attention().rope.reset();
    scaled.mlp().activation = ops::Activation::gelu;
    BlockSpec& centred = specs["LayerNorms before and behind"] = around;
    centred.norm.is_centred = centred.norm.has_bias = true;
    centred.residual_multiplier = 0.7;
    return specs;
}

ExpertsSpec& experts_of(BlockSpec& block) {
    return std::get<ExpertsSpec>(block.feed_forward().part);
}

// A token takes two of five experts, all of them, or one of forty.
std::map<std::string, BlockSpec> specs_with_experts() {
    std::map<std::string, BlockSpec> specs;
    BlockSpec& experts = specs["experts"] = plain_spec();
    experts.feed_forward().part = ExpertsSpec{.count = 5, .per_token = 2, .intermediate = 12};
    BlockSpec& normalised = specs["experts, normalised, norm behind"] = experts;
    experts_of(normalised).routing.normalises = true;
    experts_of(normalised).activation = ops::Activation::gelu;
    normalised.feed_forward().norms.behind = "b";
    BlockSpec& all = specs["every expert"] = experts;
    experts_of(all).per_token = 5;
    BlockSpec& single = specs["one expert of many, most without tokens"] = experts;
    experts_of(single).count = 40;
    experts_of(single).per_token = 1;
    return specs;
}

BlockSpec spec_with_adapters() {
    BlockSpec spec = plain_spec();
    spec.attention().has_bias = true;
    spec.adapters = {{.layers = {{"self_attn.q_proj", {4, scaling}},
                                 {"self_attn.v_proj", {3, scaling}},
                                 {"self_attn.o_proj", {2, scaling}},
                                 {"mlp.up_proj", {1, scaling}},
                                 {"mlp.down_proj", {5, scaling}}}}};
    return spec;
}

BlockSpec with_magnitudes(BlockSpec spec) {
    for (auto& [layer, adapter] : spec.adapters.front().layers) adapter.has_magnitude = true;
    return spec;
}

BlockSpec with_dropout(BlockSpec spec) {
    for (auto& [layer, adapter] : spec.adapters.front().layers) adapter.dropout = dropout;
    return spec;
}

// The tensors of a block by name, of which autograd finds gradients; and the masks of its layers.
struct Setting {
    mesh::Mesh mesh{test::world(), {1, 1, 1, 1}, at::kCPU};
    ops::Gemms gemms = ops::Gemms::open().value();
    attention::SequencePartition partition{tokens, document_starts, 1, 1};
    std::vector<attention::Mask> masks{{}};
    std::vector<attention::Plan> plans = attention::make_plans(partition, 0, masks);
    Positions positions{
        {ops::make_rope_table(at::tensor(attention::positions_in_documents(partition)),
                              inverse_frequencies({}, 8), 1.0)}};
};

enum class Freeze { nothing, every_second_group, all_but_adapters };

void freeze(Freeze what, shard::UnitLayout& layout) {
    std::set<std::string> names;
    const auto& groups = layout.groups();
    for (size_t group = 0; group < groups.size(); ++group)
        if (what == Freeze::every_second_group ? group % 2 == 0 : !groups[group].is_made_by_run)
            for (const shard::TensorSpec& tensor : groups[group].tensors) names.insert(tensor.name);
    if (what != Freeze::nothing) layout.freeze(names);
}

// What the layers drop, as factors of their inputs.
void add_masks(const BlockSpec& spec, const std::vector<shard::FlatUnit>& units,
               const at::Tensor& keys, Leaves& leaves) {
    if (!keys.defined()) return;
    const std::map<std::string, AdapterSpec>& adapted = spec.adapters.front().layers;
    for (const shard::FlatUnit& unit : units)
        for (const shard::PlacedTensor& tensor : unit.tensors()) {
            const std::string name =
                tensor.spec.name.substr(0, std::max<size_t>(7, tensor.spec.name.size()) - 7);
            if (!adapted.contains(name) || tensor.spec.name != name + ".weight") continue;
            leaves[name + ".mask"] = ops::dropout(at::ones({tokens, tensor.spec.shape[1]}),
                                                  {keys, mix_bits(hash_text(name)), dropout})
                                         .to(at::kDouble);
        }
}

// A buffer of gradients as a step finds it: numbers of an earlier step, here NaN, where a product
// writes the first values, else zeros.
at::Tensor old_gradients(const shard::FlatUnit& unit) {
    at::Tensor flat = at::full({unit.size()}, std::nan(""));
    for (const shard::Range& range : unit.begun_with_zeros())
        flat.narrow(0, range.begin, range.size()).zero_();
    return flat;
}

// compute: of the weights and branches; the residual stream is in fp32.
void check(const BlockSpec& spec, ActivationPolicy policy, Freeze frozen,
           const at::Tensor& dropout_keys = {}, int64_t most_product_elements = 1 << 30,
           at::ScalarType compute = at::kFloat) {
    const Setting setting;
    shard::UnitLayout layout("block");
    const Block block(
        layout, spec,
        {.products_add = ops::products_add(at::empty({1})), .has_one_type = compute == at::kFloat});
    freeze(frozen, layout);
    const std::vector<shard::FlatUnit> units = layout.finish(1);
    // Magnitudes have a unit of their own, which is gathered in fp32.
    const bool has_magnitudes =
        !spec.adapters.empty() &&
        std::ranges::any_of(spec.adapters.front().layers,
                            [](const auto& layer) { return layer.second.has_magnitude; });
    BOOST_TEST(units.size() == (frozen == Freeze::nothing ? 1U : 2U) + (has_magnitudes ? 1U : 0U));
    std::vector<shard::UnitTensors::Part> weights;
    std::vector<shard::UnitTensors::Part> gradients;
    std::deque<std::vector<bool>> unbegun;
    for (const shard::FlatUnit& unit : units) {
        weights.push_back({&unit, (at::randn({unit.size()}) * 0.4).to(compute)});
        if (unit.is_trained())
            gradients.push_back({&unit, old_gradients(unit), at::kFloat,
                                 &unbegun.emplace_back(unit.overwritten())});
    }
    const shard::UnitTensors views(weights);
    const at::Tensor x = at::randn({tokens, width});
    const at::Tensor dy = at::randn_like(x);

    const BlockContext context{
        .sequence = {setting.mesh.ring(), setting.mesh.ulysses()},
        .masks = setting.masks,
        .plans = setting.plans,
        .positions = setting.positions,
        .projections = {.gemms = setting.gemms,
                        .dropout_keys = dropout_keys,
                        .most_elements = most_product_elements},
        .policy = policy,
        .mlp_chunk = 5,
        .branch_type = compute == at::kFloat ? std::nullopt : std::optional(compute)};
    Saved saved = block.begin(x.clone());
    const at::Tensor y = block.forward(context, views, saved);
    at::Tensor gradient = dy.clone();
    block.backward(context, views, shard::UnitTensors(gradients), gradient, std::move(saved));
    shard::UnitTensors(gradients).begin_all();

    Leaves leaves;
    const auto part = [](const at::Tensor& flat, const shard::PlacedTensor& tensor) {
        return flat.narrow(0, tensor.offset, tensor.size).view(tensor.spec.shape);
    };
    for (const auto& [unit, flat, type, old] : weights)
        for (const shard::PlacedTensor& tensor : unit->tensors())
            leaves[tensor.spec.name] = test::leaf(part(flat, tensor));
    add_masks(spec, units, dropout_keys, leaves);
    const at::Tensor input = test::leaf(x);
    const at::Tensor wished = plain_block(spec, leaves, input, setting.positions.ropes.front());
    test::backward(wished, dy);

    BOOST_TEST((y.scalar_type() == at::kFloat && gradient.scalar_type() == at::kFloat));
    const double tolerance = compute == at::kFloat ? 1e-5 : 6e-2;  // bf16: of single gradients
    BOOST_TEST(test::distance(y, wished) < tolerance);
    BOOST_TEST(test::distance(gradient, input.grad()) < tolerance);
    for (const auto& [unit, flat, type, old] : gradients)
        for (const shard::PlacedTensor& tensor : unit->tensors()) {
            BOOST_TEST_INFO_SCOPE(tensor.spec.name);
            const at::Tensor wished_gradient = leaves.at(tensor.spec.name).grad();
            // An expert without tokens learns nothing.
            if (wished_gradient.count_nonzero().item<int64_t>() == 0)
                BOOST_TEST(part(flat, tensor).count_nonzero().item<int64_t>() == 0);
            else
                BOOST_TEST(test::distance(part(flat, tensor), wished_gradient) < tolerance);
        }
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_have_the_gradients_of_autograd) {
    at::manual_seed(5);
    auto all = specs();
    all["adapters"] = spec_with_adapters();
    all.merge(specs_with_experts());
    for (const auto& [name, spec] : all) {
        for (const ActivationPolicy policy :
             {ActivationPolicy::everything, ActivationPolicy::all,
              ActivationPolicy::all_but_gate_up, ActivationPolicy::attention,
              ActivationPolicy::input}) {
            BOOST_TEST_INFO_SCOPE(name << ", policy " << static_cast<int>(policy));
            check(spec, policy, Freeze::nothing);
            check(spec, policy, Freeze::every_second_group);
        }
    }
}

// The branches compute in bf16, and add to rows in fp32; GPUs have no kernels for that.
BOOST_AUTO_TEST_CASE(branches_in_bf16_add_to_rows_in_fp32) {
    if (ops::products_add(at::empty({1}))) return;
    at::manual_seed(9);
    auto all = specs();
    all["adapters"] = spec_with_adapters();
    for (const auto& [name, spec] : all)
        for (const ActivationPolicy policy :
             {ActivationPolicy::everything, ActivationPolicy::all,
              ActivationPolicy::all_but_gate_up, ActivationPolicy::attention,
              ActivationPolicy::input}) {
            BOOST_TEST_INFO_SCOPE(name << ", policy " << static_cast<int>(policy));
            check(spec, policy, Freeze::nothing, {}, 1 << 30, at::kBFloat16);
        }
}

// The base is frozen, as it is in a run. Every layer drops others of its inputs.
BOOST_AUTO_TEST_CASE(adapters_have_the_gradients_of_autograd) {
    at::manual_seed(6);
    const BlockSpec plain = spec_with_adapters();
    const at::Tensor keys = at::randint(int64_t{1} << 62, {tokens}, at::kLong);
    for (const ActivationPolicy policy : {ActivationPolicy::all, ActivationPolicy::input}) {
        BOOST_TEST_INFO_SCOPE("policy " << static_cast<int>(policy));
        check(with_magnitudes(plain), policy, Freeze::all_but_adapters);
        check(with_dropout(plain), policy, Freeze::all_but_adapters, keys);
        check(with_dropout(with_magnitudes(plain)), policy, Freeze::all_but_adapters, keys);
    }
}

// As products of 2^30 elements are: here of one token, and of three or more.
BOOST_AUTO_TEST_CASE(products_in_chunks_of_tokens_are_the_same) {
    at::manual_seed(8);
    auto all = specs();
    all["adapters"] = spec_with_adapters();
    all.merge(specs_with_experts());
    const at::Tensor keys = at::randint(int64_t{1} << 62, {tokens}, at::kLong);
    for (const int64_t most : {int64_t{1}, 4 * width}) {
        for (const auto& [name, spec] : all) {
            BOOST_TEST_INFO_SCOPE(name << ", " << most << " elements");
            check(spec, ActivationPolicy::attention, Freeze::nothing, {}, most);
        }
        check(with_dropout(with_magnitudes(spec_with_adapters())), ActivationPolicy::all,
              Freeze::all_but_adapters, keys, most);
    }
}

// Adapters beside experts in four bits: how many become numbers at a time changes no bit.
BOOST_AUTO_TEST_CASE(experts_in_four_bits_become_numbers_a_few_at_a_time) {
    at::manual_seed(7);
    for (const auto tensors : {ExpertTensors::single, ExpertTensors::turned}) {
        BlockSpec spec = plain_spec();
        spec.feed_forward().part =
            ExpertsSpec{.count = 6, .per_token = 2, .intermediate = 12, .tensors = tensors};
        spec.adapters = {
            {.layers = {{experts_gate_up, {4, scaling}}, {experts_down, {2, scaling}}}}};
        const Setting setting;
        shard::UnitLayout layout("block");
        const Block block(layout, spec);
        freeze(Freeze::all_but_adapters, layout);
        layout.set_codec(shard::Codec::nf4);
        const std::vector<shard::FlatUnit> units = layout.finish(1);
        std::vector<shard::UnitTensors::Part> weights;
        for (const shard::FlatUnit& unit : units) {
            at::Tensor flat = at::randn({unit.size()}) * 0.4;
            if (const shard::CodeLayout* const places = unit.codes()) {
                flat = at::randint(256, {unit.size()}, at::kByte);
                const std::vector<float> scales(static_cast<size_t>(places->num_scales()), 0.4F);
                const std::vector<uint8_t> bytes = places->scale_bytes(scales);
                flat.narrow(0, places->code_bytes(), std::ssize(bytes))
                    .copy_(at::tensor(bytes, at::kByte));
            }
            weights.push_back({&unit, flat});
        }
        const at::Tensor x = at::randn({tokens, width});
        const auto pass = [&](int64_t most_dequantised) {
            const BlockContext context{
                .sequence = {setting.mesh.ring(), setting.mesh.ulysses()},
                .masks = setting.masks,
                .plans = setting.plans,
                .positions = setting.positions,
                .projections = {.gemms = setting.gemms, .most_dequantised = most_dequantised},
                .policy = ActivationPolicy::attention,
                .mlp_chunk = 5};
            const at::Tensor gradients = at::zeros({units.front().size()});
            const shard::UnitTensors views(weights);
            Saved saved = block.begin(x.clone());
            at::Tensor y = block.forward(context, views, saved);
            at::Tensor gradient = at::ones_like(x);
            block.backward(context, views, {units.front(), gradients}, gradient, std::move(saved));
            return std::vector<at::Tensor>{y, gradient, gradients};
        };
        const std::vector<at::Tensor> at_once = pass(1 << 30);
        for (const int64_t most : {int64_t{1}, int64_t{2000}}) {  // an expert, or a few
            const std::vector<at::Tensor> in_slices = pass(most);
            for (size_t i = 0; i < at_once.size(); ++i) BOOST_TEST(in_slices[i].equal(at_once[i]));
        }
        BOOST_TEST(at_once.back().count_nonzero().item<int64_t>() > 0);
    }
}

// The plan counts what a block computes again: nothing where all is kept, all but its last product
// where its input alone is.
BOOST_AUTO_TEST_CASE(operations_made_again_follow_from_what_is_kept) {
    for (const auto& [name, spec] : specs()) {
        BOOST_TEST_INFO_SCOPE(name);
        shard::UnitLayout layout("block");
        const Block block(layout, spec);
        const auto of = [&](ActivationPolicy policy) { return block.costs(policy).operations(); };
        const Operations all = of(ActivationPolicy::all);
        // 2 x (24 x 64 + 32 x 24 + 3 x 24 x 20), and two products of 4 heads of 8; without a gate
        // one product of the MLP less.
        const double inner = 2 * 24 * (spec.mlp().is_gated ? 40 : 20);
        BOOST_TEST(all.products == 5568 + inner);
        BOOST_TEST(all.of_pair.at({}).attention == 128);
        BOOST_TEST(all.products_again == 0);
        BOOST_TEST(all.of_pair.at({}).attention_again == 0);
        const double last = spec.feed_forward().norms.behind.empty() ? 2 * 24 * 20 : 0;
        const double last_again = 2 * 24 * 20 - last;
        // The product of gate and up, and the last one again where a norm stands behind it.
        const Operations most = of(ActivationPolicy::all_but_gate_up);
        BOOST_TEST(most.products_again == inner + last_again);
        BOOST_TEST(most.of_pair.at({}).attention_again == 0);
        const Operations attention = of(ActivationPolicy::attention);
        BOOST_TEST(attention.products_again == all.products - last);
        BOOST_TEST(attention.of_pair.at({}).attention_again == 0);
        const Operations input = of(ActivationPolicy::input);
        BOOST_TEST(input.products_again == all.products - last);
        BOOST_TEST(input.of_pair.at({}).attention_again == all.of_pair.at({}).attention);
    }
}

// Operations are those of the experts that a token goes through.
BOOST_AUTO_TEST_CASE(experts_count_for_the_tokens_that_they_get) {
    BlockSpec spec = plain_spec();
    spec.feed_forward().part = ExpertsSpec{.count = 5, .per_token = 2, .intermediate = 12};
    shard::UnitLayout layout("block");
    const Block block(layout, spec);
    const double router = 2 * 24 * 5;
    BOOST_TEST(block.costs(ActivationPolicy::all).operations().products ==
               2 * (24 * 64 + 32 * 24) + router + 2 * 2 * 3 * 24 * 12);
}

// The head's product begins the gradient of its matrix, which may be the embedding's too; rows of
// tokens begin no gradient.
BOOST_AUTO_TEST_CASE(the_product_of_the_head_begins_its_gradient) {
    for (const bool is_tied : {true, false}) {
        ModelSpec spec;
        spec.vocabulary = 10;
        spec.width = width;
        spec.tied = is_tied;
        const ModelParts parts(spec);
        const auto begins = [&](size_t module, shard::ParameterId id) {
            return parts.modules[module].groups().at(id.group).is_overwritten;
        };
        BOOST_TEST(begins(0, parts.table) == is_tied);
        BOOST_TEST(begins(is_tied ? 0 : 1, parts.head.projection));
    }
}
