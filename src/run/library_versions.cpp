#include "ringshard/run/library_versions.hpp"

#include <hwloc.h>
#include <mpi.h>
#include <torch/headeronly/version.h>

#include <array>
#include <nlohmann/json.hpp>

#include "ringshard/base/text.hpp"
#include "ringshard/device/device.hpp"
#include "version.hpp"

namespace ringshard::run {

namespace {

std::string mpi_version() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> buffer{};
    int length = 0;
    MPI_Get_library_version(buffer.data(), &length);
    return split(split(buffer.data(), '\n').front(), ',').front();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> library_versions() {
    const unsigned hwloc = hwloc_get_api_version();
    return {{"Ringshard",
             format_text("{} ({}, {})", version::program, version::build_type, version::compiler)},
            {"LibTorch", TORCH_VERSION},
            {"MPI", mpi_version()},
            {"hwloc", format_text("{}.{}", hwloc >> 16, (hwloc >> 8) & 0xff)},
            {"GPU", device::describe_gpu_libraries()}};
}

std::string versions_text() {
    nlohmann::ordered_json versions = nlohmann::ordered_json::object();
    for (const auto& [name, version] : library_versions()) versions[name] = version;
    return versions.dump();
}

}  // namespace ringshard::run
