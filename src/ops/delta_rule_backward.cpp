#include <ranges>

#include "delta_pass.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

// The parts of the gradients of values and states that come from the reads of their chunk.
struct ReadGradients {
    at::Tensor values;  // [n, heads, 64, dv]
    at::Tensor states;  // [n, heads, dk, dv]
};
ReadGradients read_gradients(const at::Tensor& d_out, const at::Tensor& reads,
                             const at::Tensor& grown_queries) {
    return {at::matmul(transposed(reads), d_out).flatten(1, 2),
            at::matmul(transposed(grown_queries), d_out).flatten(1, 2)};
}

at::Tensor chunked_gradient(const at::Tensor& d_out, const ChunkLayout& layout,
                            const HeadSpan& span) {
    return by_head(layout.in_chunks_filled(d_out), span.number);
}

}  // namespace

at::Tensor delta_rule_backward_maps(const DeltaHeads& heads, std::span<const Stretch> stretches,
                                    const at::Tensor& d_out) {
    const std::vector<Segment> segments = segments_of(stretches, heads);
    const double scale = scale_of(heads);
    const int64_t columns = columns_of_transition(heads);
    at::Tensor maps = identities(heads, stretches.size());
    for_heads(heads, [&](const HeadSpan& span) {
        for (const Segment& segment : std::views::reverse(segments)) {
            const Pass pass(heads, span, segment);
            const Unit q = chunked_queries(pass.heads, segment.layout);
            const at::Tensor out = chunked_gradient(part_of(rows_of(d_out, segment), heads, span),
                                                    segment.layout, span);
            const auto [d_values, d_states] = read_gradients(out, reads(q, pass.chunks, scale),
                                                             q.rows * (pass.chunks.growth * scale));
            pass.walk_back_from(states_of(part_of(maps, heads, span), segment),
                                behind_zeros(d_values, columns), behind_zeros(d_states, columns),
                                segment);
        }
    });
    return maps;
}

namespace {

// Returns the gradient of rows, from that of the rows at length 1.
at::Tensor unit_gradient(const at::Tensor& gradient, const Unit& unit) {
    if (!unit.inverse_length.defined()) return gradient;
    const at::Tensor along = (gradient * unit.rows).sum({-1}, true);
    return (gradient - unit.rows * along).mul_(unit.inverse_length);
}

at::Tensor sum_of_columns(const at::Tensor& x) { return x.sum({-1}, true); }

// The backward pass of some heads. d_sums is the gradient of G but through products, d_decays what
// comes through these.
struct HeadsBackward {
    // scaled_queries: those of length 1, times their factor.
    HeadsBackward(const DeltaChunks& forward, const at::Tensor& scaled_queries)
        : chunks(forward), q(scaled_queries) {}

    // Adds the gradients through the outputs of the tokens. scores: <q, k>.
    void add_reads(const at::Tensor& d_out, const at::Tensor& states, const at::Tensor& values,
                   const at::Tensor& scores) {
        const at::Tensor d_scores = at::matmul(d_out, transposed(values));
        auto [of_q, of_k, of_decays] =
            chunks.products->backward(d_scores, scores, q, chunks.k.rows);
        d_decays = std::move(of_decays);
        const at::Tensor d_grown = at::matmul(d_out, transposed(states)).mul_(chunks.growth);
        d_sums = by_decay(d_grown * q, at::kDouble);
        dq = of_q.add_(sum_of_repeats(d_grown));
        dk = std::move(of_k);
    }
    // Adds the gradients through the updates of the state. d_states: gradients of the states behind
    // the chunks.
    void add_writes(const at::Tensor& d_states, const at::Tensor& states,
                    const at::Tensor& values) {
        const at::Tensor d_written = at::matmul(values, transposed(d_states)).mul_(chunks.rest);
        const at::Tensor d_rest = by_decay(d_written * chunks.k.rows);
        const at::Tensor of_states = states * d_states;
        const at::Tensor d_whole = (has_one_decay() ? of_states.sum({-1, -2}, true)
                                                    : transposed(sum_of_columns(of_states)))
                                       .mul_(transposed(chunks.whole));
        d_sums.sub_(d_rest);
        d_sums.narrow(3, chunk_tokens - 1, 1)
            .add_(d_rest.sum({3}, true, at::kDouble))
            .add_(d_whole);
        dk.add_(sum_of_repeats(d_written));
    }
    // Adds the gradients through the values that the rule writes.
    void add_values(const at::Tensor& d_values) {
        d_beta = sum_of_columns(d_values * chunks.v);
        dv = d_values * chunks.beta;
    }
    // The same of the delta rule.
    void add_values(const at::Tensor& d_values, const at::Tensor& states) {
        const at::Tensor solver = transposed(chunks.solver);
        const at::Tensor of_u = at::matmul(solver, d_values);
        const at::Tensor of_w = at::matmul(solver, at::matmul(d_values, transposed(states)).neg_());
        at::Tensor d_inner = at::matmul(of_u, transposed(chunks.u));
        d_inner.add_(at::matmul(of_w, transposed(chunks.w))).neg_().tril_(-1);
        const at::Tensor along = by_decay(of_w * chunks.k.rows).mul_(chunks.growth);
        d_beta =
            sum_of_columns(of_u * chunks.v).add_(has_one_decay() ? along : sum_of_columns(along));
        d_beta.add_(sum_of_columns(d_inner * chunks.overlaps));
        d_sums.add_(along * chunks.beta);
        dv = of_u * chunks.beta;
        dk.add_(sum_of_repeats(of_w * chunks.step));
        const auto [of_one, of_other, of_decays] = chunks.products->backward(
            d_inner.mul_(chunks.beta), chunks.overlaps, chunks.k.rows, chunks.k.rows);
        d_decays.add_(of_decays);
        dk.add_(of_one).add_(of_other);
    }
    bool has_one_decay() const { return chunks.growth.size(-1) == 1; }
    // Of elements of keys: as they are where each has a decay, else their sum.
    at::Tensor by_decay(const at::Tensor& x, at::ScalarType type = at::kFloat) const {
        return has_one_decay() ? x.sum({-1}, true, type) : x.to(type);
    }

    const DeltaChunks& chunks;
    const at::Tensor& q;
    at::Tensor dq, dk, dv, d_beta, d_decays, d_sums;
};

// The gradients of some heads of a segment. `states`: in which its stretches begin; `d_states`: the
// gradients of those in which they end, which become those of `states`.
void segment_backward(const DeltaHeads& heads, const HeadSpan& span, const Segment& segment,
                      const at::Tensor& states, const at::Tensor& d_states, const at::Tensor& d_out,
                      const DeltaHeads& gradients) {
    const Pass pass(heads, span, segment);
    const DeltaChunks& chunks = pass.chunks;
    const Unit queries = chunked_queries(pass.heads, segment.layout);
    const at::Tensor q = times(scale_of(heads), queries.rows);
    const at::Tensor out =
        chunked_gradient(part_of(rows_of(d_out, segment), heads, span), segment.layout, span);
    const at::Tensor scores = chunks.products->of(q, chunks.k.rows);
    const ReadGradients of_reads = read_gradients(out, scores, q * chunks.growth);
    const Walk forth = pass.walk_from(states, segment);
    const Walk back = pass.walk_back_from(d_states, of_reads.values, of_reads.states, segment);
    const at::Tensor begins = by_key_head(forth.states, chunks);
    const at::Tensor values = by_key_head(forth.values, chunks);
    HeadsBackward backward(chunks, q);
    backward.add_reads(out, begins, values, scores);
    backward.add_writes(by_key_head(back.states, chunks), begins, values);
    if (heads.rule == StateRule::additive)
        backward.add_values(by_key_head(back.values, chunks));
    else
        backward.add_values(by_key_head(back.values, chunks), begins);

    const DeltaHeads into = heads_of(rows_of(gradients, segment), span);
    const auto write = [&](const at::Tensor& gradient, const at::Tensor& rows) {
        segment.layout.write_rows(by_token(gradient), rows);
    };
    write(unit_gradient(times(scale_of(heads), backward.dq), queries), into.q);
    write(unit_gradient(backward.dk, chunks.k), into.k);
    write(backward.dv, into.v);
    write(backward.d_beta, into.beta.unsqueeze(-1));
    write(chunks.products->decays_backward(backward.d_decays, backward.d_sums), into.log_decay);
}

}  // namespace

void delta_rule_backward(const DeltaHeads& heads, std::span<const Stretch> stretches,
                         const DeltaStates& states, const at::Tensor& d_out,
                         const DeltaHeads& gradients, const DeltaStates& d_states) {
    const std::vector<Segment> segments = segments_of(stretches, heads);
    for_heads(heads, [&](const HeadSpan& span) {
        Carried carried(d_states, heads, span, true);
        for (size_t i = segments.size(); i-- > 0;) {
            const Segment& segment = segments[i];
            const at::Tensor state = copy_states(states.first, heads, span, segment);
            state[0].copy_(part_of(states.between, heads, span)[static_cast<int64_t>(i)]);
            const at::Tensor d_state = carried.enter(segment);
            segment_backward(heads, span, segment, state, d_state, d_out, gradients);
            carried.leave(segment, d_state);
        }
    });
}

}  // namespace ringshard::ops
