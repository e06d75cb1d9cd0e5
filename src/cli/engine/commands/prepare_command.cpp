#include "engine_commands.hpp"

#include <iostream>

#include "ringshard/base/narrow.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/data/choose_data.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/run/run_data.hpp"

namespace ringshard::cli {

namespace {

bool is_evaluated(const config::Config& config) {
    return config.evaluation.eval_strategy != config::Interval::no ||
           config.evaluation.eval_on_start || config.evaluation.do_predict ||
           !config.data.eval_dataset_name.empty();
}

void report(const char* what, const data::Prepared& prepared, const data::RowSettings& settings) {
    for (const std::string& warning : prepared.warnings)
        std::cerr << "warning: " << shown_message(warning) << '\n';
    std::cout << what << ": " << prepared.plan_file.string() << '\n'
              << to_text(prepared.report, settings);
}

}  // namespace

int run_prepare(const run::CommandContext& context) {
    const comm::Group& world = context.world;
    const config::Config& config = context.settings.values;
    if (world.is_root())
        for (const std::string& note : context.notes) std::cerr << "note: " << note << '\n';
    const HubCache hub(context.environment);
    const auto threads = comm::agreed(
        world, device::choose_num_threads(config.run.num_threads, context.environment,
                                          device::describe_host(), world.split_by_host().size()));
    if (!threads) return report_failure(threads.failure(), world);
    const data::PrepareResources resources = run::prepare_resources(context, threads.value(), hub);
    data::OpenFiles open;
    int64_t num_rows = 0;
    const auto make = [&](const char* what, Expected<data::Preparation> chosen) -> int {
        const auto preparation = comm::agreed(world, std::move(chosen));
        if (!preparation) return report_failure(preparation.failure(), world);
        const auto prepared = data::prepare(preparation.value(), resources, world, open);
        if (!prepared) return report_failure(prepared.failure(), world);
        if (world.is_root()) report(what, prepared.value(), preparation.value().rows);
        num_rows = prepared.value().rows.size();
        return number(ExitCode::done);
    };
    const int code = make("training data", data::training_data(config, hub));
    constexpr int64_t fewest_ranks = 1;  // the job that trains may have any number
    if (const auto unused = run::check_rows_are_dealt(context.settings, num_rows, fewest_ranks);
        code == 0 && unused)
        return report_failure(comm::found_by_all(*unused), world);
    if (code != 0 || !is_evaluated(config)) return code;
    auto sets = comm::agreed(world, data::evaluation_data(config, hub));
    if (!sets) return report_failure(sets.failure(), world);
    for (data::EvaluationData& set : sets.value())
        if (const int failed = make(set.title.c_str(), std::move(set.preparation)); failed != 0)
            return failed;
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
