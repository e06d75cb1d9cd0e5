#include "method_defaults.hpp"

namespace ringshard::config {

Statements method_defaults(const std::string& method) {
    const Origin origin{Strength::imported_default, "default of " + method};
    if (method == "reward")
        return {{"learning_rate", "1e-4", origin}, {"truncation_mode", "drop", origin}};
    if (method == "embedding")
        return {{"learning_rate", "5e-5", origin}, {"temperature", "0.05", origin}};
    if (method != "dpo" && method != "cpo" && method != "kto") return {};
    Statements defaults{{"loss_type", method == "kto" ? "kto" : "sigmoid", origin},
                        {"beta", "0.1", origin},
                        {"learning_rate", "1e-6", origin}};
    if (method == "kto") defaults.push_back({"train_sampling_strategy", "sequential", origin});
    return defaults;
}

}  // namespace ringshard::config
