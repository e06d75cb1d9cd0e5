#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <vector>

#include "ringshard/checkpoint/store.hpp"
#include "ringshard/optim/adamw.hpp"

namespace ringshard::test {

// The state of a model that nobody trained, cut over a group: every number tells where it belongs.
class MadeState {
public:
    MadeState(const comm::Group& group, const mesh::MeshShape& shape,
              std::vector<shard::FlatUnit> units, const mesh::Cuts& cuts,
              const config::TrainingSettings& settings)
        : mesh(group, shape, at::kCPU),
          zero(std::move(units), cuts, {at::kFloat, at::kFloat}, mesh),
          optimizer(zero, settings) {}

    // Weights, first and second moments by their kind 0, 1 and 2; every value is exact in bf16.
    static float value(int kind, size_t unit, int64_t element, int64_t step) {
        const int64_t mixed =
            (element * 31 + static_cast<int64_t>(unit) * 7 + kind * 101 + step * 13) % 251;
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
    optim::AdamW optimizer;

private:
    template <class Visit>
    void for_each(Visit visit, int64_t step) {
        shard::FlatStore* const stores[] = {&zero.weight_shards(), &optimizer.first_moments(),
                                            &optimizer.second_moments()};
        for (int kind = 0; kind < 3; ++kind)
            for (size_t slot = 0; slot < zero.slots().size(); ++slot) {
                const auto& [unit, range] = zero.slots()[slot];
                const at::Tensor taken = stores[kind]->take(slot, shard::Content::kept);
                const at::Tensor wide = taken.to(at::kFloat);
                float* const numbers = wide.data_ptr<float>();
                for (const shard::TensorPiece& piece : zero.units()[unit].pieces(range))
                    for (int64_t i = 0; i < piece.size; ++i)
                        visit(numbers[piece.in_range + i],
                              value(kind, unit, range.begin + piece.in_range + i, step));
                if (wide.data_ptr() != taken.data_ptr()) taken.copy_(wide);
                stores[kind]->put_back(slot, taken);
            }
    }
};

}  // namespace ringshard::test
