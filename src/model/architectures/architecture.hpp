#pragma once

#include "../config_reader.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// A family of models, by its two names in transformers, and the function that reads its
// config.json. The function complains to the reader if a field asks for an unsupported feature.
struct Architecture {
    const char* name;
    const char* model_type;
    ModelSpec (*read)(ConfigReader& config);
};

// Listed in table.cpp.
ModelSpec read_apertus(ConfigReader& config);
ModelSpec read_arcee(ConfigReader& config);
ModelSpec read_bamba(ConfigReader& config);
ModelSpec read_cohere(ConfigReader& config);
ModelSpec read_cohere2(ConfigReader& config);
ModelSpec read_cwm(ConfigReader& config);
ModelSpec read_deepseek_v2(ConfigReader& config);
ModelSpec read_deepseek_v3(ConfigReader& config);
ModelSpec read_dots1(ConfigReader& config);
ModelSpec read_ernie4_5(ConfigReader& config);
ModelSpec read_ernie4_5_moe(ConfigReader& config);
ModelSpec read_exaone4(ConfigReader& config);
ModelSpec read_exaone_moe(ConfigReader& config);
ModelSpec read_falcon_h1(ConfigReader& config);
ModelSpec read_flex_olmo(ConfigReader& config);
ModelSpec read_gemma(ConfigReader& config);
ModelSpec read_gemma2(ConfigReader& config);
ModelSpec read_gemma3(ConfigReader& config);
ModelSpec read_glm(ConfigReader& config);
ModelSpec read_glm4(ConfigReader& config);
ModelSpec read_glm4_moe(ConfigReader& config);
ModelSpec read_glm4_moe_lite(ConfigReader& config);
ModelSpec read_gpt_neox(ConfigReader& config);
ModelSpec read_gpt_oss(ConfigReader& config);
ModelSpec read_granite(ConfigReader& config);
ModelSpec read_granitemoe(ConfigReader& config);
ModelSpec read_granitemoehybrid(ConfigReader& config);
ModelSpec read_helium(ConfigReader& config);
ModelSpec read_hunyuan_v1_dense(ConfigReader& config);
ModelSpec read_hunyuan_v1_moe(ConfigReader& config);
ModelSpec read_hyperclovax(ConfigReader& config);
ModelSpec read_jais2(ConfigReader& config);
ModelSpec read_lfm2(ConfigReader& config);
ModelSpec read_lfm2_moe(ConfigReader& config);
ModelSpec read_llama(ConfigReader& config);
ModelSpec read_ministral(ConfigReader& config);
ModelSpec read_llava(ConfigReader& config);
ModelSpec read_ministral3(ConfigReader& config);
ModelSpec read_mistral(ConfigReader& config);
ModelSpec read_mistral3(ConfigReader& config);
ModelSpec read_mixtral(ConfigReader& config);
ModelSpec read_nemotron(ConfigReader& config);
ModelSpec read_olmo(ConfigReader& config);
ModelSpec read_olmo2(ConfigReader& config);
ModelSpec read_olmo3(ConfigReader& config);
ModelSpec read_olmoe(ConfigReader& config);
ModelSpec read_phi(ConfigReader& config);
ModelSpec read_phi3(ConfigReader& config);
ModelSpec read_qwen2(ConfigReader& config);
ModelSpec read_qwen2_5_vl(ConfigReader& config);
ModelSpec read_qwen2_moe(ConfigReader& config);
ModelSpec read_qwen3(ConfigReader& config);
ModelSpec read_qwen3_5(ConfigReader& config);
ModelSpec read_qwen3_5_moe(ConfigReader& config);
ModelSpec read_qwen3_next(ConfigReader& config);
ModelSpec read_qwen3_vl(ConfigReader& config);
ModelSpec read_wrapped_qwen3_5(ConfigReader& config);
ModelSpec read_wrapped_qwen3_5_moe(ConfigReader& config);
ModelSpec read_qwen3_moe(ConfigReader& config);
ModelSpec read_seed_oss(ConfigReader& config);
ModelSpec read_smollm3(ConfigReader& config);
ModelSpec read_solar_open(ConfigReader& config);
ModelSpec read_stablelm(ConfigReader& config);
ModelSpec read_starcoder2(ConfigReader& config);
ModelSpec read_vaultgemma(ConfigReader& config);
ModelSpec read_wrapped_gemma3(ConfigReader& config);

// Returns the architecture that `architectures` and `model_type` name; one of them is enough.
// Complains to `config`, and returns nullptr, where they name none, or two different ones.
const Architecture* find_architecture(ConfigReader& config);

// Returns the text model that a text_config names, which may have no class of its own; nullptr
// if no text model has this name.
const Architecture* find_text_architecture(const std::string& model_type);
// Returns the names of all text models.
std::string text_architectures();

// Returns a config.json with both fields: transformers cannot load one without model_type, and
// other readers look for architectures. One that has both stays as it is, byte for byte.
std::string with_architecture(const std::string& config_json, const Architecture& architecture);

}  // namespace ringshard::model
