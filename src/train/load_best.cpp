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

namespace {

// `what`: the model, or an adapter by its name. `step`: its last one.
std::optional<comm::AgreedFailure> load(int64_t best, int64_t step, const std::string& what,
                                        std::optional<size_t> adapter, const RunParts& parts,
                                        Log& log) {
    if (best == step) return std::nullopt;
    if (best < 0) {
        log.say(
            format_text("warning: load_best_model_at_end: no checkpoint was made right after an "
                        "evaluation better than all before; the {} is that of the last step",
                        what));
        return std::nullopt;
    }
    const auto folder = parts.store.output_dir() / checkpoint::checkpoint_name(best);
    const auto checked = checkpoint::check_checkpoint(
        folder, checkpoint::Contents::weights, checkpoint::Verification::hashes, parts.world);
    if (!checked) {
        log.say(
            format_text("warning: load_best_model_at_end: the best checkpoint is that of step {}, "
                        "and it cannot be loaded ({}); the {} is that of the last step",
                        best, checked.failure().message(), what));
        return std::nullopt;
    }
    if (const auto failure =
            checkpoint::load_weights(checked.value(), parts.zero, parts.world, adapter))
        return failure;
    parts.zero.refresh_compute_weights();
    log.say(format_text("the best {} is that of step {}", what, best));
    return std::nullopt;
}

}  // namespace

std::optional<comm::AgreedFailure> load_best(const BestModel& best_model, int64_t step,
                                             const RunParts& parts, Log& log) {
    std::optional<int64_t> found;
    if (parts.world.is_root())
        found = best_model.last_best_of(saved_steps(parts.store.output_dir()));
    return load(parts.world.maximum(found.value_or(-1)), step, "model", std::nullopt, parts, log);
}

std::optional<comm::AgreedFailure> load_best_of_adapter(const BestModel& best_model, size_t adapter,
                                                        const RunParts& parts, Log& log) {
    const int64_t step = parts.trainer.num_steps_of(adapter);
    std::optional<int64_t> found;
    if (parts.world.is_root())
        found = best_model.last_best_of(saved_steps(parts.store.output_dir(), step));
    return load(parts.world.maximum(found.value_or(-1)), step,
                format_text("adapter {}", parts.trainer.name_of(adapter)), adapter, parts, log);
}

}  // namespace ringshard::train
