#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/config/training_settings.hpp"

namespace ringshard::config {

// How torch.optim.Muon scales the learning rate of a matrix.
enum class MuonRate { original, match_rms_adamw };

inline bool is_schedule_free(Optimizer optimizer) {
    return optimizer == Optimizer::schedule_free_adamw || optimizer == Optimizer::schedule_free_sgd;
}

// Values of optim_args, with the defaults of the optimizer's class.
struct OptimizerArguments {
    double momentum = 0;
    double dampening = 0;
    bool nesterov = false;
    int64_t ns_steps = 5;
    MuonRate adjust_lr_fn = MuonRate::original;
    double alpha = 0.99;  // of RMSprop: the share of the mean of squares that stays
    double eps = 1e-8;    // of RMSprop and Adagrad
    double lr_decay = 0;  // of Adagrad
    // Of schedule-free optimizers: powers of the number of a step, and of its learning rate, in the
    // weight of its point in the average.
    double r = 0;
    double weight_lr_power = 2;
    bool decoupled_weight_decay = true;  // of AdamW; else the decay is added to the gradient: Adam
};

// Parses optim_args, which are those of `training.optim`; another optimizer has the defaults. The
// failure names the broken rule.
Expected<OptimizerArguments> read_optim_args(const TrainingSettings& training, Optimizer optimizer);

// The settings of AdamW that this optim does not use. None where lr_groups names other optimizers.
std::vector<std::string> settings_without_use(const TrainingSettings& training);

// An entry of lr_groups: the update of the weights whose names match, where no entry before it
// matches.
struct UpdateRule {
    std::string pattern;
    double rate = 1;  // factor of the learning rate
    std::optional<double> weight_decay{};
    std::optional<double> beta1{};
    std::optional<double> beta2{};
    std::optional<Optimizer> optim{};
};

// Parses lr_groups. The failure names the broken rule.
Expected<std::vector<UpdateRule>> read_lr_groups(const TrainingSettings& training);

}  // namespace ringshard::config
