#include "ringshard/data/dataset_files.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <map>

#include "dataset_card.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/text/value.hpp"
#include "split_names.hpp"

namespace ringshard::data {

namespace {

namespace fs = std::filesystem;
using Files = std::vector<fs::path>;

bool is_data_file(const fs::path& file) {
    static constexpr std::array endings{".jsonl", ".json", ".ndjson", ".parquet", ".arrow"};
    static constexpr std::array others{"dataset_info.json", "dataset_infos.json",
                                       "dataset_dict.json", "state.json",
                                       "tokenizer.json",    "config.json"};
    fs::path name = file.filename();
    if (std::ranges::find(others, name.string()) != others.end()) return false;
    // What datasets' map() leaves behind.
    if (name.string().starts_with("cache-") || name.string().starts_with("tmp")) return false;
    if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
    return std::ranges::find(endings, name.extension().string()) != endings.end();
}

bool is_hidden(const fs::path& relative) {
    return std::ranges::any_of(relative, [](const fs::path& part) {
        return part.string().starts_with(".") && part != "." && part != "..";
    });
}

// All data files below a folder, in the order of their paths.
Files files_below(const fs::path& folder) {
    Files files;
    for (const auto& entry :
         fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink))
        if (entry.is_regular_file() && is_data_file(entry.path()) &&
            !is_hidden(entry.path().lexically_relative(folder)))
            files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
}

// "**" also matches folders in between; "*" does not.
Files matching(const fs::path& folder, const std::string& pattern) {
    Files files;
    const bool crosses_folders = pattern.find("**") != std::string::npos;
    std::string one_star = pattern;
    for (size_t at = 0; (at = one_star.find("**/")) != std::string::npos;)
        one_star.replace(at, 3, "*");
    for (const auto& entry : fs::recursive_directory_iterator(
             folder, fs::directory_options::follow_directory_symlink)) {
        const std::string name = entry.path().lexically_relative(folder).string();
        if (entry.is_regular_file() &&
            fnmatch(one_star.c_str(), name.c_str(), crosses_folders ? 0 : FNM_PATHNAME) == 0)
            files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
}

Files matching_any(const fs::path& folder, const std::vector<std::string>& patterns) {
    Files files;
    for (const std::string& pattern : patterns) {
        if (exists(folder / pattern)) {
            files.push_back(folder / pattern);
            continue;
        }
        const Files some = matching(folder, pattern);
        files.insert(files.end(), some.begin(), some.end());
    }
    return files;
}

Expected<Files> choose_split(const DatasetName& dataset,
                             const std::map<std::string, Files>& splits) {
    if (const auto found = splits.find(dataset.split); found != splits.end()) return found->second;
    if (dataset.takes_any_split && splits.size() == 1) return splits.begin()->second;
    std::vector<std::string> names;
    for (const auto& [name, files] : splits) names.push_back(name);
    return Failure{ExitCode::missing_input,
                   concat(dataset.setting, " = ", dataset.path, " has no split '", dataset.split,
                          "'; it has ", names.empty() ? "no data files" : join(names, ", "),
                          dataset.cure.empty() ? "" : ": ", dataset.cure)};
}

// Files whose names, or whose folders' names, are those of splits; if none is, all are "train".
std::map<std::string, Files> by_split(const Files& files, const fs::path& root) {
    std::map<std::string, Files> splits;
    for (const fs::path& file : files)
        if (const auto split = split_of(file.lexically_relative(root)))
            splits[*split].push_back(file);
    if (splits.empty() && !files.empty()) splits["train"] = files;
    return splits;
}

// A folder that Dataset.save_to_disk has made.
Expected<Files> saved_files(const DatasetName& dataset, const fs::path& folder) {
    const auto state = text::read_json(read_file(folder / "state.json").value_or(""));
    const text::Value* listed = state ? state.value().find("_data_files") : nullptr;
    if (listed == nullptr || listed->list() == nullptr)
        return Failure{ExitCode::bad_data,
                       concat((folder / "state.json").string(), " has no list _data_files")};
    const text::Value* indices = state.value().find("_indices_data_files");
    if (indices != nullptr && !indices->is_null())
        return Failure{
            ExitCode::bad_data,
            concat(folder.string(), " is a selection of other data; save flatten_indices() of it")};
    Files files;
    for (const text::Value& entry : *listed->list())
        if (const text::Value* name = entry.find("filename"); name != nullptr && name->string())
            files.push_back(folder / *name->string());
    const text::Value* split = state.value().find("_split");
    const std::string name = split && split->string() ? *split->string() : "train";
    return choose_split(dataset, {{name, files}});
}

Expected<Files> files_in_folder(const DatasetName& dataset, const fs::path& folder) {
    if (!dataset.data_files.empty())
        return choose_split(dataset, by_split(matching_any(folder, dataset.data_files), folder));
    if (exists(folder / "dataset_dict.json")) {
        std::map<std::string, Files> splits;
        for (const auto& entry : fs::directory_iterator(folder))
            if (exists(entry.path() / "state.json"))
                splits[entry.path().filename().string()] = {entry.path()};
        const auto chosen = choose_split(dataset, splits);
        if (!chosen) return chosen;
        DatasetName split = dataset;
        split.takes_any_split = true;
        return saved_files(split, chosen.value().front());
    }
    if (exists(folder / "state.json") && exists(folder / "dataset_info.json"))
        return saved_files(dataset, folder);
    const auto card = read_dataset_card(folder, dataset.config);
    if (!card) return card.failure();
    std::map<std::string, Files> splits;
    for (const auto& [split, patterns] : card.value()) {
        const Files files = matching_any(folder, patterns);
        splits[split].insert(splits[split].end(), files.begin(), files.end());
    }
    if (!splits.empty()) return choose_split(dataset, splits);
    const fs::path root = dataset.config.empty() ? folder : folder / dataset.config;
    if (!is_directory(root))
        return Failure{
            ExitCode::missing_input,
            concat("dataset_config = ", dataset.config, ": ", folder.string(),
                   " has neither such a configuration in its README.md nor such a folder")};
    return choose_split(dataset, by_split(files_below(root), root));
}

// What load_dataset() has kept: owner___name/config/version/hash/*.arrow, the newest first.
std::optional<fs::path> converted_dataset(const DatasetName& dataset, const HubCache& hub) {
    std::string name;
    for (const char c : dataset.path) name += c == '/' ? "___" : std::string(1, c);
    const fs::path root =
        hub.datasets() / name / (dataset.config.empty() ? "default" : dataset.config);
    std::optional<fs::path> newest;
    if (!is_directory(root)) return newest;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
        if (entry.path().filename() != "dataset_info.json") continue;
        const fs::path folder = entry.path().parent_path();
        if (!newest || last_write_time(folder) > last_write_time(*newest)) newest = folder;
    }
    return newest;
}

}  // namespace

Expected<Files> find_dataset_files(const DatasetName& dataset, const HubCache& hub) {
    const fs::path path(dataset.path);
    if (is_regular_file(path)) return choose_split(dataset, {{"train", {path}}});
    if (is_directory(path)) return files_in_folder(dataset, path);
    if (dataset.path.find_first_of("*?[") != std::string::npos) {
        fs::path root;
        for (const fs::path& part : path) {
            if (part.string().find_first_of("*?[") != std::string::npos) break;
            root /= part;
        }
        if (root.empty()) root = ".";
        const Files files =
            is_directory(root) ? matching(root, path.lexically_relative(root).string()) : Files();
        if (!files.empty()) return choose_split(dataset, by_split(files, root));
        return Failure{ExitCode::missing_input,
                       concat(dataset.setting, " = ", dataset.path, ": no file matches it")};
    }
    if (!looks_like_repository(dataset.path))
        return Failure{ExitCode::missing_input, concat(dataset.setting, " = ", dataset.path,
                                                       ": there is no such file or folder")};
    const auto snapshot = hub.find(HubCache::Kind::dataset, dataset.path, "main", dataset.setting);
    if (snapshot) return files_in_folder(dataset, snapshot.value());
    if (const auto folder = converted_dataset(dataset, hub)) {
        DatasetName converted = dataset;
        converted.config.clear();
        return files_in_folder(converted, *folder);
    }
    return snapshot.failure();
}

}  // namespace ringshard::data
