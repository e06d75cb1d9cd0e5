// Frozen weights in every profile: the trained ones learn as on one rank, the frozen ones
// keep every bit, and the first step of what is trained is that of a run in which everything is.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "golden.hpp"
#include "layout_run.hpp"
#include "mpi_test.hpp"

using namespace ringshard;

namespace {

constexpr int64_t rows = 8;  // of a step

struct Layout {
    const char* name;
    mesh::MeshShape shape;
    mesh::Cuts cuts;
};

std::vector<Layout> layouts(int64_t ranks) {
    const mesh::Cuts none{false, false, false, true};
    const mesh::Cuts all{true, true, true, false};
    std::vector<Layout> found{{"multi_gpu", {.replicate = ranks}, none},
                              {"zero1", {.shard = ranks}, {true, false, false, true}},
                              {"zero2", {.shard = ranks}, {true, true, false, true}},
                              {"zero3", {.shard = ranks}, all},
                              {"ring", {.ring = ranks}, all},
                              {"ulysses", {.ulysses = ranks}, all}};
    if (ranks == 4) {
        found.push_back({"hybrid", {.replicate = 2, .shard = 2}, all});
        found.push_back({"ring and ulysses", {.ring = 2, .ulysses = 2}, all});
    }
    return found;
}

test::LayoutRun run_of(const std::string& freeze, const Layout& layout, int64_t steps,
                       at::ScalarType compute = at::kFloat) {
    return {.model = test::golden_folder() / "models" / "qwen3-tiny",
            .cuts = layout.cuts,
            .shape = layout.shape,
            .compute = compute,
            .rows_per_device = rows / layout.shape.data(),
            .num_steps = steps,
            .freeze = freeze};
}

const Layout one_rank{"one rank", {}, {false, false, false, true}};

test::Outcome on_one_rank(const std::string& freeze, const data::Rows& data, int64_t steps) {
    const comm::Group alone = test::world().split(test::world().rank(), "alone");
    return test::train(alone, run_of(freeze, one_rank, steps), data);
}

}  // namespace

BOOST_AUTO_TEST_CASE(frozen_units_train_alike_in_every_layout) {
    const data::Rows data = test::make_rows(test::RowKind::packed, 24, 60);
    // The embedding and a block; a block; the head and all blocks but one; tensors in every block;
    // all below the last block, to which no backward pass goes.
    for (const std::string freeze :
         {"embed_tokens|layers\\.1\\.", "layers\\.0\\.", "layers\\.[02]\\.|lm_head|model\\.norm",
          "mlp\\.(gate|up)|layernorm|o_proj|k_norm", "embed_tokens|layers\\.[01]\\.|q_norm"}) {
        const test::Outcome reference = on_one_rank(freeze, data, 4);
        for (const Layout& layout : layouts(test::world().size())) {
            BOOST_TEST_INFO_SCOPE(layout.name << ", freeze = " << freeze);
            test::expect_equal(test::train(test::world(), run_of(freeze, layout, 4), data),
                               reference);
        }
    }
}

BOOST_AUTO_TEST_CASE(adapters_train_alike_in_every_layout) {
    const data::Rows data = test::make_rows(test::RowKind::packed, 24, 60);
    peft::LoraConfig all{.r = 4, .lora_alpha = 8, .target_modules = {"all-linear"}};
    peft::LoraConfig dropping{.r = 3,
                              .lora_alpha = 6,
                              .lora_dropout = 0.2,
                              .target_modules = {"v_proj", "up_proj", "o_proj"},
                              .modules_to_save = {"lm_head"}};
    peft::LoraConfig dora = dropping;
    dora.use_dora = true;
    dora.init.kind = config::AdapterInit::Kind::normal;
    dora.target_modules = {"q_proj", "v_proj", "up_proj", "down_proj"};
    for (const peft::LoraConfig& adapters : {all, dropping, dora}) {
        const auto run = [&](const Layout& layout) {
            test::LayoutRun made = run_of({}, layout, 4);
            made.adapters = adapters;
            return made;
        };
        const comm::Group alone = test::world().split(test::world().rank(), "alone");
        const test::Outcome reference = test::train(alone, run(one_rank), data);
        BOOST_TEST(reference.weights.contains("model.layers.1.mlp.up_proj.lora_B.weight"));
        BOOST_TEST(reference.weights.contains("model.layers.1.mlp.up_proj.lora_magnitude_vector") ==
                   adapters.use_dora);
        for (const Layout& layout : layouts(test::world().size())) {
            BOOST_TEST_INFO_SCOPE(layout.name << ", dropout " << adapters.lora_dropout
                                              << (adapters.use_dora ? ", DoRA" : ""));
            test::expect_equal(test::train(test::world(), run(layout), data), reference);
        }
    }
}

BOOST_AUTO_TEST_CASE(frozen_weights_keep_every_bit) {
    const data::Rows data = test::make_rows(test::RowKind::packed, 24, 60);
    const std::string freeze = "embed_tokens|layers\\.1\\.";
    const test::Outcome before = on_one_rank(freeze, data, 0);
    const test::Outcome all = on_one_rank({}, data, 1);
    const test::Outcome some = on_one_rank(freeze, data, 1);
    int64_t kept = 0;
    for (const auto& [name, weight] : some.weights) {
        BOOST_TEST_INFO_SCOPE(name);
        const bool is_frozen =
            name.starts_with("model.embed_tokens") || name.starts_with("model.layers.1.");
        kept += is_frozen ? 1 : 0;
        if (is_frozen)
            BOOST_TEST(weight.equal(before.weights.at(name)));
        else
            BOOST_TEST(!weight.equal(before.weights.at(name)));
    }
    BOOST_TEST(kept > 5);
    // Of the whole model the norm has more terms.
    BOOST_TEST(some.steps[0].loss == all.steps[0].loss);
    BOOST_TEST(some.steps[0].grad_norm < all.steps[0].grad_norm);
}

BOOST_AUTO_TEST_CASE(frozen_weights_in_bf16_keep_every_bit_too) {
    const data::Rows data = test::make_rows(test::RowKind::packed, 24, 60);
    for (const Layout& layout : layouts(test::world().size())) {
        BOOST_TEST_INFO_SCOPE(layout.name);
        const test::Outcome before =
            test::train(test::world(),
                        run_of("layers\\.1\\.|layers\\.2\\.mlp", layout, 0, at::kBFloat16), data);
        const test::Outcome after =
            test::train(test::world(),
                        run_of("layers\\.1\\.|layers\\.2\\.mlp", layout, 2, at::kBFloat16), data);
        for (const auto& [name, weight] : after.weights)
            if (name.starts_with("model.layers.1.") || name.starts_with("model.layers.2.mlp."))
                BOOST_TEST(weight.equal(before.weights.at(name)), name);
    }
}
