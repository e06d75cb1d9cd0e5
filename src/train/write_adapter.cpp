#include "write_adapter.hpp"

#include "event_schedule.hpp"
#include "load_best.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/config/config.hpp"
#include "trainer_state.hpp"
#include "write_model.hpp"

namespace ringshard::train {

namespace {

// Writes the trainer_state.json that a run of its own would leave. For rank 0.
std::optional<Failure> write_state(size_t adapter, const AdapterEnd& end) {
    const Trainer& trainer = end.parts.trainer;
    const std::filesystem::path& folder = end.parts.store.output_dir();
    const int64_t last = trainer.num_steps_of(adapter);
    config::Config config = end.parts.config;
    config.training = trainer.settings_of(adapter);
    std::optional<int64_t> saved;
    if (asks_for_best(config)) saved = end.standing.best.last_best_of(saved_steps(folder, last));
    const EventSchedule events(config, trainer.planned_steps_of(adapter));
    return write_trainer_state(end.logs.folder(adapter) / state_file(),
                               {config, events, trainer.planned_steps_of(adapter), last,
                                end.standing.best, end.standing.early_stopping, saved, folder},
                               end.logs.state(adapter));
}

}  // namespace

std::optional<comm::AgreedFailure> write_adapter(size_t adapter, const AdapterEnd& end) {
    const RunParts& parts = end.parts;
    const std::string& name = parts.trainer.name_of(adapter);
    parts.world.flight_recorder().set_activity("writing an adapter");
    parts.faults.reach("export");
    if (parts.config.evaluation.load_best_model_at_end)
        if (const auto failure = load_best_of_adapter(end.standing.best, adapter, parts, end.log))
            return failure;
    const std::filesystem::path& folder = end.logs.folder(adapter);
    if (const auto failure = write_model(parts, folder, {{adapter, name}})) return failure;
    if (const auto failure = end.logs.write_end(adapter)) return failure;
    if (const auto failure = comm::first_failure(
            parts.world, parts.world.is_root() ? write_state(adapter, end) : std::nullopt))
        return failure;
    end.log.say(format_text("adapter {}: done after step {}, in {}", name,
                            parts.trainer.num_steps_of(adapter), folder.string()));
    return std::nullopt;
}

}  // namespace ringshard::train
