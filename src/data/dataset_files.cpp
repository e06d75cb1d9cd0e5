#include "ringshard/data/dataset_files.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "dataset_card.hpp"
#include "glob.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/text/value.hpp"
#include "split_names.hpp"

namespace ringshard::data {

namespace {

namespace fs = std::filesystem;
using Files = std::vector<fs::path>;

// File extensions by kind. If a folder has several kinds, those of the first kind here are its
// data: a table or text beside them describes them.
constexpr std::array<std::array<const char*, 5>, 3> endings_of_kinds{
    {{".jsonl", ".json", ".ndjson", ".parquet", ".arrow"}, {".csv", ".tsv"}, {".txt"}}};

std::optional<size_t> kind_of_ending(const std::string& ending) {
    for (size_t kind = 0; kind < endings_of_kinds.size(); ++kind)
        for (const char* known : endings_of_kinds[kind])
            if (known != nullptr && ending == known) return kind;
    return std::nullopt;
}

std::optional<size_t> kind_of_data(const fs::path& file) {
    static constexpr std::array others{
        "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json",
        "tokenizer.json",    "tekken.json",        "config.json"};
    fs::path name = file.filename();
    if (std::ranges::find(others, name.string()) != others.end()) return std::nullopt;
    // Skip the cache files of datasets' map().
    if (name.string().starts_with("cache-") || name.string().starts_with("tmp"))
        return std::nullopt;
    if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
    return kind_of_ending(name.extension().string());
}

bool is_hidden(const fs::path& relative) {
    return std::ranges::any_of(relative, [](const fs::path& part) {
        return part.string().starts_with(".") && part != "." && part != "..";
    });
}

// Returns the folder before the first wildcard.
fs::path root_of(const fs::path& pattern) {
    fs::path root;
    for (const fs::path& part : pattern) {
        if (is_pattern(part.string())) break;
        root /= part;
    }
    return root.empty() ? "." : root;
}

// Finds files, and records unreadable folders as warnings.
class Finder {
public:
    explicit Finder(std::vector<std::string>& warnings) : warnings_(warnings) {}

    Files matching(const fs::path& folder, const fs::path& pattern) const {
        FoundFiles found = find_matching(folder, pattern);
        for (const fs::path& skipped : found.skipped)
            warnings_.push_back(
                format_text("{}: this folder cannot be read, and is left out", skipped.string()));
        return std::move(found.files);
    }

    Files matching_any(const fs::path& folder, const std::vector<std::string>& patterns) const {
        Files files;
        for (const std::string& pattern : patterns) {
            if (file_exists(folder / pattern)) {
                files.push_back(folder / pattern);
                continue;
            }
            const fs::path whole = folder / pattern;  // `pattern` may be an absolute path
            const fs::path root = root_of(whole);
            const Files some = matching(root, whole.lexically_relative(root));
            files.insert(files.end(), some.begin(), some.end());
        }
        return files;
    }

    // Returns all data files below a folder.
    Files below(const fs::path& folder) const {
        std::array<Files, endings_of_kinds.size()> by_kind;
        for (const fs::path& file : matching(folder, "**"))
            if (const auto kind = kind_of_data(file);
                kind && !is_hidden(file.lexically_relative(folder)))
                by_kind[*kind].push_back(file);
        Files data;
        for (const Files& files : by_kind) {
            if (data.empty())
                data = files;
            else if (!files.empty())
                warnings_.push_back(format_text(
                    "{}: {}{} left out beside {}; name the files to read them, as {}{}",
                    folder.string(), files.front().filename().string(),
                    files.size() > 1 ? format_text(" and {} more like it", files.size() - 1) : "",
                    data.front().filename().string(), (folder / "*").string(),
                    files.front().extension().string()));
        }
        return data;
    }

private:
    std::vector<std::string>& warnings_;
};

// Checks a path in a dataset's own metadata, which another person wrote.
std::optional<Failure> check_inside(const fs::path& description, const std::string& path) {
    const bool leads_out =
        fs::path(path).is_absolute() ||
        std::ranges::any_of(fs::path(path), [](const fs::path& part) { return part == ".."; });
    if (!leads_out) return std::nullopt;
    return Failure{ExitCode::bad_data,
                   format_text("{}: names {}, which lies outside of the dataset's folder; it has "
                               "to be a path below it, without '..'",
                               description.string(), path)};
}

Expected<Files> choose_split(const DatasetName& dataset,
                             const std::map<std::string, Files>& splits) {
    if (const auto found = splits.find(dataset.split); found != splits.end()) return found->second;
    if (dataset.takes_any_split && splits.size() == 1) return splits.begin()->second;
    std::vector<std::string> names;
    for (const auto& [name, files] : splits) names.push_back(name);
    return Failure{ExitCode::missing_input,
                   format_text("{} = {} has no split '{}'; it has {}{}{}", dataset.setting,
                               shown_name(dataset), dataset.split,
                               names.empty() ? "no data files" : join(names, ", "),
                               dataset.cure.empty() ? "" : ": ", dataset.cure)};
}

// Groups files by a split in the name of the file or its folder; if no name has one, all are
// "train".
std::map<std::string, Files> by_split(const Files& files, const fs::path& root) {
    std::map<std::string, Files> splits;
    for (const fs::path& file : files)
        if (const auto split = split_of(file.lexically_relative(root)))
            splits[*split].push_back(file);
    if (splits.empty() && !files.empty()) splits["train"] = files;
    return splits;
}

// Returns the files of a folder that Dataset.save_to_disk wrote.
Expected<Files> saved_files(const DatasetName& dataset, const fs::path& folder) {
    const auto state = text::read_json(read_file(folder / "state.json").value_or(""));
    const text::Value* listed = state ? state.value().find("_data_files") : nullptr;
    if (listed == nullptr || listed->list() == nullptr)
        return Failure{ExitCode::bad_data,
                       format_text("{} has no list _data_files", (folder / "state.json").string())};
    const text::Value* indices = state.value().find("_indices_data_files");
    if (indices != nullptr && !indices->is_null())
        return Failure{ExitCode::bad_data,
                       format_text("{} is a selection of other data; save flatten_indices() of it",
                                   folder.string())};
    Files files;
    for (const text::Value& entry : *listed->list())
        if (const text::Value* name = entry.find("filename"); name != nullptr && name->string()) {
            if (auto failure = check_inside(folder / "state.json", *name->string()))
                return *failure;
            files.push_back(folder / *name->string());
        }
    const text::Value* split = state.value().find("_split");
    const std::string name = split && split->string() ? *split->string() : "train";
    return choose_split(dataset, {{name, files}});
}

Expected<Files> files_in_folder(const DatasetName& dataset, const fs::path& folder,
                                const Finder& finder) {
    if (!dataset.data_files.empty())
        return choose_split(dataset,
                            by_split(finder.matching_any(folder, dataset.data_files), folder));
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
        for (const std::string& pattern : patterns)
            if (auto failure = check_inside(folder / "README.md", pattern)) return *failure;
        const Files files = finder.matching_any(folder, patterns);
        splits[split].insert(splits[split].end(), files.begin(), files.end());
    }
    if (!splits.empty()) return choose_split(dataset, splits);
    const fs::path root = dataset.config.empty() ? folder : folder / dataset.config;
    if (!is_directory(root))
        return Failure{ExitCode::missing_input,
                       format_text("dataset_config = {}: {} has neither such a configuration in "
                                   "its README.md nor such a folder",
                                   dataset.config, folder.string())};
    return choose_split(dataset, by_split(finder.below(root), root));
}

// Returns the newest folder in the cache of load_dataset():
// owner___name/config/version/hash/*.arrow.
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

// Returns true for a path that cannot be the name of a hub dataset.
bool looks_like_file(const fs::path& path) {
    static constexpr std::array packed{".gz", ".zst", ".zip"};
    const std::string ending = path.extension().string();
    return kind_of_ending(ending) || std::ranges::find(packed, ending) != packed.end() ||
           (path.has_parent_path() && folder_exists(path.parent_path()));
}

Expected<Files> find_on_hub(const DatasetName& dataset, const HubCache& hub, const Finder& finder) {
    const auto snapshot = hub.find(HubCache::Kind::dataset, dataset.path, "main", dataset.setting);
    if (snapshot) return files_in_folder(dataset, snapshot.value(), finder);
    if (const auto folder = converted_dataset(dataset, hub)) {
        DatasetName converted = dataset;
        converted.config.clear();
        return files_in_folder(converted, *folder, finder);
    }
    return snapshot.failure();
}

Expected<Files> find_files(const DatasetName& dataset, const HubCache& hub, const Finder& finder) {
    const fs::path path(dataset.path);
    if (folder_exists(path)) return files_in_folder(dataset, path, finder);
    if (file_exists(path)) return choose_split(dataset, {{"train", {path}}});
    if (is_pattern(dataset.path)) {
        const Files files = finder.matching_any("", {dataset.path});
        if (!files.empty()) return choose_split(dataset, by_split(files, root_of(path)));
        return Failure{ExitCode::missing_input,
                       format_text("{} = {}: no file matches it", dataset.setting, dataset.path)};
    }
    const Failure missing{
        ExitCode::missing_input,
        format_text("{} = {}: there is no such file or folder", dataset.setting, dataset.path)};
    if (!looks_like_repository(dataset.path)) return missing;
    auto found = find_on_hub(dataset, hub, finder);
    const bool is_missing = !found && found.failure().code == ExitCode::missing_input;
    return is_missing && looks_like_file(path) ? missing : found;
}

}  // namespace

std::string shown_name(const DatasetName& dataset) {
    return with_escapes(dataset.path == "." && !dataset.data_files.empty()
                            ? join(dataset.data_files, ", ")
                            : dataset.path);
}

Expected<Files> find_dataset_files(const DatasetName& dataset, const HubCache& hub,
                                   std::vector<std::string>& warnings) {
    auto files = find_files(dataset, hub, Finder(warnings));
    if (!files) return files;
    std::error_code ignored;
    for (const fs::path& file : files.value())
        if (file_exists(file) && !fs::is_regular_file(file, ignored))
            return Failure{ExitCode::bad_data,
                           format_text("{} = {}: {} is not a regular file; rows are read from "
                                       "regular files, not from pipes and devices",
                                       dataset.setting, shown_name(dataset), file.string())};
    return files;
}

}  // namespace ringshard::data
