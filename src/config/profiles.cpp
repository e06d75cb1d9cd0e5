#include "profiles.hpp"

#include <filesystem>

#include "ringshard/config/resolve.hpp"
#include "settings_file.hpp"

namespace ringshard::config {

namespace {

const BuiltinProfile* find_builtin(std::string_view name) {
    for (const BuiltinProfile& profile : builtin_profiles())
        if (profile.name == name) return &profile;
    return nullptr;
}

// Finds the profile for a path of TRL's examples/accelerate_configs/, which holds the same
// profiles, some under longer names. So TRL's commands work in any folder.
const BuiltinProfile* find_trl_example(const std::filesystem::path& path) {
    if (path.parent_path().filename() != "accelerate_configs") return nullptr;
    std::string name = path.stem().string();
    if (name.starts_with("deepspeed_")) name = name.substr(std::string_view("deepspeed_").size());
    return find_builtin(name);
}

Statements read_builtin(const OptionTable& table, const BuiltinProfile& profile,
                        Problems& problems) {
    return read_settings_text(table, std::string(profile.yaml), Strength::profile,
                              format_text("profile {}", profile.name), problems);
}

}  // namespace

std::vector<std::string> profile_names() {
    std::vector<std::string> names;
    for (const BuiltinProfile& profile : builtin_profiles()) names.emplace_back(profile.name);
    return names;
}

Statements read_profile(const OptionTable& table, const Statement& written,
                        std::vector<std::string>& notes, Problems& problems) {
    if (const BuiltinProfile* profile = find_builtin(written.text))
        return read_builtin(table, *profile, problems);
    const std::filesystem::path path(written.text);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored))
        return read_settings_file(table, path, Strength::profile, problems);
    if (const BuiltinProfile* profile = find_trl_example(path)) {
        notes.push_back(format_text("{} is not here: the built-in profile {} is used", written.text,
                                    profile->name));
        return read_builtin(table, *profile, problems);
    }
    const std::string nearest = nearest_name(written.text, profile_names());
    problems.push_back(
        complaint(written,
                  format_text("there is no such profile or file{} Built in are: {}",
                              nearest.empty() ? "." : format_text("; did you mean {}?", nearest),
                              join(profile_names(), ", ")),
                  path.has_extension() ? ExitCode::missing_input : ExitCode::settings));
    return {};
}

}  // namespace ringshard::config
