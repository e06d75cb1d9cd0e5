#pragma once

#include <chrono>

#include "ringshard/base/files.hpp"

// Files that one process makes and processes of other hosts open next, by a name that these may
// have asked for before. An NFS client remembers for up to a minute (nfs(5), lookupcache) that
// there was no such name, and looks again when it lists the folder.
namespace ringshard {

constexpr std::chrono::seconds patience_of_look_ups{90};

// Waits until the file can be seen from here; lists its folder in between. Fails after `patience`.
std::optional<Failure> wait_until_visible(
    const std::filesystem::path& file, std::chrono::milliseconds patience = patience_of_look_ups);

// File::open() of a file that is there, as its maker has said. Costs nothing where it is seen at
// once.
Expected<File> open_when_visible(const std::filesystem::path& file, int flags);

}  // namespace ringshard
