#include "ringshard/data/rows.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <numeric>

#include "ringshard/data/plan_rows.hpp"
#include "shared_prompts.hpp"

namespace ringshard::data {

Rows::Rows(TokenStore store, RowPlan plan, const RowContent& content)
    : store_(std::move(store)), content_(content) {
    const auto held = std::make_shared<const RowPlan>(std::move(plan));
    row_starts_ = held->row_starts;
    pieces_ = held->pieces;
    owner_ = held;
}

Rows::Rows(TokenStore store, const ArrayFile& plan)
    : store_(std::move(store)),
      name_(plan.name()),
      about_(plan.about()),
      owner_(plan.owner()),
      row_starts_(plan.array<uint64_t>("row_starts")),
      pieces_(plan.array<Piece>("pieces")) {}

namespace {

std::string hexadecimal(uint64_t number) {
    std::array<char, 16> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
    return {digits.data(), end};
}

std::optional<RowTotals> read_totals(const std::string& about) {
    const auto read = text::read_json(about);
    const text::Value* report = read ? read.value().find("report") : nullptr;
    if (report == nullptr || report->find("longest_document") == nullptr) return std::nullopt;
    return report_of(*report).of_rows;
}

RowContent content_of(const std::string& about) {
    const auto read = text::read_json(about);
    const auto says = [&](const char* name) { return read && read.value().find(name) != nullptr; };
    const auto pooling =
        says("pooling") ? static_cast<config::Pooling>(*read.value().find("pooling")->integer())
                        : config::Pooling::lasttoken;
    return {.is_pair = says("has_pairs"),
            .is_scored = says("is_scored"),
            .is_embedded = says("pooling"),
            .pooling = pooling,
            .has_numbers = says("has_numbers"),
            .is_judged = says("is_judged")};
}

// Returns the sum over the chunks of a store that hold places of samples, in which the stores of
// one content may differ.
uint64_t places_sum_of(const ArrayFile& store) {
    const auto about = text::read_json(store.about());
    const text::Value* const sum = about ? about.value().find("places_sum") : nullptr;
    return sum != nullptr && sum->integer() != nullptr ? static_cast<uint64_t>(*sum->integer()) : 0;
}

}  // namespace

Expected<Rows> Rows::of(const ArrayFile& store_file, const ArrayFile& plan) {
    auto store = TokenStore::of(store_file);
    if (!store) return store.failure();
    Rows rows(std::move(store).value(), plan);
    if (rows.row_starts_.empty() || rows.row_starts_.back() != rows.pieces_.size())
        return Failure{ExitCode::bad_data,
                       format_text("{} holds no plan of rows", plan.name().string())};
    rows.totals_ = read_totals(rows.about_);
    rows.content_ = content_of(rows.about_);
    // Each is a sum over the hashes of all chunks, which is the same at any number of ranks.
    rows.content_hash_ =
        format_text("{}-{}", hexadecimal(store_file.chunk_sum() - places_sum_of(store_file)),
                    hexadecimal(plan.chunk_sum()));
    return rows;
}

Expected<Rows> Rows::map(const std::filesystem::path& store_file,
                         const std::filesystem::path& plan_file) {
    const auto store = ArrayFile::map(store_file);
    if (!store) return store.failure();
    const auto plan = ArrayFile::map(plan_file);
    if (!plan) return plan.failure();
    return of(store.value(), plan.value());
}

void Rows::give_scores(StoredScores scores) {
    if (!content_hash_.empty()) content_hash_ += "-" + hexadecimal(scores.hash);
    scores_ = std::make_shared<const StoredScores>(std::move(scores));
}

// Checks bounds again: hashes are verified once, at the start of a run, and the file may change
// later.
std::span<const Piece> Rows::pieces(int64_t row) const {
    const auto i = static_cast<size_t>(row);
    RINGSHARD_CHECK(row >= 0 && row < size());
    const auto refuse = [&] {
        const Failure failure = damaged_data(
            name_,
            format_text("row {} names tokens that are not in {}", row, store_.name().string()));
        throw Error(failure.code, failure.message);
    };
    const uint64_t begin = row_starts_[i];
    const uint64_t end = row_starts_[i + 1];
    if (begin > end || end > pieces_.size()) refuse();
    const auto found = pieces_.subspan(begin, end - begin);
    const uint64_t num_tokens = store_.num_tokens();
    bool has_tokens = false;
    for (const Piece& piece : found) {
        if (piece.begin > num_tokens || piece.length > num_tokens - piece.begin) refuse();
        if (piece.goes_on != 0 && !has_tokens) refuse();  // continues nothing
        has_tokens = has_tokens || piece.length > 0;
    }
    return found;
}

int64_t Rows::length(int64_t row) const {
    int64_t length = 0;
    for (const Piece& piece : pieces(row)) length += piece.length;
    return length;
}

RowTotals Rows::totals() const {
    if (totals_) return *totals_;
    RowTotals counted;
    for (int64_t row = 0; row < size(); ++row) counted.add(pieces(row));
    return counted;
}

int64_t FlatBatch::num_targets() const {
    return std::ranges::count_if(targets, [](int64_t target) { return target != no_label; });
}

double FlatBatch::loss_weight() const {
    if (content.is_pair) return static_cast<double>(document_starts.size()) / 2;
    if (content.is_judged) return static_cast<double>(document_starts.size());
    if (content.is_embedded)
        return static_cast<double>(
            std::ranges::count(rows_of_documents(*this), 0, &RowStart::place));
    if (weights.empty() || content.has_numbers) return static_cast<double>(num_targets());
    double sum = 0;
    for (size_t i = 0; i < targets.size(); ++i)
        if (targets[i] != no_label) sum += static_cast<double>(weights[i]);
    return sum;
}

int64_t FlatBatch::num_chosen_targets() const {
    int64_t count = 0;
    for (size_t document = 0; document + 1 < document_starts.size(); document += 2)
        count += std::count_if(targets.begin() + document_starts[document],
                               targets.begin() + document_starts[document + 1],
                               [](int64_t target) { return target != no_label; });
    return count;
}

bool is_undesirable(const FlatBatch& batch, size_t document) {
    if (batch.weights.empty()) return false;
    const auto begin = batch.weights.begin() + batch.document_starts[document];
    const auto end = document + 1 < batch.document_starts.size()
                         ? batch.weights.begin() + batch.document_starts[document + 1]
                         : batch.weights.end();
    return std::any_of(begin, end, [](float weight) { return weight < 0; });
}

int64_t FlatBatch::num_desirable() const {
    int64_t count = 0;
    for (size_t document = 0; document < document_starts.size(); ++document)
        count += is_undesirable(*this, document) ? 0 : 1;
    return count;
}

void Rows::give_baseline(const BaselineRule& rule) {
    if (!content_hash_.empty()) content_hash_ += format_text("-{}", rule.rows_of_step);
    baseline_ = rule;
}

void Rows::append(int64_t row, FlatBatch& batch) const { append_pieces(pieces(row), batch); }

void Rows::append_baseline(int64_t row, FlatBatch& batch) const {
    const auto& [rows_of_step, max_length] = *baseline_;
    const bool is_first = row % rows_of_step == 0;
    const int64_t other = is_first ? std::min(row + rows_of_step, size()) - 1 : row - 1;
    const auto sample_of = [&](int64_t number) {
        return store_.sample_at(pieces(number).front().begin);
    };
    const Sample& mine = store_.sample(sample_of(row));
    const Sample& others = store_.sample(sample_of(other));
    const uint32_t answer = store_.length(sample_of(other)) - others.first_label;
    const auto limit = static_cast<uint32_t>(max_length.value_or(UINT32_MAX));
    const Piece prompt{mine.begin, std::min(mine.first_label, limit)};
    append_pieces(std::array{prompt, Piece{others.begin + others.first_label,
                                           std::min(answer, limit - prompt.length),
                                           prompt.length > 0 ? 1U : 0U}},
                  batch);
}

void Rows::append_pieces(std::span<const Piece> pieces, FlatBatch& batch) const {
    for (const Piece& piece : pieces) {
        if (piece.length == 0) continue;
        store_.check_ids(piece.begin, piece.length);
        if (piece.goes_on == 0)
            batch.document_starts.push_back(static_cast<int64_t>(batch.tokens.size()));
        for (uint64_t at = piece.begin; at < piece.begin + piece.length; ++at)
            batch.tokens.push_back(store_.token(at));
        if (content_.is_scored)
            append_label(piece, batch);
        else if (content_.is_embedded)
            append_pooled(piece, batch);
        else
            append_targets(piece, batch);
        if (scores_ != nullptr) {
            RINGSHARD_CHECK(piece.goes_on == 0, "a document that goes on has no scores");
            for (uint64_t at = piece.begin + 1; at < piece.begin + piece.length; ++at)
                batch.places.push_back(static_cast<int64_t>(at) -
                                       static_cast<int64_t>(scores_->first_place));
            batch.places.push_back(0);
        }
    }
}

// Of a piece whose tokens are in the batch: the target of a token is the next one.
void Rows::append_targets(const Piece& piece, FlatBatch& batch) const {
    const uint64_t end = piece.begin + piece.length;
    if (piece.goes_on != 0) batch.targets.back() = store_.label(piece.begin);
    for (uint64_t at = piece.begin + 1; at < end; ++at) batch.targets.push_back(store_.label(at));
    batch.targets.push_back(no_label);
    if (!store_.has_weights()) return;
    if (piece.goes_on != 0) batch.weights.back() = store_.weight(piece.begin);
    for (uint64_t at = piece.begin + 1; at < end; ++at) batch.weights.push_back(store_.weight(at));
    batch.weights.push_back(0);
}

// Of a document whose tokens are in the batch: its label is the target of the last token that
// counts.
void Rows::append_label(const Piece& piece, FlatBatch& batch) const {
    RINGSHARD_CHECK(piece.goes_on == 0, "a document with one label goes on");
    const size_t begin = batch.targets.size();
    batch.targets.resize(begin + piece.length, no_label);
    if (store_.has_weights()) batch.weights.resize(begin + piece.length, 0);
    for (uint64_t behind = piece.length; behind > 0; --behind) {
        const uint64_t at = piece.begin + behind - 1;
        if (store_.label(at) == no_label) continue;
        batch.targets[begin + behind - 1] = store_.label(at);
        if (store_.has_weights()) batch.weights[begin + behind - 1] = store_.weight(at);
        return;
    }
}

// Of a document whose tokens are in the batch: those that make its embedding are targets, of which
// only the place matters.
void Rows::append_pooled(const Piece& piece, FlatBatch& batch) const {
    const size_t begin = batch.targets.size();
    const bool takes_all = content_.pooling == config::Pooling::mean;
    batch.targets.resize(begin + piece.length, takes_all ? 0 : no_label);
    if (content_.pooling == config::Pooling::cls) batch.targets[begin] = 0;
    if (content_.pooling == config::Pooling::lasttoken) batch.targets.back() = 0;
}

FlatBatch join_batches(std::span<const LearnerBatch> learners) {
    FlatBatch joined;
    if (learners.size() == 1) {
        joined = *learners.front().batch;
        joined.learner_starts = {{0, learners.front().dropout}};
        return joined;
    }
    joined.learner_starts.clear();
    const auto append = [](auto& all, const auto& more) {
        all.insert(all.end(), more.begin(), more.end());
    };
    for (const LearnerBatch& learner : learners) {
        const auto begin = static_cast<int64_t>(joined.tokens.size());
        joined.learner_starts.push_back({begin, learner.dropout});
        if (learner.batch == nullptr) continue;
        const FlatBatch& batch = *learner.batch;
        append(joined.tokens, batch.tokens);
        append(joined.targets, batch.targets);
        append(joined.weights,
               batch.weights.empty() ? std::vector<float>(batch.tokens.size(), 1) : batch.weights);
        const size_t documents = joined.document_starts.size();
        for (const int64_t start : batch.document_starts)
            joined.document_starts.push_back(begin + start);
        for (const auto& [document, stem, length] : batch.branches)
            joined.branches.push_back({documents + document, documents + stem, length});
        for (const auto& [row, start, place] : batch.row_starts)
            joined.row_starts.push_back({row, begin + start, place});
        joined.counted_padding += batch.counted_padding;
    }
    return joined;
}

void scale_losses(FlatBatch& joined, std::span<const double> of_learners) {
    if (of_learners.size() == 1) {
        joined.loss_scale = of_learners.front();
        return;
    }
    for (size_t learner = 0; learner < joined.learner_starts.size(); ++learner) {
        const auto begin = static_cast<size_t>(joined.learner_starts[learner].begin);
        const size_t end = learner + 1 < joined.learner_starts.size()
                               ? static_cast<size_t>(joined.learner_starts[learner + 1].begin)
                               : joined.weights.size();
        for (size_t token = begin; token < end; ++token)
            joined.weights[token] = static_cast<float>(static_cast<double>(joined.weights[token]) *
                                                       of_learners[learner]);
    }
}

FlatBatch flatten(const Rows& rows, std::span<const int64_t> numbers) {
    FlatBatch batch;
    batch.scores = rows.scores();
    batch.content = rows.content();
    for (const int64_t number : numbers) {
        batch.row_starts.push_back({number, static_cast<int64_t>(batch.tokens.size())});
        rows.append(number, batch);
        if (rows.shares_prompts()) share_prompt(batch);
    }
    return batch;
}

int64_t longest_in_batches(const Rows& rows) {
    if (!rows.shares_prompts()) return rows.totals().longest_row;
    std::vector<int64_t> longest_first(static_cast<size_t>(rows.size()));
    std::iota(longest_first.begin(), longest_first.end(), 0);
    std::ranges::sort(longest_first, std::greater(), [&](int64_t row) { return rows.length(row); });
    int64_t longest = 0;
    for (const int64_t row : longest_first) {
        if (rows.length(row) <= longest) break;
        longest = std::max<int64_t>(longest, std::ssize(flatten(rows, {&row, 1}).tokens));
    }
    return longest;
}

FlatBatch flatten_baseline(const Rows& rows, std::span<const int64_t> numbers) {
    FlatBatch batch;
    batch.content = rows.content();
    batch.content.is_baseline = true;
    for (const int64_t number : numbers) {
        batch.row_starts.push_back({number, static_cast<int64_t>(batch.tokens.size())});
        rows.append_baseline(number, batch);
    }
    return batch;
}

namespace {

struct Document {
    size_t number;
    int64_t begin;
    int64_t length;
};

std::vector<Document> documents_of(const FlatBatch& batch) {
    std::vector<Document> documents;
    for (size_t i = 0; i < batch.document_starts.size(); ++i) {
        const int64_t begin = batch.document_starts[i];
        const int64_t end = i + 1 < batch.document_starts.size() ? batch.document_starts[i + 1]
                                                                 : std::ssize(batch.tokens);
        documents.push_back({i, begin, end - begin});
    }
    return documents;
}

template <class Number>
std::vector<Number> in_order(const std::vector<Number>& numbers,
                             std::span<const Document> documents) {
    std::vector<Number> ordered;
    if (numbers.empty()) return ordered;
    ordered.reserve(numbers.size());
    for (const auto& [number, begin, length] : documents)
        ordered.insert(ordered.end(), numbers.begin() + begin, numbers.begin() + begin + length);
    return ordered;
}

// The row of a document that begins at `begin`, and its place in the row.
FlatBatch::RowStart row_at(const FlatBatch& batch, int64_t begin) {
    const auto row = std::prev(
        std::ranges::upper_bound(batch.row_starts, begin, {}, &FlatBatch::RowStart::begin));
    return {row->row, row->begin, row->place + begin - row->begin};
}

}  // namespace

std::vector<FlatBatch::RowStart> rows_of_documents(const FlatBatch& batch) {
    std::vector<FlatBatch::RowStart> rows;
    for (const int64_t begin : batch.document_starts) {
        rows.push_back(row_at(batch, begin));
        rows.back().begin = begin;
    }
    return rows;
}

FlatBatch sort_by_length(FlatBatch batch) {
    std::vector<Document> documents = documents_of(batch);
    if (batch.learner_starts.size() > 1 || batch.content.is_embedded ||
        std::ranges::is_sorted(documents, std::greater(), &Document::length))
        return batch;
    std::ranges::stable_sort(documents, std::greater(), &Document::length);
    FlatBatch sorted;
    sorted.tokens = in_order(batch.tokens, documents);
    sorted.targets = in_order(batch.targets, documents);
    sorted.weights = in_order(batch.weights, documents);
    sorted.places = in_order(batch.places, documents);
    sorted.scores = batch.scores;
    sorted.content = batch.content;
    int64_t start = 0;
    std::vector<size_t> places(documents.size());
    for (const auto& [number, begin, length] : documents) {
        places[number] = sorted.document_starts.size();
        sorted.document_starts.push_back(start);
        if (!batch.row_starts.empty()) {
            sorted.row_starts.push_back(row_at(batch, begin));
            sorted.row_starts.back().begin = start;
        }
        start += length;
    }
    for (const auto& [document, stem, length] : batch.branches)
        sorted.branches.push_back({places[document], places[stem], length});
    sorted.counted_padding = batch.counted_padding;
    sorted.learner_starts = batch.learner_starts;
    sorted.loss_scale = batch.loss_scale;
    return sorted;
}

}  // namespace ringshard::data
