#include "method_defaults.hpp"

namespace ringshard::config {

Statements method_defaults(const std::string& method) {
    const Origin origin{Strength::imported_default, "default of " + method};
    if (method == "reward")
        return {{"learning_rate", "1e-4", origin}, {"truncation_mode", "drop", origin}};
    if (method != "dpo" && method != "cpo") return {};
    return {{"loss_type", "sigmoid", origin},
            {"beta", "0.1", origin},
            {"learning_rate", "1e-6", origin}};
}

}  // namespace ringshard::config
