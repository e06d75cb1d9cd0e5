#include "optimizers.hpp"
#include "ringshard/base/error.hpp"

namespace ringshard::optim {

OptimizerKind kind_of(config::Optimizer optimizer, const config::TrainingSettings& settings) {
    switch (optimizer) {
        case config::Optimizer::adafactor: return adafactor_kind();
        case config::Optimizer::adamw: return adamw_kind();
        case config::Optimizer::adamw_8bit: return adamw_8bit_kind();
        case config::Optimizer::lion: return lion_kind();
        case config::Optimizer::lion_8bit: return lion_8bit_kind();
        case config::Optimizer::muon: return muon_kind();
        case config::Optimizer::rmsprop: return rmsprop_kind();
        case config::Optimizer::schedule_free_adamw: return schedule_free_adamw_kind();
        case config::Optimizer::schedule_free_sgd: return schedule_free_sgd_kind();
        case config::Optimizer::sgd: return sgd_kind(settings);
    }
    RINGSHARD_CHECK(false, "unknown optimizer");
}

}  // namespace ringshard::optim
