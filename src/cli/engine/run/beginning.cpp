#include "beginning.hpp"

namespace ringshard::cli {

StartKind start_kind(const RunEntry& entry) {
    return entry.follows_itself() ? StartKind::restart : StartKind::first;
}

comm::Agreed<checkpoint::Progress> Beginning::load(Origin origin) {
    auto loaded =
        load_state(start_.context, origin, start_.spec, model_.stack.zero, *model_.stack.optimizer);
    if (!loaded) return loaded.failure();
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
    if (!progress) note_end(*attempt_, progress.failure(), world);
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

}  // namespace ringshard::cli
