#include "ringshard/checkpoint/fork.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/hash.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::checkpoint {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* parent_name = "parent.json";
constexpr const char* notes_name = "forks";  // a folder, with a file of each run

// Returns a file of two members, a path and a step.
std::optional<Parent> read_record(const fs::path& file, const char* path_name) {
    const auto read = json_or_null<ordered_json>(read_file(file).value_or(""));
    if (!read.is_object()) return std::nullopt;
    const ordered_json path = read.value(path_name, ordered_json());
    const ordered_json step = read.value("step", ordered_json());
    if (!path.is_string() || !step.is_number_integer()) return std::nullopt;
    return Parent{path.get<std::string>(), step.get<int64_t>()};
}

std::optional<Failure> write_record(const fs::path& file, const char* path_name,
                                    const Parent& record) {
    return write_file_atomically(
        file, ordered_json{{path_name, record.checkpoint.string()}, {"step", record.step}}.dump(
                  2, ' ', false, ordered_json::error_handler_t::replace) +
                  "\n");
}

bool has_checkpoints(const fs::path& output_dir) {
    std::error_code ignored;
    return std::ranges::any_of(folder_entries(output_dir, ignored), [](const fs::path& entry) {
        return file_exists(entry / manifest_name);
    });
}

}  // namespace

std::optional<Parent> read_parent(const fs::path& output_dir) {
    return read_record(output_dir / parent_name, "checkpoint");
}

std::optional<Failure> record_parent(const fs::path& output_dir, const Parent& parent) {
    return write_record(output_dir / parent_name, "checkpoint", parent);
}

std::optional<Failure> note_use(const Parent& parent, const fs::path& output_dir) {
    const fs::path child = fs::absolute(output_dir).lexically_normal();
    const fs::path notes = parent.checkpoint.parent_path() / notes_name;
    std::error_code error;
    fs::create_directory(notes, error);
    if (error)
        return Failure{ExitCode::io,
                       format_text("{} cannot be made: {}", notes.string(), error.message())};
    return write_record(notes / format_text("{}.json", hash_of(child.string())), "output_dir",
                        {child, parent.step});
}

std::set<int64_t> steps_in_use(const fs::path& output_dir) {
    std::set<int64_t> steps;
    std::error_code ignored;
    for (const fs::path& file : folder_entries(output_dir / notes_name, ignored)) {
        const auto child = read_record(file, "output_dir");
        if (!child) continue;
        if (!folder_exists(child->checkpoint) || has_checkpoints(child->checkpoint))
            fs::remove(file, ignored);
        else
            steps.insert(child->step);
    }
    return steps;
}

}  // namespace ringshard::checkpoint
