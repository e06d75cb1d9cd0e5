#include "load_best.hpp"

#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::train {

std::optional<int64_t> best_checkpoint(const BestModel& best_model,
                                       const std::filesystem::path& output_dir,
                                       std::optional<int64_t> coming) {
    std::vector<int64_t> steps;
    if (coming) steps.push_back(*coming);
    std::vector<std::string>
        damaged;  // ignored: load_best() reports a checkpoint that it cannot load
    if (const auto valid = checkpoint::valid_checkpoints(output_dir, damaged))
        for (const checkpoint::CheckpointEntry& entry : valid.value()) steps.push_back(entry.step);
    return best_model.last_best_of(steps);
}

std::optional<comm::AgreedFailure> load_best(const BestModel& best_model, int64_t step,
                                             const RunParts& parts, Log& log) {
    std::optional<int64_t> found;
    if (parts.world.is_root()) found = best_checkpoint(best_model, parts.store.output_dir());
    const int64_t best = parts.world.maximum(found.value_or(-1));
    if (best == step) return std::nullopt;
    if (best < 0) {
        log.say(
            "warning: load_best_model_at_end: no checkpoint was made right after an evaluation "
            "better than all before; the model is that of the last step");
        return std::nullopt;
    }
    const auto folder = parts.store.output_dir() / checkpoint::checkpoint_name(best);
    const auto checked = checkpoint::check_checkpoint(
        folder, checkpoint::Contents::weights, checkpoint::Verification::hashes, parts.world);
    if (!checked) {
        log.say(
            format_text("warning: load_best_model_at_end: the best checkpoint is that of step {}, "
                        "and it cannot be loaded ({}); the model is that of the last step",
                        best, checked.failure().message()));
        return std::nullopt;
    }
    if (const auto failure = checkpoint::load_weights(checked.value(), parts.zero, parts.world))
        return failure;
    parts.zero.refresh_compute_weights();
    log.say(format_text("the best model is that of step {}", best));
    return std::nullopt;
}

}  // namespace ringshard::train
