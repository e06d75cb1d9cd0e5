#include "sentence_files.hpp"

#include <nlohmann/json.hpp>

namespace ringshard::run {

namespace {

using nlohmann::ordered_json;

ordered_json module_of(int64_t number, const char* path, const char* type) {
    return {{"idx", number},
            {"name", std::to_string(number)},
            {"path", path},
            {"type", std::string("sentence_transformers.models.") + type}};
}

}  // namespace

void add_sentence_files(std::map<std::string, std::string>& files, config::Pooling pooling,
                        int64_t width) {
    const auto text = [](const ordered_json& content) { return content.dump(2) + "\n"; };
    const ordered_json modules{module_of(0, "", "Transformer"),
                               module_of(1, "1_Pooling", "Pooling"),
                               module_of(2, "2_Normalize", "Normalize")};
    // Under the names that all versions of the package read.
    const ordered_json pooled{{"word_embedding_dimension", width},
                              {"pooling_mode_cls_token", pooling == config::Pooling::cls},
                              {"pooling_mode_mean_tokens", pooling == config::Pooling::mean},
                              {"pooling_mode_max_tokens", false},
                              {"pooling_mode_mean_sqrt_len_tokens", false},
                              {"pooling_mode_weightedmean_tokens", false},
                              {"pooling_mode_lasttoken", pooling == config::Pooling::lasttoken},
                              {"include_prompt", true}};
    files.try_emplace("modules.json", text(modules));
    files["1_Pooling/config.json"] = text(pooled);
    files.try_emplace(
        "config_sentence_transformers.json",
        text({{"similarity_fn_name", "cosine"}, {"prompts", ordered_json::object()}}));
}

}  // namespace ringshard::run
