#include "load_best.hpp"

#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::train {

std::optional<comm::AgreedFailure> load_best(const BestModel& best_model, int64_t step,
                                             const RunParts& parts, Log& log) {
    const int64_t best = parts.world.maximum(best_model.saved_step().value_or(-1));
    if (best == step) return std::nullopt;
    if (best < 0) {
        log.say(
            "warning: load_best_model_at_end: no checkpoint was made right after an evaluation "
            "better than all before; the model is that of the last step");
        return std::nullopt;
    }
    const auto folder = parts.store.output_dir() / checkpoint::checkpoint_name(best);
    const auto checked = checkpoint::check_checkpoint(folder, checkpoint::Extent::weights,
                                                      checkpoint::Scrutiny::hashes, parts.world);
    if (!checked) {
        log.say(concat("warning: load_best_model_at_end: the best checkpoint is that of step ",
                       best, ", and it cannot be loaded (", checked.failure().message(),
                       "); the model is that of the last step"));
        return std::nullopt;
    }
    if (const auto failure = checkpoint::load_weights(checked.value(), parts.zero, parts.world))
        return failure;
    parts.zero.publish_weights();
    log.say(concat("the best model is that of step ", best));
    return std::nullopt;
}

}  // namespace ringshard::train
