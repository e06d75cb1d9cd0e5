#include "begun_run.hpp"

#include <algorithm>

#include "beginning.hpp"
#include "export_template.hpp"
#include "model_card.hpp"
#include "sentence_files.hpp"

namespace ringshard::run {

comm::Agreed<BegunRun> BegunRun::begin(const CommandContext& context, PlacedJob& job,
                                       const RunInputs& inputs, const RunLearners& learners) {
    const comm::Group& world = context.world;
    job.watchdog->begin(watch::Work::other);
    world.flight_recorder().set_activity("loading");
    job.faults.reach("load");
    auto files = read_sidecar_files(world, inputs.model);
    if (!files) return files.failure();
    if (world.is_root()) files.value()["config.json"] = inputs.spec.config_json;
    if (const data::RowContent& content = inputs.data.training.front().content();
        world.is_root() && content.is_embedded)
        add_sentence_files(files.value(), content.pooling, inputs.spec.width);
    if (const auto failure = write_export_template(context, files.value())) return *failure;
    const std::vector<int64_t> num_steps = learners.num_steps();
    LossFingerprint fingerprint = fingerprint_of(
        context.settings, {job.placement.shape, inputs.data, inputs.spec, num_steps, files.value()},
        world);
    auto entry = RunEntry::begin(context, fingerprint);
    if (!entry) return entry.failure();
    BegunRun begun{.sidecar_files = std::move(files).value(),
                   .fingerprint = std::move(fingerprint),
                   .num_steps = std::ranges::max(num_steps),
                   .entry = std::move(entry).value()};
    auto origin = find_origin(begun.start(context, inputs), start_kind(begun.entry));
    if (!origin) return origin.failure();
    begun.origin = std::move(origin).value();
    return begun;
}

comm::Agreed<std::optional<PassedTensors>> complete_files(const CommandContext& context,
                                                          const RunInputs& inputs,
                                                          BegunRun& begun) {
    auto passed = find_passed_tensors(inputs.model, inputs.spec, context.world);
    if (!passed) return passed.failure();
    if (begun.origin.checkpoint)
        if (const auto changed = check_passed(*begun.origin.checkpoint, passed.value()))
            return comm::found_by_all(*changed);
    if (context.world.is_root())
        add_model_card(begun.sidecar_files, context.settings.values, begun.fingerprint);
    return passed;
}

}  // namespace ringshard::run
