#include "ringshard/train/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "rank_times.hpp"

namespace ringshard::train {

double number_in(const MetricsLine& line, std::string_view name) {
    for (const auto& [key, value] : line)
        if (key == name)
            return std::visit([](auto number) { return static_cast<double>(number); }, value);
    return std::numeric_limits<double>::quiet_NaN();
}

void StepWindow::add(const StepNumbers& step) {
    const StepNumbers before = std::exchange(sums_.numbers, step);
    StepNumbers& line = sums_.numbers;
    ++sums_.num_steps;
    if (step.is_skipped()) {
        ++sums_.num_skipped;
        line.loss = line.entropy = line.accuracy = line.routers.aux_loss = 0;
        for (auto& [name, sum, divisor] : line.of_objective) sum = divisor = 0;
    }
    line.routers.aux_loss += before.routers.aux_loss;
    for (size_t expert = 0; expert < before.routers.choices.size(); ++expert)
        line.routers.choices[expert] += before.routers.choices[expert];
    line.loss += before.loss;
    line.entropy += before.entropy;
    line.accuracy += before.accuracy;
    for (size_t i = 0; i < before.of_objective.size(); ++i) {
        line.of_objective[i].sum += before.of_objective[i].sum;
        line.of_objective[i].divisor += before.of_objective[i].divisor;
    }
    line.seconds += before.seconds;
    line.operations += before.operations;
    line.rows += before.rows;
    line.step_tokens += before.step_tokens;
    line.filler_tokens += before.filler_tokens;
    line.attention_work_worst += before.attention_work_worst;
    line.attention_work_mean += before.attention_work_mean;
    for (size_t rank = 0; rank < before.ranks.size(); ++rank) {
        line.ranks[rank].compute += before.ranks[rank].compute;
        line.ranks[rank].comm_wait += before.ranks[rank].comm_wait;
        line.ranks[rank].data_wait += before.ranks[rank].data_wait;
    }
}

std::string SkipWarnings::warning_of(const StepNumbers& skipped) {
    const std::string warning =
        format_text("warning: {}. The step is skipped", skipped.skipped_because);
    if (skipped.has_targets) return warning;
    if (std::exchange(has_warned_of_targets_, true)) return {};
    return warning +
           ", as all further ones of this kind; skipped_steps in metrics.jsonl counts them";
}

StepWindow::Summary StepWindow::take() {
    Summary summary = std::exchange(sums_, {});
    const auto taken = static_cast<double>(summary.num_steps - summary.num_skipped);
    summary.numbers.loss /= taken;  // not a number if all were skipped
    summary.numbers.entropy /= taken;
    summary.numbers.accuracy /= taken;
    summary.numbers.routers.aux_loss /= taken;
    return summary;
}

MemoryByKind memory_by_kind(const shard::Zero& zero, const optim::Optimizer& optimizer,
                            int64_t peak, int64_t staging, int64_t save_copy) {
    const shard::Zero::Memory held = zero.memory();
    return {.weights = held.weights,
            .gathered = held.gathered,
            .gradients = held.gradients,
            .optimizer = optimizer.memory(),
            .activations = peak - held.weights - held.gathered - held.gradients -
                           optimizer.memory() - held.communication - save_copy,
            .communication = held.communication,
            .staging = staging,
            .save_copy = save_copy,
            .process_peak = 0,
            .driver = 0,
            .host = 0};
}

std::string describe_held(const shard::Zero& zero, const optim::Optimizer& optimizer) {
    const shard::Zero::Memory held = zero.memory();
    const auto text = [](int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
    return format_text(
        "This rank holds weights {}, gathered weights {}, gradients {}, optimizer state {}, "
        "messages {}; all else is activations. Lower per_device_train_batch_size or max_length, "
        "set gradient_checkpointing or activation_offloading, take a profile that cuts more "
        "(zero3) or more ranks (cp_size, sp_size), or offload_optimizer_device = cpu; `trainer "
        "plan --suggest` compares them",
        text(held.weights), text(held.gathered), text(held.gradients), text(optimizer.memory()),
        text(held.communication));
}

void Usage::take_maxima(const MemoryByKind& mine, const comm::Group& world) {
    std::vector<int64_t MemoryByKind::*> numbers{&MemoryByKind::process_peak, &MemoryByKind::driver,
                                                 &MemoryByKind::host};
    for (const MemoryKind& kind : memory_kinds) numbers.push_back(kind.bytes);
    std::vector<int64_t> maxima;
    for (const auto number : numbers) maxima.push_back(mine.*number);
    // The low bits hold the rank, so that the maximum of the peaks in KiB names the first rank with
    // it.
    constexpr int64_t most_ranks = int64_t{1} << 24;
    maxima.push_back(mine.process_peak / 1024 * most_ranks + most_ranks - 1 - world.rank());
    maxima = world.maximum(std::move(maxima));
    for (size_t i = 0; i < numbers.size(); ++i) memory.*numbers[i] = maxima[i];
    peak_memory_bytes = memory.process_peak;
    peak_memory_rank = most_ranks - 1 - maxima.back() % most_ranks;
}

namespace {

// Adds the longest time of all ranks as NAME_s, its rank, the median and the shortest one.
void add_spread(MetricsLine& line, const std::string& name, const std::vector<RankTimes>& ranks,
                double RankTimes::*kind, double steps) {
    const Spread spread = spread_of(ranks, kind);
    line.emplace_back(name + "_s", spread.longest / steps);
    line.emplace_back(name + "_rank", spread.slowest_rank);
    line.emplace_back(name + "_median_s", spread.median / steps);
    line.emplace_back(name + "_min_s", spread.shortest / steps);
}

// An expert by its load: its choices over the mean of its block.
struct ExpertLoad {
    double to_mean;
    size_t number;  // counted over all blocks
};

void add_expert(MetricsLine& line, const std::string& name, const ExpertLoad& load, size_t count) {
    line.emplace_back(name + "_to_mean", load.to_mean);
    line.emplace_back(name + "_block", static_cast<int64_t>(load.number / count));
    line.emplace_back(name + "_expert", static_cast<int64_t>(load.number % count));
}

// Adds the experts with the largest and the smallest share of the choices of their blocks, and the
// number of experts without any.
void add_routers(MetricsLine& line, const RouterNumbers& routers) {
    if (routers.num_experts == 0) return;
    if (routers.has_aux_loss) line.emplace_back("aux_loss", routers.aux_loss);
    const auto count = static_cast<size_t>(routers.num_experts);
    ExpertLoad most{0, 0};
    ExpertLoad least{static_cast<double>(count), 0};
    for (size_t first = 0; first < routers.choices.size(); first += count) {
        const auto of_block = std::span(routers.choices).subspan(first, count);
        const double mean =
            std::accumulate(of_block.begin(), of_block.end(), 0.0) / static_cast<double>(count);
        if (mean == 0) continue;
        for (size_t expert = 0; expert < count; ++expert) {
            const ExpertLoad load{of_block[expert] / mean, first + expert};
            if (load.to_mean > most.to_mean) most = load;
            if (load.to_mean < least.to_mean) least = load;
        }
    }
    add_expert(line, "expert_load_max", most, count);
    add_expert(line, "expert_load_min", least, count);
    line.emplace_back("dead_experts",
                      static_cast<int64_t>(std::ranges::count(routers.choices, 0.0)));
}

}  // namespace

MetricsLine step_line(const StepWindow::Summary& summary, const Usage& usage) {
    const StepNumbers& numbers = summary.numbers;
    const auto tokens = static_cast<double>(numbers.step_tokens);
    const auto filler = static_cast<double>(numbers.filler_tokens);
    const auto ranks = static_cast<double>(usage.num_ranks);
    const auto steps = static_cast<double>(summary.num_steps);
    MetricsLine line{
        {"step", numbers.step},
        {"loss", numbers.loss},
        {"grad_norm", numbers.grad_norm},
        {"learning_rate", numbers.learning_rate},
        {numbers.names.entropy, numbers.entropy},
        {"num_tokens", numbers.num_tokens},
        {numbers.names.accuracy, numbers.accuracy},
        {"epoch", numbers.epoch},
        {"step_time_s", numbers.seconds / steps},
        {"tokens_per_second", tokens / numbers.seconds},
        {"tokens_per_second_per_rank", tokens / numbers.seconds / ranks},
        {"mfu", numbers.operations / numbers.seconds / usage.peak_operations},
        {"peak_tflops", usage.peak_operations / 1e12},
        {"padding_share", filler / std::max(1.0, tokens + filler)},
        {"peak_memory_bytes", usage.peak_memory_bytes},
        {"peak_memory_rank", usage.peak_memory_rank},
    };
    std::erase_if(line, [](const auto& number) { return number.first.empty(); });
    for (const MemoryKind& kind : memory_kinds)
        line.emplace_back(format_text("memory_{}_bytes", kind.name), usage.memory.*kind.bytes);
    if (usage.memory.driver > 0) line.emplace_back("memory_driver_bytes", usage.memory.driver);
    if (usage.memory.host > 0) line.emplace_back("memory_host_bytes", usage.memory.host);
    add_spread(line, "compute", numbers.ranks, &RankTimes::compute, steps);
    add_spread(line, "comm_wait", numbers.ranks, &RankTimes::comm_wait, steps);
    add_spread(line, "data_wait", numbers.ranks, &RankTimes::data_wait, steps);
    if (numbers.attention_work_mean > 0)
        line.emplace_back("attention_work_worst_to_mean",
                          numbers.attention_work_worst / numbers.attention_work_mean);
    // Not a number if no step has tokens that it is of.
    for (const auto& [name, sum, divisor] : numbers.of_objective)
        line.emplace_back(name, sum / divisor);
    add_routers(line, numbers.routers);
    if (summary.num_skipped > 0) line.emplace_back("skipped_steps", summary.num_skipped);
    return line;
}

MetricsLine evaluation_line(int64_t step, double epoch, int64_t num_tokens,
                            const EvaluationNumbers& numbers) {
    const std::string prefix = numbers.set.empty() ? "eval_" : format_text("eval_{}_", numbers.set);
    MetricsLine line{
        {"step", step},
        {"epoch", epoch},
        {prefix + "loss", numbers.loss},
        {prefix + numbers.names.entropy, numbers.entropy},
        {prefix + numbers.names.accuracy, numbers.accuracy},
        {"eval_num_tokens", num_tokens},
        {prefix + "runtime", numbers.seconds},
        {prefix + "samples_per_second", static_cast<double>(numbers.rows) / numbers.seconds},
        {prefix + "steps_per_second", static_cast<double>(numbers.batches) / numbers.seconds}};
    std::erase_if(line, [&](const auto& number) { return number.first == prefix; });
    for (const auto& [name, value] : numbers.of_objective) line.emplace_back(prefix + name, value);
    return line;
}

}  // namespace ringshard::train
