#include "ringshard/base/shared_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "ringshard/base/text.hpp"

namespace ringshard {

namespace {

// Other errors than these are for the one who opens the file.
bool is_missing(const std::filesystem::path& file) {
    struct stat ignored {};
    return stat(file.c_str(), &ignored) != 0 &&
           (errno == ENOENT || errno == ENOTDIR || errno == ESTALE);
}

// Lists the nearest folder above the file that can be seen.
void look_again(const std::filesystem::path& file) {
    std::filesystem::path folder = file;
    std::error_code error;
    do {
        const auto parent = folder.has_parent_path() ? folder.parent_path() : ".";
        if (parent == folder) return;
        folder = parent;
        folder_entries(folder, error);
    } while (error);
}

}  // namespace

std::optional<Failure> wait_until_visible(const std::filesystem::path& file,
                                          std::chrono::milliseconds patience) {
    constexpr std::chrono::milliseconds longest_pause{1000};
    std::chrono::milliseconds pause{10};
    const auto end = std::chrono::steady_clock::now() + patience;
    while (is_missing(file)) {
        look_again(file);
        if (!is_missing(file)) return std::nullopt;
        if (std::chrono::steady_clock::now() >= end)
            return Failure{
                ExitCode::io,
                format_text("{}: another rank has made this file, and it cannot be seen from here "
                            "after {} s; the folder has to be the same on all nodes",
                            file.string(), patience.count() / 1000)};
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, longest_pause);
    }
    return std::nullopt;
}

Expected<File> open_when_visible(const std::filesystem::path& file, int flags) {
    auto opened = File::open(file, flags);
    if (opened) return opened;
    if (auto failure = wait_until_visible(file)) return *failure;
    return File::open(file, flags);
}

}  // namespace ringshard
