#include "ringshard/run/run_data.hpp"

#include <algorithm>
#include <iostream>

#include "ringshard/base/narrow.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/data/choose_data.hpp"

namespace ringshard::run {

namespace {

// Positions beyond those that the model has seen make sense only where its rope was made for them.
std::string beyond_positions(const model::ModelSpec& spec, int64_t longest) {
    if (longest <= spec.max_positions) return {};
    return format_text(
        "the data has a document of {} tokens, and the model's config.json has "
        "{} = {}",
        longest, spec.names.positions.empty() ? "max_position_embeddings" : "n_positions",
        spec.max_positions);
}

std::optional<Failure> check_against_model(const data::Prepared& prepared,
                                           const model::ModelSpec& spec,
                                           const config::Config& config,
                                           std::vector<std::string>& warnings) {
    if (prepared.largest_token >= spec.vocabulary)
        return Failure{ExitCode::bad_data,
                       format_text("the data holds the token {}, and the model's vocabulary has "
                                   "only {}; was it tokenized for another model?",
                                   prepared.largest_token, spec.vocabulary)};
    if (const auto& scores = prepared.rows.scores();
        scores != nullptr && scores->largest_token >= spec.vocabulary)
        return Failure{
            ExitCode::bad_data,
            format_text("{}: the scores, {} of each token, hold the token "
                        "{}, and the model's vocabulary has only {}; they are of a model "
                        "with another tokenizer: score with one of this vocabulary",
                        config.training.anchor.empty() ? "teacher_scores" : "anchor",
                        scores->per_token, scores->largest_token, spec.vocabulary)};
    const int64_t longest = prepared.rows.totals().longest_document;
    const std::string beyond = beyond_positions(spec, longest);
    if (beyond.empty()) return std::nullopt;
    if (!spec.names.positions.empty())
        return Failure{ExitCode::settings,
                       format_text("{}, each of them a learned row; set max_length = {} or less",
                                   beyond, spec.max_positions)};
    if (config.data.strict_length)
        return Failure{ExitCode::settings,
                       format_text("strict_length = true: {}; set max_length = {} or less", beyond,
                                   spec.max_positions)};
    warnings.push_back(beyond + "; positions beyond it are new to the model");
    return std::nullopt;
}

// The prompts of evaluations, whose texts have a learned row for each position.
comm::Agreed<std::optional<EvalPrompts>> read_prompts(const CommandContext& context,
                                                      const HubCache& hub,
                                                      const model::ModelSpec& spec) {
    auto prompts = read_eval_prompts(context, hub, spec);
    if (spec.names.positions.empty() || !prompts || !prompts.value()) return prompts;
    const int64_t more = context.settings.values.evaluation.eval_max_new_tokens;
    for (const data::Prompt& prompt : prompts.value()->prompts)
        if (const int64_t length = std::ssize(prompt.tokens); length + more > spec.max_positions)
            return comm::found_by_all(
                {ExitCode::settings,
                 format_text("eval_prompts: a prompt of {} tokens and eval_max_new_tokens = {} are "
                             "more than the {} positions that the model has learned; give a "
                             "shorter prompt, or fewer new tokens",
                             length, more, spec.max_positions)});
    return prompts;
}

comm::Agreed<data::Rows> prepare_rows(const CommandContext& context, const HubCache& hub,
                                      int64_t num_threads, const model::ModelSpec& spec,
                                      Expected<data::Preparation> chosen, const std::string& title,
                                      data::OpenFiles& open) {
    const auto agreed = comm::agreed(context.world, std::move(chosen));
    if (!agreed) return agreed.failure();
    auto prepared = data::prepare(agreed.value(), prepare_resources(context, num_threads, hub),
                                  context.world, open);
    if (!prepared) return prepared.failure();
    std::vector<std::string> warnings = prepared.value().warnings;
    if (const auto failure =
            check_against_model(prepared.value(), spec, context.settings.values, warnings))
        return comm::found_by_all(*failure);
    if (context.world.is_root()) {
        for (const std::string& warning : warnings)
            std::cerr << "warning: " << shown_message(warning) << '\n';
        std::cerr << title << ": " << prepared.value().plan_file.string() << '\n'
                  << to_text(prepared.value().report, agreed.value().rows);
    }
    return std::move(prepared).value().rows;
}

}  // namespace

data::PrepareResources prepare_resources(const CommandContext& context, int64_t threads,
                                         const HubCache& hub) {
    const config::DataSettings& data = context.settings.values.data;
    return {
        .cache = data::cache_folder(data, hub),
        .hub = hub,
        .threads = narrow<int>(threads),
        .shows_progress = context.world.is_root() && !context.settings.values.logging.disable_tqdm};
}

std::optional<Failure> check_rows_are_dealt(const config::Settings& settings, int64_t num_rows,
                                            int64_t data_ranks) {
    const int64_t batch = settings.values.training.per_device_train_batch_size;
    if (!settings.values.data.dataloader_drop_last || num_rows >= batch * data_ranks)
        return std::nullopt;
    return Failure{
        ExitCode::settings,
        format_text(
            "dataloader_drop_last = true [{}]: the data has {}{}, and {}{}{} at once "
            "(per_device_train_batch_size = {}), so no row would be left to train on; give fewer "
            "ranks or a smaller per_device_train_batch_size, or leave dataloader_drop_last out",
            settings.origin_of("dataloader_drop_last").place, num_rows,
            num_rows == 1 ? " row" : " rows", data_ranks,
            data_ranks == 1 ? " data rank takes " : " data ranks take ", batch * data_ranks,
            batch)};
}

std::optional<Failure> give_baselines(const config::Settings& settings, int64_t data_ranks,
                                      RunData& data) {
    const config::TrainingSettings& training = settings.values.training;
    if (!training.has_baseline()) return std::nullopt;
    const data::BaselineRule rule{
        training.per_device_train_batch_size * training.gradient_accumulation_steps * data_ranks,
        settings.values.data.max_length};
    if (rule.rows_of_step < 2)
        return Failure{ExitCode::settings,
                       format_text("per_device_train_batch_size = {} [{}]: a step has one row, and "
                                   "loss_type kto takes the baseline from the answers of others; "
                                   "give more, or loss_type apo_zero_unpaired",
                                   training.per_device_train_batch_size,
                                   settings.origin_of("per_device_train_batch_size").place)};
    for (data::Rows& rows : data.training) rows.give_baseline(rule);
    for (RunData::EvaluationSet& set : data.evaluation) set.rows.give_baseline(rule);
    return std::nullopt;
}

std::optional<Failure> check_negatives(const config::Settings& settings, int64_t data_ranks,
                                       const RunData& data) {
    const config::TrainingSettings& training = settings.values.training;
    const int64_t rows_of_step =
        training.per_device_train_batch_size * training.gradient_accumulation_steps * data_ranks;
    if (!training.learns_embeddings() || rows_of_step > 1) return std::nullopt;
    for (const data::Rows& rows : data.training) {
        constexpr int64_t anchor_and_positive = 2;
        if (std::ranges::count(rows.pieces(0), 0U, &data::Piece::goes_on) > anchor_and_positive)
            continue;
        return Failure{ExitCode::settings,
                       format_text("per_device_train_batch_size = {} [{}]: a step has one row, "
                                   "whose texts are compared with those of other rows, and the "
                                   "first row has no negative; raise it, or "
                                   "gradient_accumulation_steps, or give negatives",
                                   training.per_device_train_batch_size,
                                   settings.origin_of("per_device_train_batch_size").place)};
    }
    return std::nullopt;
}

void find_longest_row(const comm::Group& world, RunData& data) {
    int64_t longest = 0;
    if (world.is_root())
        for (const data::Rows& rows : data.training)
            longest = std::max(longest, data::longest_in_batches(rows));
    data.longest_row = world.maximum(longest);
}

namespace {

bool evaluates(const config::Config& config) {
    return config.evaluation.eval_strategy != config::Interval::no ||
           config.evaluation.eval_on_start || config.evaluation.do_predict;
}

// Returns the title of the data of a learner in messages.
std::string title_of(const std::string& what, const LearnerInJob& learner) {
    return learner.name.empty() ? what : format_text("{} of {}", what, learner.name);
}

// The evaluation sets of a learner.
struct LearnerSets {
    size_t learner;
    std::vector<data::EvaluationData> sets;
};

// Returns the sets where the settings ask for evaluation, before any data is tokenized. Collective
// over the world.
comm::Agreed<std::vector<LearnerSets>> find_sets(const CommandContext& context, const HubCache& hub,
                                                 const std::vector<LearnerInJob>& learners) {
    std::vector<LearnerSets> all;
    if (!evaluates(context.settings.values)) return all;
    for (size_t learner = 0; learner < learners.size(); ++learner) {
        auto found = comm::agreed(context.world,
                                  data::evaluation_data(learners[learner].settings.values, hub));
        if (!found) return found.failure();
        all.push_back({learner, std::move(found).value()});
        for (const data::EvaluationData& set : all.back().sets)
            if (const auto failure = data::find_files(set.preparation, hub, context.world))
                return *failure;
    }
    return all;
}

}  // namespace

comm::Agreed<RunData> prepare_run_data(const CommandContext& context, const HubCache& hub,
                                       int64_t num_threads, const model::ModelSpec& spec,
                                       const std::vector<LearnerInJob>& learners,
                                       RowsToKeep keeps) {
    data::OpenFiles open;
    const auto sets = find_sets(context, hub, learners);
    if (!sets) return sets.failure();
    RunData data;
    for (const LearnerInJob& learner : learners) {
        auto chosen = data::training_data(learner.settings.values, hub);
        if (chosen) chosen.value().rows.keeps_all = keeps == RowsToKeep::all;
        auto rows = prepare_rows(context, hub, num_threads, spec, std::move(chosen),
                                 title_of("data", learner), open);
        if (!rows) return rows.failure();
        data.training.push_back(std::move(rows).value());
    }
    if (!evaluates(context.settings.values)) return data;
    for (const auto& [learner, of_learner] : sets.value())
        for (const data::EvaluationData& set : of_learner) {
            auto rows = prepare_rows(context, hub, num_threads, spec, set.preparation,
                                     title_of(set.title, learners[learner]), open);
            if (!rows) return rows.failure();
            data.evaluation.push_back(
                {{learner, set.name, context.settings.values.training.temperature},
                 std::move(rows).value()});
        }
    auto prompts = read_prompts(context, hub, spec);
    if (!prompts) return prompts.failure();
    data.prompts = std::move(prompts).value();
    return data;
}

}  // namespace ringshard::run
