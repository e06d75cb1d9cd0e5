#include "written_model.hpp"

namespace ringshard::cli {

model::StoredType find_written_type(const EngineCall& call,
                                    const std::map<std::string, std::string>& companions) {
    const std::string& wish = call.settings.values.model.dtype;
    const auto config = companions.find("config.json");
    bool is_bf16 = wish == "bfloat16";
    if (wish == "auto" && config != companions.end())
        is_bf16 = model::type_in_config(config->second) == model::StoredType::bf16;
    return call.world.maximum(is_bf16 ? 1 : 0) == 1 ? model::StoredType::bf16
                                                    : model::StoredType::fp32;
}

}  // namespace ringshard::cli
