#pragma once

#include <vector>

#include "../block_context.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/routing.hpp"

namespace ringshard::model {

// Returns in how many chunks the rows of the group travel: the same on all its ranks, since it
// depends on sizes alone.
int64_t chunks_of_exchange(const ExpertGroup& group, int64_t per_token, int64_t num_experts);

// Returns the rows chunk by chunk, and expert by expert in each. experts [t, k]. Each chunk has so
// many of the tokens.
ops::ExpertRows rows_by_chunk(const at::Tensor& experts, const ExpertsSpec& spec,
                              const std::vector<int64_t>& tokens_of_chunks);

// The way of rows to the ranks of their experts, and back, in chunks of tokens: all-to-alls of
// uneven parts. Every rank of the group takes part, with or without tokens. Without a group all
// experts are here, and rows stay where they are, in one chunk.
class ExpertExchange {
public:
    // experts [t, k]: of this rank's tokens. tokens_of_adapters: how many of these each adapter
    // has; a chunk has tokens of one. arrivals: those of an exchange of the same tokens;
    // undefined: the ranks exchange how many rows each of them sends. Collective over the group.
    ExpertExchange(const ExpertGroup& group, const at::Tensor& experts, const ExpertsSpec& spec,
                   const std::vector<int64_t>& tokens_of_adapters, at::Tensor arrivals);

    int64_t chunks() const { return std::ssize(chunks_); }
    // The number of the adapter that the tokens of a chunk have.
    size_t adapter(int64_t chunk) const { return of(chunk).adapter; }
    // [ranks, chunks, experts of this rank] int64: rows that each rank sends; undefined without a
    // group.
    const at::Tensor& arrivals() const { return arrivals_; }
    // Of this rank's tokens: chunk by chunk, and expert by expert in each.
    const ops::ExpertRows& rows() const { return rows_; }
    // Of a chunk: the token of each row [n].
    at::Tensor tokens(int64_t chunk) const;
    // Of a chunk: the row of a choice [t, k], in the chunk.
    at::Tensor places(int64_t chunk) const;
    // The chunk's part of a tensor with a row for each row of this rank's tokens.
    at::Tensor of_tokens(const at::Tensor& rows, int64_t chunk) const;

    // Rows of this rank's experts in all chunks.
    int64_t num_arriving() const;
    // Rows of each expert of this rank in a chunk, from all ranks.
    const std::vector<int64_t>& counts(int64_t chunk) const { return of(chunk).counts; }
    // The chunk's part of a tensor with a row for each row of this rank's experts, chunk by chunk.
    at::Tensor of_experts(const at::Tensor& rows, int64_t chunk) const;

    // Rows that travel; the caller computes meanwhile.
    struct Moving {
        at::Tensor rows{};
        comm::Pending pending{};
    };
    // rows [n, ...]: of this rank's tokens, expert by expert. Collective over the group.
    Moving send_to_experts(int64_t chunk, const at::Tensor& rows) const;
    // Returns the rows of this rank's experts [m, ...], expert by expert.
    at::Tensor receive(int64_t chunk, Moving moving) const;
    // The way back: from [m, ...] to [n, ...]. Collective over the group.
    Moving send_to_tokens(int64_t chunk, const at::Tensor& rows) const;

private:
    struct Chunk {
        int64_t first_token;
        int64_t tokens;
        size_t adapter;
        std::vector<int64_t> sent;    // to each expert
        std::vector<int64_t> counts;  // of each expert of this rank
        comm::RowCounts to_ranks{};
        comm::RowCounts from_ranks{};
        ops::ArrivedRows arrived{};
    };
    const Chunk& of(int64_t chunk) const { return chunks_[static_cast<size_t>(chunk)]; }
    void exchange_counts(int64_t num_experts);
    void find_arrivals(int64_t chunk);

    comm::Communicator* group_;
    int64_t per_token_;
    std::vector<Chunk> chunks_;
    ops::ExpertRows rows_;
    at::Tensor arrivals_;
};

// Returns rows that came back to their tokens.
at::Tensor wait_for(ExpertExchange::Moving moving);

}  // namespace ringshard::model
