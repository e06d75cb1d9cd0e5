#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// The plain model, with biases of the attention where config.json asks for them.
static ModelSpec read_llama(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {});
    read_biases(config, spec);
    return spec;
}

static ModelSpec read_llava(ConfigReader& config) {
    return read_wrapped_model(config,
                              {.text_type = "llama", .tied = false, .may_tie_inside = true});
}

Family llama() {
    return {{"LlamaForCausalLM",
             "llama",
             read_llama,
             {.score_class = "LlamaForSequenceClassification",
              .usual = {{"vocab_size", 32000},
                        {"hidden_size", 4096},
                        {"intermediate_size", 11008},
                        {"num_hidden_layers", 32},
                        {"num_attention_heads", 32},
                        {"max_position_embeddings", 2048}},
              .peft = {.targets = {"q_proj", "v_proj"}}}},
            {"LlavaForConditionalGeneration", "llava", read_llava}};
}

}  // namespace ringshard::model::architectures
