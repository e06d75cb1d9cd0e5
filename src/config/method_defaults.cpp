#include "method_defaults.hpp"

namespace ringshard::config {

Statements method_defaults(const std::string& method) {
    if (method != "dpo") return {};
    const Origin origin{Strength::imported_default, "default of dpo"};
    return {{"loss_type", "sigmoid", origin},
            {"beta", "0.1", origin},
            {"learning_rate", "1e-6", origin}};
}

}  // namespace ringshard::config
