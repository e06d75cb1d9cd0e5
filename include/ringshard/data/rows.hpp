#pragma once

#include <optional>

#include "ringshard/data/row_content.hpp"
#include "ringshard/data/row_plan.hpp"
#include "ringshard/data/token_store.hpp"

namespace ringshard::data {

// The most likely tokens of another model at the places of a token store, `per_token` for each, in
// a mapped file.
struct StoredScores {
    int64_t per_token;
    int64_t largest_token;
    uint64_t hash;  // of all of them
    std::span<const int32_t> tokens;
    std::span<const float> log_probs;
    std::shared_ptr<const void> owner;
    uint64_t first_place = 0;  // the first one that has scores, as all behind it
};

// A micro-batch before the sequence group shards it: one list of the tokens of all its documents.
struct FlatBatch {
    std::vector<int64_t> tokens;
    std::vector<int64_t> targets;  // next token of the document or its label; or no_label
    std::vector<float> weights{};  // of the targets' losses; empty: 1 each
    // With scores: the places of the targets in them; below 0: it has none.
    std::vector<int64_t> places{};
    std::shared_ptr<const StoredScores> scores{};
    std::vector<int64_t> document_starts{};
    // Tokens of a row of the dataset, from `place` in it on, and where they begin in the list.
    struct RowStart {
        int64_t row;
        int64_t begin;
        int64_t place = 0;
        bool operator==(const RowStart&) const = default;
    };
    std::vector<RowStart> row_starts{};
    // A document that goes on behind the first tokens of another one, which both have in common.
    struct Branch {
        size_t document;
        size_t stem;
        int64_t length;
        bool operator==(const Branch&) const = default;
    };
    std::vector<Branch> branches{};
    RowContent content{};
    int64_t num_targets() const;
    double loss_weight() const;  // of all targets, or 1 for each pair, judged answer or anchor
    // Of pairs in the order of their rows: the targets of the chosen documents.
    int64_t num_chosen_targets() const;
    int64_t num_desirable() const;  // documents, of judged ones
    // Where the rows of each learner begin in the list, in their order.
    struct LearnerStart {
        int64_t begin;
        std::optional<uint64_t> dropout{};  // random bits of the step; none: nothing is dropped
    };
    std::vector<LearnerStart> learner_starts{{0}};
    double loss_scale = 1;  // multiplies all losses
    // Counts tokens like TRL, which includes the padding of flattened rows to a multiple,
    // and tokens in common for each of their documents.
    int64_t num_counted() const { return num_of_documents() + counted_padding; }
    int64_t counted_padding = 0;
    void count_padding(int64_t multiple) {
        const int64_t length = num_of_documents();
        counted_padding = (length + multiple - 1) / multiple * multiple - length;
    }
    int64_t num_of_documents() const {
        auto count = static_cast<int64_t>(tokens.size());
        for (const Branch& branch : branches) count += branch.length;
        return count;
    }
};

// How judged answers are joined with the prompts of other rows: behind the prompt of a row stands
// the answer of the row before it among the rows of its step, and behind the first of them that of
// the last.
struct BaselineRule {
    int64_t rows_of_step;
    std::optional<int64_t> max_length{};  // of a prompt with an answer, which is cut at its end
};

// The rows of training: tokens, and a plan that lists the tokens of each row.
class Rows {
public:
    Rows(TokenStore store, RowPlan plan, const RowContent& content = {});
    static Expected<Rows> of(const ArrayFile& store, const ArrayFile& plan);
    static Expected<Rows> map(const std::filesystem::path& store,
                              const std::filesystem::path& plan);

    int64_t size() const { return static_cast<int64_t>(row_starts_.size()) - 1; }
    int64_t length(int64_t row) const;
    std::span<const Piece> pieces(int64_t row) const;
    const TokenStore& store() const { return store_; }
    // Of the tokens of the store, which batches then refer to.
    void give_scores(StoredScores scores);
    // Of judged answers, for append_baseline().
    void give_baseline(const BaselineRule& rule);
    bool has_baseline() const { return baseline_.has_value(); }
    // Lets batches have the tokens that both documents of a pair begin with once.
    void share_prompts() { shares_prompts_ = true; }
    bool shares_prompts() const { return shares_prompts_; }
    // Returns the totals in the plan's file; for a file of an older version, which has none,
    // computes them from all rows.
    RowTotals totals() const;
    // Returns a hash of tokens and rows, which does not depend on the names and times of files;
    // empty for rows in memory.
    const std::string& content_hash() const { return content_hash_; }
    // Describes how the rows were made, as JSON; empty for rows in memory.
    const std::string& about() const { return about_; }
    const RowContent& content() const { return content_; }
    const std::filesystem::path& name() const { return name_; }  // of the file, if there is one

    const std::shared_ptr<const StoredScores>& scores() const { return scores_; }

    // Appends the row to the batch. Throws if the row refers to tokens outside the store or to ids
    // outside the vocabulary: see TokenStore::check_ids().
    void append(int64_t row, FlatBatch& batch) const;
    // Appends the prompt of the row with the answer of another one.
    void append_baseline(int64_t row, FlatBatch& batch) const;

private:
    Rows(TokenStore store, const ArrayFile& plan);
    void append_pieces(std::span<const Piece> pieces, FlatBatch& batch) const;
    void append_targets(const Piece& piece, FlatBatch& batch) const;
    void append_label(const Piece& piece, FlatBatch& batch) const;
    void append_pooled(const Piece& piece, FlatBatch& batch) const;
    TokenStore store_;
    std::filesystem::path name_ = "rows in memory";
    std::string about_;
    std::string content_hash_;
    RowContent content_{};
    std::optional<RowTotals> totals_;
    std::optional<BaselineRule> baseline_;
    bool shares_prompts_ = false;
    std::shared_ptr<const StoredScores> scores_;  // or null
    std::shared_ptr<const void> owner_;           // of the data that the spans show
    std::span<const uint64_t> row_starts_;
    std::span<const Piece> pieces_;
};

// Returns true if a judged document of a batch is undesirable.
bool is_undesirable(const FlatBatch& batch, size_t document);

// Returns the row of each document of a batch, and its place in the row.
std::vector<FlatBatch::RowStart> rows_of_documents(const FlatBatch& batch);

FlatBatch flatten(const Rows& rows, std::span<const int64_t> numbers);
// Returns the baseline of these rows.
FlatBatch flatten_baseline(const Rows& rows, std::span<const int64_t> numbers);
// Returns the tokens of the longest row in batches. Where prompts are shared, it reads the rows
// that may be the longest: one rank calls it.
int64_t longest_in_batches(const Rows& rows);

// Returns the batch with its longest documents first, those of one length in their order. A batch
// of several learners stays as it is, since their tokens stand beside each other, and one of texts,
// whose embeddings have their order.
FlatBatch sort_by_length(FlatBatch batch);

// A batch of one learner.
struct LearnerBatch {
    const FlatBatch* batch = nullptr;  // nullptr: it has none
    std::optional<uint64_t> dropout{};
};
// Puts the documents of all learners one behind the other.
FlatBatch join_batches(std::span<const LearnerBatch> learners);
// Multiplies the losses of each learner: by their weights, or all by loss_scale if one learner has
// them all.
void scale_losses(FlatBatch& joined, std::span<const double> of_learners);

}  // namespace ringshard::data
