#pragma once

#include <optional>
#include <vector>

#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/token_batch.hpp"
#include "ringshard/ops/rope.hpp"

namespace ringshard::model {

// The rotations and scales that the positions of a batch give to its heads.
struct Positions {
    std::vector<ops::RopeTable> ropes;        // as ModelSpec::ropes
    std::optional<at::Tensor> query_scale{};  // [t, 1], fp32

    // Scales queries [t, h d], in place; gradients too.
    void scale_queries(const at::Tensor& queries) const {
        if (query_scale) queries.mul_(query_scale->to(queries.scalar_type()));
    }
};

// The frequencies of a model, on its device.
class PositionTables {
public:
    PositionTables(const ModelSpec& spec, c10::Device device);
    Positions of(const TokenBatch& batch) const;

private:
    ops::RopeTable table(size_t rope, const TokenBatch& batch) const;

    std::vector<RopeSpec> ropes_;
    std::optional<QueryScale> query_scale_;
    std::vector<int64_t> head_dims_;                           // of the heads that turn so
    std::vector<at::Tensor> frequencies_;                      // [r / 2], fp32
    std::vector<std::optional<at::Tensor>> long_frequencies_;  // of long documents, if they differ
};

}  // namespace ringshard::model
