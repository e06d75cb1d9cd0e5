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
    SpooledBlock block{.num_tokens = samples.tokens.size(), .has_labels = !labels.empty()};
    {
        const std::lock_guard lock(*mutex_);
        block.place = end_;
        end_ += static_cast<int64_t>(tokens.size() + labels.size());
    }
    if (auto failure = file_.write_at(tokens, block.place)) return *failure;
    const int64_t labels_place = block.place + static_cast<int64_t>(tokens.size());
    if (auto failure = file_.write_at(labels, labels_place)) return *failure;
    // Only what is small stays in memory; assigning {} would keep the room for the rest.
    block.rest = std::move(samples);
    block.rest.tokens = std::vector<int32_t>();
    block.rest.labels = std::vector<int32_t>();
    block.rest.samples.shrink_to_fit();
    return block;
}

std::optional<Failure> TokenSpool::get(const SpooledBlock& block, std::vector<int32_t>& tokens,
                                       std::vector<int32_t>& labels) const {
    tokens.resize(block.num_tokens);
    labels.resize(block.has_labels ? block.num_tokens : 0);
    const auto token_bytes = std::as_writable_bytes(std::span(tokens));
    if (auto failure = file_.read_at(token_bytes, block.place)) return failure;
    return file_.read_at(std::as_writable_bytes(std::span(labels)),
                         block.place + static_cast<int64_t>(token_bytes.size()));
}

}  // namespace ringshard::data
