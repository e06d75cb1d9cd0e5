#include "ringshard/plan/step_time.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>

#include "ringshard/base/text.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/model/operations.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/plan/part_kernels.hpp"

namespace ringshard::plan {

namespace {

using Parts = std::vector<TimePart>;

// The work of this rank in a step.
struct RankWork {
    double tokens;
    double document;  // tokens
    double micro_batches;
    double number_bytes;
};

// Returns the share of a rate that work of this size reaches, if work of the size `half` reaches
// half of it.
double share_of_rate(double size, double half) { return size / (size + half); }

// Returns the smaller side of a product's weight: that of the rows, or of an expert.
double smaller_side(const model::ModelSpec& spec, std::string_view product) {
    const auto width = static_cast<double>(spec.width);
    if (!product.starts_with("experts.")) return width;
    double side = width;
    for (const model::BlockSpec& block : spec.blocks)
        if (const auto* const experts = block.experts())
            side = std::min(side, static_cast<double>(experts->intermediate));
    return side;
}

// Adds the products with weights, of which some run in FP8.
void add_products(const model::ModelSpec& spec, const model::Operations& operations, bool has_fp8,
                  double tokens, const Device& device, const Device::Rates& rates, Parts& parts) {
    const double saved = has_fp8 ? 1 - 1 / device.fp8_products : 0;
    for (const auto& [name, all] : operations.by_product) {
        const auto found = operations.in_fp8.by_product.find(name);
        const model::Operations::OfProduct in_fp8 = found == operations.in_fp8.by_product.end()
                                                        ? model::Operations::OfProduct{}
                                                        : found->second;
        const double share = share_of_rate(smaller_side(spec, name), device.products_half_width);
        const auto& [forward, backward, has_products] = all.kernels;
        const auto add = [&](const char* pass, double count, double of_fp8, double rate,
                             std::vector<std::string> kernels) {
            if (count <= 0) return;
            if (has_products) std::ranges::copy(product_kernels(), std::back_inserter(kernels));
            parts.push_back({concat(name, pass), "products",
                             tokens * (count - saved * of_fp8) / rate / share, 0,
                             std::move(kernels)});
        };
        add(", forward", all.forward, in_fp8.forward, rates.products, forward);
        add(", again", all.again, in_fp8.again, rates.products, forward);
        add(", gradient of inputs", all.of_inputs, in_fp8.of_inputs, rates.products_backward,
            backward);
        add(", gradient of weights", all.of_weights, in_fp8.of_weights, rates.products_backward,
            backward);
    }
}

// Adds the attention of all blocks, for this rank's share of documents of one length.
// share: of the rate of long documents.
void add_attention(const model::Operations& operations, const RankWork& work,
                   const Device::Rates& rates, double share, Parts& parts) {
    TimePart forward{"attention, forward", "attention"};
    TimePart again{"attention, again", "attention"};
    TimePart backward{"attention, backward", "attention"};
    for (const auto& [mask, of_pair] : operations.of_pair) {
        const double pairs =
            work.tokens / work.document * attention::visible_pairs(work.document, mask);
        const double seconds =
            (pairs + work.tokens * rates.attention_extra_keys) / rates.attention / share;
        forward.kernels = again.kernels = of_pair.kernels.forward;
        backward.kernels = of_pair.kernels.backward;
        forward.seconds += of_pair.attention * seconds;
        again.seconds += of_pair.attention_again * seconds;
        constexpr double with_scores = 1.25;  // the scores are made again in it
        backward.seconds += with_scores * of_pair.attention_backward *
                            (pairs + work.tokens * rates.attention_backward_extra_keys) /
                            rates.attention_backward / share;
    }
    for (TimePart& part : {std::ref(forward), std::ref(again), std::ref(backward)})
        if (part.seconds > 0) parts.push_back(std::move(part));
}

// Returns the share of the attention rate that the calls of a model reach. With a ring a tile is no
// longer than one of its chunks.
double share_of_attention(const Question& question, const RankWork& work, const Device& device) {
    constexpr int64_t narrow = 64;
    const bool is_narrow = question.spec.heads().head_dim <= narrow;
    const double of_width = is_narrow ? device.narrow_heads_share : 1;
    constexpr double own_call = 8192;  // from this length on
    if (question.documents > 1 && work.document < own_call)
        return of_width * device.packed_attention_share;
    const double chunk =
        static_cast<double>(question.row_length) / static_cast<double>(2 * question.shape.ring);
    const double tile = question.shape.ring > 1 ? std::min(work.document, chunk) : work.document;
    return of_width * share_of_rate(tile, device.attention_half_length);
}

// Adds the sums of a ring on a GPU: each step merges its result into that of the steps before, and
// adds its gradients to theirs, in fp32.
void add_merges(const Question& question, const model::Operations& operations, const RankWork& work,
                const Device::Rates& rates, Parts& parts) {
    if (question.shape.ring == 1) return;
    // A number in bf16 is read, and one in fp32 read and written; the sums are cleared at first,
    // and rounded at last.
    constexpr double bytes_of_step = 2 + 4 + 4;
    constexpr double bytes_of_ends = 4 + 4 + 2;
    double bytes = 0;
    for (const auto& [mask, of_pair] : operations.of_pair) {
        const bool is_narrow = mask.window && static_cast<double>(*mask.window) < work.document;
        const double steps = is_narrow ? 2 : static_cast<double>(question.shape.ring);
        bytes += (steps * bytes_of_step + bytes_of_ends) * of_pair.merged;
    }
    if (bytes > 0)
        parts.push_back({"merges of the ring", "rows", work.tokens * bytes / rates.row_bytes});
}

// Each quantised number is read, and its code written (on the host: a number of bf16); those of
// weights once for each micro-batch. Where one scale follows from all numbers of a factor, they are
// read once more before.
void add_rounding_to_fp8(const model::Operations::InFp8& in_fp8, config::Fp8Recipe recipe,
                         const RankWork& work, const Device& device, Parts& parts) {
    const double bytes = device.is_host ? 4 : 3;
    const double of_factor = bytes + (recipe == config::Fp8Recipe::tensorwise ? 2 : 0);
    const double of_weight = bytes + (recipe == config::Fp8Recipe::rowwise ? 0 : 2);
    const double again = in_fp8.products_again / in_fp8.products;
    const double all_bytes =
        (1 + again / 2) * (of_factor * work.tokens * in_fp8.numbers +
                           of_weight * work.micro_batches * in_fp8.numbers_of_weights);
    parts.push_back({"rounding to FP8", "rows", all_bytes / device.bf16.row_bytes});
}

void add_rows(const model::Operations& operations, const RankWork& work, const Device& device,
              const Device::Rates& rates, Parts& parts) {
    const double seconds_of_number = work.tokens * work.number_bytes / rates.row_bytes;
    if (device.is_host) {
        parts.push_back({"row kernels", "rows", operations.rows_of_host * seconds_of_number});
        return;
    }
    for (const auto& [name, rows] : operations.rows)
        parts.push_back({name, "rows", rows.numbers * seconds_of_number, 0, rows.kernels});
}

double seconds_on_the_way(const Traffic& traffic, const Device& device, int64_t ranks_per_node) {
    const double rate = traffic.ranks > ranks_per_node ? device.network_bytes : device.link_bytes;
    return static_cast<double>(traffic.bytes) / rate;
}

double sum_of(const Parts& parts, std::string_view sum) {
    double seconds = 0;
    for (const TimePart& part : parts)
        if (part.sum == sum) seconds += part.seconds;
    return seconds;
}

// Adds what ranks send, and what goes to the memory of the host or files and back. A part of it
// overlaps with the computation so far.
void add_traffic(const StepPlan& plan, const Device& device, int64_t ranks_per_node,
                 const StepTime& time, Parts& parts) {
    double hidden_by_all = 0;
    Parts beside_all;
    const auto add_beside_all = [&](TimePart part) {
        hidden_by_all += part.seconds;
        beside_all.push_back(std::move(part));
    };
    for (const Traffic& traffic : plan.traffic) {
        TimePart part{concat("sent over ", traffic.group), "exposed_communication",
                      seconds_on_the_way(traffic, device, ranks_per_node)};
        if (traffic.group == "ring") {
            part.hidden = std::min(part.seconds, time.attention);
            part.seconds -= part.hidden;
            parts.push_back(std::move(part));
        } else if (traffic.group == "ulysses" || traffic.group == "experts") {
            parts.push_back(std::move(part));  // heads, and rows of experts, are waited for
        } else {
            add_beside_all(std::move(part));
        }
    }
    if (plan.moved_bytes > 0)
        add_beside_all({"copies of offloaded state", "exposed_communication",
                        static_cast<double>(plan.moved_bytes) / device.scratch_bytes});
    const double computing = time.products + time.attention + time.rows + time.loss;
    const double exposed = std::max(0.0, hidden_by_all - 0.8 * computing);
    for (TimePart& part : beside_all) {
        const double all = part.seconds;
        part.seconds = hidden_by_all > 0 ? all * exposed / hidden_by_all : 0;
        part.hidden = all - part.seconds;
        parts.push_back(std::move(part));
    }
}

double seconds_of_update(const Question& question, const StepPlan& plan, const Device& device) {
    const config::TrainingSettings& training = question.config.training;
    const int64_t copied = static_cast<int64_t>(sizeof(float)) + optim::state_bytes(training);
    const double weights_here =
        static_cast<double>(plan.memory.save_copy * question.shape.world()) /
        static_cast<double>(copied) /
        static_cast<double>(
            mesh::cuts_of(question.config.parallel).optimizer ? question.shape.zero() : 1);
    return weights_here * static_cast<double>(optim::update_bytes(training)) /
           device.optimizer_bytes;
}

}  // namespace

StepTime estimate_seconds(const Question& question, const StepPlan& plan, const Device& device,
                          int64_t ranks_per_node) {
    const config::TrainingSettings& training = question.config.training;
    const model::ModelSpec& spec = question.spec;
    const bool is_bf16 = training.computes_in_bf16();
    const int64_t num_learners = spec.num_learners();
    const auto rows = static_cast<double>(num_learners * training.per_device_train_batch_size *
                                          training.gradient_accumulation_steps);
    const auto length = static_cast<double>(question.row_length);
    const auto split = static_cast<double>(question.shape.sequence());
    const RankWork work{.tokens = rows * length / split,
                        .document = static_cast<double>(question.row_length / question.documents),
                        .micro_batches = static_cast<double>(training.gradient_accumulation_steps),
                        .number_bytes = is_bf16 ? 2.0 : 4.0};
    const Device::Rates& rates = is_bf16 ? device.bf16 : device.fp32;
    const model::Operations operations = model::operations_of(spec, training.activations_kept());
    StepTime time;
    Parts& parts = time.parts;
    add_products(spec, operations, training.has_fp8(), work.tokens, device, rates, parts);
    const bool attends = std::ranges::any_of(
        operations.of_pair, [](const auto& of_mask) { return of_mask.second.attention > 0; });
    if (attends)
        add_attention(operations, work, rates, share_of_attention(question, work, device), parts);
    if (!device.is_host) add_merges(question, operations, work, rates, parts);
    add_rows(operations, work, device, rates, parts);
    if (training.has_fp8())
        add_rounding_to_fp8(operations.in_fp8, training.fp8_recipe, work, device, parts);
    parts.push_back(
        {"loss", "loss", work.tokens * static_cast<double>(spec.head_rows()) / device.loss_logits});
    parts.push_back({"update of weights", "optimizer", seconds_of_update(question, plan, device)});
    if (plan.update_products > 0)
        parts.push_back(
            {"orthogonalization", "optimizer", plan.update_products / device.bf16.products});
    time.products = sum_of(parts, "products");
    time.attention = sum_of(parts, "attention");
    time.rows = sum_of(parts, "rows");
    time.loss = sum_of(parts, "loss");
    time.optimizer = sum_of(parts, "optimizer");
    add_traffic(plan, device, ranks_per_node, time, parts);
    time.exposed = sum_of(parts, "exposed_communication");
    for (TimePart& part : parts)
        if (part.kernels.empty()) part.kernels = kernels_of(part.name);
    time.total =
        time.products + time.attention + time.rows + time.loss + time.optimizer + time.exposed;
    const auto data_ranks = static_cast<double>(question.shape.data());
    time.tokens_per_second = data_ranks * rows * length / time.total;
    const std::vector<int64_t> row(static_cast<size_t>(question.documents),
                                   question.row_length / question.documents);
    time.utilisation = operations.of_training(row) * rows / split / time.total / rates.peak;
    return time;
}

}  // namespace ringshard::plan
