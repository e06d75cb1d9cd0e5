#include "plan_curves.hpp"

#include <iostream>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/run/plan_answers.hpp"

namespace ringshard::cli {

namespace {

constexpr int64_t most_ranks = 1024;

// As plots of metrics have it, with ranks in the place of steps.
std::string line_of(int64_t ranks, const run::Answer& answer) {
    return nlohmann::ordered_json{{"step", ranks},
                                  {"tokens_per_second", answer.seconds.tokens_per_second},
                                  {"step_seconds", answer.seconds.total},
                                  {"utilisation", answer.seconds.utilisation},
                                  {"row_length", answer.row_length},
                                  {"peak_bytes", answer.held}}
               .dump() +
           "\n";
}

}  // namespace

std::optional<Failure> write_curves(const std::filesystem::path& folder,
                                    const config::Settings& settings, const model::ModelSpec& spec,
                                    const plan::Device& device, const run::PlanArgs& args,
                                    const Environment& environment, int64_t num_threads,
                                    const ops::Gemms& gemms) {
    const config::OptionTable table;
    const int64_t accumulation = settings.values.training.gradient_accumulation_steps;
    const int64_t ulysses = settings.values.parallel.sp_size.value_or(1);
    std::string weak;
    std::string strong;
    std::string longest;
    for (int64_t ranks = args.world; ranks <= most_ranks; ranks *= 2) {
        run::PlanArgs larger = args;
        larger.world = ranks;
        larger.nodes = std::max<int64_t>(1, ranks / args.ranks_per_node());
        std::cerr << "on " << ranks << " ranks\n";
        const run::Planner planner(spec, device, larger, environment, num_threads, 0, &gemms);
        const auto add = [&](std::string& lines, Expected<run::Answer> answer) {
            if (answer && answer.value().fits()) lines += line_of(ranks, answer.value());
            return answer ? std::nullopt : std::optional(answer.failure());
        };
        if (auto failure = add(weak, planner.answer(settings))) return failure;
        const auto shared = settings.with("gradient_accumulation_steps",
                                          concat(accumulation * (most_ranks / ranks)), table);
        if (auto failure = add(strong, planner.answer(shared))) return failure;
        const auto ring = settings.with("cp_size", concat(ranks / ulysses), table);
        const auto longest_there = planner.longest(ring);
        if (!longest_there) return longest_there.failure();
        if (auto failure = add(longest, longest_there.value().answer)) return failure;
    }
    if (weak.empty())
        return Failure{ExitCode::settings, "curves: nothing fits this device, up to 1024 ranks"};
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    for (const auto& [name, lines] :
         {std::pair{"weak.jsonl", &weak}, {"strong.jsonl", &strong}, {"longest.jsonl", &longest}})
        if (!lines->empty())
            if (auto failure = write_file_atomically(folder / name, *lines)) return failure;
    return std::nullopt;
}

}  // namespace ringshard::cli
