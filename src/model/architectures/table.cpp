#include "architecture.hpp"
#include "ringshard/base/parse_json.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

constexpr Architecture architectures[] = {
    {"LlamaForCausalLM", "llama", read_llama},
    {"Qwen2ForCausalLM", "qwen2", read_qwen2},
    {"Qwen3ForCausalLM", "qwen3", read_qwen3},
    {"MistralForCausalLM", "mistral", read_mistral},
    {"Phi3ForCausalLM", "phi3", read_phi3},
    {"Olmo2ForCausalLM", "olmo2", read_olmo2},
    {"SmolLM3ForCausalLM", "smollm3", read_smollm3},
    {"SeedOssForCausalLM", "seed_oss", read_seed_oss},
    {"Ernie4_5ForCausalLM", "ernie4_5", read_ernie4_5},
    {"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", read_hunyuan_v1_dense},
    {"Olmo3ForCausalLM", "olmo3", read_olmo3},
    {"GraniteForCausalLM", "granite", read_granite},
    {"GemmaForCausalLM", "gemma", read_gemma},
    {"Gemma2ForCausalLM", "gemma2", read_gemma2},
    {"Gemma3ForCausalLM", "gemma3_text", read_gemma3},
    {"GlmForCausalLM", "glm", read_glm},
    {"Glm4ForCausalLM", "glm4", read_glm4},
    {"CohereForCausalLM", "cohere", read_cohere},
    {"Cohere2ForCausalLM", "cohere2", read_cohere2},
    {"Ministral3ForCausalLM", "ministral3", read_ministral3},
    {"Exaone4ForCausalLM", "exaone4", read_exaone4},
    {"Starcoder2ForCausalLM", "starcoder2", read_starcoder2},
    {"StableLmForCausalLM", "stablelm", read_stablelm},
    {"NemotronForCausalLM", "nemotron", read_nemotron},
    {"PhiForCausalLM", "phi", read_phi},
    {"MinistralForCausalLM", "ministral", read_ministral},
    {"ArceeForCausalLM", "arcee", read_arcee},
    {"CwmForCausalLM", "cwm", read_cwm},
    {"HeliumForCausalLM", "helium", read_helium},
    {"HyperCLOVAXForCausalLM", "hyperclovax", read_hyperclovax},
    {"Jais2ForCausalLM", "jais2", read_jais2},
    {"GPTNeoXForCausalLM", "gpt_neox", read_gpt_neox},
    {"OlmoForCausalLM", "olmo", read_olmo},
    {"VaultGemmaForCausalLM", "vaultgemma", read_vaultgemma},
    {"Qwen3NextForCausalLM", "qwen3_next", read_qwen3_next},
    {"Qwen3_5ForCausalLM", "qwen3_5_text", read_qwen3_5},
    // Wrapped text models.
    {"Gemma3ForConditionalGeneration", "gemma3", read_wrapped_gemma3},
    {"Mistral3ForConditionalGeneration", "mistral3", read_mistral3},
    {"Qwen3VLForConditionalGeneration", "qwen3_vl", read_qwen3_vl},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", read_qwen2_5_vl},
    {"Qwen3_5ForConditionalGeneration", "qwen3_5", read_wrapped_qwen3_5},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", read_wrapped_qwen3_5_moe},
    {"LlavaForConditionalGeneration", "llava", read_llava},
    {"Qwen3MoeForCausalLM", "qwen3_moe", read_qwen3_moe},
    {"MixtralForCausalLM", "mixtral", read_mixtral},
    {"OlmoeForCausalLM", "olmoe", read_olmoe},
    {"GptOssForCausalLM", "gpt_oss", read_gpt_oss},
    {"GraniteMoeForCausalLM", "granitemoe", read_granitemoe},
    {"GraniteMoeHybridForCausalLM", "granitemoehybrid", read_granitemoehybrid},
    {"BambaForCausalLM", "bamba", read_bamba},
    {"Glm4MoeForCausalLM", "glm4_moe", read_glm4_moe},
    {"Ernie4_5_MoeForCausalLM", "ernie4_5_moe", read_ernie4_5_moe},
    {"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", read_qwen3_5_moe},
    {"ApertusForCausalLM", "apertus", read_apertus},
    {"Qwen2MoeForCausalLM", "qwen2_moe", read_qwen2_moe},
    {"Dots1ForCausalLM", "dots1", read_dots1},
    {"FlexOlmoForCausalLM", "flex_olmo", read_flex_olmo},
    {"SolarOpenForCausalLM", "solar_open", read_solar_open},
    {"ExaoneMoeForCausalLM", "exaone_moe", read_exaone_moe},
    {"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", read_hunyuan_v1_moe},
    {"Lfm2ForCausalLM", "lfm2", read_lfm2},
    {"Lfm2MoeForCausalLM", "lfm2_moe", read_lfm2_moe},
    {"FalconH1ForCausalLM", "falcon_h1", read_falcon_h1},
    {"DeepseekV2ForCausalLM", "deepseek_v2", read_deepseek_v2},
    {"DeepseekV3ForCausalLM", "deepseek_v3", read_deepseek_v3},
    {"Glm4MoeLiteForCausalLM", "glm4_moe_lite", read_glm4_moe_lite},
};

// Text models that transformers has as parts of others only.
constexpr Architecture parts_of_others[] = {
    {nullptr, "qwen3_vl_text", read_qwen3},
    {nullptr, "qwen2_5_vl_text", read_qwen2},
};

bool is_wrapper(const Architecture& architecture) {
    return std::string_view(architecture.name).ends_with("ForConditionalGeneration");
}

std::string names_of(const char* Architecture::*field) {
    std::vector<std::string> names;
    for (const Architecture& architecture : architectures) names.emplace_back(architecture.*field);
    return join(names, ", ");
}

const Architecture* find(const char* Architecture::*field, const std::string& name) {
    for (const Architecture& architecture : architectures)
        if (name == architecture.*field) return &architecture;
    return nullptr;
}

// Returns the first of the list, or an empty text.
std::string first_architecture(const auto& config) {
    const auto list = config.value("architectures", json());
    return list.is_array() && !list.empty() && list.front().is_string()
               ? list.front().template get<std::string>()
               : std::string();
}

}  // namespace

const Architecture* find_architecture(ConfigReader& config) {
    const std::string name = first_architecture(config.content());
    const std::string type = config.word("model_type", "");
    const Architecture* const by_name = find(&Architecture::name, name);
    const Architecture* const by_type = find(&Architecture::model_type, type);
    if (!name.empty() && by_name == nullptr)
        config.complain(format_text("architectures = [{}]: this program trains {}", name,
                                    names_of(&Architecture::name)));
    else if (!type.empty() && by_type == nullptr)
        config.complain(format_text("model_type = {}: this program trains {}", type,
                                    names_of(&Architecture::model_type)));
    else if (name.empty() && type.empty())
        config.complain(format_text(
            "names no model: add \"model_type\", which transformers needs as well, one of {}",
            names_of(&Architecture::model_type)));
    else if (by_name != nullptr && by_type != nullptr && by_name != by_type)
        config.complain(format_text(
            "architectures = [{}] and model_type = {} are different models; correct the wrong one",
            name, type));
    else
        return by_name != nullptr ? by_name : by_type;
    return nullptr;
}

std::string text_architectures() {
    std::vector<std::string> names;
    for (const Architecture& architecture : architectures)
        if (!is_wrapper(architecture)) names.emplace_back(architecture.model_type);
    for (const Architecture& part : parts_of_others) names.emplace_back(part.model_type);
    return join(names, ", ");
}

const Architecture* find_text_architecture(const std::string& model_type) {
    for (const Architecture& part : parts_of_others)
        if (model_type == part.model_type) return &part;
    const Architecture* const found = find(&Architecture::model_type, model_type);
    return found != nullptr && !is_wrapper(*found) ? found : nullptr;
}

std::string with_architecture(const std::string& config_json, const Architecture& architecture) {
    nlohmann::ordered_json config = parse_json<nlohmann::ordered_json>(config_json).value();
    const bool has_name = !first_architecture(config).empty();
    const bool has_type = config.contains("model_type") && config["model_type"].is_string();
    if (has_name && has_type) return config_json;
    if (!has_name) config["architectures"] = {architecture.name};
    if (!has_type) config["model_type"] = architecture.model_type;
    return config.dump(2) + "\n";
}

}  // namespace ringshard::model
