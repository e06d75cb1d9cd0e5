// Offsets above 2^32, in a file of which the system stores only what was written.
#include <ATen/ops/arange.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "mpi_test.hpp"
#include "range_check.hpp"
#include "ringshard/base/files.hpp"
#include "write_pieces.hpp"

using namespace ringshard;
using namespace ringshard::checkpoint;

namespace {

constexpr int64_t rows = 40'000'000;
constexpr int64_t columns = 30;                   // together 4.8 GB
constexpr int64_t first = rows * columns - 1000;  // behind 2^32 bytes
constexpr int64_t count = 950;                    // neither begins nor ends with a row
constexpr int64_t bytes = (count + 3) * 4;        // of both tensors

struct Large {
    Large() {
        std::filesystem::create_directories(folder);
        auto made = create_state_file(folder / state_name,
                                      {{"/model/large", {rows, columns}}, {"/model/last", {3}}}, {},
                                      {{"settings", "a: 1"}});
        BOOST_TEST_REQUIRE(static_cast<bool>(made), (made ? "" : made.failure().message));
        const auto numbers = [](int64_t size) {
            return at::arange(size, at::TensorOptions(at::kFloat));
        };
        work = {folder / state_name, std::move(made).value(), {}};
        for (auto& [name, from, size] : {std::tuple{"/model/large", first, count},
                                         std::tuple{"/model/last", int64_t{0}, int64_t{3}}})
            work.pieces.push_back(
                {{name, from, size, ElementType::fp32, nullptr, {}, numbers(size)}, from});
    }
    ~Large() { std::filesystem::remove_all(folder); }

    void expect_written(const Expected<std::vector<WrittenRange>>& written) const {
        BOOST_TEST_REQUIRE(static_cast<bool>(written), (written ? "" : written.failure().message));
        const auto& ranges = written.value();
        BOOST_TEST(ranges[0].offset > (int64_t{1} << 32));
        BOOST_TEST(ranges[0].length == count * 4);
        ByteCounter read;
        BOOST_TEST(!check_content(folder, work.layout, ranges, read));
        BOOST_TEST(read.total() == bytes);
        const auto opened = open_state_file(work.file);
        BOOST_TEST_REQUIRE(static_cast<bool>(opened));
        BOOST_TEST(opened.value().texts.at("settings") == "a: 1");
        // Every element is where it belongs.
        std::ifstream file(work.file, std::ios::binary);
        file.seekg(work.layout.datasets.at("/model/large").offset + (first + 7) * 4);
        float number = 0;
        file.read(reinterpret_cast<char*>(&number), sizeof(number));
        BOOST_TEST(number == 7);
    }

    std::filesystem::path folder =
        std::filesystem::temp_directory_path() / format_text("ringshard_large_{}", getpid());
    FileWork work;
    Faults faults;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(past_hdf5, Large) {
    ByteCounter counted;
    expect_written(write_direct(work, faults, counted));
    BOOST_TEST(counted.total() == bytes);
}

BOOST_FIXTURE_TEST_CASE(through_mpio, Large) {
    const ByteCounter& counted = test::world().flight_recorder().bytes();
    const int64_t before = counted.total();
    expect_written(write_mpio(work, {}, test::world(), faults));
    BOOST_TEST(counted.total() - before == bytes);
}
