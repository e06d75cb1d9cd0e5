#pragma once

#include <filesystem>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/expected.hpp"

namespace ringshard {

// Reads the cache of the user's Hugging Face tools. It downloads nothing: compute nodes have no
// network.
class HubCache {
public:
    // HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub; HF_DATASETS_CACHE alike.
    explicit HubCache(const Environment& environment);

    enum class Kind { model, dataset };
    // The folder of a repository "owner/name" at a revision. A failure names the command to run
    // where there is a network; `setting` is what named the repository.
    Expected<std::filesystem::path> find(Kind kind, const std::string& repository,
                                         const std::string& revision,
                                         const std::string& setting) const;

    // The folder of a model: the name itself, or where the cache has it.
    Expected<std::filesystem::path> model_folder(const std::string& name,
                                                 const std::string& revision,
                                                 const std::string& setting) const;

    // The folder in which `datasets` keeps the Arrow files that it has made.
    const std::filesystem::path& datasets() const { return datasets_; }
    // ~/.cache/huggingface or HF_HOME.
    const std::filesystem::path& home() const { return home_; }

private:
    std::filesystem::path home_;
    std::filesystem::path hub_;
    std::filesystem::path datasets_;
};

// "owner/name" or "name", as repositories are called; no path with more parts.
bool looks_like_repository(const std::string& name);

}  // namespace ringshard
