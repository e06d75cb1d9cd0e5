#include "ringshard/base/hub_cache.hpp"

#include <algorithm>
#include <cctype>

#include "ringshard/base/files.hpp"

namespace ringshard {

namespace {

std::filesystem::path folder_of(const Environment& environment, const char* name,
                                std::filesystem::path otherwise) {
    const auto set = environment.find(name);
    return set && !set->empty() ? std::filesystem::path(*set) : std::move(otherwise);
}

}  // namespace

HubCache::HubCache(const Environment& environment) {
    const std::filesystem::path user = environment.find("HOME").value_or("/");
    const auto cache = folder_of(environment, "XDG_CACHE_HOME", user / ".cache");
    home_ = folder_of(environment, "HF_HOME", cache / "huggingface");
    hub_ = folder_of(environment, "HF_HUB_CACHE",
                     folder_of(environment, "HUGGINGFACE_HUB_CACHE", home_ / "hub"));
    datasets_ = folder_of(environment, "HF_DATASETS_CACHE", home_ / "datasets");
}

bool looks_like_repository(const std::string& name) {
    const auto is_allowed = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
               c == '.' || c == '/';
    };
    return !name.empty() && std::ranges::all_of(name, is_allowed) && name.front() != '/' &&
           name.front() != '.' && name.back() != '/' && std::ranges::count(name, '/') <= 1;
}

Expected<std::filesystem::path> HubCache::find(Kind kind, const std::string& repository,
                                               const std::string& revision,
                                               const std::string& setting) const {
    std::string folder = kind == Kind::model ? "models--" : "datasets--";
    for (const char c : repository) folder += c == '/' ? "--" : std::string(1, c);
    const std::filesystem::path root = hub_ / folder;
    const auto named = read_file(root / "refs" / revision);
    const std::string commit = named ? std::string(trim(*named)) : revision;
    const std::filesystem::path snapshot = root / "snapshots" / commit;
    if (folder_exists(snapshot)) return snapshot;
    return Failure{
        ExitCode::missing_input,
        format_text("{} = {}: there is no such file or folder, and {} holds no snapshot of "
                    "revision {}; where there is a network, run: hf download {}{}{}",
                    setting, repository, root.string(), revision,
                    kind == Kind::dataset ? "--repo-type dataset " : "",
                    revision == "main" ? "" : format_text("--revision {} ", revision), repository)};
}

Expected<std::filesystem::path> HubCache::model_folder(const std::string& name,
                                                       const std::string& revision,
                                                       const std::string& setting) const {
    if (name.empty())
        return Failure{
            ExitCode::settings,
            format_text("{} is not set: name the folder of a model, or a hub model", setting)};
    if (folder_exists(name)) return std::filesystem::path(name);
    if (file_exists(name))
        return Failure{ExitCode::missing_input,
                       format_text("{} = {}: is a file, not the folder of a model", setting, name)};
    if (looks_like_repository(name)) return find(Kind::model, name, revision, setting);
    return Failure{ExitCode::missing_input,
                   format_text("{} = {}: there is no such folder", setting, name)};
}

}  // namespace ringshard
