#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/config/model_settings.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

std::string ModelSettings::overrides() const {
    ordered_json fields = ordered_json::object();
    if (!config_overrides.empty()) fields = json_or_null<ordered_json>(config_overrides);
    if (!rope_parameters.empty())
        fields["rope_parameters"] = json_or_null<ordered_json>(rope_parameters);
    if (max_position_embeddings) fields["max_position_embeddings"] = *max_position_embeddings;
    return fields.empty() ? "" : fields.dump();
}

}  // namespace ringshard::config
