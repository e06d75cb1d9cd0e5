#include "ringshard/base/environment.hpp"

#include <unistd.h>

namespace ringshard {

Environment Environment::of_this_process() {
    std::map<std::string, std::string> variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view line(*entry);
        const size_t equals = line.find('=');
        if (equals != std::string_view::npos)
            variables.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
    return Environment(std::move(variables));
}

std::optional<std::string> Environment::find(std::string_view name) const {
    const auto found = variables_.find(std::string(name));
    if (found == variables_.end()) return std::nullopt;
    return found->second;
}

}  // namespace ringshard
