#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ringshard {

// The process environment as it was when the program began: a value, so that its readers can be
// tested, and nothing reads it behind anyone's back.
class Environment {
public:
    using Variables = std::map<std::string, std::string>;

    Environment() = default;
    explicit Environment(Variables variables) : variables_(std::move(variables)) {}
    static Environment of_this_process();

    std::optional<std::string> find(std::string_view name) const;
    const Variables& all() const { return variables_; }

private:
    Variables variables_;
};

}  // namespace ringshard
