#include "ringshard/checkpoint/liveness.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "ringshard/base/files.hpp"

using namespace ringshard;
using namespace ringshard::checkpoint;

namespace {

// Signs of life follow each other many times within a silence, also on a machine that is busy.
const LivenessLimits quick{.interval = 0.05, .silence = 2, .observation = 1, .long_silence = 3600};

Holder on_another_host() {
    Holder holder = this_process();
    holder.host = "elsewhere";
    holder.pid_space = "another boot";
    return holder;
}

// A process that has ended; a zombie until `reap` where that is false.
Holder ended_process(bool reap) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    siginfo_t ignored{};
    waitid(P_PID, static_cast<id_t>(child), &ignored, WEXITED | (reap ? 0 : WNOWAIT));
    Holder holder = this_process();
    holder.pid = child;
    return holder;
}

struct Folder {
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / format_text("ringshard_liveness_{}", getpid());

    Claimant claimant(bool takes_over = false, Holder me = this_process(),
                      const std::string& differences = "") const {
        return {path,
                std::move(me),
                {.takes_over = takes_over,
                 .differences = [differences](const std::string&) { return differences; },
                 .output_dir_said = "output_dir = OUT [default]",
                 .limits = quick}};
    }
    std::unique_ptr<AliveFile> begin(int64_t attempt, const Holder& holder,
                                     double interval = 3600) const {
        const Claim claim = *claim_attempt(path, attempt).value();
        return AliveFile::begin(claim, holder, {.interval = interval}).value();
    }
    void expect_refusal(Claimant claimant, const std::string& words) const {
        const auto refused = claimant.check();
        BOOST_TEST_REQUIRE(refused.has_value());
        BOOST_TEST((refused->code == ExitCode::settings));
        BOOST_TEST(refused->message.find(words) != std::string::npos, refused->message);
        BOOST_TEST(!claimant.claim());
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_process_of_this_host_is_looked_up, Folder) {
    BOOST_TEST((state_of(this_process()) == ProcessState::running));
    Holder reused = this_process();
    reused.started -= 1;
    BOOST_TEST((state_of(reused) == ProcessState::dead));
    BOOST_TEST((state_of(ended_process(true)) == ProcessState::dead));
    BOOST_TEST((state_of(ended_process(false)) == ProcessState::dead));
    BOOST_TEST((state_of(on_another_host()) == ProcessState::elsewhere));
}

BOOST_FIXTURE_TEST_CASE(nobody_claims_beside_a_running_process, Folder) {
    const auto alive_file = begin(1, this_process());
    const std::string who =
        format_text(": rank 0 on {}, process {}", this_process().host, getpid());
    expect_refusal(claimant(),
                   "output_dir = OUT [default]: attempt 1 of a run is at work there" + who);
    expect_refusal(claimant(), "say --take_over true");
    expect_refusal(claimant(true, this_process(), "learning_rate: 1 there, 2 here"),
                   "This start trains with other settings, so it is another run:\n  learning_rate: "
                   "1 there, 2 here\nName another output_dir");
    BOOST_TEST(newest_attempt(path).value() == 1);
    BOOST_TEST(claimant(true).claim().value().attempt == 2);
}

BOOST_FIXTURE_TEST_CASE(an_attempt_that_is_over_is_followed_at_once, Folder) {
    BOOST_TEST(claimant().claim().value().attempt == 1);
    BOOST_TEST(!record_end(path, 1, {}));
    BOOST_TEST(claimant().claim().value().attempt == 2);
    std::filesystem::remove_all(path / "attempt-2");
    begin(2, ended_process(true));
    BOOST_TEST(claimant().claim().value().attempt == 3);
}

BOOST_FIXTURE_TEST_CASE(a_requeued_job_follows_itself, Folder) {
    Holder me = this_process();
    me.job = "7@cluster";
    const auto alive_file = begin(1, me);
    expect_refusal(claimant(false, me), "SLURM job 7@cluster");
    me.restarts = 1;
    Claimant requeued = claimant(false, me);
    BOOST_TEST(!requeued.check());
    BOOST_TEST(requeued.follows_itself());
    BOOST_TEST(requeued.claim().value().attempt == 2);
    me.job = "8@cluster";
    const auto other = begin(3, me);
    me.job = "7@cluster";
    me.restarts = 2;
    Claimant another = claimant(false, me);
    BOOST_TEST(another.check().has_value());
    BOOST_TEST(!another.follows_itself());
}

BOOST_FIXTURE_TEST_CASE(a_process_elsewhere_is_known_by_its_signs, Folder) {
    {
        const auto alive_file = begin(1, on_another_host(), quick.interval);
        expect_refusal(claimant(), "rank 0 on elsewhere");
    }
    Claimant waits = claimant();
    BOOST_TEST(!waits.check());  // no more signs
    BOOST_TEST(waits.claim().value().attempt == 2);
}

BOOST_FIXTURE_TEST_CASE(a_process_that_wakes_up_before_the_claim_is_left_alone, Folder) {
    auto alive_file = begin(1, on_another_host());
    Claimant waits = claimant();
    BOOST_TEST(!waits.check());
    utimensat(AT_FDCWD, (path / "attempt-1" / "alive").c_str(), nullptr, 0);
    BOOST_TEST(!waits.claim());
    BOOST_TEST(newest_attempt(path).value() == 1);
}

BOOST_FIXTURE_TEST_CASE(a_long_silence_needs_no_wait, Folder) {
    begin(1, on_another_host());
    const std::array<timespec, 2> long_ago{timespec{1, 0}, timespec{1, 0}};
    utimensat(AT_FDCWD, (path / "attempt-1" / "alive").c_str(), long_ago.data(), 0);
    Claimant claimant(path, this_process(),
                      {.differences = [](const std::string&) { return std::string(); }});
    BOOST_TEST(!claimant.check());  // with the limits of a run
}

BOOST_FIXTURE_TEST_CASE(of_two_that_claim_at_once_one_is_refused, Folder) {
    Claimant first = claimant();
    Claimant second = claimant();
    BOOST_TEST(!first.check());
    BOOST_TEST(!second.check());
    const auto alive_file = AliveFile::begin(first.claim().value(), first.me(), quick);
    const auto late = second.claim();
    BOOST_TEST_REQUIRE(!late);
    BOOST_TEST(late.failure().message.find("attempt 1 of a run is at work there") !=
               std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_sign_is_one_of_an_unknown_process, Folder) {
    begin(1, on_another_host());
    for (const char* damaged : {"", "[]", "{\"pid\": \"x\"}"}) {
        BOOST_TEST(!write_file_atomically(path / "attempt-1" / "alive", damaged));
        const auto newest = find_newest_attempt(path, 0);
        BOOST_TEST_REQUIRE(static_cast<bool>(newest));
        BOOST_TEST(!newest.value().has_ended);
        if (newest.value().holder)
            BOOST_TEST((state_of(*newest.value().holder) == ProcessState::elsewhere));
    }
    BOOST_TEST(find_newest_attempt(path / "nothing", 0).value().number == 0);
}
