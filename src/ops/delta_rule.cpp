#include "ringshard/ops/delta_rule.hpp"

#include <ATen/ops/empty.h>

#include "delta_pass.hpp"

namespace ringshard::ops {

at::Tensor delta_rule(const DeltaHeads& heads, std::span<const Stretch> stretches,
                      const DeltaStates& states) {
    const std::vector<Segment> segments = segments_of(stretches, heads);
    const double scale = scale_of(heads);
    at::Tensor read = at::empty(heads.v.sizes(), heads.v.options());
    for_heads(heads, [&](const HeadSpan& span) {
        Carried carried(states, heads, span, false);
        for (size_t i = 0; i < segments.size(); ++i) {
            const Segment& segment = segments[i];
            const at::Tensor state = carried.enter(segment);
            if (states.between.defined())
                part_of(states.between, heads, span)[static_cast<int64_t>(i)].copy_(state[0]);
            const Pass pass(heads, span, segment);
            const Walk forth = pass.walk_from(state, segment);
            carried.leave(segment, state);
            const Unit q = chunked_queries(pass.heads, segment.layout);
            at::Tensor out = at::matmul(q.rows * (pass.chunks.growth * scale),
                                        by_key_head(forth.states, pass.chunks));
            out.add_(
                at::matmul(reads(q, pass.chunks, scale), by_key_head(forth.values, pass.chunks)));
            segment.layout.write_rows(by_token(out), part_of(rows_of(read, segment), heads, span));
        }
    });
    return read;
}

at::Tensor make_between(const DeltaHeads& heads, std::span<const Stretch> stretches) {
    const auto segments = static_cast<int64_t>(segments_of(stretches, heads).size());
    return at::empty({segments, heads.v.size(1), heads.k.size(2), heads.v.size(2)},
                     heads.beta.options());
}

at::Tensor delta_rule_maps(const DeltaHeads& heads, std::span<const Stretch> stretches) {
    const std::vector<Segment> segments = segments_of(stretches, heads);
    at::Tensor maps = identities(heads, stretches.size());
    for_heads(heads, [&](const HeadSpan& span) {
        for (const Segment& segment : segments) {
            const Pass pass(heads, span, segment);
            pass.walk_with(behind_zeros(pass.chunks.u.flatten(1, 2), columns_of_transition(heads)),
                           states_of(part_of(maps, heads, span), segment), segment);
        }
    });
    return maps;
}

}  // namespace ringshard::ops
