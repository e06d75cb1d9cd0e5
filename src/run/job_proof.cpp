#include "ringshard/run/job_proof.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/hash.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/prove/proof.hpp"
#include "ringshard/prove/small_model.hpp"
#include "ringshard/run/library_versions.hpp"
#include "ringshard/run/report_fp8.hpp"

namespace ringshard::run {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using MaybeFailure = std::optional<comm::AgreedFailure>;

constexpr const char* proof_name = "proof.json";

fs::path proof_file(const CommandContext& context) {
    return fs::path(context.settings.values.run.output_dir) / proof_name;
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
    if (check.what == prove::What::norm) return "the norm of the gradient " + far;
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
        case prove::What::norm: return "norm";
        case prove::What::documents: return "documents";
    }
    return "";
}

ordered_json to_json(const prove::Check& check) {
    ordered_json json{{"holds", check.holds()},         {"precision", check.precision},
                      {"steps", check.steps},           {"what", name_of(check.what)},
                      {"difference", check.difference}, {"limit", check.limit}};
    if (check.compared > 0) json["compared"] = check.compared;
    if (!check.tensor.empty()) json["tensor"] = check.tensor;
    if (!check.failure.empty()) json["failure"] = check.failure;
    return json;
}

ordered_json to_json(const prove::SmallModel& small) {
    const model::ModelSpec& spec = small.spec;
    return {{"architecture", spec.architecture},
            {"hidden_size", spec.width},
            {"vocab_size", spec.vocabulary},
            {"num_experts", spec.num_experts()},
            {"blocks", small.blocks},
            {"blocks_of_model", small.blocks_of_model}};
}

std::string describe(const prove::SmallModel& small) {
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

// What is proved: another one needs a proof of its own. On one rank.
ordered_json describe_subject(const CommandContext& context, const Placement& placement,
                              const prove::SmallModel& small) {
    const config::Config& config = context.settings.values;
    const std::string settings = config::print_json(context.settings, config::OptionTable());
    return {{"mesh",
             {{"dp_replicate", placement.shape.replicate},
              {"dp_shard", placement.shape.shard},
              {"cp", placement.shape.ring},
              {"sp", placement.shape.ulysses},
              {"ep", placement.shape.sections},
              {"cuts", to_text(mesh::cuts_of(config.parallel))}}},
            {"small_model", to_json(small)},
            {"versions", parse_json<ordered_json>(versions_text()).value()},
            {"settings", parse_json<ordered_json>(settings).value()}};
}

// Returns the text of proof.json.
std::string print_record(const ordered_json& subject, const prove::Proof& proof, double seconds) {
    ordered_json checks = ordered_json::array();
    for (const prove::Check& check : proof.checks) checks.push_back(to_json(check));
    ordered_json record{
        {"holds", proof.holds},
        {"checks", checks},
        {"left_out", proof.left_out},
        {"seconds",
         {{"all", seconds}, {"alone", proof.seconds_alone}, {"in_mesh", proof.seconds_in_mesh}}}};
    record.update(subject);
    return record.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
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

// Refuses what no proof is about. All ranks find it.
MaybeFailure check_job(const CommandContext& context, const model::ModelSpec& spec,
                       const AskedAdapters& adapters) {
    if (are_several(adapters))
        return comm::found_by_all(
            {ExitCode::settings,
             "adapters: prove compares one adapter; leave it out, and prove each of them with its "
             "own lora_r and lora_target_modules"});
    return report_fp8(context, spec);
}

// Returns the certificate in output_dir, if it holds and is of this subject. On rank 0.
std::optional<Certificate> find_certificate(const fs::path& file, const ordered_json& subject) {
    const auto content = read_file(file);
    if (!content) return std::nullopt;
    const auto record = json_or_null<ordered_json>(*content);
    if (!record.is_object() || record.value("holds", ordered_json()) != true) return std::nullopt;
    for (const auto& [name, value] : subject.items())
        if (record.value(name, ordered_json()) != value) return std::nullopt;
    return Certificate{proof_name, hash_of(*content)};
}

}  // namespace

comm::Agreed<Certificate> prove_job(const CommandContext& context, PlacedJob& job,
                                    const model::ModelSpec& spec, const AskedAdapters& adapters) {
    const comm::Group& world = context.world;
    const Timer timer;
    if (auto failure = check_job(context, spec, adapters)) return *failure;
    if (auto failure = make_folder_of_proof(context)) return *failure;
    const prove::SmallModel small = prove::make_small(spec, job.placement.shape.ulysses);
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
    Certificate certificate{.file = proof_name, .hash = {}};
    std::optional<Failure> failure;
    if (world.is_root()) {
        print(proof);
        const std::string record =
            print_record(describe_subject(context, job.placement, small), proof, timer.seconds());
        certificate.hash = hash_of(record);
        failure = write_file_atomically(proof_file(context), record);
        if (!failure && !proof.holds)
            failure = describe_failure(proof, context.settings.values.run.output_dir);
    }
    if (const auto agreed = comm::first_failure(world, failure)) return *agreed;
    return certificate;
}

comm::Agreed<std::optional<Certificate>> prove_in_job(const CommandContext& context, PlacedJob& job,
                                                      const RunInputs& inputs) {
    const comm::Group& world = context.world;
    if (!context.settings.values.run.prove_in_job) return std::optional<Certificate>();
    if (world.size() == 1) {
        std::cerr << "note: prove_in_job: one rank has nothing to be compared with\n";
        return std::optional<Certificate>();
    }
    std::optional<Certificate> found;
    if (world.is_root()) {
        const prove::SmallModel small = prove::make_small(inputs.spec, job.placement.shape.ulysses);
        found =
            find_certificate(proof_file(context), describe_subject(context, job.placement, small));
        if (found)
            std::cerr << format_text(
                "prove_in_job: {} is of these settings, this mesh and this program, and holds\n",
                proof_file(context).string());
    }
    if (world.maximum(found ? 1 : 0) == 1) return found;
    auto certificate = prove_job(context, job, inputs.spec, inputs.adapters);
    if (!certificate) return certificate.failure();
    return std::optional(std::move(certificate).value());
}

}  // namespace ringshard::run
