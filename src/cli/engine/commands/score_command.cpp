#include "engine_commands.hpp"

#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/data/score_file.hpp"
#include "ringshard/model/delayed_scaling.hpp"
#include "ringshard/model/fp8_products.hpp"
#include "ringshard/run/cpu_gemm.hpp"
#include "ringshard/run/placed_job.hpp"
#include "ringshard/run/pretrained.hpp"
#include "ringshard/run/report_fp8.hpp"
#include "ringshard/run/run_inputs.hpp"
#include "ringshard/run/run_state.hpp"
#include "ringshard/train/scorer.hpp"
#include "run_command.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;
using MaybeFailure = std::optional<comm::AgreedFailure>;

// part-00003-of-00008.parquet
std::string part_name(int64_t part, int64_t of) {
    std::ostringstream name;
    name << std::setfill('0') << "part-" << std::setw(5) << part << "-of-" << std::setw(5) << of
         << ".parquet";
    return name.str();
}

// Rows are scored whole and in their order, whatever the settings of training say.
config::Settings whole_rows(config::Settings settings) {
    config::Config& config = settings.values;
    config.data.max_length.reset();
    config.data.min_length = 0;
    config.data.dataset_exact_deduplication = false;
    config.data.packing = config.data.shuffle_dataset = false;
    config.training.teacher_scores.clear();
    config.training.anchor.clear();
    config.evaluation.eval_strategy = config::Interval::no;
    config.evaluation.eval_on_start = false;
    return settings;
}

// Makes the folder; files of other scores in it would be taken for this one's. On rank 0.
std::optional<Failure> make_folder(const config::Settings& settings) {
    const fs::path folder = settings.values.run.output_dir;
    if (!settings.is_fixed("output_dir"))
        return Failure{ExitCode::settings,
                       "output_dir is not set: name the folder for the files of scores"};
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
        return Failure{ExitCode::io,
                       format_text("output_dir = {}: {}", folder.string(), error.message())};
    for (const fs::path& entry : folder_entries(folder, error))
        if (entry.filename().string().starts_with("part-") && entry.extension() == ".parquet")
            return Failure{ExitCode::settings,
                           format_text("output_dir = {}: holds {} already; name another folder, or "
                                       "remove the scores in it",
                                       folder.string(), entry.filename().string())};
    remove_unfinished(folder, [](const std::string& name) { return name.starts_with("part-"); });
    return std::nullopt;
}

void say_what_has_no_effect(const run::CommandContext& context) {
    for (const char* name : {"max_length", "min_length", "dataset_exact_deduplication", "packing",
                             "shuffle_dataset", "teacher_scores", "anchor"})
        if (context.settings.is_fixed(name))
            std::cerr << "note: " << name << " has no effect on scores: rows are scored whole, in "
                      << "their order\n";
}

// No weight is trained: none has a gradient, fp32 weights or states of an optimizer.
model::ModelSpec freeze_everything(model::ModelSpec spec) {
    constexpr int64_t whole = 1;
    for (const shard::FlatUnit& unit : model::make_units(spec, whole))
        for (const shard::PlacedTensor& tensor : unit.tensors())
            spec.frozen.insert(tensor.spec.name);
    return spec;
}

// Makes the weights alone, in the compute type.
shard::Zero make_weights(const config::Config& config, const model::ModelSpec& spec,
                         const mesh::Mesh& mesh) {
    const bool computes_bf16 = config.training.computes_in_bf16();
    const mesh::Cuts cuts = mesh::cuts_of(config.parallel);
    return {model::make_units(spec, mesh.shape(), cuts),
            cuts,
            {computes_bf16 ? at::kBFloat16 : at::kFloat, at::kFloat},
            mesh};
}

void report(const train::Scorer::Sums& sums, double seconds, const fs::path& folder) {
    const auto mean = [](double sum, int64_t count) {
        return sum / static_cast<double>(std::max<int64_t>(1, count));
    };
    std::cout << "scored " << sums.rows << " rows, " << sums.tokens
              << " tokens: mean log-probability " << mean(sums.log_probability, sums.tokens)
              << ", of the " << sums.learned_tokens << " learned ones "
              << mean(sums.learned_log_probability, sums.learned_tokens) << "; wrote "
              << folder.string() << '\n';
    std::cerr << "scored in " << std::fixed << std::setprecision(1) << seconds << " s\n";
}

// Writes the file of this rank if it is the first of its sequence group; the others write nothing.
// Collective over the world.
MaybeFailure write_scores(const run::CommandContext& context, const mesh::Mesh& mesh,
                          const train::Scorer& scorer, watch::Watchdog& watchdog) {
    const comm::Group& world = context.world;
    const config::Config& config = context.settings.values;
    const Timer timer;
    const fs::path folder = config.run.output_dir;
    std::optional<data::ScoreFile> file;
    std::optional<Failure> failure;
    if (mesh.sequence_rank() == 0) {
        auto made =
            data::ScoreFile::create(folder / part_name(mesh.data_rank(), mesh.shape().data()),
                                    config.evaluation.top_k, config.training.temperature);
        if (made)
            file.emplace(std::move(made).value());
        else
            failure = made.failure();
    }
    if (const auto agreed = comm::first_failure(world, failure)) return agreed;
    const auto sums =
        scorer.score({.before_batch =
                          [&](double operations) {
                              watchdog.begin(watch::Work::evaluation);
                              watchdog.expect(operations);
                          },
                      .take = [&](const data::ScoredRows& rows) { return file->add(rows); }});
    watchdog.begin(watch::Work::other);
    if (!sums) return sums.failure();
    // Names are given when all of it is on disk.
    if (file) failure = file->finish();
    if (const auto agreed = comm::first_failure(world, failure)) return agreed;
    if (file) failure = file->publish();
    if (const auto agreed = comm::first_failure(world, failure)) return agreed;
    if (world.is_root()) failure = flush_folder(folder);
    if (const auto agreed = comm::first_failure(world, failure)) return agreed;
    if (world.is_root()) report(sums.value(), timer.seconds(), folder);
    return std::nullopt;
}

// Fails (78) if the settings ask for a score of what a single model cannot give.
std::optional<Failure> check_scored(const config::Settings& settings,
                                    const run::RunInputs& inputs) {
    const auto refuse = [](const std::string& why) { return Failure{ExitCode::settings, why}; };
    const model::ModelSpec& spec = inputs.spec;
    if (spec.scores)
        return refuse(
            "method: score writes log-probabilities of tokens, and reward and classification "
            "learn a head without them; leave it out");
    if (settings.values.training.learns_embeddings())
        return refuse(
            "method: score writes log-probabilities of tokens, and embeddings have none; leave it "
            "out");
    if (spec.vocabulary != spec.stored_vocabulary)
        return refuse(
            format_text("added_tokens, chat_template_path: the vocabulary would have {} rows, and "
                        "the model's files have {}; leave them out, or score a model that was "
                        "trained with them",
                        spec.vocabulary, spec.stored_vocabulary));
    if (const int64_t top_k = settings.values.evaluation.top_k; top_k > spec.vocabulary)
        return refuse(format_text("top_k = {}: the model's vocabulary has only {} tokens", top_k,
                                  spec.vocabulary));
    if (run::are_several(inputs.adapters))
        return refuse(
            "adapters: rows are scored by one model; leave it out, and name one trained adapter: "
            "adapter_name_or_path");
    if (inputs.adapters.front().config.init.takes_from_weights())
        return refuse(
            "init_lora_weights: adapters that have not learned score as the model does; leave "
            "use_peft out, or name a trained adapter: adapter_name_or_path");
    return std::nullopt;
}

// Fills `zero` with the weights of the model and the adapter. Collective over the world.
MaybeFailure load_scored(const run::CommandContext& context, const run::RunInputs& inputs,
                         const model::ModelSpec& spec, shard::Zero& zero) {
    const comm::Group& world = context.world;
    auto pretrained = run::Pretrained::open(inputs.model, spec, run::Pretrained::Wanted::all,
                                            run::verification_of(context), world);
    if (!pretrained) return pretrained.failure();
    run::Pretrained& model = pretrained.value();
    if (model.holds_adapters()) return comm::found_by_all(run::holds_an_adapter(inputs.model));
    if (spec.has_adapters())
        if (const auto failure =
                model.begin_adapters(inputs.spec, run::beginnings_of(inputs.adapters), world))
            return failure;
    if (const auto loaded = model.load(spec, zero, world); !loaded) return loaded.failure();
    zero.refresh_compute_weights();
    if (!model.begins_adapters()) return std::nullopt;
    peft::set_magnitudes(model.with_begun_adapters(spec), zero);
    zero.refresh_compute_weights();
    return std::nullopt;
}

MaybeFailure score(const run::CommandContext& given) {
    const comm::Group& world = given.world;
    const config::Settings settings = whole_rows(given.settings);
    const run::CommandContext context{given.command, settings, given.notes, given.environment,
                                      world};
    const auto placed = run::PlacedJob::place(context);
    if (!placed) return placed.failure();
    run::PlacedJob& job = *placed.value();
    if (world.is_root()) say_what_has_no_effect(given);
    if (const auto failure = comm::first_failure(
            world, world.is_root() ? make_folder(settings) : std::optional<Failure>()))
        return failure;
    const auto inputs = run::find_inputs(context, job.placement, job.faults, run::RowsToKeep::all);
    if (!inputs) return inputs.failure();
    if (const auto failure = check_scored(settings, inputs.value()))
        return comm::found_by_all(*failure);
    const model::ModelSpec spec = freeze_everything(inputs.value().spec);
    if (const auto failure = run::report_fp8(context, spec)) return failure;
    if (model::delayed_scaling_options(settings.values.training) && world.is_root())
        std::cerr << "note: fp8_recipe delayed: scores have no steps before, so each row has a "
                     "scale\n";
    const auto gemms = run::choose_gemms(context, job.placement, spec);
    if (!gemms) return gemms.failure();

    job.watchdog->begin(watch::Work::other);
    world.flight_recorder().set_activity("loading");
    shard::Zero zero = make_weights(settings.values, spec, job.mesh);
    if (const auto failure = load_scored(context, inputs.value(), spec, zero)) return failure;
    const model::Transformer model(
        spec, zero, job.mesh,
        {.policies = config::ActivationPolicy::input,
         .residual = model::residual_type(settings.values.training),
         .context_parallel = model::context_parallel_options(settings.values.parallel),
         .fp8 = model::fp8_options(settings.values.training),
         .gemms = &gemms.value().gemms,
         .on_phase = [&job](const std::string&) { job.watchdog->made_progress(); }});
    const train::Scorer scorer(
        inputs.value().data.training.front(),
        {settings.values.evaluation.per_device_eval_batch_size, settings.values.evaluation.top_k,
         settings.values.training.temperature},
        world, job.mesh, model);
    world.flight_recorder().set_activity("scoring");
    return write_scores(context, job.mesh, scorer, *job.watchdog);
}

}  // namespace

int run_score(const run::CommandContext& context) { return run_command(context, score); }

}  // namespace ringshard::cli
