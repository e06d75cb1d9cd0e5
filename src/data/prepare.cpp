#include "ringshard/data/prepare.hpp"

#include <algorithm>
#include <array>
#include <iostream>

#include "cache_description.hpp"
#include "cache_entry.hpp"
#include "check_scores.hpp"
#include "dataset_order.hpp"
#include "inputs.hpp"
#include "make_tokens.hpp"
#include "ringshard/base/hash.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/text/value.hpp"
#include "score_index.hpp"
#include "stored_scores.hpp"

namespace ringshard::data {

namespace {

namespace fs = std::filesystem;
using text::Value;

// Increment when equal settings produce other files.
constexpr int64_t version_of_scores = 1;

// Rank 0's claim; nothing on other ranks.
using Claim = std::optional<CacheEntry>;

// Claims the file on rank 0. Returns the work folder on all ranks, empty if another process has
// made the file meanwhile. Collective over the group.
comm::Agreed<fs::path> claim(const fs::path& file, const comm::Group& group, Claim& mine) {
    std::optional<Failure> failure;
    if (group.is_root()) {
        auto entry = CacheEntry::claim(file);
        if (!entry) {
            failure = Failure{entry.failure().code,
                              format_text("data_cache_dir: {}", entry.failure().message)};
        } else {
            wait_until_visible(file, std::chrono::seconds(0));
            if (!ArrayFile::map(file)) mine.emplace(std::move(entry).value());
        }
    }
    if (auto agreed = comm::first_failure(group, failure)) return *agreed;
    return fs::path(group.broadcast(mine ? mine->work().string() : ""));
}

// Returns true if the file exists and is complete. Only rank 0 looks: NFS caches the absence of a
// file on a host that looks too early. Collective over the group.
bool is_made(const fs::path& file, const comm::Group& group) {
    return group.maximum(group.is_root() && ArrayFile::map(file) ? 1 : 0) == 1;
}

// Maps an existing file on every rank. Every rank hashes its share of the chunks, so the job reads
// each byte once. Collective over the group.
comm::Agreed<ArrayFile> open_checked(const fs::path& file, const comm::Group& group,
                                     OpenFiles& open) {
    auto invisible = wait_until_visible(file);
    auto mapped =
        comm::agreed(group, invisible ? Expected<ArrayFile>(*invisible) : ArrayFile::map(file));
    if (!mapped) return mapped;
    const auto share = [&](int rank) {
        return mapped.value().num_chunks() * static_cast<uint64_t>(rank) /
               static_cast<uint64_t>(group.size());
    };
    const auto sum = comm::agreed(
        group, mapped.value().sum_checked(share(group.rank()), share(group.rank() + 1)));
    if (!sum) return sum.failure();
    const auto total = static_cast<uint64_t>(group.sum(static_cast<int64_t>(sum.value())));
    std::optional<Failure> failure;
    if (total != mapped.value().chunk_sum())
        failure = damaged_data(file, "its list of hashes is not the one that was written");
    if (auto agreed = comm::first_failure(group, failure)) return *agreed;
    open.emplace(file, mapped.value());
    return mapped;
}

// Returns a file of the cache, which `make` writes if it is not there: as "result" in a folder of
// work. Collective over the group, as `make` is.
template <class Make>
comm::Agreed<ArrayFile> provide(const fs::path& file, const comm::Group& group, OpenFiles& open,
                                const Make& make) {
    if (const auto known = open.find(file); known != open.end()) return known->second;
    if (is_made(file, group)) return open_checked(file, group, open);
    Claim mine;
    const auto work = claim(file, group, mine);
    if (!work) return work.failure();
    if (!work.value().empty()) {
        if (std::optional<comm::AgreedFailure> failure = make(work.value())) return *failure;
        if (auto agreed = comm::first_failure(group, mine ? mine->publish() : std::nullopt))
            return *agreed;
    }
    return open_checked(file, group, open);
}

// The tokens of all samples.
comm::Agreed<ArrayFile> provide_tokens(const Preparation& preparation,
                                       const PrepareResources& resources, const comm::Group& group,
                                       OpenFiles& open, std::vector<std::string>& warnings) {
    auto inputs = find_inputs(preparation, resources.hub, group, warnings);
    if (!inputs) return inputs.failure();
    const std::string about = group.broadcast(
        group.is_root() ? to_json(describe_tokens(preparation, inputs.value())) : "");
    const fs::path file = resources.cache / format_text("tokens-{}", hash_of(about));
    return provide(file, group, open, [&](const fs::path& work) {
        TokensToMake tokens{.files = std::move(inputs.value().files),
                            .slices = std::move(inputs.value().slices),
                            .mappings = {},
                            .names = {},
                            .format = preparation.format,
                            .skip_bad_rows = preparation.skip_bad_rows,
                            .has_anchor = preparation.has_anchor,
                            .about = text::read_json(about).value()};
        for (const Source& source : preparation.sources) {
            tokens.mappings.push_back(source.mapping);
            tokens.names.push_back(
                format_text("{} = {}", source.dataset.setting, shown_name(source.dataset)));
        }
        return make_tokens(tokens, work, resources, group);
    });
}

// Returns the sources of the mixture.
std::span<const Source> mixed_sources(const Preparation& preparation) {
    return std::span(preparation.sources)
        .first(preparation.sources.size() - (preparation.has_anchor ? 1 : 0));
}

// Returns the selection of samples of the mixture, without the sizes of the sources.
SampleChoice choice_of(const Preparation& preparation) {
    const std::span<const Source> sources = mixed_sources(preparation);
    SampleChoice choice{.drawing = preparation.drawing,
                        .side = preparation.side,
                        .test_size = preparation.test_size,
                        .seed = preparation.split_seed,
                        .shuffle_seed = preparation.shuffle_seed};
    const bool has_epochs = std::ranges::any_of(
        sources, [](const Source& source) { return source.epochs.has_value(); });
    for (const Source& source : sources) {
        choice.names.push_back(shown_name(source.dataset));
        if (source.fraction) choice.fractions.push_back(*source.fraction);
        if (source.weight) choice.weights.push_back(*source.weight);
        if (has_epochs) choice.epochs.push_back(source.epochs.value_or(1));
        choice.shuffles.push_back(source.epochs.has_value());
    }
    return choice;
}

// Takes each sample of the anchor once, behind those of the mixture, which is chosen already.
void take_anchor(const Preparation& preparation, uint64_t end, SampleChoice& choice,
                 std::vector<int64_t>& samples) {
    if (preparation.side == SampleChoice::Side::test) return;
    for (uint64_t sample = choice.source_ends.back(); sample < end; ++sample)
        samples.push_back(static_cast<int64_t>(sample));
    choice.names.push_back(shown_name(preparation.sources.back().dataset));
    choice.source_ends.push_back(end);
}

// Plans the rows of a store. Called on rank 0 alone.
std::optional<Failure> make_plan(const Preparation& preparation, const ArrayFile& store_file,
                                 Value about, const fs::path& work) {
    const auto store = TokenStore::of(store_file);
    if (!store) return store.failure();
    const auto ends = store_file.array<uint64_t>("source_ends");
    if (ends.size() != preparation.sources.size() || !std::ranges::is_sorted(ends) ||
        ends.back() != static_cast<uint64_t>(store.value().size()))
        return damaged_data(store_file.name(), "its sources have other samples than it holds");
    // Pairs are chosen as such, and then taken apart.
    const bool has_pairs = holds_pairs(store_file);
    SampleChoice choice = choice_of(preparation);
    for (const uint64_t end : ends) choice.source_ends.push_back(has_pairs ? end / 2 : end);
    if (preparation.has_anchor) choice.source_ends.pop_back();
    if (preparation.drops_copies) {
        choice.is_copy =
            has_pairs ? copies_of_pairs(find_copies(store.value())) : find_copies(store.value());
        choice.is_copy.resize(choice.source_ends.back());
    }
    auto chosen = choose_samples(choice);
    if (!chosen) return chosen.failure();
    if (preparation.has_anchor) take_anchor(preparation, ends.back(), choice, chosen.value());
    RowReport report;
    const RowPlan plan =
        plan_rows(store.value(), has_pairs ? samples_of_pairs(chosen.value()) : chosen.value(),
                  preparation.rows, report);
    report.copies = std::ranges::count(choice.is_copy, true);
    if (choice.names.size() > 1) report.sources = use_of_sources(choice, chosen.value());
    about.set("report", to_value(report));
    const std::array<NamedBytes, 2> arrays{
        {{"row_starts", std::as_bytes(std::span(plan.row_starts))},
         {"pieces", std::as_bytes(std::span(plan.pieces))}}};
    return write_array_file(work / "result", to_json(about), arrays);
}

// The plan of the rows.
comm::Agreed<ArrayFile> provide_plan(const Preparation& preparation,
                                     const PrepareResources& resources, const ArrayFile& store_file,
                                     const comm::Group& group, OpenFiles& open) {
    const std::string store_name = store_file.name().filename().string();
    Value about = describe_rows(preparation, store_name);
    const fs::path file = resources.cache / format_text("rows-{}", hash_of(to_json(about)));
    return provide(file, group, open, [&](const fs::path& work) {
        about.set("tokens_file", Value(store_name));
        std::optional<Failure> failure;
        if (group.is_root()) failure = make_plan(preparation, store_file, std::move(about), work);
        return comm::first_failure(group, failure);
    });
}

// Returns the files of scores, which rank 0 looks for, and everything that determines the scores of
// the store, as JSON. Collective over the group.
struct ScoreFiles {
    std::vector<fs::path> files;
    Value about;
};
comm::Agreed<ScoreFiles> find_score_files(const ScoreChoice& choice, const ArrayFile& store_file,
                                          int64_t first_sample, const comm::Group& group) {
    const auto about = comm::of_root(group, [&]() -> Expected<std::string> {
        const auto files = score_files(choice);
        if (!files) return files.failure();
        Value::List described;
        for (const fs::path& file : files.value()) described.push_back(describe_file(file));
        Value::Object all{{"version", Value(version_of_scores)},
                          {"tokens", Value(store_file.name().filename().string())},
                          {"files", Value(std::move(described))},
                          {"per_token", choice.per_token ? Value(*choice.per_token) : Value()},
                          {"temperature", Value(choice.temperature)}};
        if (first_sample > 0) all.emplace_back("first_sample", Value(first_sample));
        return to_json(Value(std::move(all)));
    });
    if (!about) return about.failure();
    ScoreFiles found{{}, text::read_json(about.value()).value()};
    for (const Value& file : *found.about.find("files")->list())
        found.files.emplace_back(*file.list()->front().string());
    return found;
}

// The scores of the tokens.
comm::Agreed<ArrayFile> provide_scores(const ScoreChoice& choice, const PrepareResources& resources,
                                       const ArrayFile& store_file, int64_t first_sample,
                                       const comm::Group& group, OpenFiles& open) {
    const auto found = find_score_files(choice, store_file, first_sample, group);
    if (!found) return found.failure();
    const fs::path file =
        resources.cache / format_text("scores-{}", hash_of(to_json(found.value().about)));
    return provide(file, group, open, [&](const fs::path& work) {
        return make_scores(choice, found.value().files, store_file, first_sample, work / "result",
                           found.value().about, group);
    });
}

// Gives the rows the scores of their tokens, or those of the anchor if there is one. Collective
// over the group.
std::optional<comm::AgreedFailure> give_scores(const Preparation& preparation,
                                               const PrepareResources& resources,
                                               const ArrayFile& store_file,
                                               const comm::Group& group, OpenFiles& open,
                                               Rows& rows) {
    const ScoreChoice& choice = *preparation.scores;
    const auto ends = store_file.array<uint64_t>("source_ends");
    const auto first_sample =
        preparation.has_anchor ? static_cast<int64_t>(ends[ends.size() - 2]) : 0;
    const auto file = provide_scores(choice, resources, store_file, first_sample, group, open);
    if (!file) return file.failure();
    auto scores = comm::agreed(group, scores_in(file.value()));
    if (!scores) return scores.failure();
    // Rank 0 looks, since there is a row for each of many documents.
    std::optional<Failure> failure;
    if (group.is_root()) {
        failure = check_scored(choice, rows, store_file, first_sample, file.value());
        if (!failure && preparation.has_anchor)
            failure = check_both_kinds(preparation, rows, first_sample);
    }
    if (auto agreed = comm::first_failure(group, failure)) return agreed;
    rows.give_scores(std::move(scores).value());
    return std::nullopt;
}

}  // namespace

std::optional<comm::AgreedFailure> find_files(const Preparation& preparation, const HubCache& hub,
                                              const comm::Group& group) {
    std::vector<std::string> ignored;  // prepare() reports them
    const auto inputs = find_inputs(preparation, hub, group, ignored);
    return inputs ? std::nullopt : std::optional(inputs.failure());
}

comm::Agreed<Prepared> prepare(const Preparation& preparation, const PrepareResources& resources,
                               const comm::Group& group, OpenFiles& open) {
    if (group.is_root()) remove_leftovers(resources.cache);
    if (preparation.scores)
        if (auto failure = check_score_heads(*preparation.scores, group)) return *failure;
    std::vector<std::string> warnings;
    const auto store_file = provide_tokens(preparation, resources, group, open, warnings);
    if (!store_file) return store_file.failure();
    const auto plan_file = provide_plan(preparation, resources, store_file.value(), group, open);
    if (!plan_file) return plan_file.failure();
    auto rows = comm::agreed(group, Rows::of(store_file.value(), plan_file.value()));
    if (!rows) return rows.failure();
    const auto about = text::read_json(rows.value().about());
    const RowReport report =
        about ? report_of(about.value().find("report") ? *about.value().find("report") : Value())
              : RowReport();
    if (report.rows == 0) {
        const char* why = report.samples == 0   ? "it holds no sample"
                          : report.dropped == 0 ? "all of its samples are empty"
                          : preparation.rows.max_length
                              ? "within max_length no sample has anything left to learn: no token "
                                "behind the first one of a document has a label"
                              : "no sample has anything to learn: no token behind the first one "
                                "of a document has a label";
        return comm::found_by_all(
            {ExitCode::bad_data,
             format_text("{} = {}: {}", preparation.sources.front().dataset.setting,
                         shown_name(preparation.sources.front().dataset), why)});
    }
    if (preparation.scores)
        if (auto failure =
                give_scores(preparation, resources, store_file.value(), group, open, rows.value()))
            return *failure;
    const Value store_about = text::read_json(rows.value().store().about()).value();
    for (std::string& warning : warnings_of(store_about)) warnings.push_back(std::move(warning));
    const TokenStore& store = rows.value().store();
    const bool learns_tokens = !preparation.format.content.is_scored;
    const int64_t largest_token =
        std::max(store.largest_token(), learns_tokens ? store.largest_label() : -1);
    return Prepared{.rows = std::move(rows).value(),
                    .report = report,
                    .largest_token = largest_token,
                    .store_file = store_file.value().name(),
                    .plan_file = plan_file.value().name(),
                    .warnings = std::move(warnings)};
}

}  // namespace ringshard::data
