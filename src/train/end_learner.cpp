#include "end_learner.hpp"

#include "event_schedule.hpp"
#include "load_best.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/reference_rows.hpp"
#include "trainer_state.hpp"
#include "write_model.hpp"

namespace ringshard::train {

namespace {

using MaybeFailure = std::optional<comm::AgreedFailure>;

// Writes the model, and beside it what it computes. A reader of both finds no older verify.json.
MaybeFailure write_result(size_t learner, const RunParts& parts,
                          const std::filesystem::path& folder) {
    const auto references = parts.compute_references();
    if (!references) return references.failure();
    const auto file = folder / data::References::file_name;
    std::error_code ignored;
    if (parts.world.is_root()) std::filesystem::remove(file, ignored);
    if (auto failure = write_model(parts, folder, learner)) return failure;
    std::optional<Failure> failure;
    if (!references.value().empty()) failure = write_file_atomically(file, references.value());
    return comm::first_failure(parts.world, failure);
}

// Writes the trainer_state.json that a run of the learner alone would leave. For rank 0.
std::optional<Failure> write_state(size_t number, const LearnerEnd& end) {
    const Learner& learner = end.parts.trainer.learners()[number];
    const std::filesystem::path& folder = end.parts.store.output_dir();
    TrainerState state = state_of(learner, end.evaluations.of_learner(number), end.parts.config,
                                  learner.num_steps(), folder);
    if (state.asks_for_best) state.best_checkpoint = state.best.last_best_of(saved_steps(folder));
    return write_trainer_state(end.logs.folder(number) / state_file(), state,
                               end.logs.state(number));
}

}  // namespace

MaybeFailure end_learner(size_t number, const LearnerEnd& end) {
    const RunParts& parts = end.parts;
    if (parts.config.evaluation.load_best_model_at_end)
        if (const auto failure =
                load_best(end.evaluations.of_learner(number).best, number, parts, end.log))
            return failure;
    parts.world.flight_recorder().set_activity("writing the model");
    parts.faults.reach("export");
    parts.optimizer.begin_evaluation(parts.zero);
    const std::filesystem::path folder = end.logs.folder(number);
    if (const auto failure = write_result(number, parts, folder)) return failure;
    if (!end.logs.has_own(number)) return std::nullopt;
    if (const auto failure = end.logs.write_end(number)) return failure;
    if (const auto failure = comm::first_failure(
            parts.world, parts.world.is_root() ? write_state(number, end) : std::nullopt))
        return failure;
    const Learner& learner = parts.trainer.learners()[number];
    end.log.say(format_text("{}: done after step {}, in {}", learner.title(), learner.num_steps(),
                            folder.string()));
    return std::nullopt;
}

}  // namespace ringshard::train
