// The launch grid of a GPU for a number of teams.
#include "gpu/grid.hpp"

#include <boost/test/unit_test.hpp>

using namespace ringshard::ops::gpu;

BOOST_AUTO_TEST_CASE(every_team_has_a_place_in_a_block) {
    for (const int threads : {32, 128, 256, 512, 1024})
        for (const int64_t teams :
             {int64_t{1}, int64_t{7}, int64_t{8}, int64_t{264}, int64_t{1} << 36}) {
            const Grid grid = grid_of(teams, threads, 0);
            BOOST_TEST(grid.blocks * grid.teams_per_block >= teams);
            BOOST_TEST((grid.blocks - 1) * grid.teams_per_block < teams);  // and no block is empty
            BOOST_TEST(grid.threads_per_block == threads * grid.teams_per_block);
            BOOST_TEST(grid.threads_per_block % 32 == 0);
            BOOST_TEST(grid.threads_per_block <= 1024);
        }
}

BOOST_AUTO_TEST_CASE(what_a_million_tokens_need_is_within_a_gpus_limits) {
    constexpr int64_t most_blocks = (int64_t{1} << 31) - 1;
    constexpr size_t shared_of_h100 = 227 * 1024;
    constexpr int64_t tokens = int64_t{1} << 20;
    BOOST_TEST(grid_of(tokens * 128, 32, 0).blocks <= most_blocks);  // a warp to a head
    BOOST_TEST(grid_of(tokens * 8, 128, 0).blocks <= most_blocks);   // columns of an embedding
    BOOST_TEST(grid_of(512, 1024, 1024).shared_bytes <= size_t{40} * 1024);  // sums of all ranges
    BOOST_TEST(grid_of(264, 512, 16384).shared_bytes <= shared_of_h100);     // sums of a wide row
    BOOST_TEST(grid_of(2112, 32, 256).shared_bytes <=
               size_t{48} * 1024);  // of the heads of eight warps
}
