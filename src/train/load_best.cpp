#include "load_best.hpp"

#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::train {

std::vector<int64_t> saved_steps(const std::filesystem::path& output_dir,
                                 std::optional<int64_t> coming) {
    std::vector<int64_t> steps;
    if (coming) steps.push_back(*coming);
    std::vector<std::string>
        damaged;  // ignored: load_best() reports a checkpoint that it cannot load
    if (const auto valid = checkpoint::valid_checkpoints(output_dir, damaged))
        for (const checkpoint::CheckpointEntry& entry : valid.value()) steps.push_back(entry.step);
    return steps;
}

std::optional<comm::AgreedFailure> load_best(const BestModel& best_model, size_t number,
                                             const RunParts& parts, Log& log) {
    const Learner& learner = parts.trainer.learners()[number];
    int64_t best = -1;
    if (parts.world.is_root())
        best = best_model.last_best_of(saved_steps(parts.store.output_dir())).value_or(-1);
    best = parts.world.maximum(best);
    if (best == learner.num_steps()) return std::nullopt;
    if (best < 0) {
        log.say(
            format_text("warning: load_best_model_at_end: no checkpoint was made right after an "
                        "evaluation better than all before; the {} is that of the last step",
                        learner.title()));
        return std::nullopt;
    }
    const auto folder = parts.store.output_dir() / checkpoint::checkpoint_name(best);
    const auto checked = checkpoint::check_checkpoint(
        folder, checkpoint::Contents::weights, checkpoint::Verification::hashes, parts.world);
    if (!checked) {
        log.say(
            format_text("warning: load_best_model_at_end: the best checkpoint is that of step {}, "
                        "and it cannot be loaded ({}); the {} is that of the last step",
                        best, checked.failure().message(), learner.title()));
        return std::nullopt;
    }
    if (const auto failure =
            checkpoint::load_weights(checked.value(), parts.zero, parts.world, number))
        return failure;
    parts.zero.refresh_compute_weights();
    log.say(format_text("the best {} is that of step {}", learner.title(), best));
    return std::nullopt;
}

}  // namespace ringshard::train
