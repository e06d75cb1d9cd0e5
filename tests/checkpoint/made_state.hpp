#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <vector>

#include "ringshard/checkpoint/store.hpp"
#include "ringshard/optim/optimizer.hpp"

namespace ringshard::test {

// The state of a model that nobody trained, cut over a group: every number tells where it belongs.
class MadeState {
public:
    MadeState(const comm::Group& group, const mesh::MeshShape& shape,
              std::vector<shard::FlatUnit> units, const mesh::Cuts& cuts,
              const config::TrainingSettings& settings)
        : mesh(group, shape, at::kCPU),
          zero(std::move(units), cuts, {at::kFloat, at::kFloat}, mesh),
          optimizer(optim::make_optimizer(zero, settings)) {}

    // The weights are of kind 0, the optimizer's states of 1 and more. Every value is exact in
    // bf16.
    static float value(size_t kind, size_t unit, int64_t element, int64_t step) {
        const int64_t mixed = (element * 31 + static_cast<int64_t>(unit) * 7 +
                               static_cast<int64_t>(kind) * 101 + step * 13) %
                              251;
        return static_cast<float>(mixed) / 8;
    }
    void fill(int64_t step) {
        for_each([](float& number, float expected) { number = expected; }, step);
    }
    int64_t count_wrong(int64_t step) {
        int64_t wrong = 0;
        for_each([&](float& number, float expected) { wrong += number == expected ? 0 : 1; }, step);
        return wrong;
    }

    mesh::Mesh mesh;
    shard::Zero zero;
    std::unique_ptr<optim::Optimizer> optimizer;

private:
    template <class Visit>
    void for_each(Visit visit, int64_t step) {
        std::vector<shard::FlatStore*> stores{&zero.shelves().front().exact()};
        for (const optim::State& state : optimizer->updaters().front()->states())
            stores.push_back(state.numbers.get());
        for (size_t kind = 0; kind < stores.size(); ++kind)
            for (size_t chunk = 0; chunk < zero.shelves().front().chunks.size(); ++chunk) {
                const auto& [unit, range] = zero.shelves().front().chunks[chunk];
                const at::Tensor taken = stores[kind]->load(chunk, shard::Access::read);
                const at::Tensor wide = taken.to(at::kFloat);
                float* const numbers = wide.data_ptr<float>();
                for (const shard::TensorPiece& piece : zero.units()[unit].pieces(range))
                    for (int64_t i = 0; i < piece.size; ++i)
                        visit(numbers[piece.in_range + i],
                              value(kind, unit, range.begin + piece.in_range + i, step));
                if (wide.data_ptr() != taken.data_ptr()) taken.copy_(wide);
                stores[kind]->store(chunk, taken);
            }
    }
};

}  // namespace ringshard::test
