#pragma once

#include <string>
#include <vector>

#include "../resolving.hpp"

// What tests of recipes share. `name` is that of the file: a script has the ending ".sh".
namespace ringshard::test {

inline config::Config of_recipe(const std::string& name, const std::string& text,
                                std::vector<std::string> flags = {}) {
    const TemporaryFile file(name, text);
    const bool is_script = name.ends_with(".sh");
    flags.insert(flags.begin(), {is_script ? "--from_shell" : "--config", file.path()});
    return values(flags);
}

inline Resolution resolution_of(const std::string& name, const std::string& text) {
    const TemporaryFile file(name, text);
    return resolve({name.ends_with(".sh") ? "--from_shell" : "--config", file.path()});
}

inline std::string origin_of(const Resolution& resolution, const std::string& setting) {
    return resolution.settings.origin_of(setting).place;
}

inline bool refuses(const std::string& name, const std::string& text, const std::string& words) {
    const Resolution resolution = resolution_of(name, text);
    for (const Failure& failure : resolution.problems)
        if (failure.message.find(words) != std::string::npos) return true;
    for (const Failure& failure : resolution.problems) BOOST_TEST_MESSAGE(failure.message);
    return false;
}

}  // namespace ringshard::test
