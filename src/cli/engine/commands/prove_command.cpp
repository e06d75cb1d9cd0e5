#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine_commands.hpp"
#include "library_versions.hpp"
#include "placed_job.hpp"
#include "report_fp8.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/model/small_model.hpp"
#include "ringshard/prove/proof.hpp"
#include "run_inputs.hpp"

namespace ringshard::cli {

namespace {

using nlohmann::ordered_json;
using MaybeFailure = std::optional<comm::AgreedFailure>;

constexpr const char* proof_name = "proof.json";

// Returns the fewest ranks on which the mesh has every axis that the settings name.
int64_t fewest_ranks(const config::ParallelSettings& parallel) {
    const int64_t sequence = parallel.cp_size.value_or(1) * parallel.sp_size.value_or(1);
    const int64_t copies =
        parallel.dp_replicate_size.value_or(1) * parallel.dp_shard_size.value_or(2);
    return std::max(sequence * copies, parallel.ep_size);
}

// One rank has nothing to be compared with.
MaybeFailure check_world(const CommandContext& context) {
    if (context.world.size() > 1) return std::nullopt;
    return comm::found_by_all(
        {ExitCode::settings,
         format_text("prove compares the mesh of a job with one rank, and there is one rank: start "
                     "it as the job with srun, or here with `mpirun --oversubscribe -n {} trainer "
                     "prove` and the same settings",
                     fewest_ranks(context.settings.values.parallel))});
}

// Makes the folder of the certificate.
MaybeFailure make_folder_of_proof(const CommandContext& context) {
    std::optional<Failure> failure;
    if (context.world.is_root()) {
        const std::string& folder = context.settings.values.run.output_dir;
        std::error_code error;
        std::filesystem::create_directories(folder, error);
        if (error)
            failure =
                Failure{ExitCode::io, format_text("output_dir = {}: {}", folder, error.message())};
    }
    return comm::first_failure(context.world, failure);
}

std::string short_number(double number) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2g", number);
    return text.data();
}

std::string when(const prove::Check& check) {
    return check.steps == 0 ? "before a step" : format_text("after {} steps", check.steps);
}

std::string describe(const prove::Check& check) {
    if (!check.failure.empty()) return "no result: " + check.failure;
    if (check.what == prove::What::documents)
        return format_text("{} of {} numbers move in other documents",
                           static_cast<int64_t>(check.difference), check.compared);
    const std::string far = format_text("differs by {}, and may by {}",
                                        short_number(check.difference), short_number(check.limit));
    if (check.what == prove::What::loss) return "the loss " + far;
    return format_text("of {} gradients, the farthest {}: {}", check.compared, far, check.tensor);
}

std::string to_line(const prove::Check& check) {
    return format_text("{}  {}, {}: {}", check.holds() ? "holds " : "DIFFERS", check.precision,
                       when(check), describe(check));
}

const char* name_of(prove::What what) {
    switch (what) {
        case prove::What::loss: return "loss";
        case prove::What::gradients: return "gradients";
        case prove::What::documents: return "documents";
    }
    return "";
}

ordered_json to_json(const prove::Check& check) {
    ordered_json json{{"holds", check.holds()},         {"precision", check.precision},
                      {"steps", check.steps},           {"what", name_of(check.what)},
                      {"difference", check.difference}, {"limit", check.limit}};
    if (check.what != prove::What::loss) json["compared"] = check.compared;
    if (!check.tensor.empty()) json["tensor"] = check.tensor;
    if (!check.failure.empty()) json["failure"] = check.failure;
    return json;
}

ordered_json to_json(const model::SmallModel& small) {
    const model::ModelSpec& spec = small.spec;
    return {{"architecture", spec.architecture},
            {"hidden_size", spec.width},
            {"vocab_size", spec.vocabulary},
            {"num_experts", spec.num_experts()},
            {"blocks", small.blocks},
            {"blocks_of_model", small.blocks_of_model}};
}

std::string describe(const model::SmallModel& small) {
    std::vector<std::string> blocks;
    for (const size_t block : small.blocks) blocks.push_back(concat(block));
    return format_text(
        "a small {}: width {}, {} tokens; of {} blocks the numbers {}; sizes of "
        "heads{} as in the job",
        small.spec.architecture, small.spec.width, small.spec.vocabulary, small.blocks_of_model,
        join(blocks, ", "),
        small.spec.num_experts() == 0 ? ""
                                      : format_text(" and {} experts", small.spec.num_experts()));
}

std::optional<Failure> write_proof(const CommandContext& context, const Placement& placement,
                                   const model::SmallModel& small, const prove::Proof& proof,
                                   double seconds) {
    const config::Config& config = context.settings.values;
    ordered_json checks = ordered_json::array();
    for (const prove::Check& check : proof.checks) checks.push_back(to_json(check));
    const std::string settings = config::print_json(context.settings, config::OptionTable());
    const ordered_json record{
        {"holds", proof.holds},
        {"checks", checks},
        {"mesh",
         {{"dp_replicate", placement.shape.replicate},
          {"dp_shard", placement.shape.shard},
          {"cp", placement.shape.ring},
          {"sp", placement.shape.ulysses},
          {"ep", placement.shape.sections},
          {"cuts", to_text(mesh::cuts_of(config.parallel))}}},
        {"small_model", to_json(small)},
        {"left_out", proof.left_out},
        {"seconds",
         {{"all", seconds}, {"alone", proof.seconds_alone}, {"in_mesh", proof.seconds_in_mesh}}},
        {"versions", parse_json<ordered_json>(versions_text()).value()},
        {"settings", parse_json<ordered_json>(settings).value()}};
    return write_file_atomically(
        std::filesystem::path(config.run.output_dir) / proof_name,
        record.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

void print(const prove::Proof& proof) {
    for (const prove::Check& check : proof.checks) std::cout << to_line(check) << '\n';
    if (!proof.left_out.empty())
        std::cout << "not compared: " << join(proof.left_out, ", ") << '\n';
}

// Names the first difference.
Failure describe_failure(const prove::Proof& proof, const std::string& folder) {
    std::string first;
    for (const prove::Check& check : proof.checks)
        if (first.empty() && !check.holds())
            first = format_text("{}, {}: {}", check.precision, when(check), describe(check));
    return {ExitCode::bad_numbers,
            format_text("this mesh does not compute what one rank computes: {}; {} has all checks: "
                        "do not train with these settings, and report it with that file",
                        first, (std::filesystem::path(folder) / proof_name).string())};
}

MaybeFailure prove_job(const CommandContext& context) {
    const comm::Group& world = context.world;
    const Timer timer;
    if (auto failure = check_world(context)) return failure;
    const auto placed = PlacedJob::place(context);
    if (!placed) return placed.failure();
    PlacedJob& job = *placed.value();
    const auto found = find_model(context, HubCache(context.environment), job.placement);
    if (!found) return found.failure();
    if (!found.value().adapters.joint.empty())
        return comm::found_by_all(
            {ExitCode::settings,
             "adapters: prove compares one adapter; leave it out, and prove each of them with its "
             "own lora_r and lora_target_modules"});
    if (auto failure = report_fp8(context, found.value().spec)) return failure;
    if (auto failure = make_folder_of_proof(context)) return failure;
    const model::SmallModel small =
        model::make_small(found.value().spec, job.placement.shape.ulysses);
    if (world.is_root()) std::cerr << describe(small) << '\n';
    job.watchdog->begin(watch::Work::other);
    world.flight_recorder().set_activity("proving");
    const prove::Proof proof =
        prove::prove({.config = context.settings.values,
                      .small = small,
                      .world = world,
                      .mesh = job.mesh,
                      .faults = job.faults,
                      .made_progress = [&job] { job.watchdog->made_progress(); }});
    std::optional<Failure> failure;
    if (world.is_root()) {
        print(proof);
        failure = write_proof(context, job.placement, small, proof, timer.seconds());
        if (!failure && !proof.holds)
            failure = describe_failure(proof, context.settings.values.run.output_dir);
    }
    return comm::first_failure(world, failure);
}

}  // namespace

int run_prove(const CommandContext& context) {
    const c10::InferenceMode no_autograd;
    const auto failure = prove_job(context);
    return failure ? report_failure(*failure, context.world) : number(ExitCode::done);
}

}  // namespace ringshard::cli
