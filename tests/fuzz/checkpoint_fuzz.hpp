#pragma once

#include <cstring>
#include <fstream>
#include <vector>

#include "fuzz_folder.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/survey.hpp"

namespace ringshard::test {

// checkpoint-1 with two small tensors and their moments, as the program writes it but for the
// hashes, which a fuzzer does not meet.
inline checkpoint::Manifest make_checkpoint(const FuzzFolder& folder) {
    using namespace checkpoint;
    std::filesystem::create_directories(folder.path() / "checkpoint-1");
    const auto file = folder.path() / "checkpoint-1" / state_name;
    std::filesystem::remove(file);
    std::vector<DatasetSpec> datasets;
    for (const std::string& group :
         {std::string(weights_group), group_of_state("exp_avg"), group_of_state("exp_avg_sq")}) {
        datasets.push_back({group + "model.embed_tokens.weight", {4, 6}, {}});
        datasets.push_back({group + "model.norm.weight", {6}, ElementType::bf16});
    }
    const auto made =
        create_state_file(file, datasets, {{"format_version", 3}, {"step", 1}, {"num_tokens", 0}},
                          {{"settings", "{}"},
                           {"learners", R"([{"epoch": 0, "samples_done": 2, "num_tokens": 0}])"}});
    Manifest manifest{
        .step = 1, .attempt = 1, .file_sizes = {}, .metadata_hashes = {}, .ranges = {}};
    manifest.file_sizes[state_name] = static_cast<int64_t>(std::filesystem::file_size(file));
    for (const auto& [name, placed] : made.value().datasets)
        manifest.ranges.push_back(
            {name, 0, state_name, placed.offset, *bytes_of(placed), std::string(32, '0')});
    return manifest;
}

}  // namespace ringshard::test
