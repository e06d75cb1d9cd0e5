#include "component.hpp"
#include "document_log.hpp"
#include "fp8_maxima.hpp"
#include "log.hpp"
#include "replica_check.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/train/training_loop.hpp"
#include "slow_ranks.hpp"
#include "step_profile.hpp"

namespace ringshard::train {

std::vector<std::unique_ptr<Component>> make_components(const RunParts& parts, Log& log) {
    const config::Config& config = parts.config;
    std::vector<std::unique_ptr<Component>> made;
    made.push_back(std::make_unique<StepProfile>(
        config.logging,
        parts.store.output_dir() /
            format_text("profile-{}-rank{}.json", parts.store.attempt(), parts.world.rank()),
        parts.zero.device()));
    made.push_back(std::make_unique<ReplicaCheck>(parts.zero, parts.optimizer, parts.world,
                                                  parts.faults,
                                                  config.training.check_replicas_every, log));
    made.push_back(std::make_unique<SlowRanks>(parts.hosts, parts.world, log));
    if (config.logging.document_log != config::DocumentLogging::off)
        made.push_back(std::make_unique<DocumentLog>(parts, log));
    if (parts.delayed_scaling != nullptr)
        made.push_back(std::make_unique<Fp8Maxima>(*parts.delayed_scaling, parts.world));
    return made;
}

}  // namespace ringshard::train
