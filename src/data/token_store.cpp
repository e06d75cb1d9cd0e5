#include "ringshard/data/token_store.hpp"

#include <algorithm>

namespace ringshard::data {

void SampleList::add(std::span<const int32_t> new_tokens, std::span<const int32_t> new_labels) {
    const auto length = static_cast<int32_t>(new_tokens.size());
    add(new_tokens, new_labels, std::span(&length, 1));
}

void SampleList::add(std::span<const int32_t> new_tokens, std::span<const int32_t> new_labels,
                     std::span<const int32_t> new_lengths) {
    RINGSHARD_CHECK(new_tokens.size() == new_labels.size());
    Sample sample{.begin = tokens.size()};
    bool needs_labels = false;
    for (size_t i = 0; i < new_tokens.size(); ++i) {
        const bool is_learned = new_labels[i] != no_label;
        needs_labels = needs_labels || (is_learned && new_labels[i] != new_tokens[i]);
        if (is_learned && sample.end_label == 0) sample.first_label = static_cast<uint32_t>(i);
        if (is_learned) sample.end_label = static_cast<uint32_t>(i + 1);
        largest_token = std::max({largest_token, new_tokens[i], new_labels[i]});
    }
    if (needs_labels) give_labels();
    const bool has_several = new_lengths.size() != 1;
    if (has_several) give_documents(tokens.size());

    for (size_t i = 0; i < new_tokens.size(); ++i)
        tokens.push_back(new_labels[i] == no_label ? ~new_tokens[i] : new_tokens[i]);
    if (!labels.empty() || needs_labels)
        labels.insert(labels.end(), new_labels.begin(), new_labels.end());
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
    samples_ = held->samples;
    document_ends_ = held->document_ends;
    document_lengths_ = held->document_lengths;
    owner_ = held;
}

Expected<TokenStore> TokenStore::map(const std::filesystem::path& path) {
    const auto file = ArrayFile::map(path);
    if (!file) return file.failure();
    TokenStore store;
    store.owner_ = file.value().owner();
    store.about_ = file.value().about();
    store.tokens_ = file.value().array<int32_t>("tokens");
    store.labels_ = file.value().array<int32_t>("labels");
    store.samples_ = file.value().array<Sample>("samples");
    store.document_ends_ = file.value().array<uint64_t>("document_ends");
    store.document_lengths_ = file.value().array<uint32_t>("document_lengths");
    const auto is_none_or = [](size_t size, size_t expected) {
        return size == 0 || size == expected;
    };
    if (!file.value().has("tokens") || !file.value().has("samples") ||
        !is_none_or(store.labels_.size(), store.tokens_.size()) ||
        !is_none_or(store.document_ends_.size(), store.samples_.size()))
        return Failure{ExitCode::bad_data, concat(path.string(), " holds no token store")};
    return store;
}

namespace {

// The head of a file is hashed and its arrays are not.
void expect_inside(uint64_t begin, uint64_t end, uint64_t size, int64_t sample) {
    if (begin > end || end > size)
        throw Error(ExitCode::bad_data,
                    concat("sample ", sample,
                           " of the prepared data lies outside of it: the file "
                           "tokens-... is damaged; delete it, and it is made again"));
}

}  // namespace

uint32_t TokenStore::length(int64_t number) const {
    const auto i = static_cast<size_t>(number);
    const uint64_t end = i + 1 < samples_.size() ? samples_[i + 1].begin : tokens_.size();
    expect_inside(samples_[i].begin, end, tokens_.size(), number);
    return static_cast<uint32_t>(end - samples_[i].begin);
}

std::span<const uint32_t> TokenStore::documents(int64_t number) const {
    if (document_ends_.empty()) return {};
    const auto i = static_cast<size_t>(number);
    const uint64_t begin = i == 0 ? 0 : document_ends_[i - 1];
    expect_inside(begin, document_ends_[i], document_lengths_.size(), number);
    return document_lengths_.subspan(begin, document_ends_[i] - begin);
}

}  // namespace ringshard::data
