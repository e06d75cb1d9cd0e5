#pragma once

#include <array>
#include <optional>

#include "ringshard/config/data_settings.hpp"
#include "ringshard/data/row_plan.hpp"
#include "ringshard/data/token_store.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

// How samples are drawn from the sources of a mixture that have weights.
struct Drawing {
    config::StoppingStrategy stops = config::StoppingStrategy::first_exhausted;
    // Weights are the sizes of the sources to the power 1 / temperature.
    std::optional<double> temperature{};
    int64_t seed = 0;
};

// Which samples of a store are used: those of a mixture, and one side of a split.
struct SampleChoice {
    std::vector<uint64_t> source_ends{};  // in samples, of every source of a mixture
    std::vector<std::string> names{};     // of the sources, for messages
    // Of the sources; one of these at most is given.
    std::vector<double> fractions{};  // of the mixture, no sample twice
    std::vector<double> weights{};    // samples are drawn in proportion to them
    std::vector<double> epochs{};     // times that the samples of a source are taken
    Drawing drawing{};                // where there are weights or a temperature
    enum class Side { all, train, test } side = Side::all;
    double test_size = 0;  // share of the samples that are split off
    int64_t seed = 0;
};
// In the order in which they are used. As TRL and datasets choose, but the split has a seed. Drawn
// samples are those of datasets' interleave_datasets for the same seed. Fails where a mixture would
// not end, or where a source without samples has to be drawn from.
Expected<std::vector<int64_t>> choose_samples(const SampleChoice& choice);

struct RowSettings {
    std::optional<int64_t> max_length;
    config::TruncationMode truncation = config::TruncationMode::keep_start;
    bool packs = false;
    config::PackingStrategy strategy = config::PackingStrategy::bfd;
    config::PackingScope scope = config::PackingScope::batch;
    bool shuffles = false;
    int64_t seed = 0;
};

// What a mixture takes of a source.
struct SourceUse {
    std::string name;
    int64_t samples = 0;  // that it has
    int64_t taken = 0;    // a sample that is taken twice counts twice
    bool operator==(const SourceUse&) const = default;
};
// Of every source, for the samples that were chosen.
std::vector<SourceUse> use_of_sources(const SampleChoice& choice, std::span<const int64_t> samples);

// Counts of the samples by outcome.
struct RowReport {
    int64_t samples = 0;
    int64_t tokens = 0;       // of the samples
    int64_t cut_tokens = 0;   // lost to max_length
    int64_t samples_cut = 0;  // that lost some
    int64_t dropped = 0;      // samples without anything to learn within max_length
    int64_t longest = 0;      // sample
    int64_t rows = 0;
    RowTotals of_rows;
    std::vector<SourceUse> sources{};   // of a mixture; else empty
    std::array<int64_t, 32> lengths{};  // samples of 2^i to 2^(i+1)-1 tokens; empty ones count as 1
};

// To keep it, and for people.
text::Value to_value(const RowReport& report);
RowReport report_of(const text::Value& value);
std::string to_text(const RowReport& report, const RowSettings& settings);

// Rows of at most max_length tokens from these samples, as TRL makes them: cut and, where nothing
// is left to learn, dropped; or packed; shuffled before packing and after.
RowPlan plan_rows(const TokenStore& store, std::span<const int64_t> samples,
                  const RowSettings& settings, RowReport& report);

}  // namespace ringshard::data
