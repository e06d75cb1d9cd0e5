#pragma once

#include <unistd.h>

#include <filesystem>

#include "mpi_test.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::test {

// A folder under one name on all ranks, and gone afterwards.
struct SharedFolder {
    explicit SharedFolder(const std::string& name)
        : path(std::filesystem::temp_directory_path() /
               world().broadcast(format_text("ringshard_{}_{}", name, getpid()))) {
        if (world().is_root()) std::filesystem::create_directories(path);
        world().barrier();
    }
    SharedFolder(const SharedFolder&) = delete;
    SharedFolder& operator=(const SharedFolder&) = delete;
    ~SharedFolder() {
        world().barrier();
        if (world().is_root()) std::filesystem::remove_all(path);
    }
    std::filesystem::path path;
};

}  // namespace ringshard::test
