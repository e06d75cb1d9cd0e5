#include "ringshard/checkpoint/survey.hpp"

#include "range_check.hpp"

namespace ringshard::checkpoint {

Expected<Survey> survey(const std::filesystem::path& folder) {
    auto manifest = read_manifest(folder);
    if (!manifest) return manifest.failure();
    const auto file = folder / state_name;
    // HDF5's library can crash on a damaged file, so check the bytes that it reads first.
    if (auto failure = check_metadata_hashes(folder, manifest.value())) return *failure;
    if (auto failure = check_file_hashes(folder, manifest.value())) return *failure;
    auto state = open_state_file(file);
    if (!state) return state.failure();
    Survey found{std::move(manifest).value(), std::move(state).value()};
    if (auto failure = check_coverage(file, found.state, found.manifest)) return *failure;
    ByteCounter read;
    if (auto failure = check_content(folder, found.state, found.manifest.ranges, read))
        return *failure;
    return found;
}

}  // namespace ringshard::checkpoint
