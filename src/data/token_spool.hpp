#pragma once

#include <mutex>

#include "ringshard/data/token_store.hpp"

namespace ringshard::data {

// The result of a block. Its tokens are in the spool; the rest is small.
struct SpooledBlock {
    int64_t place = 0;  // in the spool, in bytes: tokens, then labels and weights if there are any
    uint64_t num_tokens = 0;
    SampleList rest{};  // without tokens, labels and weights
    bool has_labels = false;
    bool has_weights = false;
    bool has_documents() const { return !rest.document_ends.empty(); }
};

// A file in which a rank keeps the tokens of its blocks until it is known where they go.
class TokenSpool {
public:
    static Expected<TokenSpool> open(const std::filesystem::path& file);

    // Threads may call it.
    Expected<SpooledBlock> put(SampleList samples);
    // Fills tokens, labels and weights of the list.
    std::optional<Failure> get(const SpooledBlock& block, SampleList& into) const;

private:
    explicit TokenSpool(File file) : file_(std::move(file)) {}
    File file_;
    int64_t end_ = 0;
    std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

}  // namespace ringshard::data
