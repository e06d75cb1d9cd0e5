#include "ringshard/job/side_program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::job {

namespace {

// A file in memory, so that no writer waits for the command to read.
Expected<int> file_with(std::string_view input) {
    const int file = memfd_create("input", MFD_CLOEXEC);
    if (file < 0) return io_failure("the input of a command", "cannot be made");
    for (size_t written = 0; written < input.size();) {
        const ssize_t count = write(file, input.data() + written, input.size() - written);
        if (count < 0) {
            const Failure failure = io_failure("the input of a command", "cannot be written");
            close(file);
            return failure;
        }
        written += static_cast<size_t>(count);
    }
    lseek(file, 0, SEEK_SET);
    return file;
}

// The environment of this process without what makes a program a rank of this job.
std::vector<char*> environment_of_command() {
    std::vector<char*> kept;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view line(*entry);
        bool is_of_mpi = false;
        for (const char* mark : {"OMPI_", "PMIX_", "PMI_", "PRTE_"})
            is_of_mpi = is_of_mpi || line.starts_with(mark);
        if (!is_of_mpi) kept.push_back(*entry);
    }
    kept.push_back(nullptr);
    return kept;
}

// Attributes of a child: a process group of its own, signals as a new program expects them.
class SpawnSettings {
public:
    explicit SpawnSettings(int input) {
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
        posix_spawnattr_init(&attributes);
        sigset_t none;
        sigset_t all;
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnSettings() {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;

    posix_spawn_file_actions_t actions{};
    posix_spawnattr_t attributes{};
};

}  // namespace

Expected<std::unique_ptr<SideProgram>> SideProgram::start(const std::string& command,
                                                          std::string_view input) {
    const auto file = file_with(input);
    if (!file) return file.failure();
    std::string shell = "/bin/sh";
    std::string option = "-c";
    std::string given = command;
    const std::array<char*, 4> words{shell.data(), option.data(), given.data(), nullptr};
    std::vector<char*> environment = environment_of_command();
    const SpawnSettings settings(file.value());
    pid_t pid = 0;
    const int error = posix_spawn(&pid, shell.c_str(), &settings.actions, &settings.attributes,
                                  words.data(), environment.data());
    close(file.value());
    if (error != 0)
        return Failure{ExitCode::io,
                       format_text("{} cannot be started: {}", command, std::strerror(error))};
    return std::unique_ptr<SideProgram>(new SideProgram(pid));
}

SideProgram::~SideProgram() {
    if (pid_ == 0) return;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
}

std::optional<std::string> SideProgram::poll() {
    int status = 0;
    if (pid_ == 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = 0;
    if (WIFSIGNALED(status)) return format_text("was ended by signal {}", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) return format_text("ended with code {}", WEXITSTATUS(status));
    return std::string();
}

std::string reason_not_to_start(const std::string& command) {
    const std::string word = command.substr(0, command.find_first_of(" \t\n"));
    if (word.empty()) return "the command is empty";
    // The shell makes something else of such a word.
    if (word.find_first_of("=$`\"'\\(){}[]|&;<>*?~!#") != std::string::npos) return {};
    if (word.find('/') != std::string::npos) {
        if (!file_exists(word)) return format_text("there is no file {}", word);
        if (access(word.c_str(), X_OK) != 0)
            return format_text("{} is not executable; run chmod +x on it", word);
        return {};
    }
    const auto found = SideProgram::start("command -v " + word + " > /dev/null 2>&1", {});
    if (!found) return found.failure().message;
    std::optional<std::string> ended;
    while (!(ended = found.value()->poll())) usleep(1000);
    return ended->empty() ? std::string() : format_text("no program {} is in PATH", word);
}

}  // namespace ringshard::job
