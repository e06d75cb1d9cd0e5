#include "glob.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace ringshard::data {

namespace fs = std::filesystem;

bool is_pattern(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

namespace {

class Walk {
public:
    explicit Walk(std::vector<std::string> parts) : parts_(std::move(parts)) {}

    // Follows the pattern from its part `at` on.
    void follow(const fs::path& folder, size_t at) {
        if (at == parts_.size()) return;
        const std::string& part = parts_[at];
        const bool is_last = at + 1 == parts_.size();
        if (part == "**") return follow_below(folder, at);
        if (!is_pattern(part)) {
            std::error_code error;
            const fs::directory_entry entry(folder / part, error);
            if (!error) take(entry, at + 1, is_last);
            return;
        }
        for (const fs::directory_entry& entry : list(folder))
            if (fnmatch(part.c_str(), entry.path().filename().c_str(), 0) == 0)
                take(entry, at + 1, is_last);
    }

    FoundFiles found() {
        // Several expansions of ** may lead to one file.
        std::ranges::sort(found_.files);
        const auto rest = std::ranges::unique(found_.files);
        found_.files.erase(rest.begin(), rest.end());
        return std::move(found_);
    }

private:
    // ** matches no folder, or one folder and ** again; at the end it matches every file below.
    void follow_below(const fs::path& folder, size_t at) {
        const bool is_last = at + 1 == parts_.size();
        const fs::path real = canonical_of(folder);
        if (std::ranges::find(above_, real) != above_.end()) return;  // a cycle of symbolic links
        above_.push_back(real);
        if (!is_last) follow(folder, at + 1);
        for (const fs::directory_entry& entry : list(folder)) {
            if (is_folder(entry)) follow_below(entry.path(), at);
            if (is_last) take(entry, at + 1, true);
        }
        above_.pop_back();
    }

    void take(const fs::directory_entry& entry, size_t next, bool is_last) {
        std::error_code error;
        if (!is_last && is_folder(entry)) follow(entry.path(), next);
        if (is_last && entry.is_regular_file(error)) found_.files.push_back(entry.path());
    }

    std::vector<fs::directory_entry> list(const fs::path& folder) {
        std::vector<fs::directory_entry> entries;
        std::error_code error;
        fs::directory_iterator entry(folder, error);
        for (; !error && entry != fs::directory_iterator(); entry.increment(error))
            entries.push_back(*entry);
        if (error && error != std::errc::no_such_file_or_directory)
            found_.skipped.push_back(folder);
        return entries;
    }

    static bool is_folder(const fs::directory_entry& entry) {
        std::error_code error;
        return entry.is_directory(error);
    }
    static fs::path canonical_of(const fs::path& folder) {
        std::error_code error;
        return fs::canonical(folder, error);
    }

    std::vector<std::string> parts_;
    std::vector<fs::path> above_;  // folders above the current one, within **
    FoundFiles found_;
};

}  // namespace

FoundFiles find_matching(const fs::path& folder, const fs::path& pattern) {
    std::vector<std::string> parts;
    for (const fs::path& part : pattern)
        if (!part.empty() && part != ".") parts.push_back(part.string());
    Walk walk(std::move(parts));
    walk.follow(folder, 0);
    return walk.found();
}

}  // namespace ringshard::data
