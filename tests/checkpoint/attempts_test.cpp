#include "ringshard/checkpoint/attempts.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/manifest.hpp"

using namespace ringshard;
using namespace ringshard::checkpoint;

namespace {

struct Folder {
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / concat("ringshard_attempts_", getpid());

    void start(int64_t attempt, int64_t step) const {
        BOOST_TEST(claim_attempt(path).value().attempt == attempt);
        BOOST_TEST(!record_start(path, attempt, step));
    }
    void save(int64_t step, int64_t attempt) const {
        const auto folder = path / checkpoint_name(step);
        std::filesystem::create_directories(folder);
        std::ofstream(folder / "state.h5") << "four";
        std::ofstream(folder / "manifest.json")
            << to_text(Manifest{step, attempt, {{"state.h5", 4}}, {}, {}, true});
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
    BOOST_TEST(claim_attempt(path).value().attempt == 2);
    BOOST_TEST(valid() == (std::vector<int64_t>{4}));
}

BOOST_FIXTURE_TEST_CASE(who_owns_the_run_is_told_by_number_and_token, Folder) {
    const Claim first = claim_attempt(path).value();
    BOOST_TEST(!check_newest(first));
    const Claim second = claim_attempt(path, &first).value();  // of the same process
    BOOST_TEST(second.attempt == 2);
    BOOST_TEST(!check_newest(second));
    const auto left = check_newest(first);
    BOOST_TEST_REQUIRE(left.has_value());
    BOOST_TEST((left->code == ExitCode::superseded));
    const auto third = claim_attempt(path).value();  // of another
    const auto too_late = claim_attempt(path, &second);
    BOOST_TEST_REQUIRE(!too_late);
    BOOST_TEST((too_late.failure().code == ExitCode::superseded));
    BOOST_TEST(Attempts(path).newest() == third.attempt);

    std::filesystem::remove_all(path);
    BOOST_TEST(!check_newest(third));  // the folder is gone, and nobody has made a new one
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
    const Claim first = claim_attempt(path).value();
    const Claim second = claim_attempt(path).value();
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
    const Claim second = claim_attempt(path).value();
    std::filesystem::create_directories(path / "attempt-1" / "start.json.d");
    std::filesystem::remove(path / "attempt-1" / "start.json");
    std::filesystem::rename(path / "attempt-1" / "start.json.d", path / "attempt-1" / "start.json");
    std::vector<std::string> warnings;
    const auto valid = valid_checkpoints(path, warnings);
    BOOST_TEST_REQUIRE(!valid);
    BOOST_TEST((valid.failure().code == ExitCode::io));
    BOOST_TEST(!claim_attempt(path));
    BOOST_TEST(!check_newest(second));  // a run in good health goes on
    std::filesystem::remove(path / "attempt-1" / "start.json");
    std::filesystem::create_symlink("start.json", path / "attempt-1" / "start.json");  // in circles
    BOOST_TEST(!valid_checkpoints(path, warnings));
    std::ofstream(path / "file") << "";
    BOOST_TEST(!claim_attempt(path / "file"));
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
