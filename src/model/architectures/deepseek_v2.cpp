#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// Routers of softmax, which choose among groups by the best expert of each.
static ExpertsSpec read_greedy_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_grouped_experts(config, spec, {.count = 64, .shared = 2});
    const std::string method = config.word("topk_method", "greedy");
    if (method != "greedy" && method != "group_limited_greedy")
        config.complain(format_text(
            "topk_method = {}: must be \"greedy\" or \"group_limited_greedy\"", shown(method)));
    if (method == "greedy") experts.routing.groups = experts.routing.chosen_groups = 1;
    experts.routing.best_of_group = 1;
    experts.routing.is_sigmoid = experts.routing.normalises = false;
    experts.correction.clear();
    return experts;
}

static ModelSpec read_deepseek_v2(ConfigReader& config) {
    ModelSpec spec = read_latent_model(config, {.model = {.rope = {.is_interleaved = true}}});
    const int64_t dense = read_first_dense(config, 0);
    if (dense < std::ssize(spec.blocks))
        set_experts_behind_dense(spec, read_greedy_experts(config, spec), dense);
    return spec;
}

Family deepseek_v2() {
    return {{"DeepseekV2ForCausalLM",
             "deepseek_v2",
             read_deepseek_v2,
             {.score_class = "DeepseekV2ForSequenceClassification",
              .fields = {"topk_method"},
              .peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures
