#include "state_exchange.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <ranges>

namespace ringshard::attention {

namespace {

// Gathers the slots of all ranks, [ranks x slots, ...]. `mine` has as many as this rank fills.
at::Tensor gather(const Chain& chain, comm::Communicator& ring, const at::Tensor& mine) {
    std::vector<int64_t> sizes = mine.sizes().vec();
    sizes[0] = chain.slots;
    const at::Tensor filled = at::zeros(sizes, mine.options());
    filled.narrow(0, 0, mine.size(0)).copy_(mine);
    sizes[0] *= ring.size();
    at::Tensor all = at::empty(sizes, mine.options());
    ring.all_gather(all, filled).wait();
    return all;
}

// A map whose transition is one number multiplies the state by it.
at::Tensor map_of(const at::Tensor& map, const at::Tensor& state) {
    const int64_t columns = map.size(2) - state.size(2);
    const at::Tensor transition = map.narrow(2, 0, columns);
    at::Tensor moved = columns == 1 ? transition * state : at::matmul(transition, state);
    return moved.add_(map.narrow(2, columns, state.size(2)));
}

// Follows the state of each document through its links, and writes it where a stretch of this rank
// is met, before the stretch changes it.
template <class Links>
void follow(const Links& links, const at::Tensor& maps, const at::Tensor& states) {
    at::Tensor state = at::zeros(states.sizes().slice(1), states.options());
    for (const Chain::Link& link : links) {
        if (link.stretch) states[static_cast<int64_t>(*link.stretch)].copy_(state);
        state = map_of(maps[link.slot], state);
    }
}

at::Tensor states_like(const Chain& chain, const at::Tensor& maps, int64_t value_dim) {
    return at::zeros({std::ssize(chain.stretches), maps.size(1), maps.size(2), value_dim},
                     maps.options());
}

}  // namespace

at::Tensor first_states(const Chain& chain, comm::Communicator& ring, const at::Tensor& maps,
                        int64_t value_dim) {
    const at::Tensor all = gather(chain, ring, maps);
    at::Tensor states = states_like(chain, maps, value_dim);
    for (const auto& links : chain.documents) follow(links, all, states);
    return states;
}

at::Tensor last_state_gradients(const Chain& chain, comm::Communicator& ring,
                                const at::Tensor& maps, int64_t value_dim) {
    const at::Tensor all = gather(chain, ring, maps);
    at::Tensor gradients = states_like(chain, maps, value_dim);
    for (const auto& links : chain.documents) follow(std::views::reverse(links), all, gradients);
    return gradients;
}

at::Tensor rows_before_stretches(const Chain& chain, comm::Communicator& ring,
                                 const at::Tensor& x) {
    at::Tensor before =
        at::zeros({std::ssize(chain.stretches), rows_before, x.size(1)}, x.options());
    if (chain.slots == 0) return before;
    const at::Tensor mine = at::zeros({std::ssize(chain.cut), rows_before, x.size(1)}, x.options());
    for (size_t slot = 0; slot < chain.cut.size(); ++slot) {
        const auto& [begin, length] = chain.stretches[chain.cut[slot]];
        const int64_t rows = std::min(length, rows_before);
        mine[static_cast<int64_t>(slot)]
            .narrow(0, rows_before - rows, rows)
            .copy_(x.narrow(0, begin + length - rows, rows));
    }
    const at::Tensor all = gather(chain, ring, mine).flatten(0, 1);
    const at::Tensor rows = before.flatten(0, 1);
    for (const auto& [row, of_slots] : chain.before) rows[row].copy_(all[of_slots]);
    return before;
}

void add_gradient_of_rows_before(const Chain& chain, comm::Communicator& ring,
                                 const at::Tensor& d_before, const at::Tensor& dx) {
    if (chain.slots == 0) return;
    const at::Tensor mine =
        at::empty({std::ssize(chain.cut), rows_before, dx.size(1)}, dx.options());
    for (size_t slot = 0; slot < chain.cut.size(); ++slot)
        mine[static_cast<int64_t>(slot)].copy_(d_before[static_cast<int64_t>(chain.cut[slot])]);
    const at::Tensor all = gather(chain, ring, mine).flatten(0, 1);
    for (const auto& [row, of_slots] : chain.reached) dx[row].add_(all[of_slots]);
}

void keep_last_rows(const at::Tensor& x, const Chain& chain, const at::Tensor& before) {
    for (size_t text = 0; text < chain.stretches.size(); ++text) {
        const auto& [begin, length] = chain.stretches[text];
        const at::Tensor kept = before[static_cast<int64_t>(text)];
        const int64_t rows = std::min(length, rows_before);
        const at::Tensor last = x.narrow(0, begin + length - rows, rows);
        kept.copy_(at::cat({kept.narrow(0, rows, rows_before - rows), last}));
    }
}

}  // namespace ringshard::attention
