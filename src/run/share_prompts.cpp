#include "share_prompts.hpp"

#include <iostream>

namespace ringshard::run {

std::optional<Failure> share_prompts(const CommandContext& context, const model::ModelSpec& spec,
                                     RunData& data) {
    const config::Settings& settings = context.settings;
    const config::TrainingSettings& training = settings.values.training;
    if (!training.learns_pairs() || !training.share_prompts) return std::nullopt;
    const std::string why = spec.why_prompts_are_apart();
    if (!why.empty() && settings.is_fixed("share_prompts"))
        return Failure{ExitCode::settings,
                       format_text("share_prompts = true [{}]: with this model the prompt of a "
                                   "pair is computed for each answer, since {}; leave it out",
                                   settings.origin_of("share_prompts").place, why)};
    if (context.world.is_root())
        std::cerr << "prompts of pairs: "
                  << (why.empty() ? "computed once for both answers"
                                  : format_text("computed for each answer, since {}", why))
                  << '\n';
    if (!why.empty()) return std::nullopt;
    for (data::Rows& rows : data.training) rows.share_prompts();
    for (RunData::EvaluationSet& set : data.evaluation) set.rows.share_prompts();
    return std::nullopt;
}

}  // namespace ringshard::run
