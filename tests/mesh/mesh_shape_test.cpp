#include "ringshard/mesh/mesh_shape.hpp"

#include <boost/test/unit_test.hpp>

#include "ringshard/base/text.hpp"
#include "ringshard/config/resolve.hpp"

using namespace ringshard;

namespace {

config::Settings settings_of(const std::string& flags) {
    const config::OptionTable table;
    const auto resolution =
        config::resolve(table, flags.empty() ? std::vector<std::string>{} : split(flags, ' '), {});
    for (const auto& problem : resolution.problems) BOOST_ERROR(problem.message);
    return resolution.settings;
}

std::string shape_of(const std::string& flags, int64_t world, int64_t num_hosts = 1) {
    const auto shape = mesh::choose_shape(settings_of(flags), world, num_hosts);
    return shape ? to_text(shape.value()) : "refused: " + shape.failure().message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_are_row_major_with_ulysses_fastest) {
    const mesh::MeshShape shape{2, 3, 4, 5};
    for (int64_t rank = 0; rank < shape.world(); ++rank)
        BOOST_TEST(rank_of(coordinates_of(rank, shape), shape) == rank);
    BOOST_TEST((coordinates_of(1, shape) == mesh::Coordinates{0, 0, 0, 1}));
    BOOST_TEST((coordinates_of(5, shape) == mesh::Coordinates{0, 0, 1, 0}));
    BOOST_TEST((coordinates_of(20, shape) == mesh::Coordinates{0, 1, 0, 0}));
    BOOST_TEST((coordinates_of(60, shape) == mesh::Coordinates{1, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(profiles_deal_out_the_world) {
    BOOST_TEST(shape_of("", 6) == "6x1x1x1");
    BOOST_TEST(shape_of("--profile multi_gpu", 4) == "4x1x1x1");
    BOOST_TEST(shape_of("--profile multi_node", 4, 2) == "4x1x1x1");
    for (const auto* profile : {"zero1", "zero2", "zero3", "fsdp1", "fsdp2"})
        BOOST_TEST(shape_of(format_text("--profile {}", profile), 6) == "1x6x1x1");
    BOOST_TEST(shape_of("--profile context_parallel_2gpu", 2) == "1x1x2x1");
    BOOST_TEST(shape_of("--profile context_parallel_2gpu", 8) == "1x4x2x1");
    BOOST_TEST(shape_of("--profile alst_ulysses_4gpu", 4) == "1x2x1x2");
    BOOST_TEST(shape_of("--profile alst_ulysses_4gpu", 8) == "1x4x1x2");
    BOOST_TEST(shape_of("--profile alst_ulysses_4gpu --sp_size 4", 4) == "1x1x1x4");
    BOOST_TEST(shape_of("--profile single_gpu", 1) == "1x1x1x1");
}

BOOST_AUTO_TEST_CASE(a_step_has_the_rows_that_a_deepspeed_file_counts_on) {
    const std::string flags =
        "--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --train_batch_size 32";
    BOOST_TEST(shape_of(flags, 4) == "4x1x1x1");
    BOOST_TEST(shape_of(flags + " --cp_size 2", 8) == "4x1x2x1");
    BOOST_TEST(shape_of(flags, 2).starts_with(
        "refused: train_batch_size = 32 [command line]: a step has 16 rows = "
        "per_device_train_batch_size 4 x gradient_accumulation_steps 2 x 2 data ranks"));
}

BOOST_AUTO_TEST_CASE(what_the_user_says_is_fixed) {
    BOOST_TEST(shape_of("--profile alst_ulysses_4gpu --cp_size 2", 8) == "1x2x2x2");
    BOOST_TEST(shape_of("--profile zero3 --cp_size 2 --sp_size 2", 4) == "1x1x2x2");
    BOOST_TEST(shape_of("--profile zero3 --dp_shard_size 2", 8) == "4x2x1x1");
    BOOST_TEST(shape_of("--profile zero3 --dp_replicate_size 2", 8) == "2x4x1x1");
    BOOST_TEST(shape_of("--dp_shard_size 2 --dp_replicate_size 2 --sp_size 2", 8) == "2x2x1x2");
    BOOST_TEST(shape_of("--profile zero2 --parallelism_config_sp_size 4", 8) == "1x2x1x4");
    BOOST_TEST(shape_of("--cp_size 2", 8) == "4x1x2x1");
}

BOOST_AUTO_TEST_CASE(hybrid_sharding_stays_inside_a_host) {
    BOOST_TEST(shape_of("--profile fsdp1 --fsdp_sharding_strategy HYBRID_SHARD", 8, 2) ==
               "2x4x1x1");
    BOOST_TEST(shape_of("--profile fsdp1 --fsdp_sharding_strategy HYBRID_SHARD_ZERO2", 8, 4) ==
               "4x2x1x1");
    BOOST_TEST(shape_of("--profile fsdp1 --fsdp_sharding_strategy NO_SHARD", 4) == "4x1x1x1");
    BOOST_TEST(
        shape_of("--profile fsdp1 --fsdp_sharding_strategy HYBRID_SHARD --dp_replicate_size 4", 8,
                 2) == "4x2x1x1");
}

BOOST_AUTO_TEST_CASE(a_world_that_does_not_factor_is_refused_with_what_works) {
    const auto refused = mesh::choose_shape(settings_of("--profile zero3 --cp_size 4"), 6, 1);
    BOOST_TEST_REQUIRE(!refused);
    BOOST_TEST(number(refused.failure().code) == 78);
    BOOST_TEST(refused.failure().message.find("cp_size = 4 [command line]") != std::string::npos);
    BOOST_TEST(refused.failure().message.find("1x3x2x1") != std::string::npos);
    BOOST_TEST(shape_of("--dp_shard_size 2 --dp_replicate_size 2", 8).starts_with("refused"));
    BOOST_TEST(shape_of("--profile context_parallel_2gpu", 3).starts_with("refused"));
    const auto alone = mesh::choose_shape(settings_of("--profile single_gpu"), 2, 1);
    BOOST_TEST_REQUIRE(!alone);
    BOOST_TEST(number(alone.failure().code) == 78);
}

BOOST_AUTO_TEST_CASE(ranks_that_share_experts_divide_the_zero_group) {
    const auto experts_of = [](const std::string& flags, int64_t world) {
        const auto shape = mesh::choose_shape(settings_of(flags), world, 1);
        return shape ? shape.value().sections : -1;
    };
    BOOST_TEST(experts_of("--profile zero3", 8) == 1);
    BOOST_TEST(experts_of("--profile zero3 --ep_size 4", 8) == 4);
    BOOST_TEST(experts_of("--profile zero1 --cp_size 2 --ep_size 8", 8) == 8);
    BOOST_TEST(experts_of("--cp_size 2 --ep_size 2", 8) == 2);
    BOOST_TEST(shape_of("--profile zero3 --ep_size 4", 6) ==
               "refused: ep_size = 4 [command line]: the ranks that share experts divide "
               "dp_shard_size x cp_size x sp_size = 6; sizes that work: 1, 2, 3, 6");
    BOOST_TEST(shape_of("--ep_size 2", 4) ==
               "refused: ep_size = 2 [command line]: the ranks that share experts divide "
               "dp_shard_size x cp_size x sp_size = 1; sizes that work: 1; with --profile zero1, "
               "zero2, zero3 or fsdp2 they may be any part of the ranks");
    BOOST_TEST((mesh::section_sizes({1, 6, 2, 1}, 8) == std::vector<int64_t>{1, 2, 4}));
}

// Their product is 0 in 64 bits.
BOOST_AUTO_TEST_CASE(sizes_beyond_any_world_are_told) {
    const auto huge = mesh::choose_shape(
        settings_of("--profile zero3 --cp_size 4294967296 --sp_size 4294967296"), 4, 1);
    BOOST_TEST_REQUIRE(!huge);
    BOOST_TEST(number(huge.failure().code) == 78);
    BOOST_TEST(huge.failure().message.find("cp_size = 4294967296") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_each_profile_cuts) {
    const auto cuts = [](const std::string& flags) {
        return mesh::cuts_of(settings_of(flags).values.parallel);
    };
    BOOST_TEST((cuts("--profile single_gpu") == mesh::Cuts{false, false, false, true}));
    BOOST_TEST((cuts("--profile multi_gpu") == mesh::Cuts{false, false, false, true}));
    BOOST_TEST((cuts("--profile multi_node") == mesh::Cuts{false, false, false, true}));
    BOOST_TEST((cuts("--profile zero1") == mesh::Cuts{true, false, false, true}));
    BOOST_TEST((cuts("--profile zero2") == mesh::Cuts{true, true, false, true}));
    BOOST_TEST((cuts("--profile fsdp2 --fsdp_reshard_after_forward false") ==
                mesh::Cuts{true, true, true, true}));
    for (const auto* profile :
         {"zero3", "fsdp1", "fsdp2", "context_parallel_2gpu", "alst_ulysses_4gpu"})
        BOOST_TEST(
            (cuts(format_text("--profile {}", profile)) == mesh::Cuts{true, true, true, false}));
    BOOST_TEST((cuts("--profile fsdp1 --fsdp_reshard_after_forward SHARD_GRAD_OP") ==
                mesh::Cuts{true, true, true, true}));
    BOOST_TEST((cuts("--profile fsdp1 --fsdp_sharding_strategy NO_SHARD") == mesh::Cuts{}));
    BOOST_TEST((cuts("--use_deepspeed --zero_stage 0") == mesh::Cuts{}));
    BOOST_TEST((cuts("--use_deepspeed") == mesh::Cuts{true, true, false, true}));
}
