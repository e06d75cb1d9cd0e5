#include "ringshard/plan/step_time.hpp"

#include <algorithm>
#include <array>

#include "ringshard/config/config.hpp"
#include "ringshard/model/operations.hpp"
#include "ringshard/optim/optimizer.hpp"

namespace ringshard::plan {

namespace {

// Returns the seconds of all blocks, for this rank's share of documents of one length.
double attention_seconds(const model::Operations& operations, double tokens, double length,
                         const Device::Rates& rates) {
    double seconds = 0;
    for (const auto& [mask, of_pair] : operations.of_pair) {
        const double pairs = tokens / length * attention::visible_pairs(length, mask);
        seconds += (of_pair.attention + of_pair.attention_again) *
                   (pairs + tokens * rates.attention_extra_keys) / rates.attention;
        constexpr double with_scores = 1.25;  // the scores are made again in it
        seconds += with_scores * of_pair.attention_backward *
                   (pairs + tokens * rates.attention_backward_extra_keys) /
                   rates.attention_backward;
    }
    return seconds;
}

// Changes the time for products in FP8. Each quantised number is read, and its code written (on the
// host: a number of bf16); those of weights once for each micro-batch. Where one scale follows from
// all numbers of a factor, they are read once more before.
void add_fp8(const model::Operations::InFp8& in_fp8, config::Fp8Recipe recipe, double tokens,
             double micro_batches, const Device& device, StepTime& time) {
    const double saved = 1 - 1 / device.fp8_products;
    time.products -= saved * tokens *
                     ((in_fp8.products + in_fp8.products_again) / device.bf16.products +
                      in_fp8.products_backward / device.bf16.products_backward);
    const double bytes = device.is_host ? 4 : 3;
    const double of_factor = bytes + (recipe == config::Fp8Recipe::tensorwise ? 2 : 0);
    const double of_weight = bytes + (recipe == config::Fp8Recipe::rowwise ? 0 : 2);
    const double again = in_fp8.products_again / in_fp8.products;
    const double all_bytes =
        (1 + again / 2) * (of_factor * tokens * in_fp8.numbers +
                           of_weight * micro_batches * in_fp8.numbers_of_weights);
    time.rows += all_bytes / device.bf16.row_bytes;
}

int64_t widths_of(const model::ExpertsSpec& experts) {
    return experts.per_token * experts.intermediate +
           (experts.shared ? experts.shared->intermediate : 0);
}

// Numbers of a token that the row kernels of a block read or write, forward and backward, on a GPU.
// gpu_passes_test counts them.
double row_numbers_on_gpu(double width, double inner, const attention::HeadCounts& heads,
                          config::ActivationPolicy policy) {
    using config::ActivationPolicy;
    const auto queries = static_cast<double>(heads.query_heads * heads.head_dim);
    const auto keys = static_cast<double>(heads.key_heads * heads.head_dim);
    const bool keeps_rows = policy == ActivationPolicy::everything;
    const double norms = 2 * (2 + 4 + (keeps_rows ? 0 : 1));  // forward, backward, written again
    constexpr double residuals = 2;                           // which products read
    const double activation = 3 + (keeps_rows ? 5 : 6);
    double numbers = (norms + residuals) * width + activation * inner + 2 * (queries + keys) +
                     2 * (queries + 2 * keys);
    if (policy > ActivationPolicy::all) numbers += width;  // the norm before gate and up is whole
    // So is that before the attention; queries and keys are turned, and the residual added, again.
    if (policy > ActivationPolicy::all_but_gate_up) numbers += 3 * width + 2 * (queries + keys);
    return numbers;
}

// Of all blocks.
double row_numbers(const model::ModelSpec& spec, const config::ActivationPolicies& policies,
                   bool is_host) {
    const std::vector<config::ActivationPolicy> of_blocks =
        policies.of_blocks(std::ssize(spec.blocks));
    double numbers = 0;
    for (size_t i = 0; i < spec.blocks.size(); ++i) {
        const model::BlockSpec& block = spec.blocks[i];
        const auto width = static_cast<double>(block.width);
        const auto inner =
            static_cast<double>(block.experts ? widths_of(*block.experts) : block.mlp.intermediate);
        // About so many times the host reads or writes the residual stream and the MLP's rows.
        constexpr double passes_of_host = 14;
        numbers += is_host ? passes_of_host * (width + inner)
                           : row_numbers_on_gpu(width, inner, block.attention.heads, of_blocks[i]);
    }
    return numbers;
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
    const bool is_bf16 = training.computes_in_bf16();
    const double number_bytes = is_bf16 ? 2 : 4;
    const int64_t num_adapters = std::max<int64_t>(1, std::ssize(spec.blocks.front().joint));
    const auto rows = static_cast<double>(num_adapters * training.per_device_train_batch_size *
                                          training.gradient_accumulation_steps);
    const auto length = static_cast<double>(question.row_length);
    const auto split = static_cast<double>(question.shape.sequence());
    const double tokens = rows * length / split;  // of this rank
    const Device::Rates& rates = is_bf16 ? device.bf16 : device.fp32;
    const model::Operations operations = model::operations_of(spec, training.activations_kept());

    StepTime time;
    time.products = tokens * ((operations.products + operations.products_again) / rates.products +
                              operations.products_backward / rates.products_backward);
    const auto document = static_cast<double>(question.row_length / question.documents);
    time.attention = attention_seconds(operations, tokens, document, rates);
    constexpr double own_call = 8192;  // from this length on
    if (question.documents > 1 && document < own_call)
        time.attention /= device.packed_attention_share;
    time.rows = tokens * row_numbers(spec, training.activations_kept(), device.is_host) *
                number_bytes / rates.row_bytes;
    if (training.has_fp8())
        add_fp8(operations.in_fp8, training.fp8_recipe, tokens,
                static_cast<double>(training.gradient_accumulation_steps), device, time);
    time.loss = tokens * static_cast<double>(spec.vocabulary) / device.loss_logits;
    const int64_t copied = static_cast<int64_t>(sizeof(float)) + optim::state_bytes(training);
    const double weights_here =
        static_cast<double>(plan.memory.save_copy * question.shape.world()) /
        static_cast<double>(copied) /
        static_cast<double>(
            mesh::cuts_of(question.config.parallel).optimizer ? question.shape.zero() : 1);
    time.optimizer =
        weights_here * static_cast<double>(optim::update_bytes(training)) / device.optimizer_bytes;

    double hidden_by_attention = 0;
    double hidden_by_all = 0;
    double in_the_open = 0;
    for (const Traffic& traffic : plan.traffic) {
        const double seconds = seconds_on_the_way(traffic, device, ranks_per_node);
        if (traffic.group == "ring")
            hidden_by_attention += seconds;
        else if (traffic.group == "ulysses" || traffic.group == "experts")
            in_the_open += seconds;  // heads, and rows of experts, are waited for
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
    const std::vector<int64_t> row(static_cast<size_t>(question.documents),
                                   question.row_length / question.documents);
    time.utilisation = operations.of_training(row) * rows / split / time.total / rates.peak;
    return time;
}

}  // namespace ringshard::plan
