#include "output_of.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "ringshard/base/timer.hpp"

namespace ringshard::job {

namespace {

// A child process whose output can be read. The destructor ends and reaps it.
class Child {
public:
    explicit Child(std::vector<std::string> command) {
        std::vector<char*> words;
        for (std::string& word : command) words.push_back(word.data());
        words.push_back(nullptr);
        std::array<int, 2> pipe_ends{};
        if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return;
        output_ = pipe_ends[0];
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (posix_spawnp(&pid_, words[0], &actions, nullptr, words.data(), environ) != 0) pid_ = 0;
        posix_spawn_file_actions_destroy(&actions);
        close(pipe_ends[1]);
    }
    ~Child() {
        end();
        if (output_ >= 0) close(output_);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    bool is_started() const { return pid_ > 0; }
    int output() const { return output_; }
    // Waits until the process exits by itself, and returns its status.
    int wait() {
        int status = -1;
        waitpid(pid_, &status, 0);
        pid_ = 0;
        return status;
    }

private:
    void end() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        wait();
    }
    pid_t pid_ = 0;
    int output_ = -1;
};

}  // namespace

std::optional<std::string> output_of(std::vector<std::string> command,
                                     const std::stop_token& stop) {
    constexpr double longest = 60;  // seconds
    constexpr int pause = 200;      // milliseconds
    Child child(std::move(command));
    if (!child.is_started()) return std::nullopt;
    const Timer timer;
    std::string text;
    while (!stop.stop_requested() && timer.seconds() < longest) {
        pollfd ready{child.output(), POLLIN, 0};
        if (poll(&ready, 1, pause) <= 0) continue;
        std::array<char, 256> buffer{};
        const ssize_t size = read(child.output(), buffer.data(), buffer.size());
        if (size <= 0) return size == 0 && child.wait() == 0 ? std::optional(text) : std::nullopt;
        text.append(buffer.data(), static_cast<size_t>(size));
    }
    return std::nullopt;
}

}  // namespace ringshard::job
