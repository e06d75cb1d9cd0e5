#include "ringshard/config/adapter_init.hpp"

#include "ringshard/base/text.hpp"

namespace ringshard::config {

std::optional<AdapterInit> read_adapter_init(const std::string& text) {
    using Kind = AdapterInit::Kind;
    const std::string word = lower_case(text);
    if (word == "true") return AdapterInit{Kind::uniform};
    if (word == "gaussian") return AdapterInit{Kind::normal};
    if (word == "pissa") return AdapterInit{Kind::pissa};
    if (word == "olora") return AdapterInit{Kind::olora};
    const std::string prefix = "pissa_niter_";
    if (!word.starts_with(prefix)) return std::nullopt;
    const auto iterations = read_whole_number(word.substr(prefix.size()));
    if (!iterations) return std::nullopt;
    return AdapterInit{Kind::pissa, *iterations};
}

}  // namespace ringshard::config
