#include "range_check.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <limits>

#include "ringshard/base/text.hpp"

using namespace ringshard;
using namespace ringshard::checkpoint;

namespace {

// Twelve numbers of two tensors, written in three ranges.
struct Written {
    Written() {
        std::filesystem::create_directories(folder);
        write();
    }
    ~Written() { std::filesystem::remove_all(folder); }

    void write() {
        const auto bytes = std::as_bytes(std::span(numbers));
        std::ofstream(path, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
        ranges = {{"/a", 0, "state.h5", 0, 16, hash_of(bytes.subspan(0, 16))},
                  {"/a", 4, "state.h5", 16, 16, hash_of(bytes.subspan(16, 16))},
                  {"/b", 0, "state.h5", 32, 16, hash_of(bytes.subspan(32, 16))}};
    }
    static std::string hash_of(std::span<const std::byte> bytes) {
        Hash hash;
        hash.add(bytes);
        return hash.digits();
    }
    Manifest manifest() const { return {1, 1, {{"state.h5", 48}}, {}, ranges, true}; }

    std::filesystem::path folder =
        std::filesystem::temp_directory_path() / format_text("ringshard_ranges_{}", getpid());
    std::filesystem::path path = folder / "state.h5";
    std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    std::vector<WrittenRange> ranges;
    ByteCounter read;
    StateFile state{
        {{"/a", {{2, 4}, ElementType::fp32, 0}}, {"/b", {{4}, ElementType::fp32, 32}}}, {}, {}};
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_was_written_is_good, Written) {
    BOOST_TEST(!check_coverage(path, state, manifest()));
    BOOST_TEST(!check_content(folder, state, ranges, read));
    BOOST_TEST(read.total() == 12 * 4);
}

BOOST_FIXTURE_TEST_CASE(a_changed_number_is_found_by_the_one_who_reads_it, Written) {
    const auto ranges_before = ranges;
    numbers[5] += 1;
    write();
    std::vector<WrittenRange> others;
    std::vector<WrittenRange> changed;
    for (const WrittenRange& range : ranges_before)
        (range.offset <= 20 && 20 < range.offset + range.length ? changed : others)
            .push_back(range);
    BOOST_TEST(!check_content(folder, state, others, read));
    const auto failure = check_content(folder, state, changed, read);
    BOOST_TEST_REQUIRE(failure.has_value());
    BOOST_TEST(number(failure->code) == 65);
    BOOST_TEST(failure->message.find("/a is not what was written") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(numbers_that_are_none_are_damage_whatever_their_hash, Written) {
    for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
        numbers[11] = bad;
        write();
        const auto failure = check_content(folder, state, ranges, read);
        BOOST_TEST_REQUIRE(failure.has_value());
        BOOST_TEST(failure->message.find("/b holds NaN") != std::string::npos);
    }
}

BOOST_FIXTURE_TEST_CASE(every_element_must_have_been_written_once, Written) {
    const auto without = [&](size_t gone) {
        Manifest fewer = manifest();
        fewer.ranges.erase(fewer.ranges.begin() + static_cast<std::ptrdiff_t>(gone));
        return check_coverage(path, state, fewer).has_value();
    };
    for (size_t gone = 0; gone < ranges.size(); ++gone) BOOST_TEST(without(gone));
    ranges[1].first = 3;
    BOOST_TEST(check_coverage(path, state, manifest()).has_value());
}

BOOST_FIXTURE_TEST_CASE(ranges_that_no_file_has_are_refused, Written) {
    const auto refused = [&](size_t changed, int64_t first, int64_t offset, int64_t length) {
        Manifest other = manifest();
        WrittenRange& range = other.ranges[changed];
        range.first = first;
        range.offset = offset;
        range.length = length;
        return check_coverage(path, state, other).has_value();
    };
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    BOOST_TEST(refused(1, most, 16, 16));
    BOOST_TEST(refused(1, 4, most, 16));
    BOOST_TEST(refused(1, 4, -most, 16));
    BOOST_TEST(refused(1, 4, 16, most));
    // A range beyond those that cover a tensor already.
    Manifest longer = manifest();
    longer.ranges.push_back({"/a", 9, "state.h5", 0, 16, ""});
    BOOST_TEST(check_coverage(path, state, longer).has_value());
    // Before anybody has looked whether they fit.
    longer.ranges.back().offset = most;
    BOOST_TEST(!metadata_hash(path, longer.ranges));
    longer.ranges.back().offset = -8;
    BOOST_TEST(!metadata_hash(path, longer.ranges));
}

BOOST_FIXTURE_TEST_CASE(a_tensor_must_lie_inside_the_file, Written) {
    state.datasets["/b"].offset = 36;
    BOOST_TEST(check_coverage(path, state, manifest()).has_value());
    state.datasets["/b"] = {{int64_t{1} << 62, 4}, ElementType::fp32, 0};
    BOOST_TEST(check_coverage(path, state, manifest()).has_value());
}
