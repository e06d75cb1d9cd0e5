#pragma once

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "ringshard/base/text.hpp"
#include "ringshard/config/resolve.hpp"

// Settings resolved from flags, variables and files as the program does, and what came of it.
namespace ringshard::test {

using config::Resolution;

inline const config::OptionTable table;

// A file that goes away with its owner.
class TemporaryFile {
public:
    TemporaryFile(const std::string& name, const std::string& content)
        : path_(std::filesystem::temp_directory_path() /
                format_text("ringshard_test_{}_{}", getpid(), name)) {
        std::ofstream(path_) << content;
    }
    ~TemporaryFile() { std::filesystem::remove(path_); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

inline Resolution resolve(const std::vector<std::string>& flags,
                          std::map<std::string, std::string> variables = {}) {
    return config::resolve(table, flags, Environment(std::move(variables)));
}

inline config::Config values(const std::vector<std::string>& flags,
                             std::map<std::string, std::string> variables = {}) {
    const Resolution resolution = resolve(flags, std::move(variables));
    for (const Failure& problem : resolution.problems) BOOST_ERROR(problem.message);
    return resolution.settings.values;
}

// The one problem there is, and its exit code.
inline Failure problem(const std::vector<std::string>& flags,
                       std::map<std::string, std::string> variables = {}) {
    const Resolution resolution = resolve(flags, std::move(variables));
    BOOST_TEST(resolution.problems.size() == 1U);
    return resolution.problems.empty() ? Failure{ExitCode::done, ""} : resolution.problems.front();
}

inline bool says(const Failure& failure, const std::string& words) {
    if (failure.message.find(words) != std::string::npos) return true;
    BOOST_TEST_MESSAGE(failure.message);
    return false;
}

inline bool has_note(const Resolution& resolution, const std::string& words) {
    for (const std::string& note : resolution.notes)
        if (note.find(words) != std::string::npos) return true;
    return false;
}

}  // namespace ringshard::test
