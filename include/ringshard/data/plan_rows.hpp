#pragma once

#include <array>
#include <optional>

#include "ringshard/config/data_settings.hpp"
#include "ringshard/data/row_content.hpp"
#include "ringshard/data/row_plan.hpp"
#include "ringshard/data/token_store.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

// How to draw samples from the sources of a mixture with weights.
struct Drawing {
    config::StoppingStrategy stops = config::StoppingStrategy::first_exhausted;
    // If set, weights are the sizes of the sources to the power 1 / temperature.
    std::optional<double> temperature{};
    int64_t seed = 0;
};

// Selects samples of a store: those of a mixture, and one side of a split.
struct SampleChoice {
    std::vector<uint64_t> source_ends{};  // in samples, for every source of a mixture
    std::vector<std::string> names{};     // of the sources, for messages
    // By source; at most one of the three is given.
    std::vector<double> fractions{};  // of the mixture, without repetition
    std::vector<double> weights{};    // samples are drawn in proportion to them
    std::vector<double> epochs{};     // number of passes over a source
    Drawing drawing{};                // for weights or a temperature
    enum class Side { all, train, test } side = Side::all;
    double test_size = 0;  // to split off: a share of the samples; from 1 on: a number
    int64_t seed = 0;
    // If set, the samples of all sources are shuffled together, and before that each source in
    // `shuffles`, of which a number of passes is given.
    std::optional<int64_t> shuffle_seed{};
    std::vector<bool> shuffles{};  // by source
    std::vector<bool> is_copy{};   // by sample; these are left out before a split. Empty: none
};
// Returns sample numbers in the order of use. Selects like TRL and datasets, but with a seed for
// the split. Draws the samples of datasets' interleave_datasets for the same seed. Fails if a
// mixture does not end, or draws from a source without samples.
Expected<std::vector<int64_t>> choose_samples(const SampleChoice& choice);

// Returns, by sample, whether an earlier one has the same tokens, labels, weights and documents.
// Reads the whole store, and holds 24 bytes a sample.
std::vector<bool> find_copies(const TokenStore& store);

struct RowSettings {
    std::optional<int64_t> max_length;
    int64_t min_length = 0;  // shorter documents are dropped
    config::TruncationMode truncation = config::TruncationMode::keep_start;
    RowContent content{};  // the two documents of a pair are cut each for itself
    bool packs = false;
    config::PackingStrategy strategy = config::PackingStrategy::bfd;
    config::PackingScope scope = config::PackingScope::batch;
    bool shuffles = false;
    int64_t seed = 0;
    bool keeps_all = false;  // rows without a target, too: they are not learned, but scored
};

// Samples that a mixture takes from a source.
struct SourceUse {
    std::string name;
    int64_t samples = 0;  // available samples
    int64_t taken = 0;    // counts repeated samples each time
    bool operator==(const SourceUse&) const = default;
};
// Returns the use of every source by these samples.
std::vector<SourceUse> use_of_sources(const SampleChoice& choice, std::span<const int64_t> samples);

// Counts of the samples by outcome.
struct RowReport {
    int64_t samples = 0;
    int64_t tokens = 0;       // of all samples
    int64_t cut_tokens = 0;   // lost to max_length
    int64_t samples_cut = 0;  // samples that lose tokens
    int64_t copies = 0;       // samples of the sources left out as copies of others
    int64_t dropped = 0;      // samples without a target, within max_length if it is set
    int64_t longest = 0;      // longest sample
    int64_t rows = 0;
    RowTotals of_rows;
    std::vector<SourceUse> sources{};   // of a mixture; otherwise empty
    std::array<int64_t, 32> lengths{};  // samples of 2^i to 2^(i+1)-1 tokens; empty ones count as 1
};

// Serializes the report, and formats it for users.
text::Value to_value(const RowReport& report);
RowReport report_of(const text::Value& value);
std::string to_text(const RowReport& report, const RowSettings& settings);

// Plans rows of at most max_length tokens from these samples, as TRL makes them: truncated, and
// dropped if no target is left; or packed. Shuffles before and after packing. Without any target
// there is no row.
RowPlan plan_rows(const TokenStore& store, std::span<const int64_t> samples,
                  const RowSettings& settings, RowReport& report);

}  // namespace ringshard::data
