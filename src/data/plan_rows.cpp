#include "ringshard/data/plan_rows.hpp"

#include <algorithm>
#include <bit>

#include "numpy_random.hpp"
#include "packing.hpp"

namespace ringshard::data {

namespace {

void shuffle_rows(RowPlan& plan, int64_t seed) {
    const bool has_one_piece_each =
        plan.pieces.size() + 1 == plan.row_starts.size() &&
        std::ranges::adjacent_find(plan.row_starts) == plan.row_starts.end();
    if (has_one_piece_each) {
        numpy_shuffle(static_cast<uint64_t>(seed), std::span(plan.pieces));
        return;
    }
    RowPlan shuffled;
    shuffled.pieces.reserve(plan.pieces.size());
    shuffled.row_starts.reserve(plan.row_starts.size());
    for (const int64_t row : numpy_permutation(static_cast<uint64_t>(seed), plan.size())) {
        const auto pieces = plan.row(row);
        shuffled.pieces.insert(shuffled.pieces.end(), pieces.begin(), pieces.end());
        shuffled.end_row();
    }
    plan = std::move(shuffled);
}

// Adds a row of `length` tokens from the beginning or the end of a sample, with its document
// borders.
void add_row(const TokenStore& store, int64_t number, uint32_t length, bool keeps_end,
             RowPlan& plan) {
    const Sample& sample = store.sample(number);
    const uint32_t whole = store.length(number);
    const uint64_t begin = sample.begin + (keeps_end ? whole - length : 0);
    const std::span<const uint32_t> documents = store.documents(number);
    uint64_t document_begin = sample.begin;
    for (const uint32_t document : documents.empty() ? std::span(&whole, 1) : documents) {
        const uint64_t first = std::max(begin, document_begin);
        const uint64_t last = std::min(begin + length, document_begin + document);
        if (first < last) plan.pieces.push_back({first, static_cast<uint32_t>(last - first)});
        document_begin += document;
    }
    plan.end_row();
}

bool has_label(const Sample& sample, uint32_t whole, uint32_t length, bool keeps_end) {
    if (sample.first_label == sample.end_label) return false;
    return keeps_end ? sample.end_label > whole - length : sample.first_label < length;
}

// Returns true if the pieces hold a target with a weight. No token predicts the first one of a
// document, which is a target only where a label of the whole stands at it.
bool has_target(const TokenStore& store, std::span<const Piece> pieces, const RowContent& content) {
    return std::ranges::any_of(pieces, [&](const Piece& piece) {
        const bool counts_first = content.is_scored || content.is_embedded || piece.goes_on != 0;
        for (uint64_t token = piece.begin + (counts_first ? 0 : 1);
             token < piece.begin + piece.length; ++token)
            if (store.label(token) != no_label &&
                (content.weighs_by_label() || store.weight(token) != 0))
                return true;
        return false;
    });
}

RowPlan without_rows_that_teach_nothing(const TokenStore& store, RowPlan plan,
                                        const RowContent& content, RowReport& report) {
    RowPlan kept;
    for (int64_t row = 0; row < plan.size(); ++row) {
        const std::span<const Piece> pieces = plan.row(row);
        if (!has_target(store, pieces, content)) continue;
        kept.pieces.insert(kept.pieces.end(), pieces.begin(), pieces.end());
        kept.end_row();
    }
    report.dropped += plan.size() - kept.size();
    return kept;
}

RowPlan one_row_each(const TokenStore& store, std::span<const int64_t> samples,
                     const RowSettings& settings, RowReport& report) {
    const bool keeps_end = settings.truncation == config::TruncationMode::keep_end;
    const auto limit = static_cast<uint32_t>(settings.max_length.value_or(UINT32_MAX));
    RowPlan plan;
    plan.pieces.reserve(samples.size());
    plan.row_starts.reserve(samples.size() + 1);
    for (const int64_t number : samples) {
        const uint32_t whole = store.length(number);
        const uint32_t length = std::min(whole, limit);
        const bool may_drop = !settings.keeps_all && settings.max_length;
        if (may_drop && !has_label(store.sample(number), whole, length, keeps_end)) {
            ++report.dropped;
            continue;
        }
        report.samples_cut += length < whole ? 1 : 0;
        report.cut_tokens += whole - length;
        add_row(store, number, length, keeps_end, plan);
    }
    return plan;
}

// A row has all documents of a sample, each cut at its end. Each has a target.
RowPlan one_row_of_documents(const TokenStore& store, std::span<const int64_t> samples,
                             const RowSettings& settings, RowReport& report) {
    const auto limit = static_cast<uint32_t>(settings.max_length.value_or(UINT32_MAX));
    const bool drops_long = settings.truncation == config::TruncationMode::drop;
    RowPlan plan;
    for (const int64_t number : samples) {
        const std::span<const uint32_t> documents = store.documents(number);
        uint64_t begin = store.sample(number).begin;
        std::vector<Piece> sides;
        for (const uint32_t length : documents) {
            sides.push_back({begin, std::min(length, limit)});
            begin += length;
        }
        uint32_t lost = store.length(number);
        for (const Piece& side : sides) lost -= side.length;
        const bool is_of_use = std::ranges::all_of(sides, [&](const Piece& side) {
            return has_target(store, std::span(&side, 1), settings.content);
        });
        if (!is_of_use || (drops_long && lost > 0)) {
            ++report.dropped;
            continue;
        }
        report.samples_cut += lost > 0 ? 1 : 0;
        report.cut_tokens += lost;
        plan.pieces.insert(plan.pieces.end(), sides.begin(), sides.end());
        plan.end_row();
    }
    return plan;
}

RowPlan packed(const TokenStore& store, std::span<const int64_t> samples,
               const RowSettings& settings, RowReport& report) {
    RINGSHARD_CHECK(settings.max_length, "packing needs max_length");
    const auto limit = static_cast<uint32_t>(*settings.max_length);
    std::vector<Piece> documents;
    documents.reserve(samples.size());
    for (const int64_t number : samples) {
        const uint32_t length = store.length(number);
        documents.push_back({store.sample(number).begin, length});
        if (settings.strategy != config::PackingStrategy::bfd || length <= limit) continue;
        ++report.samples_cut;
        report.cut_tokens += length - limit;
    }
    if (settings.shuffles)
        numpy_shuffle(static_cast<uint64_t>(settings.seed), std::span(documents));
    RowPlan plan = pack(documents, settings.strategy, limit,
                        settings.scope == config::PackingScope::global ? 0 : trl_problem_size);
    if (has_target(store, plan.pieces, settings.content)) return plan;
    report.dropped = std::ssize(samples);
    return {};
}

}  // namespace

RowPlan plan_rows(const TokenStore& store, std::span<const int64_t> samples,
                  const RowSettings& settings, RowReport& report) {
    for (const int64_t number : samples) {
        const uint32_t length = store.length(number);
        report.tokens += length;
        report.longest = std::max<int64_t>(report.longest, length);
        ++report.lengths[static_cast<size_t>(std::bit_width(std::max(1U, length)) - 1)];
    }
    report.samples = static_cast<int64_t>(samples.size());
    const bool drops_long = settings.truncation == config::TruncationMode::drop &&
                            settings.max_length && !settings.content.has_documents();
    std::vector<int64_t> kept;
    if (drops_long || settings.min_length > 0) {
        std::ranges::copy_if(samples, std::back_inserter(kept), [&](int64_t number) {
            const int64_t length = store.length(number);
            return length >= settings.min_length && (!drops_long || length <= *settings.max_length);
        });
        report.dropped += std::ssize(samples) - std::ssize(kept);
        samples = kept;
    }
    RowPlan plan = settings.content.has_documents()
                       ? one_row_of_documents(store, samples, settings, report)
                   : settings.packs ? packed(store, samples, settings, report)
                                    : one_row_each(store, samples, settings, report);
    if (settings.shuffles) shuffle_rows(plan, settings.seed);
    // TRL shuffles these rows with the others.
    if (!settings.packs && !settings.keeps_all && !settings.content.has_documents())
        plan = without_rows_that_teach_nothing(store, std::move(plan), settings.content, report);
    report.rows = plan.size();
    for (int64_t row = 0; row < plan.size(); ++row) report.of_rows.add(plan.row(row));
    return plan;
}

}  // namespace ringshard::data
