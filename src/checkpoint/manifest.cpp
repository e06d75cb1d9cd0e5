#include "ringshard/checkpoint/manifest.hpp"

#include <nlohmann/json.hpp>

#include "manifest_json.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

const char* const format = "ringshard checkpoint";
constexpr int64_t format_version = 2;

}  // namespace

std::string checkpoint_name(int64_t step) { return format_text("checkpoint-{}", step); }

bool is_checkpoint(const std::filesystem::path& folder) {
    return file_exists(folder / state_name) && file_exists(folder / manifest_name);
}

std::string to_text(const std::vector<WrittenRange>& ranges) { return print_ranges(ranges); }
std::vector<WrittenRange> ranges_from_text(const std::string& text) {
    return parse_ranges(text).value();
}

std::string to_text(const Manifest& manifest) {
    std::string text = json{{"format", format},
                            {"version", format_version},
                            {"step", manifest.step},
                            {"attempt", manifest.attempt},
                            {"moments", manifest.has_moments},
                            {"files", manifest.file_sizes},
                            {"frames", manifest.metadata_hashes},
                            {"hashes", manifest.file_hashes}}
                           .dump(1);
    text.resize(text.rfind('\n'));  // append the ranges before the end of the object
    return text + ",\n \"ranges\": " + print_ranges(manifest.ranges) + "\n}\n";
}

std::string to_text(const CheckpointInfo& info) {
    return json{
               {"format", format},        {"version", format_version},   {"step", info.step},
               {"attempt", info.attempt}, {"moments", info.has_moments}, {"files", info.file_sizes}}
               .dump(1) +
           "\n";
}

namespace {

Failure damaged(const std::filesystem::path& folder, const std::string& what) {
    return {ExitCode::bad_data, format_text("{}: {}", folder.string(), what)};
}

std::optional<Failure> check_version(const std::filesystem::path& folder, const char* file,
                                     const std::string& its_format, int64_t version) {
    if (its_format != format)
        return damaged(folder, format_text("{} is not of a checkpoint", file));
    if (version != format_version)
        return damaged(folder, format_text("is of format version {}, and this program reads {}",
                                           version, format_version));
    return std::nullopt;
}

// Checks that the folder has the name of the step, and that files have their sizes.
std::optional<Failure> check_folder(const std::filesystem::path& folder, int64_t step,
                                    const std::map<std::string, int64_t>& file_sizes) {
    if (folder.filename() != checkpoint_name(step))
        return damaged(folder, format_text("holds step {}, which its name does not say", step));
    for (const auto& [name, size] : file_sizes) {
        std::error_code error;
        const auto found = std::filesystem::file_size(folder / name, error);
        if (error) return damaged(folder, format_text("{} is missing", name));
        if (static_cast<int64_t>(found) != size)
            return damaged(folder, format_text("{} has {} bytes instead of {}", name, found, size));
    }
    return std::nullopt;
}

std::optional<int64_t> whole_number(const json& value) {
    return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

// Parses checkpoint.json without checking the rest of the folder.
Expected<CheckpointInfo> parse_info(const std::filesystem::path& folder, const std::string& text) {
    const json read = json_or_null<json>(text);
    if (!read.is_object()) return damaged(folder, "checkpoint.json cannot be read");
    const auto field = [&](const char* name) { return read.value(name, json()); };
    const json its_format = field("format");
    if (auto failure = check_version(folder, info_name,
                                     its_format.is_string() ? its_format.get<std::string>() : "",
                                     whole_number(field("version")).value_or(0)))
        return *failure;
    const auto step = whole_number(field("step"));
    const auto attempt = whole_number(field("attempt"));
    const json moments = field("moments");
    const json files = field("files");
    if (!step || !attempt || !moments.is_boolean() || !files.is_object())
        return damaged(folder, "checkpoint.json lacks step, attempt, moments or files");
    CheckpointInfo info{*step, *attempt, moments.get<bool>(), {}};
    for (const auto& [name, size] : files.items()) {
        if (!whole_number(size))
            return damaged(folder, "checkpoint.json: " + name + " has no size");
        info.file_sizes[name] = *whole_number(size);
    }
    return info;
}

}  // namespace

namespace {

Failure no_manifest(const std::filesystem::path& folder) {
    const bool is_of_transformers =
        file_exists(folder / "trainer_state.json") && !file_exists(folder / state_name);
    return damaged(folder,
                   is_of_transformers
                       ? "is a checkpoint of transformers or TRL (it has no state.h5), and "
                         "no run can go on from its optimizer state; name it as "
                         "model_name_or_path, with --resume_from_checkpoint never, to begin "
                         "a run with its weights"
                       : "has no manifest.json: it was never finished");
}

// Only files of the checkpoint have hashes.
std::optional<Failure> check_names(const std::filesystem::path& folder, const Manifest& manifest) {
    for (const auto* hashes : {&manifest.metadata_hashes, &manifest.file_hashes})
        for (const auto& [name, hash] : *hashes)
            if (!manifest.file_sizes.contains(name))
                return damaged(folder, format_text("manifest.json has a hash of {}, which is no "
                                                   "file of this checkpoint",
                                                   name));
    return std::nullopt;
}

}  // namespace

Expected<Manifest> read_manifest(const std::filesystem::path& folder) {
    const auto content = read_file(folder / manifest_name);
    if (!content) return no_manifest(folder);
    auto parsed = parse_manifest(*content);
    if (!parsed) return damaged(folder, format_text("manifest.json {}", parsed.failure().message));
    auto& [manifest, its_format, version] = parsed.value();
    if (auto failure = check_version(folder, manifest_name, its_format, version)) return *failure;
    if (auto failure = check_folder(folder, manifest.step, manifest.file_sizes)) return *failure;
    if (auto failure = check_names(folder, manifest)) return *failure;
    if (const auto text = read_file(folder / info_name)) {
        const auto info = parse_info(folder, *text);
        if (!info) return info.failure();
        if (info.value().step != manifest.step || info.value().attempt != manifest.attempt ||
            info.value().has_moments != manifest.has_moments)
            return damaged(folder,
                           "checkpoint.json and manifest.json are not of the same checkpoint");
    }
    return std::move(manifest);
}

Expected<CheckpointInfo> read_info(const std::filesystem::path& folder) {
    const auto text = read_file(folder / info_name);
    if (!text) {
        const auto manifest = read_manifest(folder);
        if (!manifest) return manifest.failure();
        return CheckpointInfo{manifest.value().step, manifest.value().attempt,
                              manifest.value().has_moments, manifest.value().file_sizes};
    }
    auto info = parse_info(folder, *text);
    if (!info) return info;
    if (!file_exists(folder / manifest_name)) return no_manifest(folder);
    if (auto failure = check_folder(folder, info.value().step, info.value().file_sizes))
        return *failure;
    return info;
}

}  // namespace ringshard::checkpoint
