#include "token_spool.hpp"

#include <fcntl.h>

namespace ringshard::data {

Expected<TokenSpool> TokenSpool::open(const std::filesystem::path& path) {
    auto file = File::open(path, O_RDWR | O_CREAT | O_TRUNC);
    if (!file) return file.failure();
    return TokenSpool(std::move(file).value());
}

Expected<SpooledBlock> TokenSpool::put(SampleList samples) {
    const auto tokens = std::as_bytes(std::span(samples.tokens));
    const auto labels = std::as_bytes(std::span(samples.labels));
    const auto weights = std::as_bytes(std::span(samples.weights));
    SpooledBlock block{.num_tokens = samples.tokens.size(),
                       .has_labels = !labels.empty(),
                       .has_weights = !weights.empty()};
    {
        const std::lock_guard lock(*mutex_);
        block.place = end_;
        end_ += static_cast<int64_t>(tokens.size() + labels.size() + weights.size());
    }
    int64_t place = block.place;
    for (const auto bytes : {tokens, labels, weights}) {
        if (auto failure = file_.write_at(bytes, place)) return *failure;
        place += static_cast<int64_t>(bytes.size());
    }
    // Keeps only small members in memory; assigning {} would keep the capacity of the others.
    block.rest = std::move(samples);
    block.rest.tokens = std::vector<int32_t>();
    block.rest.labels = std::vector<int32_t>();
    block.rest.weights = std::vector<float>();
    block.rest.samples.shrink_to_fit();
    return block;
}

std::optional<Failure> TokenSpool::get(const SpooledBlock& block, SampleList& into) const {
    into.tokens.resize(block.num_tokens);
    into.labels.resize(block.has_labels ? block.num_tokens : 0);
    into.weights.resize(block.has_weights ? block.num_tokens : 0);
    int64_t place = block.place;
    for (const auto bytes : {std::as_writable_bytes(std::span(into.tokens)),
                             std::as_writable_bytes(std::span(into.labels)),
                             std::as_writable_bytes(std::span(into.weights))}) {
        if (auto failure = file_.read_at(bytes, place)) return failure;
        place += static_cast<int64_t>(bytes.size());
    }
    return std::nullopt;
}

}  // namespace ringshard::data
