#include "ringshard/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "non_finite.hpp"
#include "ringshard/base/mix.hpp"
#include "ringshard/train/micro_batches.hpp"
#include "step_clock.hpp"
#include "step_sums.hpp"

namespace ringshard::train {

int64_t count_steps(const config::TrainingSettings& settings, int64_t steps_per_epoch) {
    if (settings.max_steps > 0) return settings.max_steps;
    // Beyond this many no run ends, and the count no longer fits.
    constexpr double most = 1e15;
    return static_cast<int64_t>(std::min(
        most, std::ceil(settings.num_train_epochs * static_cast<double>(steps_per_epoch))));
}

namespace {

std::vector<int64_t> document_lengths(const data::FlatBatch& batch) {
    std::vector<int64_t> lengths;
    for (size_t document = 0; document < batch.document_starts.size(); ++document) {
        const size_t next = document + 1;
        const int64_t end = next < batch.document_starts.size()
                                ? batch.document_starts[next]
                                : static_cast<int64_t>(batch.tokens.size());
        lengths.push_back(end - batch.document_starts[document]);
    }
    return lengths;
}

std::string list_rows(const std::vector<int64_t>& rows) {
    constexpr size_t most = 32;
    std::vector<std::string> shown;
    for (size_t i = 0; i < std::min(most, rows.size()); ++i) shown.push_back(concat(rows[i]));
    return join(shown, ", ") +
           (rows.size() > most ? concat(" and ", rows.size() - most, " more") : "");
}

}  // namespace

// The work of a step, over the world.
struct Trainer::Work {
    double targets;  // at least one: it is a divisor, as the next one
    double weight;   // of all targets
    double counted_tokens;
    double filler_tokens;
    double operations;
    attention::RingWork attention;  // of all rings and micro-batches

    StepNumbers numbers() const {
        return {.step_tokens = static_cast<int64_t>(counted_tokens),
                .filler_tokens = static_cast<int64_t>(filler_tokens),
                .operations = operations,
                .attention_work_worst = attention.worst,
                .attention_work_mean = attention.mean};
    }
};

// One rank of every sequence group counts. Collective over the world.
Trainer::Work Trainer::count(const std::vector<data::FlatBatch>& micro_batches) const {
    enum {
        targets,
        weight,
        counted,
        tokens,
        filled,
        operations,
        worst_of_ring,
        mean_of_ring,
        size
    };
    std::vector<double> sums(size);
    if (mesh_.sequence_rank() == 0) {
        for (const data::FlatBatch& batch : micro_batches) {
            const auto length = static_cast<int64_t>(batch.tokens.size());
            sums[targets] += static_cast<double>(batch.num_targets());
            sums[weight] += batch.target_weight();
            sums[counted] += static_cast<double>(batch.num_counted());
            sums[tokens] += static_cast<double>(length);
            sums[operations] += model_.operations().of_training(document_lengths(batch));
            const auto partition = data::partition_of(batch, mesh_.shape());
            sums[filled] += static_cast<double>(partition.filled_length());
            if (partition.ring() == 1) continue;
            const attention::RingWork work = partition.work();
            sums[worst_of_ring] += work.worst;
            sums[mean_of_ring] += work.mean;
        }
    }
    sums = world_.sum(sums);
    return {.targets = std::max(1.0, sums[targets]),
            .weight = sums[weight] > 0 ? sums[weight] : 1.0,
            .counted_tokens = sums[counted],
            .filler_tokens = sums[filled] - sums[tokens],
            .operations = sums[operations],
            .attention = {sums[worst_of_ring], sums[mean_of_ring]}};
}

// Operations of a step if each micro-batch takes as long as on the rank that does most for it: one
// long row holds up all ranks, however short the others' are. Collective over the world.
double Trainer::count_longest(const std::vector<data::FlatBatch>& micro_batches) const {
    constexpr double unit = 1000;  // operations: the largest step that there can be fits
    std::vector<int64_t> longest;
    for (const data::FlatBatch& batch : micro_batches)
        longest.push_back(
            std::llround(model_.operations().of_training(document_lengths(batch)) / unit));
    longest = world_.maximum(std::move(longest));
    return unit * static_cast<double>(std::accumulate(longest.begin(), longest.end(), int64_t{0}));
}

// The sums are of all ranks, so every rank finds the same. Collective over the world.
std::string Trainer::describe_non_finite(double loss, double norm) const {
    const std::string tensor = first_non_finite_gradient(zero_, world_);
    return concat("step ", progress_.step + 1, ": the loss is ", loss,
                  " and the norm of the gradient ", norm,
                  tensor.empty() ? "" : concat("; the first bad gradient is that of ", tensor),
                  "; rows of the step (from 0, as trainer inspect shows them): ",
                  list_rows(loader_.rows_of_step()));
}

Trainer::Trainer(const config::TrainingSettings& settings, const comm::Group& world,
                 const mesh::Mesh& mesh, data::Loader& loader, const model::Transformer& model,
                 shard::Zero& zero, optim::Optimizer& optimizer, int64_t seed)
    : settings_(settings),
      world_(world),
      mesh_(mesh),
      loader_(loader),
      model_(model),
      zero_(zero),
      optimizer_(optimizer),
      seed_(mix_bits(static_cast<uint64_t>(seed))),
      num_steps_(count_steps(settings, loader.steps_per_epoch())),
      schedule_(settings, num_steps_) {}

void Trainer::resume_from(const checkpoint::Progress& progress) {
    progress_ = progress;
    skipped_in_a_row_ = 0;
    after_the_sums_ = {};
    loader_.go_to(progress.data);
}

namespace {

// Why a run ends over a loss or gradient that is not finite; nothing if the step is to be left out
// instead.
std::optional<Failure> end_of_patience(const config::TrainingSettings& settings, int64_t in_a_row,
                                       const std::string& went_bad) {
    const bool skips = settings.on_nan != config::OnNan::abort;
    if (skips && in_a_row <= settings.max_skipped_steps) return std::nullopt;
    return Failure{
        ExitCode::bad_numbers,
        concat(went_bad,
               skips
                   ? concat(". That is ", in_a_row, " steps in a row, more than max_skipped_steps")
                   : "",
               ". The weights are as before this step, and nothing was saved since the last "
               "checkpoint. Lower learning_rate, set max_grad_norm, or look at these rows")};
}

}  // namespace

// Forward and backward of all micro-batches, and what this rank adds to the sums of the step. Adds
// the operators that attend to `attention`.
StepSums Trainer::run(std::vector<data::FlatBatch> micro_batches, double gradient_scale,
                      std::set<std::string>& attention) {
    const auto token_stats = run_micro_batches(
        zero_, model_, std::ssize(micro_batches),
        [&](int64_t i) {
            model::TokenBatch mine = data::shard_batch(
                std::move(micro_batches[static_cast<size_t>(i)]), mesh_, model_.masks(),
                model_.has_dropout()
                    ? std::optional(mix_bits(seed_, static_cast<uint64_t>(progress_.step)))
                    : std::nullopt);
            attention.merge(model_.attention_operators(mine));
            return mine;
        },
        gradient_scale);
    zero_.finish_gradients();
    // Only now, when a GPU has all its work, is it waited for.
    ops::TokenSums here;
    for (const at::Tensor& numbers : token_stats) here += ops::add_up(numbers);
    const model::RouterLoad routers = model_.take_router_load();
    return {.loss = here.loss,
            .entropy = here.entropy,
            .correct = static_cast<double>(here.num_correct),
            .gradient_squares = zero_.gradient_squares(),
            .aux_loss = routers.aux_loss,
            .expert_choices = {routers.choices.begin(), routers.choices.end()},
            .ranks = std::vector<RankTimes>(static_cast<size_t>(world_.size()))};
}

// A step whose loss or gradient is not finite: the weights stay as they are.
comm::Agreed<StepNumbers> Trainer::leave_out(StepNumbers numbers) {
    numbers.skipped_because = describe_non_finite(numbers.loss, numbers.grad_norm);
    if (settings_.on_nan == config::OnNan::rewind &&
        non_finite_before_.insert(progress_.step).second) {
        numbers.asks_to_rewind = true;
        return numbers;
    }
    if (const auto end = end_of_patience(settings_, ++skipped_in_a_row_, numbers.skipped_because))
        return comm::found_by_all(*end);
    optimizer_.skip_step();
    return numbers;
}

comm::Agreed<StepNumbers> Trainer::step(const std::function<ControlFlags()>& look,
                                        const std::function<void(double)>& counted) {
    StepClock clock(world_.flight_recorder(), after_the_sums_);
    world_.flight_recorder().set_activity("waiting for rows");
    std::vector<data::FlatBatch> micro_batches = loader_.next_step();
    RINGSHARD_CHECK(!micro_batches.empty(), "step ", progress_.step + 1, " has no rows");
    clock.has_rows();
    world_.flight_recorder().set_activity("forward and backward");
    // The divisor of every gradient has to be known before the first of them.
    const Work work = count(micro_batches);
    counted(count_longest(micro_batches));

    StepNumbers numbers = work.numbers();
    StepSums sums = run(std::move(micro_batches), 1.0 / work.weight, numbers.attention);
    sums.flags = look();
    sums.ranks[static_cast<size_t>(world_.rank())] = clock.begin_sum();
    world_.flight_recorder().set_activity("summing the numbers of the step");
    sums = sum_over(world_, std::move(sums));
    world_.flight_recorder().set_activity("updating the weights");
    const model::ModelSpec& spec = model_.spec();
    numbers.loss = sums.loss / work.weight + spec.router_aux_loss_coef * sums.aux_loss;
    numbers.routers = {.has_aux_loss = spec.router_aux_loss_coef > 0,
                       .aux_loss = sums.aux_loss,
                       .num_experts = spec.num_experts(),
                       .choices = std::move(sums.expert_choices)};
    numbers.entropy = sums.entropy / work.targets;
    numbers.accuracy = sums.correct / work.targets;
    numbers.grad_norm = std::sqrt(sums.gradient_squares);
    numbers.learning_rate = schedule_.learning_rate(progress_.step);
    numbers.flags = sums.flags;
    numbers.ranks = std::move(sums.ranks);
    if (std::isfinite(numbers.loss) && std::isfinite(numbers.grad_norm)) {
        skipped_in_a_row_ = 0;
        optimizer_.step(zero_, numbers.learning_rate,
                        optim::clip_scale(numbers.grad_norm, settings_.max_grad_norm));
        zero_.refresh_compute_weights();
    } else {
        auto left_out = leave_out(std::move(numbers));
        if (!left_out || left_out.value().asks_to_rewind) return left_out;
        numbers = std::move(left_out).value();
    }
    after_the_sums_ = clock.rest();
    numbers.seconds = clock.seconds();
    advance(work, numbers);
    return numbers;
}

// The place of the run after a step.
void Trainer::advance(const Work& work, StepNumbers& numbers) {
    progress_.step += 1;
    progress_.data = loader_.state();
    progress_.num_tokens += static_cast<int64_t>(work.counted_tokens);
    numbers.step = progress_.step;
    numbers.epoch = loader_.epochs_done();
    numbers.num_tokens = progress_.num_tokens;
    numbers.rows = static_cast<int64_t>(loader_.rows_of_step().size());
}

}  // namespace ringshard::train
