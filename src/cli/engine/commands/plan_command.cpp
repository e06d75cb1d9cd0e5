#include "engine_commands.hpp"

#include <ATen/Parallel.h>

#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "plan_curves.hpp"
#include "plan_parts.hpp"
#include "ringshard/base/hub_cache.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/hub/tied_head.hpp"
#include "ringshard/hub/wrapped_files.hpp"
#include "ringshard/model/config_fields.hpp"
#include "ringshard/model/fp8_products.hpp"
#include "ringshard/run/checkpoint_as_model.hpp"
#include "ringshard/run/cpu_gemm.hpp"
#include "ringshard/run/placement.hpp"
#include "ringshard/run/plan_answers.hpp"
#include "ringshard/run/run_adapters.hpp"
#include "ringshard/run/settle_head.hpp"
#include "ringshard/run/vocabulary.hpp"

namespace ringshard::cli {

namespace {

using nlohmann::ordered_json;

std::string bytes(int64_t count) { return human_bytes(static_cast<double>(count)); }

std::string describe(const plan::Shortage& shortage) {
    return format_text("{}: {} where there are {}", shortage.of, human_bytes(shortage.needed),
                       human_bytes(shortage.there));
}

struct PlannedModel {
    model::ModelSpec spec;
    int64_t passed_bytes = 0;  // of a wrapped model's other tensors
};

ordered_json to_json(const run::Answer& answer) {
    const plan::StepPlan& plan = answer.plan;
    ordered_json memory = ordered_json::object();
    for (const train::MemoryKind& kind : train::memory_kinds)
        memory[kind.name] = plan.memory.*kind.bytes;
    ordered_json traffic = ordered_json::array();
    for (const plan::Traffic& group : plan.traffic)
        traffic.push_back({{"group", group.group},
                           {"ranks", group.ranks},
                           {"operations", group.operations},
                           {"bytes", group.bytes}});
    return {
        {"mesh", to_text(answer.shape)},
        {"row_length", answer.row_length},
        {"activation_policy", to_text(answer.policies)},
        {"peak_bytes", answer.held},
        {"host_bytes", plan.host_bytes()},
        {"peak_at", plan.peak_at},
        {"memory_bytes", memory},
        {"traffic", traffic},
        {"checkpoint_bytes", plan.checkpoint_bytes},
        {"scratch_bytes_of_a_rank", plan.scratch_bytes},
        {"checkpoint_seconds", {{"stall", answer.save.stall}, {"durable", answer.save.durable}}},
        {"fits", answer.fits()},
        {"short_of", answer.shortage ? ordered_json(answer.shortage->of) : ordered_json()},
        {"step_seconds",
         {{"products", answer.seconds.products},
          {"attention", answer.seconds.attention},
          {"rows", answer.seconds.rows},
          {"loss", answer.seconds.loss},
          {"optimizer", answer.seconds.optimizer},
          {"exposed_communication", answer.seconds.exposed},
          {"total", answer.seconds.total}}},
        {"tokens_per_second", answer.seconds.tokens_per_second},
        {"utilisation", answer.seconds.utilisation}};
}

std::string describe_fp8(const config::TrainingSettings& training, const model::ModelSpec& spec) {
    return training.has_fp8() ? model::describe_fp8(spec, training).value() + "\n" : "";
}

std::optional<Failure> check_fp8(const config::TrainingSettings& training,
                                 const model::ModelSpec& spec, const plan::Device& device) {
    if (!training.has_fp8()) return std::nullopt;
    if (device.fp8_products == 0)
        return Failure{
            ExitCode::settings,
            format_text(
                "mixed_precision = fp8: {} has no products in FP8; plan with bf16, or with h100-80",
                device.name)};
    const auto text = model::describe_fp8(spec, training);
    return text ? std::nullopt : std::optional(text.failure());
}

// Returns the libraries of matrix products on the host: those of a rule, or the one that cpu_gemm
// names. Of a GPU: none.
Expected<ops::Gemms> open_gemms(const config::Settings& settings, const plan::Device& device) {
    if (!device.is_host) return ops::Gemms();
    auto gemms = ops::Gemms::open();
    const config::CpuGemm named = settings.values.run.cpu_gemm;
    if (!gemms || named == config::CpuGemm::automatic) return gemms;
    const at::ScalarType type =
        settings.values.training.computes_in_bf16() ? at::kBFloat16 : at::kFloat;
    const std::string origin = settings.origin_of("cpu_gemm").place;
    if (const auto failure = run::take_named_gemm(gemms.value(), named, type, origin))
        return *failure;
    return gemms;
}

void print(const run::Answer& answer, const PlanContext& context, const model::ModelSpec& spec,
           const plan::Device& device) {
    const int64_t ranks_per_node = context.args.ranks_per_node();
    const plan::StepPlan& plan = answer.plan;
    std::cout << "mesh " << to_text(answer.shape) << " (replicate x shard x ring x ulysses), "
              << answer.num_rows << (answer.num_rows == 1 ? " row of " : " rows of ")
              << answer.row_length << " tokens at a time"
              << (context.args.documents > 1
                      ? format_text(", {} documents in each", context.args.documents)
                      : "")
              << '\n'
              << (context.settings.values.training.activations_kept().is_automatic()
                      ? run::describe_automatic(answer.policies, spec) + "\n"
                      : "")
              << describe_fp8(context.settings.values.training, spec) << "a rank holds at most "
              << bytes(answer.held) << ", at: " << plan.peak_at << '\n';
    for (const train::MemoryKind& kind : train::memory_kinds)
        if (const int64_t held = plan.memory.*kind.bytes; held > 0)
            std::cout << "  " << std::left << std::setw(14) << kind.name << bytes(held)
                      << (kind.is_on_host && !device.is_host ? ", in the host's memory" : "")
                      << '\n';
    for (const plan::Traffic& group : plan.traffic)
        std::cout << "sends in a step over " << group.group << " (" << group.ranks
                  << " ranks): " << bytes(group.bytes) << " in " << group.operations
                  << " operations\n";
    std::cout << "a checkpoint: " << bytes(plan.checkpoint_bytes) << ", training stands still for "
              << std::setprecision(2) << answer.save.stall << " s"
              << (answer.save.is_copied ? "" : " (a node has no room for a copy)")
              << ", it is durable after " << answer.save.durable << " s (a node writes "
              << human_bytes(device.save_bytes) << "/s); a node holds "
              << bytes(ranks_per_node * plan.host_bytes()) << " of host memory for it and for "
              << "offloaded state\n";
    const plan::StepTime& time = answer.seconds;
    std::cout << std::setprecision(3) << "a step: about " << time.total << " s (products "
              << time.products << ", attention " << time.attention << ", rows " << time.rows
              << ", loss " << time.loss << ", optimizer " << time.optimizer
              << ", waiting for others " << time.exposed << "), " << time.tokens_per_second
              << " tokens/s, " << 100 * time.utilisation << " % of the peak\n";
    if (context.args.shows_parts) print_parts(time);
    if (plan.scratch_bytes > 0)
        std::cout << "in files of a node: " << bytes(ranks_per_node * plan.scratch_bytes) << '\n';
    std::cout << device.name << " has " << human_bytes(device.memory_bytes) << " for tensors: "
              << (answer.fits() ? "it fits"
                                : "it does not fit, being short of " + describe(*answer.shortage))
              << '\n';
}

void print_cures(const std::vector<run::Suggestion>& cures) {
    if (cures.empty()) {
        std::cout << "no single setting makes it fit; --suggest looks for a profile, a layout and "
                     "a smaller batch\n";
        return;
    }
    std::cout << "settings that make it fit:\n";
    for (const run::Suggestion& cure : cures)
        std::cout << "  " << cure.flags << ": " << bytes(cure.answer.held) << '\n';
}

int tell_suggestions(const std::vector<run::Suggestion>& suggestions, bool as_json) {
    ordered_json list = ordered_json::array();
    for (const run::Suggestion& suggestion : suggestions) {
        ordered_json entry = to_json(suggestion.answer);
        entry["flags"] = suggestion.flags;
        entry["reason"] = suggestion.reason;
        list.push_back(std::move(entry));
        if (!as_json)
            std::cout << std::setprecision(3) << suggestion.answer.seconds.tokens_per_second
                      << " tokens/s  " << bytes(suggestion.answer.held) << "  " << suggestion.flags
                      << "  (" << suggestion.reason << ")\n";
    }
    if (as_json) std::cout << list.dump(2) << '\n';
    if (suggestions.empty())
        return report_failure({ExitCode::settings,
                               "no layout of so many ranks fits this device; --world "
                               "more, rows that are shorter (--max_length), or fewer at a time "
                               "(--per_device_train_batch_size)"});
    return number(ExitCode::done);
}

Expected<run::Planner::Longest> ask(const run::Planner& planner, const PlanContext& context) {
    if (context.args.finds_longest) return planner.longest(context.settings);
    auto answer = planner.answer(context.settings);
    if (!answer) return answer.failure();
    return run::Planner::Longest{std::move(answer).value(), {}};
}

// In how many parts a rank, or several, take the experts of a block.
int64_t parts_of_experts(const run::Answer& answer, const PlanContext& context,
                         const model::ModelSpec& spec) {
    const mesh::Cuts cuts = mesh::cuts_of(context.settings.values.parallel);
    return model::gathers_slices(answer.shape, cuts) ? model::most_slices_of_experts(spec)
                                                     : answer.shape.sections;
}

// Returns the bytes that a rank holds at most if one part of the experts gets all rows: those of
// this rank, of all ranks that share them, or one of the slices in which it gathers them. Nothing
// if there is one part.
std::optional<int64_t> held_if_uneven(const run::Answer& answer, const run::Planner& planner,
                                      const PlanContext& context, const model::ModelSpec& spec) {
    const int64_t parts = parts_of_experts(answer, context, spec);
    if (parts == 1) return std::nullopt;
    config::Settings settings = context.settings;
    settings.values.training.activation_policy = answer.policies;
    const model::ModelSpec uneven = plan::with_uneven_rows(spec, parts);
    return planner.of(uneven).answer(settings, answer.shape, answer.row_length).held;
}

int tell_answer(const run::Planner& planner, const PlanContext& context, const PlannedModel& model,
                const plan::Device& device) {
    const auto asked = ask(planner, context);
    if (!asked) return report_failure(asked.failure());
    const auto& [answer, end] = asked.value();
    const auto uneven = held_if_uneven(answer, planner, context, model.spec);
    if (context.args.as_json) {
        ordered_json json = to_json(answer);
        json["passed_bytes"] = model.passed_bytes;
        if (context.args.shows_parts) {
            json["step_parts"] = parts_as_json(answer.seconds);
            json["uncounted_kernels"] = uncounted_as_json();
        }
        if (uneven) json["peak_bytes_if_uneven"] = *uneven;
        if (end) json["longer_is_short_of"] = end->of;
        std::cout << json.dump(2) << '\n';
        return number(ExitCode::done);
    }
    print(answer, context, model.spec, device);
    if (uneven)
        std::cout << "the experts get equally many rows in this plan; a rank "
                  << (answer.shape.sections > 1
                          ? format_text(
                                "whose experts get all rows of the {} ranks that share them",
                                answer.shape.sections)
                          : std::string("that gathers experts which get all its rows together"))
                  << " holds at most " << bytes(*uneven) << '\n';
    if (model.passed_bytes > 0)
        std::cout << "every model that is written holds " << bytes(model.passed_bytes)
                  << " of other tensors than the text model's, of which each rank copies its part, "
                     "4 MiB at a time\n";
    if (end) std::cout << "longer rows are short of " << describe(*end) << '\n';
    if (!answer.fits()) print_cures(planner.cures(context.settings));
    return number(ExitCode::done);
}

Expected<plan::Device> find_device(const run::PlanArgs& args) {
    if (!args.interconnect.empty()) {
        const auto is_known = plan::with_interconnect({}, args.interconnect);
        if (!is_known) return is_known;
    }
    auto device = plan::find_device(args.device, args.ranks_per_node());
    if (device && !args.interconnect.empty())
        return plan::with_interconnect(std::move(device).value(), args.interconnect);
    return device;
}

int show_device(const run::PlanArgs& args) {
    const auto device = find_device(args);
    if (!device) return report_failure(device.failure());
    std::cout << to_text(device.value());
    return number(ExitCode::done);
}

bool is_head_apart(const hub::StoredModel& stored, const model::ModelSpec& spec) {
    if (!hub::holds_head_and_embedding(stored, spec.names)) return false;
    const auto is_equal = hub::is_head_the_embedding(stored, spec.names, 0, 1);
    return is_equal && !is_equal.value();
}

// A plan needs no weights; where they are there, they decide whether the head is tied, and how many
// bytes of a wrapped model pass through.
void look_into_files(const std::filesystem::path& folder, PlannedModel& model) {
    auto stored = hub::StoredModel::open(folder);
    if (!stored || hub::find_weights(stored.value(), model.spec)) return;
    if (model.spec.tied && is_head_apart(stored.value(), model.spec)) model.spec.untie();
    for (const auto& [name, tensor] : stored.value().others())
        model.passed_bytes += static_cast<int64_t>(tensor.length);
}

Expected<PlannedModel> find_model(const PlanContext& context) {
    const config::ModelSettings& args = context.settings.values.model;
    const HubCache hub(context.environment);
    const auto folder =
        hub.model_folder(args.model_name_or_path, args.model_revision, "model_name_or_path");
    if (!folder) return folder.failure();
    if (auto failure = run::refuse_unfinished_run(folder.value(), "model_name_or_path"))
        return *failure;
    auto spec = model::read_model_spec(folder.value() / "config.json", args.overrides());
    if (!spec) return spec.failure();
    constexpr int64_t any_padding = 0;  // it takes no memory
    if (const auto failure = run::settle_head(context.settings, any_padding, spec.value()))
        return *failure;
    std::vector<std::string> notes;
    if (const auto failure =
            run::resize_vocabulary(context.settings.values, hub, spec.value(), notes))
        return *failure;
    for (const std::string& note : notes) std::cerr << "note: " << note << '\n';
    const std::string warning = model::warn_of_unknown_fields(folder.value() / "config.json");
    if (!warning.empty()) std::cerr << "warning: " << warning << '\n';
    PlannedModel model{std::move(spec).value()};
    look_into_files(folder.value(), model);
    auto adapters = run::read_asked_adapters(context.settings, hub);
    if (!adapters) return adapters.failure();
    if (const auto failure = run::refuse_whole_training(model.spec, context.settings))
        return *failure;
    if (const auto failure = run::choose_trained(model.spec, context.settings, adapters.value()))
        return *failure;
    return model;
}

}  // namespace

int run_plan(const PlanContext& given) {
    const run::PlanArgs& args = given.args;
    const auto threads =
        device::choose_num_threads(given.settings.values.run.num_threads, given.environment,
                                   device::describe_host(), args.ranks_per_node());
    if (!threads) return report_failure(threads.failure());
    at::set_num_threads(narrow<int>(threads.value()));
    if (args.shows_device) return show_device(args);
    const auto model = find_model(given);
    if (!model) return report_failure(model.failure());
    const auto& [spec, passed_bytes] = model.value();
    const config::Settings planned = given.settings.on_ranks(args.world, config::OptionTable());
    if (!args.suggests) {
        const auto layout = run::choose_layout(planned, spec, args);
        if (!layout) return report_failure(layout.failure());
    }
    // Last, since this host is measured for it, which takes seconds.
    const auto device = find_device(args);
    if (!device) return report_failure(device.failure());
    if (const auto failure = check_fp8(given.settings.values.training, spec, device.value()))
        return report_failure(*failure);
    if (!device.value().is_host)
        if (const auto failure = run::check_for_gpus(planned)) return report_failure(*failure);
    const config::Settings settings = device.value().is_host ? planned : planned.on_gpus();
    const PlanContext context{settings, given.environment, args};
    const auto gemms = open_gemms(context.settings, device.value());
    if (!gemms) return report_failure(gemms.failure());
    const run::Planner planner(spec, device.value(), args, context.environment, threads.value(),
                               passed_bytes, &gemms.value());
    if (!args.curves.empty()) {
        if (const auto failure =
                write_curves(args.curves, context.settings, spec, device.value(), args,
                             context.environment, threads.value(), gemms.value()))
            return report_failure(*failure);
        std::cout << "wrote weak.jsonl, strong.jsonl and longest.jsonl into " << args.curves
                  << "; trainer plot --plan " << args.curves
                  << "/*.jsonl --output FILE.svg draws them\n";
        return number(ExitCode::done);
    }
    if (args.suggests) return tell_suggestions(planner.suggest(context.settings), args.as_json);
    return tell_answer(planner, context, model.value(), device.value());
}

}  // namespace ringshard::cli
