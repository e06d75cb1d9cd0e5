// An offloaded store returns the same numbers as one in memory, in any order of loads.
#include "ringshard/shard/flat_store.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <random>

#include "ringshard/offload/file_offload_store.hpp"
#include "ringshard/offload/host_offload_store.hpp"

using namespace ringshard;
using namespace ringshard::shard;

namespace {

// Chunks of two pages; the last one of a shard is shorter, and one shard is empty.
const Chunks chunks({{100, 5000}, {0, 0}, {64, 2112}, {7, 9000}}, 2048);

std::unique_ptr<offload::OffloadStore> file_offload_store(offload::Staging& staging) {
    auto file = offload::ScratchFile::open(std::filesystem::temp_directory_path());
    return std::make_unique<offload::FileOffloadStore>(std::move(file).value(), staging);
}

}  // namespace

BOOST_AUTO_TEST_CASE(slots_cover_the_shards_in_order) {
    size_t chunk = 0;
    for (size_t unit = 0; unit < chunks.num_units(); ++unit) {
        BOOST_TEST(chunks.first_of(unit) == chunk);
        int64_t next = chunks.shard(unit).begin;
        for (; chunk < chunks.end_of(unit); ++chunk) {
            BOOST_TEST(chunks[chunk].unit == unit);
            BOOST_TEST(chunks[chunk].range.begin == next);
            next = chunks[chunk].range.end;
        }
        BOOST_TEST(next == chunks.shard(unit).end);
    }
    BOOST_TEST(chunk == chunks.size());
    BOOST_TEST(Chunks({{0, 10}, {5, 9}}, Chunks::whole_shards).size() == 2U);
}

namespace {

// Chunks are changed, read ahead, overwritten and read as whole shards, at random: nobody may meet
// what was read before a change.
void check_against_memory(offload::OffloadStore& offload_store) {
    const auto offloaded = keep_offloaded(chunks, at::kFloat, offload_store);
    BOOST_REQUIRE(!offload_store.allocate());
    std::vector<at::Tensor> shards;
    for (size_t unit = 0; unit < chunks.num_units(); ++unit)
        shards.push_back(at::zeros({chunks.shard(unit).size()}));
    const auto in_memory = keep_in_memory(chunks, shards);
    BOOST_TEST(offloaded->bytes() == 0);
    BOOST_TEST(in_memory->bytes() == 4 * (4900 + 2048 + 8993));

    std::mt19937 random(3);
    const auto below = [&](size_t bound) { return random() % bound; };
    size_t chunk = 0;
    for (int turn = 0; turn < 3000; ++turn) {
        chunk = below(3) == 0 ? below(chunks.size()) : (chunk + 1) % chunks.size();
        const size_t unit = below(chunks.num_units());
        switch (below(5)) {
            case 0: offloaded->prefetch(unit); break;
            case 1:
                BOOST_REQUIRE(at::equal(offloaded->load_shard(unit), in_memory->load_shard(unit)));
                break;
            case 2:
                for (const auto& store : {offloaded.get(), in_memory.get()}) {
                    const at::Tensor numbers = store->load(chunk, Access::overwrite);
                    numbers.fill_(turn);
                    store->store(chunk, numbers);
                }
                break;
            case 3:
                for (const auto& store : {offloaded.get(), in_memory.get()}) {
                    const at::Tensor numbers = store->load(chunk, Access::read);
                    numbers.add_(1);
                    store->store(chunk, numbers);
                }
                break;
            default:
                BOOST_REQUIRE(at::equal(offloaded->load(chunk, Access::read),
                                        in_memory->load(chunk, Access::read)));
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_gives_what_memory_gives) {
    offload::Staging staging;
    check_against_memory(*file_offload_store(staging));
}

BOOST_AUTO_TEST_CASE(the_hosts_memory_gives_what_memory_gives) {
    offload::HostOffloadStore offload_store(at::kCPU);
    check_against_memory(offload_store);
}
