#include "open_recorder.hpp"

#include <iostream>

#include "ringshard/base/text.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::run {

comm::Agreed<std::unique_ptr<model::Recorder>> open_recorder(const CommandContext& context,
                                                             const Placement& placement) {
    if (!context.settings.values.training.cuda_graphs) return std::unique_ptr<model::Recorder>();
    const auto refuse = [&](const std::string& why) {
        return comm::found_by_all(
            {ExitCode::settings,
             format_text("cuda_graphs = true [{}]: {}; leave it out",
                         context.settings.origin_of("cuda_graphs").place, why)});
    };
    if (!placement.device.is_cuda()) return refuse("this run computes on the CPU");
    if (placement.shape.sequence() > 1)
        return refuse(
            format_text("attention over {} ranks waits for their messages (cp_size, sp_size)",
                        placement.shape.sequence()));
    return model::make_recorder(placement.device);
}

void report_replays(const model::Replays& replays) {
    std::cerr << "cuda_graphs: " << replays.replayed << " of " << replays.batches
              << " batches of rank 0 were replayed";
    if (replays.replayed == 0)
        std::cerr << "; that takes batches of one shape after another, whose rows are documents of "
                     "one length, and no lora_dropout";
    std::cerr << '\n';
}

}  // namespace ringshard::run
