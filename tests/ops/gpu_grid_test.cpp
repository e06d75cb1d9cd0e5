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
    constexpr int64_t tokens = int64_t{1} << 20;
    BOOST_TEST(grid_of(tokens * 128, 32, 0).blocks <= most_blocks);  // a warp to a head
    BOOST_TEST(grid_of(tokens * 8, 128, 0).blocks <= most_blocks);   // columns of an embedding
    BOOST_TEST(grid_of(512, 1024, 1024).shared_bytes <= size_t{40} * 1024);  // sums of all ranges
}

// Sums of a backward pass over rows are in registers, whatever the width (the shared memory of all
// launches is gpu_threads_memory_test's), and every multiprocessor of an H100 gets as many blocks
// as it holds.
BOOST_AUTO_TEST_CASE(backward_passes_over_rows_of_all_widths_are_one_wave) {
    constexpr int64_t rows = int64_t{1} << 20;
    for (int64_t width = 1; width <= 16384; ++width) {
        const int threads = threads_of_row(width);
        BOOST_TEST_INFO_SCOPE("width " << width);
        BOOST_REQUIRE(threads <= 1024);
        BOOST_REQUIRE(16 * threads >= width);  // columns that a thread has in registers
        const Grid of_rows = grid_of(ranges_of_rows(rows, threads), threads, 0);
        BOOST_REQUIRE(of_rows.blocks == 132 * (1024 / threads));
        const int of_head = threads_of_head(width);
        BOOST_REQUIRE(of_head == (width <= 256 ? 32 : threads));
        const Grid of_heads = grid_of(ranges_of_heads(rows, width), of_head, 0);
        BOOST_REQUIRE(of_heads.blocks * of_heads.threads_per_block == 132 * 1024);
    }
    BOOST_TEST(ranges_of_rows(3, 128) == 3);
    BOOST_TEST(ranges_of_heads(9, 64) == 3);
    BOOST_TEST(ranges_of_heads(9, 4096) == 9);
}
