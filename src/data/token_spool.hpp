#pragma once

#include <mutex>

#include "ringshard/data/token_store.hpp"

namespace ringshard::data {

// The result of a block: its tokens are in the spool, the rest is in memory.
struct SpooledBlock {
    int64_t place = 0;  // byte offset in the spool: tokens, then labels and weights, if any
    uint64_t num_tokens = 0;
    SampleList rest{};  // without tokens, labels and weights
    bool has_labels = false;
    bool has_weights = false;
    bool has_documents() const { return !rest.document_ends.empty(); }
};

// A file that holds a rank's tokens until the ranks have agreed on their places in the store.
class TokenSpool {
public:
    static Expected<TokenSpool> open(const std::filesystem::path& file);

    // Stores the tokens, labels and weights. Thread-safe.
    Expected<SpooledBlock> put(SampleList samples);
    // Reads tokens, labels and weights of the block into the list.
    std::optional<Failure> get(const SpooledBlock& block, SampleList& into) const;

private:
    explicit TokenSpool(File file) : file_(std::move(file)) {}
    File file_;
    int64_t end_ = 0;
    std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

}  // namespace ringshard::data
