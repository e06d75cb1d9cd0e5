#pragma once

#include <array>

namespace ringshard::hub {

// The files that belong beside the weights in a model's folder, where it has them.
inline constexpr std::array sidecar_files{
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "chat_template.jinja", "chat_template.json", "vocab.json",
    "merges.txt", "tokenizer.model", "tekken.json", "preprocessor_config.json",
    "processor_config.json", "video_preprocessor_config.json",
    // Those of sentence-transformers.
    "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
    "1_Pooling/config.json"};

}  // namespace ringshard::hub
