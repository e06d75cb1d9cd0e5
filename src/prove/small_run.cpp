#include "small_run.hpp"

#include <ATen/ops/ne.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "ringshard/data/loader.hpp"
#include "ringshard/prove/small_model.hpp"
#include "ringshard/train/trainer.hpp"
#include "ringshard/train/training_stack.hpp"
#include "ringshard/train/whole_tensors.hpp"

namespace ringshard::prove {

namespace {

int64_t count_moved(const at::Tensor& before, const at::Tensor& after, int64_t first,
                    int64_t count) {
    return at::ne(before.narrow(0, first, count), after.narrow(0, first, count))
        .sum()
        .item<int64_t>();
}

// The log-probabilities of both answers of each row where every token is as likely as any other.
std::vector<double> unknowing(const SmallRun& run) {
    const double of_token = -std::log(static_cast<double>(run.spec.vocabulary));
    std::vector<double> log_probs;
    for (int64_t row = 0; row < run.rows.size(); ++row) {
        const data::FlatBatch batch = data::flatten(run.rows, std::span(&row, 1));
        const int64_t first =
            batch.content.is_judged ? batch.num_targets() : batch.num_chosen_targets();
        const int64_t second =
            run.rows.has_baseline()
                ? data::flatten_baseline(run.rows, std::span(&row, 1)).num_targets()
                : batch.num_targets() - first;
        log_probs.push_back(of_token * static_cast<double>(first));
        log_probs.push_back(of_token * static_cast<double>(second));
    }
    return log_probs;
}

class RunningModel {
public:
    explicit RunningModel(const SmallRun& run)
        : run_(run),
          stack_(run.config, run.spec, run.mesh,
                 {.on_phase = [&run](const std::string&) { run.made_progress(); }}),
          sequence_(comm::make_communicator(
              run.group.split(run.group.rank() / run.mesh.shape().sequence(), "sequence"),
              run.mesh.device())),
          loader_(run.rows, data::sampler_options(run.config, run.rows, run.mesh.shape().data()),
                  run.mesh.data_rank(), run.config.training.gradient_accumulation_steps),
          trainer_(run.config.training, run.group, run.mesh, loader_, stack_.transformer,
                   stack_.zero, *stack_.optimizer, run.config.run.seed) {
        fill_at_random(run.spec, static_cast<uint64_t>(run.config.run.seed), stack_.zero);
        if (run.config.training.has_reference())
            trainer_.give_reference(train::ReferenceLogProbs::of(unknowing(run)));
        if (run.faults != nullptr) trainer_.seed_faults(*run.faults);
    }

    // Takes a step. `moment`: is filled, if given. Returns the failure of the step.
    std::string step(Moment* moment) {
        if (moment != nullptr) moment->documents = probe_documents();
        const auto numbers = trainer_.step([&] {
            if (moment != nullptr)
                moment->gradients = train::whole_gradients(stack_.zero, run_.gathering);
            return train::ControlFlags();
        });
        if (moment != nullptr) {
            moment->loss = numbers.loss;
            moment->grad_norm = numbers.grad_norm;
            moment->num_tokens = numbers.step_tokens;
        }
        return numbers.ends_run ? numbers.ends_run->message() : numbers.skipped_because;
    }

private:
    at::Tensor logits(const data::FlatBatch& batch) {
        return train::whole_logits(stack_.transformer, run_.mesh, *sequence_, batch);
    }

    // Changes all tokens of one document after the other. Adds up what all ranks find: each of
    // them computes the batch, and may lose what others send to it.
    Moved probe_documents() {
        const auto& [batch, bounds] = run_.probe;
        const int64_t end = bounds.back();
        const at::Tensor before = logits(batch);
        Moved moved;
        for (size_t document = 0; document + 1 < bounds.size(); ++document) {
            const int64_t first = bounds[document];
            const int64_t behind = bounds[document + 1];
            data::FlatBatch changed = batch;
            for (int64_t place = first; place < behind; ++place) {
                int64_t& token = changed.tokens[static_cast<size_t>(place)];
                token = (token + 1) % run_.spec.vocabulary;
            }
            const at::Tensor after = logits(changed);
            moved.moved += count_moved(before, after, 0, first) +
                           count_moved(before, after, behind, end - behind);
            moved.compared += (end - (behind - first)) * before.size(1);
        }
        return {.compared = run_.group.sum(moved.compared), .moved = run_.group.sum(moved.moved)};
    }

    const SmallRun& run_;
    train::TrainingStack stack_;
    std::unique_ptr<comm::Communicator> sequence_;
    data::Loader loader_;
    train::Trainer trainer_;
};

}  // namespace

Outcome train(const SmallRun& run) {
    RunningModel model(run);
    Outcome outcome;
    for (int64_t step = 0; step < num_steps && outcome.failure.empty(); ++step) {
        Moment* const moment = step == 0               ? &outcome.moments.front()
                               : step == steps_between ? &outcome.moments.back()
                                                       : nullptr;
        outcome.failure = model.step(moment);
    }
    return outcome;
}

}  // namespace ringshard::prove
