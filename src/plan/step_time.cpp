#include "ringshard/plan/step_time.hpp"

#include <algorithm>

namespace ringshard::plan {

namespace {

// Multiplications and additions with the weights of one block, for a token in one direction.
double block_products(const model::ModelSpec& spec) {
    const auto width = static_cast<double>(spec.width);
    const auto inner = static_cast<double>(spec.heads.query_heads * spec.heads.head_dim);
    const double attention = width * static_cast<double>(spec.qkv_width()) + inner * width;
    const double mlp = 3 * width * static_cast<double>(spec.intermediate);
    return 2 * (attention + mlp);
}

// Of each, with one for the forward pass alone: backward is two more, and what is computed again
// one more.
struct Passes {
    double products;
    double attention;
};
Passes passes_of(config::ActivationPolicy policy) {
    constexpr double attention_backward = 2.5;  // the scores are made again in it
    switch (policy) {
        case config::ActivationPolicy::all: return {3, 1 + attention_backward};
        case config::ActivationPolicy::attention: return {4, 1 + attention_backward};
        case config::ActivationPolicy::input: return {4, 2 + attention_backward};
    }
    return {4, 2 + attention_backward};
}

double seconds_on_the_way(const Traffic& traffic, const Device& device, int64_t ranks_per_node) {
    const double rate = traffic.ranks > ranks_per_node ? device.network_bytes : device.link_bytes;
    return static_cast<double>(traffic.bytes) / rate;
}

}  // namespace

StepTime estimate_seconds(const Question& question, const StepPlan& plan, const Device& device,
                          int64_t ranks_per_node) {
    const config::TrainingSettings& training = question.config.training;
    const model::ModelSpec& spec = question.spec;
    const bool is_bf16 = training.mixed_precision == config::Precision::bf16;
    const double number_bytes = is_bf16 ? 2 : 4;
    const auto rows = static_cast<double>(training.per_device_train_batch_size *
                                          training.gradient_accumulation_steps);
    const auto length = static_cast<double>(question.row_length);
    const auto split = static_cast<double>(question.shape.sequence());
    const double tokens = rows * length / split;  // of this rank
    const auto blocks = static_cast<double>(spec.num_blocks);
    const Passes passes = passes_of(training.activations_kept());
    const Device::Rates& rates = is_bf16 ? device.bf16 : device.fp32;

    StepTime time;
    const double head = 2 * static_cast<double>(spec.vocabulary) * static_cast<double>(spec.width);
    time.products =
        tokens * (blocks * block_products(spec) * passes.products + 3 * head) / rates.products;
    const auto inner = static_cast<double>(spec.heads.query_heads * spec.heads.head_dim);
    const double pairs = rows * length * length / 2 / split;
    time.attention = 4 * inner * pairs * blocks * passes.attention / rates.attention;
    // About so many times the residual stream and the MLP's inner rows are read or written.
    constexpr double passes_of_rows = 14;
    time.rows = tokens * blocks * passes_of_rows *
                static_cast<double>(spec.width + spec.intermediate) * number_bytes /
                rates.row_bytes;
    time.loss = tokens * static_cast<double>(spec.vocabulary) / device.loss_logits;
    constexpr double optimizer_bytes = 28;  // read and written for a weight
    const double weights_here =
        static_cast<double>(plan.checkpoint_bytes) / 12 /
        static_cast<double>(
            mesh::cuts_of(question.config.parallel).optimizer ? question.shape.zero() : 1);
    time.optimizer = weights_here * optimizer_bytes / device.optimizer_bytes;

    double hidden_by_attention = 0;
    double hidden_by_all = 0;
    double in_the_open = 0;
    for (const Traffic& traffic : plan.traffic) {
        const double seconds = seconds_on_the_way(traffic, device, ranks_per_node);
        if (traffic.group == "ring")
            hidden_by_attention += seconds;
        else if (traffic.group == "ulysses")
            in_the_open += seconds;  // the heads are waited for
        else
            hidden_by_all += seconds;
    }
    hidden_by_all += static_cast<double>(plan.moved_bytes) / device.scratch_bytes;
    const double computing = time.products + time.attention + time.rows + time.loss;
    time.exposed = in_the_open + std::max(0.0, hidden_by_attention - time.attention) +
                   std::max(0.0, hidden_by_all - 0.8 * computing);
    time.total = computing + time.optimizer + time.exposed;
    const auto data_ranks = static_cast<double>(question.shape.data());
    time.tokens_per_second = data_ranks * rows * length / time.total;
    time.utilisation =
        model::training_operations(spec, tokens, 2 * pairs) / time.total / rates.peak;
    return time;
}

}  // namespace ringshard::plan
