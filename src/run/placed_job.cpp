#include "ringshard/run/placed_job.hpp"

#include "ringshard/config/settings.hpp"
#include "test_hooks.hpp"

namespace ringshard::run {

PlacedJob::PlacedJob(const CommandContext& context, Faults its_faults,
                     std::unique_ptr<watch::Watchdog> its_watchdog, Placement its_placement)
    : faults(std::move(its_faults)),
      watchdog(std::move(its_watchdog)),
      placement(std::move(its_placement)),
      mesh(context.world, placement.shape, placement.device,
           {test_hooks::message_delay(context.environment), placement.shares_gpus}) {}

comm::Agreed<std::unique_ptr<PlacedJob>> PlacedJob::place(const CommandContext& context) {
    const comm::Group& world = context.world;
    auto faults = comm::agreed(world, Faults::read(context.environment, world.rank()));
    if (!faults) return faults.failure();
    auto watchdog =
        std::make_unique<watch::Watchdog>(world, context.settings.values.run.hang_timeout_s,
                                          test_hooks::watch_pace(context.environment));
    world.flight_recorder().set_activity("starting");
    auto placement = place_ranks(context);
    if (!placement) return placement.failure();
    print_start(context, placement.value());
    return std::make_unique<PlacedJob>(context, std::move(faults).value(), std::move(watchdog),
                                       std::move(placement).value());
}

}  // namespace ringshard::run
