#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ringshard::cli {

// The flags of a command that are its own and no settings, one after another: --name value or
// --name=value.
class OwnFlags {
public:
    explicit OwnFlags(const std::vector<std::string>& flags) : flags_(flags) {}
    bool next() {
        if (at_ == flags_.size()) return false;
        const std::string& flag = flags_[at_++];
        const size_t equals = flag.starts_with("--") ? flag.find('=') : std::string::npos;
        name = flag.substr(0, equals);
        written_ =
            equals == std::string::npos ? std::nullopt : std::optional(flag.substr(equals + 1));
        return true;
    }
    // As it stands, with its value if that is written into it.
    const std::string& whole() const { return flags_[at_ - 1]; }
    std::optional<std::string> value() {
        if (written_ || at_ == flags_.size()) return written_;
        return flags_[at_++];
    }
    std::vector<std::string> rest() {
        return {flags_.begin() + static_cast<std::ptrdiff_t>(at_), flags_.end()};
    }

    std::string name;

private:
    const std::vector<std::string>& flags_;
    size_t at_ = 0;
    std::optional<std::string> written_;
};

}  // namespace ringshard::cli
