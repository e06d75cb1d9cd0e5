#include "beginning.hpp"

#include <iostream>

#include "ringshard/base/text.hpp"

namespace ringshard::run {

StartKind start_kind(const RunEntry& entry) {
    return entry.follows_itself() ? StartKind::restart : StartKind::first;
}

// The settings of FP8 shape a computation, as mixed_precision does, and any run may change them.
std::optional<comm::AgreedFailure> Beginning::load_maxima(
    const std::optional<checkpoint::Checkpoint>& checkpoint) const {
    model::DelayedScaling* const scaling = model_.stack.delayed_scaling.get();
    if (scaling != nullptr) scaling->forget();
    if (!checkpoint) return std::nullopt;
    const auto stored = checkpoint->state.texts.find(model::fp8_history_text);
    const bool is_stored = stored != checkpoint->state.texts.end();
    const std::string folder = checkpoint->folder.string();
    std::string note;
    if (scaling == nullptr) {
        if (is_stored)
            note = format_text(
                "{} has maxima of fp8_recipe delayed, which the recipe of this run does not use",
                folder);
    } else if (!is_stored) {
        note = format_text(
            "{} has no maxima for fp8_recipe delayed: factors of the first step have a scale for "
            "each row",
            folder);
    } else if (const auto damaged = scaling->load(stored->second, folder)) {
        return comm::found_by_all(*damaged);
    }
    if (!note.empty() && start_.context.world.is_root()) std::cerr << "note: " << note << '\n';
    return std::nullopt;
}

comm::Agreed<checkpoint::Progress> Beginning::load(Origin origin) {
    auto loaded =
        load_state(start_.context, origin, start_.spec, model_.stack.zero, *model_.stack.optimizer);
    if (!loaded) return loaded.failure();
    if (const auto failure = load_maxima(origin.checkpoint)) return *failure;
    resumed_from_ = origin.checkpoint ? origin.checkpoint->folder : std::filesystem::path();
    resumed_texts_.clear();
    if (origin.checkpoint) resumed_texts_ = origin.checkpoint->state.texts;
    pretrained_ = std::move(origin.pretrained);
    frozen_ = std::move(loaded.value().frozen);
    return loaded.value().progress;
}

shard::FrozenSource Beginning::frozen_source() const {
    return {
        .read = pretrained_->reader(start_.spec, start_.context.world.flight_recorder().bytes()),
        .hashes = frozen_.hashes()};
}

bool Beginning::rounds_frozen() const {
    return pretrained_ &&
           !pretrained_->fits_exactly(start_.spec.frozen, model_.stack.zero.compute_type());
}

comm::Agreed<checkpoint::Progress> Beginning::load_newest(StartKind kind) {
    auto origin = find_origin(start_, kind);
    if (!origin) return origin.failure();
    return load(std::move(origin).value());
}

template <class Load>
comm::Agreed<checkpoint::Progress> Beginning::after_claim(Load load) {
    const comm::Group& world = start_.context.world;
    faults_.reach("claim");
    if (const auto failure = claim_attempt(attempt_, entry_, world, watchdog_)) return *failure;
    comm::Agreed<checkpoint::Progress> progress = load();
    if (progress)
        if (const auto failure = attempt_->store.record_start(progress.value().step))
            progress = *failure;
    if (!progress) {
        progress = unless_superseded(*attempt_, progress.failure(), world);
        note_end(*attempt_, progress.failure(), world);
    }
    return progress;
}

comm::Agreed<checkpoint::Progress> Beginning::first(Origin origin) {
    auto loaded = load(std::move(origin));
    if (!loaded) return loaded;
    return after_claim([&] {
        // A job that was replaced may have saved meanwhile.
        if (!entry_.finds_other_checkpoints(start_.context.world)) return loaded;
        return load_newest(start_kind(entry_));
    });
}

comm::Agreed<checkpoint::Progress> Beginning::again() {
    return after_claim([&] { return load_newest(StartKind::restart); });
}

}  // namespace ringshard::run
