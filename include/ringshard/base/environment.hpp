#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ringshard {

// The process environment as it was when the program began: a value, so that what reads it can be
// tested, and nothing reads it behind anyone's back.
class Environment {
public:
    Environment() = default;
    explicit Environment(std::map<std::string, std::string> variables)
        : variables_(std::move(variables)) {}
    static Environment of_this_process();

    std::optional<std::string> find(std::string_view name) const;
    const std::map<std::string, std::string>& all() const { return variables_; }

private:
    std::map<std::string, std::string> variables_;
};

}  // namespace ringshard
