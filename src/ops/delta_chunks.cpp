#include "delta_chunks.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>

#include <algorithm>

#include "ringshard/ops/device_copies.hpp"
#include "ringshard/ops/routing.hpp"

namespace ringshard::ops {

namespace {

Unit rows_by(StateRule rule, const at::Tensor& x) {
    if (rule == StateRule::additive) return {x, {}};
    constexpr double epsilon = 1e-6;
    const at::Tensor inverse = x.square().sum({-1}, true).add_(epsilon).rsqrt_();
    return {x * inverse, inverse};
}

// [n, kh, r, rows, columns] -> [n, heads, rows, columns]
at::Tensor flat_heads(const at::Tensor& x) { return x.flatten(1, 2); }

}  // namespace

ChunkLayout::ChunkLayout(std::span<const Stretch> stretches, int64_t tokens,
                         const at::Tensor& like) {
    std::vector<int64_t> row_of_place;
    std::vector<int64_t> place_of_row(static_cast<size_t>(tokens), -1);
    bool is_plain = true;
    for (const auto& [begin, length] : stretches) {
        const int64_t chunks = (length + chunk_tokens - 1) / chunk_tokens;
        is_plain = is_plain && begin == num_chunks_ * chunk_tokens && length % chunk_tokens == 0;
        stretches_.push_back({num_chunks_, num_chunks_ + chunks});
        for (int64_t t = 0; t < length; ++t)
            place_of_row[static_cast<size_t>(begin + t)] = num_chunks_ * chunk_tokens + t;
        num_chunks_ += chunks;
        for (int64_t t = 0; t < chunks * chunk_tokens; ++t)
            row_of_place.push_back(t < length ? begin + t : -1);
    }
    if (is_plain && num_chunks_ * chunk_tokens == tokens) return;
    row_of_place_ = on_device(row_of_place, like.device());
    is_token_ = row_of_place_.ge(0).to(at::kFloat).view({num_chunks_, chunk_tokens});
    row_of_place_.clamp_min_(0);
    place_of_row_ = on_device(place_of_row, like.device());
}

at::Tensor ChunkLayout::in_chunks(const at::Tensor& rows) const {
    const at::Tensor placed = row_of_place_.defined() ? take_rows(rows, row_of_place_) : rows;
    return placed.unflatten(0, {num_chunks_, chunk_tokens}).to(at::kFloat);
}

at::Tensor ChunkLayout::in_chunks_filled(const at::Tensor& rows) const {
    at::Tensor chunks = in_chunks(rows);
    if (!is_token_.defined()) return chunks;
    at::Tensor mask = is_token_;
    while (mask.dim() < chunks.dim()) mask = mask.unsqueeze(-1);
    return chunks * mask;
}

void ChunkLayout::write_rows(const at::Tensor& chunks, const at::Tensor& rows) const {
    const at::Tensor places = chunks.flatten(0, 1);
    rows.copy_(place_of_row_.defined() ? take_rows(places, place_of_row_) : places);
}

std::vector<Segment> segments_of(std::span<const Stretch> stretches, const DeltaHeads& heads) {
    const int64_t most_chunks = is_of_gpu(heads) ? gpu_segment_chunks : segment_chunks;
    std::vector<Segment> segments;
    std::vector<Stretch> parts;
    int64_t chunks = 0;
    const auto close = [&](size_t last_stretch) {
        const int64_t begin = parts.front().begin;
        const int64_t rows = parts.back().begin + parts.back().length - begin;
        for (Stretch& part : parts) part.begin -= begin;
        segments.push_back({begin, rows, static_cast<int64_t>(last_stretch + 1 - parts.size()),
                            std::ssize(parts), ChunkLayout(parts, rows, heads.k)});
        parts.clear();
        chunks = 0;
    };
    for (size_t stretch = 0; stretch < stretches.size(); ++stretch) {
        const auto& [begin, length] = stretches[stretch];
        for (int64_t done = 0; done < length;) {
            const int64_t taken = std::min(length - done, (most_chunks - chunks) * chunk_tokens);
            parts.push_back({begin + done, taken});
            chunks += (taken + chunk_tokens - 1) / chunk_tokens;
            done += taken;
            if (chunks == most_chunks) close(stretch);
        }
    }
    if (!parts.empty()) close(stretches.size() - 1);
    return segments;
}

DeltaHeads rows_of(const DeltaHeads& all, const Segment& segment) {
    DeltaHeads some = all;
    for (at::Tensor* const x : {&some.q, &some.k, &some.v, &some.log_decay, &some.beta})
        if (x->defined()) *x = rows_of(*x, segment);
    return some;
}

DeltaHeads heads_of(const DeltaHeads& all, const HeadSpan& span) {
    const int64_t repeats = all.v.size(1) / all.k.size(1);
    const auto of_keys = [&](const at::Tensor& x) {
        return x.defined() ? x.narrow(1, span.first, span.number) : x;
    };
    const auto of_values = [&](const at::Tensor& x) {
        return x.narrow(1, span.first * repeats, span.number * repeats);
    };
    return {of_keys(all.q),      of_keys(all.k), of_values(all.v), of_values(all.log_decay),
            of_values(all.beta), all.rule,       all.planned};
}

at::Tensor by_head(const at::Tensor& chunks, int64_t key_heads) {
    return chunks.unflatten(2, {key_heads, chunks.size(2) / key_heads})
        .permute({0, 2, 3, 1, 4})
        .contiguous();
}

at::Tensor by_token(const at::Tensor& heads) {
    return heads.permute({0, 3, 1, 2, 4}).flatten(2, 3);
}

Unit chunked_queries(const DeltaHeads& heads, const ChunkLayout& layout) {
    return rows_by(heads.rule, by_head(layout.in_chunks(heads.q), heads.q.size(1)));
}

DeltaChunks::DeltaChunks(const DeltaHeads& heads, const ChunkLayout& layout) {
    const int64_t key_heads = heads.k.size(1);
    const auto of_values = [&](const at::Tensor& numbers) {
        return by_head(layout.in_chunks_filled(numbers), key_heads);
    };
    k = rows_by(heads.rule, by_head(layout.in_chunks(heads.k), key_heads));
    v = by_head(layout.in_chunks(heads.v), key_heads);
    beta = of_values(heads.beta.unsqueeze(-1));
    // In double precision: where tokens decay fast, differences of large sums are exponents.
    const at::Tensor sums = of_values(heads.log_decay).cumsum(3, at::kDouble);
    const at::Tensor last = sums.narrow(3, chunk_tokens - 1, 1);
    growth = sums.to(at::kFloat).exp_();
    rest = (last - sums).to(at::kFloat).exp_();
    whole = last.transpose(3, 4).to(at::kFloat).exp_();
    products = decayed_products(sums, heads.rule);
    written = k.rows * rest;
    if (heads.rule == StateRule::additive) {
        u = v * beta;
        return;
    }
    overlaps = products->of(k.rows, k.rows);
    solver = invert_unit_triangles((overlaps * beta).tril_(-1));
    u = at::matmul(solver, v * beta);
    step = growth * beta;
    w = at::matmul(solver, k.rows * step);
}

Walk walk(const DeltaChunks& chunks, const ChunkLayout& layout, const at::Tensor& values,
          const at::Tensor& first_state) {
    if (!chunks.w.defined()) {
        const at::Tensor writer = flat_heads(chunks.written).transpose(2, 3);
        const StateWalk forth = state_walk({.whole = flat_heads(chunks.whole),
                                            .added = at::matmul(writer, values),
                                            .first = first_state,
                                            .stretches = layout.stretches(),
                                            .is_backwards = false});
        return {forth.states, values, forth.last};
    }
    return delta_walk({.reader = flat_heads(chunks.w),
                       .writer = flat_heads(chunks.written),
                       .whole = flat_heads(chunks.whole),
                       .values = values,
                       .first = first_state,
                       .stretches = layout.stretches(),
                       .is_backwards = false});
}

Walk walk_back(const DeltaChunks& chunks, const ChunkLayout& layout, const at::Tensor& d_values,
               const at::Tensor& d_reads, const at::Tensor& d_last_state) {
    if (!chunks.w.defined()) {
        const StateWalk back = state_walk({.whole = flat_heads(chunks.whole),
                                           .added = d_reads,
                                           .first = d_last_state,
                                           .stretches = layout.stretches(),
                                           .is_backwards = true});
        return {back.states, at::matmul(flat_heads(chunks.written), back.states).add_(d_values),
                back.last};
    }
    return delta_walk({.reader = flat_heads(chunks.written),
                       .writer = flat_heads(chunks.w),
                       .whole = flat_heads(chunks.whole),
                       .values = d_values,
                       .added = d_reads,
                       .first = d_last_state,
                       .stretches = layout.stretches(),
                       .is_backwards = true});
}

}  // namespace ringshard::ops
