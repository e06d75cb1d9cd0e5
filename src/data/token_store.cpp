#include "ringshard/data/token_store.hpp"

#include <algorithm>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

void SampleList::add(std::span<const int32_t> new_tokens, std::span<const int32_t> new_labels) {
    const auto length = static_cast<int32_t>(new_tokens.size());
    add(new_tokens, new_labels, std::span(&length, 1));
}

void SampleList::add(std::span<const int32_t> new_tokens, std::span<const int32_t> new_labels,
                     std::span<const int32_t> new_lengths, std::span<const float> new_weights) {
    RINGSHARD_CHECK(new_tokens.size() == new_labels.size());
    RINGSHARD_CHECK(new_weights.empty() || new_weights.size() == new_tokens.size());
    Sample sample{.begin = tokens.size()};
    bool needs_labels = false;
    for (size_t i = 0; i < new_tokens.size(); ++i) {
        const bool is_learned = new_labels[i] != no_label;
        needs_labels = needs_labels || (is_learned && new_labels[i] != new_tokens[i]);
        if (is_learned && sample.end_label == 0) sample.first_label = static_cast<uint32_t>(i);
        if (is_learned) sample.end_label = static_cast<uint32_t>(i + 1);
        largest_token = std::max(largest_token, new_tokens[i]);
        largest_label = std::max(largest_label, new_labels[i]);
    }
    if (needs_labels) give_labels();
    const bool has_several = new_lengths.size() != 1;
    if (has_several) give_documents(tokens.size());
    if (!new_weights.empty()) give_weights();
    const bool is_weighted = !weights.empty() || !new_weights.empty();

    for (size_t i = 0; i < new_tokens.size(); ++i)
        tokens.push_back(new_labels[i] == no_label ? ~new_tokens[i] : new_tokens[i]);
    if (!labels.empty() || needs_labels)
        labels.insert(labels.end(), new_labels.begin(), new_labels.end());
    if (!new_weights.empty())
        weights.insert(weights.end(), new_weights.begin(), new_weights.end());
    else if (is_weighted)
        weights.resize(tokens.size(), 1.0F);
    if (!document_ends.empty() || has_several) {
        document_lengths.insert(document_lengths.end(), new_lengths.begin(), new_lengths.end());
        document_ends.push_back(document_lengths.size());
    }
    samples.push_back(sample);
}

void SampleList::give_labels() {
    if (!labels.empty()) return;
    labels.reserve(tokens.size());
    for (const int32_t token : tokens) labels.push_back(token < 0 ? no_label : token);
}

void SampleList::give_weights() {
    if (weights.empty()) weights.assign(tokens.size(), 1.0F);
}

void SampleList::give_documents(uint64_t num_tokens) {
    if (!document_ends.empty()) return;
    for (size_t i = 0; i < samples.size(); ++i) {
        const uint64_t end = i + 1 < samples.size() ? samples[i + 1].begin : num_tokens;
        document_lengths.push_back(static_cast<uint32_t>(end - samples[i].begin));
        document_ends.push_back(document_lengths.size());
    }
}

TokenStore::TokenStore(SampleList list) {
    const auto held = std::make_shared<const SampleList>(std::move(list));
    tokens_ = held->tokens;
    labels_ = held->labels;
    weights_ = held->weights;
    samples_ = held->samples;
    document_ends_ = held->document_ends;
    document_lengths_ = held->document_lengths;
    largest_token_ = held->largest_token;
    largest_label_ = held->largest_label;
    owner_ = held;
}

Expected<TokenStore> TokenStore::of(const ArrayFile& file) {
    TokenStore store;
    store.owner_ = file.owner();
    store.name_ = file.name();
    store.about_ = file.about();
    store.tokens_ = file.array<int32_t>("tokens");
    store.labels_ = file.array<int32_t>("labels");
    store.weights_ = file.array<float>("weights");
    store.samples_ = file.array<Sample>("samples");
    store.document_ends_ = file.array<uint64_t>("document_ends");
    store.document_lengths_ = file.array<uint32_t>("document_lengths");
    store.tokens_offset_ = file.offset_of("tokens");
    store.labels_offset_ = file.offset_of("labels");
    const auto about = text::read_json(store.about_);
    const text::Value* const largest = about ? about.value().find("largest_token") : nullptr;
    const text::Value* const largest_label = about ? about.value().find("largest_label") : nullptr;
    const auto is_none_or = [](size_t size, size_t expected) {
        return size == 0 || size == expected;
    };
    if (!file.has("tokens") || !file.has("samples") ||
        !is_none_or(store.labels_.size(), store.tokens_.size()) ||
        !is_none_or(store.weights_.size(), store.tokens_.size()) ||
        !is_none_or(store.document_ends_.size(), store.samples_.size()) || largest == nullptr ||
        largest->integer() == nullptr)
        return Failure{ExitCode::bad_data,
                       format_text("{} holds no token store", store.name_.string())};
    store.largest_token_ = *largest->integer();
    // Stores of before have the largest of both.
    const bool has_both = largest_label != nullptr && largest_label->integer() != nullptr;
    store.largest_label_ = has_both ? *largest_label->integer() : store.largest_token_;
    return store;
}

void TokenStore::check_ids(uint64_t begin, uint64_t count) const {
    const auto refuse = [&](const char* what, int32_t id, int64_t largest, uint64_t offset) {
        const Failure failure = damaged_data(
            name_, format_text("the {} {} at byte {} is not one of 0 to {}, which its head names",
                               what, id, offset, largest));
        throw Error(failure.code, failure.message);
    };
    for (uint64_t at = begin; at < begin + count; ++at) {
        if (token(at) > largest_token_)
            refuse("token", token(at), largest_token_, tokens_offset_ + at * sizeof(int32_t));
        const int32_t learned = label(at);
        if (learned != no_label && (learned < 0 || learned > largest_label_))
            refuse("label", learned, largest_label_, labels_offset_ + at * sizeof(int32_t));
    }
}

void TokenStore::check_inside(uint64_t begin, uint64_t end, uint64_t size, int64_t sample) const {
    if (begin <= end && end <= size) return;
    const Failure failure =
        damaged_data(name_, format_text("sample {} lies outside of it", sample));
    throw Error(failure.code, failure.message);
}

uint32_t TokenStore::length(int64_t number) const {
    const auto i = static_cast<size_t>(number);
    const uint64_t end = i + 1 < samples_.size() ? samples_[i + 1].begin : tokens_.size();
    check_inside(samples_[i].begin, end, tokens_.size(), number);
    return static_cast<uint32_t>(end - samples_[i].begin);
}

int64_t TokenStore::sample_at(uint64_t place) const {
    const auto behind = std::ranges::upper_bound(samples_, place, {}, &Sample::begin);
    return behind - samples_.begin() - 1;
}

std::span<const uint32_t> TokenStore::documents(int64_t number) const {
    if (document_ends_.empty()) return {};
    const auto i = static_cast<size_t>(number);
    const uint64_t begin = i == 0 ? 0 : document_ends_[i - 1];
    check_inside(begin, document_ends_[i], document_lengths_.size(), number);
    return document_lengths_.subspan(begin, document_ends_[i] - begin);
}

}  // namespace ringshard::data
