#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringshard/data/array_file.hpp"

namespace ringshard::data {

// One tokenized row of a dataset: the place of its first token, and the range with targets, from
// first_label to end_label (exclusive), relative to the beginning. Equal: no targets.
struct Sample {
    uint64_t begin = 0;
    uint32_t first_label = 0;
    uint32_t end_label = 0;
};

constexpr int32_t no_label = -100;

// Consecutive samples in memory, for building a store.
struct SampleList {
    // A token without a label is stored as its complement, ~token, which is negative.
    std::vector<int32_t> tokens;
    std::vector<int32_t> labels;  // of every token, if one differs from its token; else empty
    std::vector<float> weights;   // of the loss of every token as a target; empty: 1 each
    std::vector<Sample> samples;
    // Document lengths of each sample, if a sample has several documents; otherwise empty.
    std::vector<uint64_t> document_ends;  // in `document_lengths`, per sample
    std::vector<uint32_t> document_lengths;
    int32_t largest_token = -1;
    int32_t largest_label = -1;

    // labels: as many as tokens, the token's target or no_label. document_lengths: with the sum of
    // the number of tokens. weights: as many as tokens, or none.
    void add(std::span<const int32_t> tokens, std::span<const int32_t> labels,
             std::span<const int32_t> document_lengths, std::span<const float> weights = {});
    void add(std::span<const int32_t> tokens, std::span<const int32_t> labels);

    void give_labels();   // materializes labels that the tokens imply
    void give_weights();  // materializes weights of 1
    // Materializes one document per sample. num_tokens: of `tokens`, which may be stored elsewhere.
    void give_documents(uint64_t num_tokens);
};

// The tokens of all samples of a dataset.
class TokenStore {
public:
    static Expected<TokenStore> of(const ArrayFile& file);
    explicit TokenStore(SampleList samples);

    int64_t size() const { return static_cast<int64_t>(samples_.size()); }
    const Sample& sample(int64_t number) const { return samples_[static_cast<size_t>(number)]; }
    uint32_t length(int64_t number) const;
    // Returns the number of the sample that has this token.
    int64_t sample_at(uint64_t place) const;
    uint64_t num_tokens() const { return tokens_.size(); }

    // Returns the document lengths of a sample; empty if it is one document.
    std::span<const uint32_t> documents(int64_t number) const;

    int32_t token(uint64_t place) const {
        const int32_t stored = tokens_[place];
        return stored < 0 ? ~stored : stored;
    }
    int32_t label(uint64_t place) const {
        if (!labels_.empty()) return labels_[place];
        return tokens_[place] < 0 ? no_label : tokens_[place];
    }

    bool has_weights() const { return !weights_.empty(); }
    float weight(uint64_t place) const { return weights_.empty() ? 1.0F : weights_[place]; }

    // Throws, with file and byte, if a token or label of these places is above the largest one:
    // arrays indexed with it would be accessed beyond their end.
    void check_ids(uint64_t begin, uint64_t count) const;
    int64_t largest_token() const { return largest_token_; }
    int64_t largest_label() const { return largest_label_; }

    // Describes how the store was made, as JSON; empty for one in memory.
    const std::string& about() const { return about_; }
    const std::filesystem::path& name() const { return name_; }  // of the file, if there is one

private:
    TokenStore() = default;
    void check_inside(uint64_t begin, uint64_t end, uint64_t size, int64_t sample) const;
    std::shared_ptr<const void> owner_;  // of the data that the spans show
    std::filesystem::path name_ = "tokens in memory";
    std::string about_;
    int64_t largest_token_ = -1;  // from the hashed head of the file
    int64_t largest_label_ = -1;
    uint64_t tokens_offset_ = 0;  // in the file
    uint64_t labels_offset_ = 0;
    std::span<const int32_t> tokens_;
    std::span<const int32_t> labels_;
    std::span<const float> weights_;
    std::span<const Sample> samples_;
    std::span<const uint64_t> document_ends_;
    std::span<const uint32_t> document_lengths_;
};

}  // namespace ringshard::data
