#include "ringshard/checkpoint/attempts.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "commit.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/manifest.hpp"

using namespace ringshard;
using namespace ringshard::checkpoint;

namespace {

struct Folder {
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / format_text("ringshard_attempts_{}", getpid());

    Claim claim(int64_t attempt) const {
        auto claimed = claim_attempt(path, attempt).value();
        BOOST_TEST_REQUIRE(claimed.has_value());
        return *claimed;
    }
    void start(int64_t attempt, int64_t step) const {
        BOOST_TEST(claim(attempt).attempt == attempt);
        BOOST_TEST(!record_start(path, attempt, step));
    }
    void save(int64_t step, int64_t attempt) const {
        const auto folder = path / checkpoint_name(step);
        std::filesystem::create_directories(folder);
        std::ofstream(folder / "state.h5") << "four";
        std::ofstream(folder / "manifest.json")
            << to_text(Manifest{step, attempt, {{"state.h5", 4}}, {}, {}, true});
    }
    // As the program leaves it.
    void save_with_info(int64_t step, int64_t attempt) const {
        save(step, attempt);
        const auto folder = path / checkpoint_name(step);
        const auto size = static_cast<int64_t>(std::filesystem::file_size(folder / manifest_name));
        std::ofstream(folder / info_name) << to_text(
            CheckpointInfo{step, attempt, true, {{"state.h5", 4}, {manifest_name, size}}});
    }
    // Keeps its size.
    void make_unreadable(const std::filesystem::path& file) const {
        const size_t size = read_file(file)->size();
        std::ofstream(file) << std::string(size, '?');
    }
    std::vector<int64_t> valid(size_t num_warnings = 0) const {
        std::vector<std::string> warnings;
        std::vector<int64_t> steps;
        const auto found = valid_checkpoints(path, warnings);
        BOOST_TEST_REQUIRE(static_cast<bool>(found));
        for (const CheckpointEntry& entry : found.value()) steps.push_back(entry.step);
        BOOST_TEST(warnings.size() == num_warnings);
        return steps;
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_later_attempt_makes_void_what_it_did_not_build_on, Folder) {
    start(1, 0);
    save(4, 1);
    save(8, 1);
    BOOST_TEST(valid() == (std::vector<int64_t>{8, 4}));
    start(2, 4);  // step 8 of attempt 1 was not seen, or not trusted
    BOOST_TEST(valid() == (std::vector<int64_t>{4}));
    save(6, 2);
    BOOST_TEST(valid() == (std::vector<int64_t>{6, 4}));
    save(12, 1);  // a cut-off process of attempt 1 wakes up
    BOOST_TEST(valid() == (std::vector<int64_t>{6, 4}));
    const Attempts attempts(path);
    BOOST_TEST(attempts.newest() == 2);
    BOOST_TEST(attempts.is_void(1, 5));
    BOOST_TEST(!attempts.is_void(1, 4));
    BOOST_TEST(!attempts.is_void(2, 100));
}

BOOST_FIXTURE_TEST_CASE(an_attempt_that_has_not_recorded_its_start_makes_nothing_void, Folder) {
    start(1, 0);
    save(4, 1);
    claim(2);
    BOOST_TEST(valid() == (std::vector<int64_t>{4}));
}

BOOST_FIXTURE_TEST_CASE(who_owns_the_run_is_told_by_number_and_token, Folder) {
    const Claim first = claim(1);
    BOOST_TEST(!check_newest(first));
    const Claim second = claim_next(first).value();  // of the same process
    BOOST_TEST(second.attempt == 2);
    BOOST_TEST(!check_newest(second));
    const auto left = check_newest(first);
    BOOST_TEST_REQUIRE(left.has_value());
    BOOST_TEST((left->code == ExitCode::superseded));
    BOOST_TEST(!claim_attempt(path, 2).value().has_value());
    const auto third = claim(3);  // of another process
    const auto too_late = claim_next(second);
    BOOST_TEST_REQUIRE(!too_late);
    BOOST_TEST((too_late.failure().code == ExitCode::superseded));
    BOOST_TEST(Attempts(path).newest() == third.attempt);
    BOOST_TEST(newest_attempt(path).value() == third.attempt);

    std::filesystem::remove_all(path);
    BOOST_TEST(!check_newest(third));  // the folder is gone, and nobody has made a new one
    std::filesystem::create_directories(path);
    for (int64_t attempt = 1; attempt <= third.attempt; ++attempt) {
        start(attempt, 0);  // the first ones have smaller numbers
        const auto other_run = check_newest(third);
        BOOST_TEST_REQUIRE(other_run.has_value());
        BOOST_TEST((other_run->code == ExitCode::superseded));
        BOOST_TEST(other_run->message.find("another run") != std::string::npos);
    }
}

// As on NFS, where a client that looked for the folder before may believe for a minute that there
// is none.
BOOST_FIXTURE_TEST_CASE(an_attempt_learns_of_the_next_one_from_its_own_file, Folder) {
    const Claim first = claim(1);
    const Claim second = claim(2);
    std::filesystem::rename(path / "attempt-2", path / "unseen");
    const auto left = check_newest(first);
    BOOST_TEST_REQUIRE(left.has_value());
    BOOST_TEST((left->code == ExitCode::superseded));
    BOOST_TEST(left->message.find("attempt 2 of this run has begun, and this is attempt 1") !=
               std::string::npos);
    std::filesystem::rename(path / "unseen", path / "attempt-2");
    BOOST_TEST(!check_newest(second));
}

BOOST_FIXTURE_TEST_CASE(nothing_is_decided_on_what_cannot_be_read, Folder) {
    start(1, 0);
    save(4, 1);
    const Claim second = claim(2);
    std::filesystem::create_directories(path / "attempt-1" / "start.json.d");
    std::filesystem::remove(path / "attempt-1" / "start.json");
    std::filesystem::rename(path / "attempt-1" / "start.json.d", path / "attempt-1" / "start.json");
    std::vector<std::string> warnings;
    const auto valid = valid_checkpoints(path, warnings);
    BOOST_TEST_REQUIRE(!valid);
    BOOST_TEST((valid.failure().code == ExitCode::io));
    BOOST_TEST(!check_newest(second));  // a run in good health goes on
    std::filesystem::remove(path / "attempt-1" / "start.json");
    std::filesystem::create_symlink("start.json", path / "attempt-1" / "start.json");  // in circles
    BOOST_TEST(!valid_checkpoints(path, warnings));
    std::ofstream(path / "file") << "";
    BOOST_TEST(!claim_attempt(path / "file", 1));
    BOOST_TEST(!newest_attempt(path / "file"));
    BOOST_TEST(!Attempts::read(path / "file"));
    BOOST_TEST(Attempts::read(path / "nothing").value().newest() == 0);
}

BOOST_FIXTURE_TEST_CASE(what_is_not_whole_is_stepped_over, Folder) {
    start(1, 0);
    save(4, 1);
    save(8, 1);
    std::ofstream(path / "checkpoint-8" / "state.h5") << "thr";  // cut short
    BOOST_TEST(valid(1) == (std::vector<int64_t>{4}));
    std::filesystem::remove(path / "checkpoint-4" / "manifest.json");
    BOOST_TEST(valid(2).empty());
    std::filesystem::create_directories(path / "checkpoint-9.tmp-1");
    std::filesystem::create_directories(path / "checkpoint-");
    BOOST_TEST(valid(2).empty());
}

BOOST_FIXTURE_TEST_CASE(only_the_newest_attempt_removes_what_is_being_written, Folder) {
    start(1, 0);
    start(2, 0);
    const auto of_the_newest = path / "run.json.tmp-1";
    std::ofstream(of_the_newest) << "{}";
    remove_leftovers(path, 1);
    BOOST_TEST(file_exists(of_the_newest));
    remove_leftovers(path, 2);
    BOOST_TEST(!file_exists(of_the_newest));
}

BOOST_FIXTURE_TEST_CASE(how_an_attempt_ended_is_read_back, Folder) {
    using Kind = AttemptEnd::Kind;
    for (int64_t attempt = 1; attempt <= 4; ++attempt) start(attempt, 0);
    BOOST_TEST(!read_end(path, 1));  // killed
    BOOST_TEST(!record_end(path, 2, {Kind::rewind}));
    const Failure failure{ExitCode::stopped_early, "asked to stop by \"SIGTERM\"\n"};
    BOOST_TEST(!record_end(path, 3, {Kind::failure, failure}));
    BOOST_TEST(!record_end(path, 4, {}));
    BOOST_TEST((read_end(path, 2)->kind == Kind::rewind));
    BOOST_TEST((read_end(path, 3)->kind == Kind::failure));
    BOOST_TEST((read_end(path, 3)->failure.code == ExitCode::stopped_early));
    BOOST_TEST(read_end(path, 3)->failure.message == failure.message);
    BOOST_TEST((read_end(path, 4)->kind == Kind::complete));
    for (const char* damaged : {"", "{", "[]", "{\"ended\": 3}", "{\"ended\": \"well\"}"}) {
        std::ofstream(path / "attempt-2" / "end.json") << damaged;
        BOOST_TEST(!read_end(path, 2), damaged);
    }
    BOOST_TEST(record_end(path, 9, {}).has_value());  // there is no such attempt
}

BOOST_FIXTURE_TEST_CASE(a_manifest_counts_in_whole_numbers, Folder) {
    save(4, 1);
    const auto folder = path / checkpoint_name(4);
    const std::string whole = *read_file(folder / "manifest.json");
    BOOST_TEST(!!read_manifest(folder));
    for (const char* number : {"1.0", "1e30", "-1e300"}) {
        std::string other = whole;
        const std::string attempt = "\"attempt\": ";
        other.replace(other.find(attempt) + attempt.size(), 1, number);
        std::ofstream(folder / "manifest.json") << other;
        BOOST_TEST_CONTEXT(number) { BOOST_TEST(!read_manifest(folder)); }
    }
}

BOOST_FIXTURE_TEST_CASE(a_manifest_with_missing_or_mistyped_fields_is_refused, Folder) {
    save(4, 1);
    const auto folder = path / checkpoint_name(4);
    const std::string range =
        R"({"dataset": "/model/a", "first": 0, "file": "state.h5", "offset": 0, "length": 4, "xxh3_128": "0"})";
    const auto with = [&](const std::string& fields, const std::string& ranges) {
        std::ofstream(folder / manifest_name)
            << R"({"format": "ringshard checkpoint", "version": 2, "step": 4, "attempt": 1, )"
               R"("moments": true, "files": {"state.h5": 4}, "frames": {})" +
                   fields + ", \"ranges\": " + ranges + "}";
        return read_manifest(folder);
    };
    const auto whole = with("", "[" + range + "," + range + "]");
    BOOST_TEST_REQUIRE(static_cast<bool>(whole));
    BOOST_TEST(whole.value().ranges.size() == 2U);
    BOOST_TEST(whole.value().ranges[1].dataset == "/model/a");
    BOOST_TEST(whole.value().ranges[1].length == 4);
    // What a later program may add.
    const std::string unknown = R"(, "new": {"a": [1, {"step": "x"}], "ranges": {}})";
    BOOST_TEST(!!with(unknown, "[" + range + "]"));
    const auto replaced = [&](const std::string& from, const std::string& to) {
        std::string other = range;
        return "[" + other.replace(other.find(from), from.size(), to) + "]";
    };
    const std::pair<std::string, std::string> wrong[] = {
        {"", "{}"},
        {"", "[[]]"},
        {"", "[4]"},
        {"", "null"},
        {"", "[{}]"},
        {"", replaced(R"("first": 0, )", "")},
        {"", replaced(R"("xxh3_128": "0")", R"("other": "0")")},
        {"", replaced(R"("first": 0)", R"("first": 0.5)")},
        {"", replaced(R"("first": 0)", R"("first": "0")")},
        {"", replaced(R"("first": 0)", R"("first": 18446744073709551615)")},
        {"", replaced(R"("first": 0)", R"("first": true)")},
        {"", replaced(R"("file": "state.h5")", R"("file": [])")},
        {R"(, "moments": 1)", "[]"},
        {R"(, "step": null)", "[]"},
        {R"(, "files": {"state.h5": "4"})", "[]"},
        {R"(, "frames": ["state.h5"])", "[]"},
        {R"(, "new": [0.5])", "[]"},
        {R"(, "new": )" + std::string(1'000'000, '['), "[]"}};
    for (const auto& [fields, ranges] : wrong)
        BOOST_TEST(!with(fields, ranges), fields.substr(0, 80) << " " << ranges);
    std::ofstream(folder / manifest_name) << "{}";
    BOOST_TEST(!read_manifest(folder));
}

// The time limit of this test is the bar: a reader that looks at all ranges for each range takes
// minutes.
BOOST_FIXTURE_TEST_CASE(a_manifest_of_half_a_million_ranges_is_read_in_one_pass, Folder) {
    constexpr int64_t count = 500'000;
    const auto folder = path / checkpoint_name(4);
    save(4, 1);
    Manifest manifest{4, 1, {{"state.h5", 4}}, {}, {}, true};
    for (int64_t i = 0; i < count; ++i)
        manifest.ranges.push_back({format_text("/model/layers.{}.\"proj\"", i % 80), i, "state.h5",
                                   i * 4, 4, std::string(32, 'a')});
    std::ofstream(folder / manifest_name) << to_text(manifest);
    const auto read = read_manifest(folder);
    BOOST_TEST_REQUIRE(static_cast<bool>(read));
    BOOST_TEST(read.value().ranges.size() == static_cast<size_t>(count));
    BOOST_TEST(read.value().ranges.back().dataset == manifest.ranges.back().dataset);
    BOOST_TEST(read.value().ranges.back().offset == 4 * (count - 1));
    BOOST_TEST(ranges_from_text(to_text(manifest.ranges)).size() == static_cast<size_t>(count));
}

BOOST_FIXTURE_TEST_CASE(other_checkpoints_are_known_by_their_small_file, Folder) {
    start(1, 0);
    save_with_info(4, 1);
    save_with_info(8, 1);
    save(12, 1);  // of a program that wrote no checkpoint.json
    const auto manifest = path / "checkpoint-4" / manifest_name;
    const auto info = path / "checkpoint-8" / info_name;
    const std::string whole = *read_file(info);
    make_unreadable(manifest);  // nobody looks into it
    BOOST_TEST(valid() == (std::vector<int64_t>{12, 8, 4}));
    BOOST_TEST(!read_manifest(manifest.parent_path()));

    std::ofstream(manifest) << "cut short";
    BOOST_TEST(valid(1) == (std::vector<int64_t>{12, 8}));
    std::filesystem::remove(manifest);
    BOOST_TEST(valid(1) == (std::vector<int64_t>{12, 8}));
    std::ofstream(path / "checkpoint-12" / "state.h5") << "longer";
    make_unreadable(info);
    BOOST_TEST(valid(3).empty());
    for (const char* wrong : {"{}", "[]", "{\"format\": 1}", "{\"format\": \"theirs\"}"}) {
        std::ofstream(info) << wrong;
        BOOST_TEST(!read_info(info.parent_path()), wrong);
    }
    for (const auto& [from, to] :
         {std::pair{"\"step\": 8", "\"step\": 8.5"}, std::pair{"\"step\": 8", "\"step\": 9"},
          std::pair{"\"version\": 2", "\"version\": 3"},
          std::pair{"\"state.h5\": 4", "\"state.h5\": 5"},
          std::pair{"\"state.h5\": 4", "\"state.h6\": 4"},
          std::pair{"\"moments\": true", "\"moments\": 1"}}) {
        std::string other = whole;
        std::ofstream(info) << other.replace(other.find(from), std::string(from).size(), to);
        BOOST_TEST(!read_info(info.parent_path()), to);
    }
    // The info of another checkpoint: the manifest is the one that is believed.
    std::string other = whole;
    const std::string attempt = "\"attempt\": 1";
    std::ofstream(info) << other.replace(other.find(attempt), attempt.size(), "\"attempt\": 2");
    BOOST_TEST(!!read_info(info.parent_path()));
    BOOST_TEST(!read_manifest(info.parent_path()));
    std::ofstream(info) << whole;
    BOOST_TEST(!!read_manifest(info.parent_path()));
}
