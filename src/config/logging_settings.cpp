#include "ringshard/config/logging_settings.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::config {

std::optional<StepRange> LoggingSettings::steps_to_profile() const {
    const size_t hyphen = profile_steps.find('-');
    if (hyphen == std::string::npos) return std::nullopt;
    const auto first = read_whole_number(profile_steps.substr(0, hyphen));
    const auto last = read_whole_number(profile_steps.substr(hyphen + 1));
    if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
    return StepRange{*first, *last};
}

}  // namespace ringshard::config
