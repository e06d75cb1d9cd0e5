#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine_commands.hpp"
#include "merge_folder.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/run/exported_weights.hpp"
#include "ringshard/run/pretrained.hpp"
#include "ringshard/run/references.hpp"
#include "run_command.hpp"

namespace ringshard::cli {

namespace fs = std::filesystem;

namespace {

using MaybeFailure = std::optional<comm::AgreedFailure>;
using FoundLikely = std::vector<data::LikelyOfPlaces>;

// Sums of fp32 numbers in another order, on another processor.
constexpr double most_in_fp32 = 2e-4;
// Of what rounding to bf16 changes at most in these rows.
constexpr double most_of_rounding = 4;

// What a folder holds: a checkpoint, a model, or an adapter and the model below it.
struct FolderModel {
    fs::path base;
    fs::path adapter;  // empty: none
    model::ModelSpec spec;
    std::optional<run::ExportedCheckpoint> checkpoint{};
};

// The folder of a run with checkpoints holds its adapter too.
bool holds_adapter(const fs::path& folder) {
    return file_exists(folder / peft::adapter_config_name) &&
           file_exists(folder / hub::adapter_weights_name);
}

Failure has_scores(const fs::path& folder) {
    return {ExitCode::bad_data,
            format_text("{}: the model has a head of scores, and verify compares "
                        "log-probabilities of tokens",
                        folder.string())};
}

comm::Agreed<FolderModel> read_folder(const run::CommandContext& context, const fs::path& folder) {
    const comm::Group& world = context.world;
    FolderModel found{.base = folder, .adapter = {}, .spec = {}};
    if (world.maximum(world.is_root() && checkpoint::is_checkpoint(folder) ? 1 : 0) == 1) {
        auto checkpoint = run::ExportedCheckpoint::find(world, folder, false);
        if (!checkpoint) return checkpoint.failure();
        found.spec = checkpoint.value().spec;
        found.checkpoint = std::move(checkpoint).value();
        return found;
    }
    std::optional<peft::LoraConfig> config;
    if (world.maximum(world.is_root() && holds_adapter(folder) ? 1 : 0) == 1) {
        auto adapter = read_adapter(context, folder);
        if (!adapter) return adapter.failure();
        found = {.base = adapter.value().base, .adapter = folder, .spec = {}};
        config = std::move(adapter).value().config;
    }
    auto spec = comm::agreed(world, model::read_model_spec(found.base / "config.json"));
    if (!spec) return spec.failure();
    found.spec = std::move(spec).value();
    if (found.spec.scores) return comm::found_by_all(has_scores(found.base));
    if (const auto failure = untie_if_apart(found.base, world, found.spec)) return *failure;
    if (config)
        if (const auto failure = peft::add_adapter(found.spec, *config))
            return comm::found_by_all(*failure);
    return found;
}

// Fills `zero` with the weights of the folder. Collective over the world.
MaybeFailure load(const run::CommandContext& context, const FolderModel& folder,
                  const mesh::Mesh& mesh, shard::Zero& zero) {
    const comm::Group& world = context.world;
    if (folder.checkpoint) {
        auto weights = run::open_weights(context, *folder.checkpoint);
        if (!weights) return weights.failure();
        return run::load_exported(*folder.checkpoint, weights.value(), mesh, zero, world);
    }
    auto weights = run::Pretrained::open(folder.base, folder.spec, run::Pretrained::Wanted::all,
                                         checkpoint::Verification::sizes, world);
    if (!weights) return weights.failure();
    if (!folder.adapter.empty())
        if (const auto failure =
                weights.value().begin_adapters(folder.spec, {{{}, folder.adapter}}, world))
            return failure;
    const auto loaded = weights.value().load(folder.spec, zero, world);
    return loaded ? std::nullopt : MaybeFailure(loaded.failure());
}

// Computes the rows with the weights of the folder. Collective over the world.
comm::Agreed<FoundLikely> compute(const run::CommandContext& context, const FolderModel& folder,
                                  at::ScalarType type, const data::References& references) {
    const comm::Group& world = context.world;
    const mesh::Mesh mesh(world, {.shard = world.size()}, at::kCPU);
    shard::Zero zero(model::make_units(folder.spec, mesh.shape().zero()), run::shards_everything,
                     {type, at::kFloat}, mesh);
    if (const auto failure = load(context, folder, mesh, zero)) return *failure;
    zero.refresh_compute_weights();
    const model::Transformer model(folder.spec, zero, mesh,
                                   {.policies = config::ActivationPolicy::input});
    auto likely = run::find_likely(references.rows, world, mesh, model, [](double) {});
    if (!likely) return likely.failure();
    if (likely.value()) return *std::move(likely).value();
    return comm::found_by_all(
        {ExitCode::bad_data, "the model computes numbers that are not finite"});
}

// Returns the largest difference of each row. On rank 0.
std::vector<double> differences_of(const FoundLikely& wanted, const FoundLikely& found) {
    std::vector<double> all;
    for (size_t row = 0; row < std::min(wanted.size(), found.size()); ++row) {
        double largest = 0;
        for (size_t place = 0; place < std::min(wanted[row].size(), found[row].size()); ++place)
            largest =
                std::max(largest, data::largest_difference(wanted[row][place], found[row][place]));
        all.push_back(largest);
    }
    return all;
}

double largest_of(const std::vector<double>& numbers) {
    return numbers.empty() ? 0 : std::ranges::max(numbers);
}

int32_t largest_token(const data::References& references) {
    int32_t largest = 0;
    for (const data::ReferenceRow& row : references.rows)
        for (const int32_t token : row.tokens) largest = std::max(largest, token);
    return largest;
}

FoundLikely likely_of(const data::References& references) {
    FoundLikely likely;
    for (const data::ReferenceRow& row : references.rows) likely.push_back(row.likely);
    return likely;
}

// Returns true if the folder's weights are, by its config.json, numbers that the references were
// computed with.
bool holds_same_numbers(const FolderModel& folder, const data::References& references) {
    if (!folder.adapter.empty() || folder.checkpoint) return true;
    const auto config = json_or_null<nlohmann::json>(folder.spec.config_json);
    for (const char* name : {"dtype", "torch_dtype"})
        if (config.is_object() && config.contains(name) && config[name].is_string())
            return config[name] == "float32" || config[name] == references.weights;
    return true;
}

// Says which mistake explains the weights, as far as one is known. On rank 0.
std::string name_mistake(const FolderModel& folder, const data::References& references,
                         const FoundLikely& found, double largest) {
    if (references.is_tied && !folder.spec.tied)
        return "; the output layer was the embedding in the export, and is a matrix of its own now";
    for (const auto& [name, likely] : references.mistakes)
        if (largest_of(differences_of(likely, found)) < largest / 4)
            return format_text("; the numbers are those of a model where {}", name);
    return {};
}

// Compares log-probabilities, prints what differs, and returns true if only rounding does, which
// computing in bf16 measures. Collective over the world.
comm::Agreed<bool> compare_weights(const run::CommandContext& context, const FolderModel& folder,
                                   const data::References& references) {
    const comm::Group& world = context.world;
    if (const int32_t largest = largest_token(references); largest >= folder.spec.vocabulary) {
        if (world.is_root())
            std::cout << format_text(
                "weights: the model has {} rows for tokens, and it had more when it was exported: "
                "{} has the token {}\n",
                folder.spec.vocabulary, data::References::file_name, largest);
        return false;
    }
    const auto found = compute(context, folder, at::kFloat, references);
    if (!found) return found.failure();
    const std::vector<double> differences = differences_of(likely_of(references), found.value());
    const double largest = largest_of(differences);
    const bool is_same = world.maximum(world.is_root() && largest > most_in_fp32 ? 1 : 0) == 0;
    if (is_same) {
        if (world.is_root())
            std::cout << format_text(
                "weights: as exported; log-probabilities differ by at most {}\n", largest);
        return true;
    }
    double limit = most_in_fp32;
    if (!references.is_exact || !holds_same_numbers(folder, references)) {
        const auto rounded = compute(context, folder, at::kBFloat16, references);
        if (!rounded) return rounded.failure();
        const double rounding = largest_of(differences_of(found.value(), rounded.value()));
        limit = std::max(limit, most_of_rounding * rounding);
    }
    const bool is_rounding = world.maximum(world.is_root() && largest > limit ? 1 : 0) == 0;
    if (!world.is_root()) return is_rounding;
    for (size_t row = 0; row < differences.size(); ++row)
        if (differences[row] > most_in_fp32)
            std::cout << format_text("row {} ({}): log-probabilities differ by up to {}\n", row,
                                     references.rows[row].shown(), differences[row]);
    if (is_rounding)
        std::cout << format_text(
            "rounding: log-probabilities differ by at most {}, and rounding to bfloat16 may change "
            "them by {}\n",
            largest, limit);
    else
        std::cout << format_text(
            "weights: log-probabilities differ by up to {}, and rounding explains at most {}{}\n",
            largest, limit, name_mistake(folder, references, found.value(), largest));
    return is_rounding;
}

// Prints what differs in tokenizer and chat template, and returns the causes. On rank 0.
std::vector<std::string> compare_texts_of(const data::References& references,
                                          const fs::path& folder) {
    std::vector<std::string> causes;
    for (const auto& [cause, what] : data::compare_texts(references, folder)) {
        const char* const name =
            cause == data::TextCause::tokenizer ? "tokenizer" : "chat template";
        std::cout << name << ": " << what << '\n';
        if (std::ranges::find(causes, name) == causes.end()) causes.emplace_back(name);
    }
    if (causes.empty() && references.vocab_size > 0)
        std::cout << "tokenizer and chat template: as exported\n";
    return causes;
}

MaybeFailure verify(const run::CommandContext& context) {
    const comm::Group& world = context.world;
    const fs::path folder = context.settings.values.model.checkpoint;
    if (folder.empty())
        return comm::found_by_all(
            {ExitCode::usage, "name the folder of a model: trainer verify FOLDER [--url URL]"});
    const auto references = run::read_references(folder, world);
    if (!references) {
        const auto spec = comm::agreed(world, model::read_model_spec(folder / "config.json"));
        const bool is_of_scores = spec && spec.value().scores;
        return is_of_scores ? comm::found_by_all(has_scores(folder)) : references.failure();
    }
    std::vector<std::string> causes;
    if (world.is_root()) causes = compare_texts_of(references.value(), folder);
    auto model = read_folder(context, folder);
    const auto same = model ? compare_weights(context, model.value(), references.value())
                            : comm::Agreed<bool>(model.failure());
    if (!same)
        return comm::found_by_all({same.failure().code(), "weights: " + same.failure().message()});
    if (!same.value()) causes.emplace_back("weights");
    std::optional<Failure> failure;
    const bool is_checkpoint = model.value().checkpoint.has_value();
    if (world.is_root() && !causes.empty())
        failure = Failure{
            ExitCode::bad_data,
            is_checkpoint
                ? format_text("{}: is not what was saved: {}; take another checkpoint of the run",
                              folder.string(), join(causes, ", "))
                : format_text("{}: is not what was exported: {}; export it again", folder.string(),
                              join(causes, ", "))};
    return comm::first_failure(world, failure);
}

}  // namespace

int run_verify(const run::CommandContext& context) { return run_command(context, verify); }

}  // namespace ringshard::cli
