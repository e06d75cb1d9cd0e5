#include "ringshard/plan/step_time.hpp"

#include <algorithm>

namespace ringshard::plan {

namespace {

// Multiplications and additions with the weights of one block, for a token in one direction.
struct BlockProducts {
    double all;
    double down;  // of them, the MLP's last
};
BlockProducts block_products(const model::ModelSpec& spec) {
    const auto width = static_cast<double>(spec.width);
    const auto inner = static_cast<double>(spec.heads.query_heads * spec.heads.head_dim);
    const double attention = width * static_cast<double>(spec.qkv_width()) + inner * width;
    const double down = width * static_cast<double>(spec.intermediate);
    return {2 * (attention + 3 * down), 2 * down};
}

// What the backward pass computes again of a block.
struct Again {
    bool products;  // all but the last one, which nobody asks for
    bool attention;
};
Again again(config::ActivationPolicy policy) {
    return {policy != config::ActivationPolicy::all, policy == config::ActivationPolicy::input};
}

// Of one block. `pairs`: of a query and a key that it sees.
double attention_seconds(const model::ModelSpec& spec, double tokens, double pairs,
                         bool is_forward_again, const Device::Rates& rates) {
    const auto inner = static_cast<double>(spec.heads.query_heads * spec.heads.head_dim);
    const auto work = [&](double extra_keys) { return 4 * inner * (pairs + tokens * extra_keys); };
    const double forward = work(rates.attention_extra_keys) / rates.attention;
    constexpr double of_backward = 2.5;  // the scores are made again in it
    const double backward =
        of_backward * work(rates.attention_backward_extra_keys) / rates.attention_backward;
    return (is_forward_again ? 2 : 1) * forward + backward;
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
    const Again is_again = again(training.activations_kept());
    const Device::Rates& rates = is_bf16 ? device.bf16 : device.fp32;

    StepTime time;
    const double head = 2 * static_cast<double>(spec.vocabulary) * static_cast<double>(spec.width);
    const auto [all, down] = block_products(spec);
    const double forward = blocks * (all + (is_again.products ? all - down : 0)) + head;
    time.products =
        tokens * (forward / rates.products + 2 * (blocks * all + head) / rates.products_backward);
    const double pairs = rows * length * length / 2 / split;
    time.attention = blocks * attention_seconds(spec, tokens, pairs, is_again.attention, rates);
    // About so many times the residual stream and the MLP's inner rows are read or written.
    constexpr double passes_of_rows = 14;
    time.rows = tokens * blocks * passes_of_rows *
                static_cast<double>(spec.width + spec.intermediate) * number_bytes /
                rates.row_bytes;
    time.loss = tokens * static_cast<double>(spec.vocabulary) / device.loss_logits;
    constexpr double optimizer_bytes = 28;  // read and written for a weight
    const double weights_here =
        static_cast<double>(plan.memory.save_copy * question.shape.world()) / 12 /
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
