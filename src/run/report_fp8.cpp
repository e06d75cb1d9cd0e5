#include "ringshard/run/report_fp8.hpp"

#include <iostream>

#include "ringshard/config/settings.hpp"
#include "ringshard/model/fp8_products.hpp"

namespace ringshard::run {

std::optional<comm::AgreedFailure> report_fp8(const CommandContext& context,
                                              const model::ModelSpec& spec) {
    const config::TrainingSettings& training = context.settings.values.training;
    if (!training.has_fp8()) return std::nullopt;
    const auto text = model::describe_fp8(spec, training);
    if (!text) return comm::found_by_all(text.failure());
    if (context.world.is_root()) std::cerr << text.value() << '\n';
    return std::nullopt;
}

}  // namespace ringshard::run
