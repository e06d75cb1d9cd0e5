#include "ringshard/job/deadline.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

using namespace ringshard;

namespace {

int64_t seconds_since_1970() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// A squeue that says `answer`, first in PATH while this lives.
class FakeSqueue {
public:
    explicit FakeSqueue(const std::string& script)
        : folder_(std::filesystem::temp_directory_path() /
                  ("fake-squeue-" + std::to_string(getpid()))),
          path_before_(std::getenv("PATH")) {
        std::filesystem::create_directory(folder_);
        std::ofstream(folder_ / "squeue") << "#!/bin/sh\n" << script << "\n";
        std::filesystem::permissions(folder_ / "squeue", std::filesystem::perms::owner_all);
        setenv("PATH", (folder_.string() + ":" + path_before_).c_str(), 1);
    }
    ~FakeSqueue() {
        setenv("PATH", path_before_.c_str(), 1);
        std::filesystem::remove_all(folder_);
    }

private:
    std::filesystem::path folder_;
    std::string path_before_;
};

// What the thread that asks squeue has made of it, after a second at most.
std::optional<double> seconds_left_after(const job::Deadline& deadline,
                                         const std::function<bool(std::optional<double>)>& is_so) {
    for (int i = 0; i < 100 && !is_so(deadline.seconds_left()); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return deadline.seconds_left();
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_squeue_says_of_time) {
    BOOST_TEST(job::read_time_left("0:00").value() == 0);
    BOOST_TEST(job::read_time_left("9:05").value() == 545);
    BOOST_TEST(job::read_time_left("2:03:04").value() == 7384);
    BOOST_TEST(job::read_time_left("1-02:03:04").value() == 93784);
    for (const char* word : {"UNLIMITED", "NOT_SET", "INVALID", "", "-", "1:x"})
        BOOST_TEST(!job::read_time_left(word).has_value(), word);
}

BOOST_AUTO_TEST_CASE(no_job_and_no_wish_have_no_end) {
    BOOST_TEST(!job::Deadline({}, std::nullopt).seconds_left().has_value());
}

BOOST_AUTO_TEST_CASE(max_hours_counts_from_the_start) {
    const auto left = job::Deadline({}, 0.5).seconds_left();
    BOOST_TEST_REQUIRE(left.has_value());
    BOOST_TEST(*left <= 1800);
    BOOST_TEST(*left > 1790);
}

BOOST_AUTO_TEST_CASE(the_end_that_the_environment_names_holds_where_squeue_is_silent) {
    const FakeSqueue squeue("exit 1");
    job::Slurm slurm;
    slurm.name_in_queue = "17";
    slurm.end_time = seconds_since_1970() + 100;
    const job::Deadline deadline(slurm, std::nullopt);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    BOOST_TEST_REQUIRE(deadline.seconds_left().has_value());
    BOOST_TEST(*deadline.seconds_left() > 95);
    BOOST_TEST(*deadline.seconds_left() < 101);
}

BOOST_AUTO_TEST_CASE(squeue_knows_better_and_the_earliest_end_counts) {
    const FakeSqueue squeue("test \"$*\" = '--noheader --jobs 17 -o %L' && echo 1:00:00");
    job::Slurm slurm;
    slurm.name_in_queue = "17";
    slurm.end_time = seconds_since_1970() + 100;
    const job::Deadline limit(slurm, std::nullopt);
    const auto is_long = [](std::optional<double> left) { return left && *left > 3000; };
    BOOST_TEST(is_long(seconds_left_after(limit, is_long)));
    const job::Deadline both(slurm, 0.1);
    const auto is_short = [](std::optional<double> left) { return left && *left > 300; };
    BOOST_TEST(seconds_left_after(both, is_short).value() <= 360);
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_a_squeue_that_hangs) {
    const FakeSqueue squeue("exec sleep 100");
    job::Slurm slurm;
    slurm.name_in_queue = "17";
    const Timer timer;
    { const job::Deadline deadline(slurm, std::nullopt); }
    BOOST_TEST(timer.seconds() < 5);
}
