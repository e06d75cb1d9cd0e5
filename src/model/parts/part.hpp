#pragma once

#include <vector>

#include "../block_context.hpp"
#include "projection.hpp"

namespace ringshard::model {

// What a layer computes between its input and its output.
class Part {
public:
    virtual ~Part() = default;

    // The product that reads the layer's input; nullptr where several do.
    virtual const Projection* first_product() const { return projections().front(); }
    // The product that makes the layer's output of the part's rows; nullptr where the rows are it.
    virtual const Projection* last_product() const { return projections().back(); }
    // Linear layers, which take adapters.
    virtual std::vector<const Projection*> projections() const = 0;
    // The weights of others that rows are multiplied with.
    virtual std::vector<WeightUse> other_weights() const { return {}; }

    // Returns the output [t, w].
    at::Tensor output(const Pass& pass, at::Tensor rows) const {
        const Projection* const product = last_product();
        return product == nullptr ? rows
                                  : product->forward(pass.context.projections, pass.weights, rows);
    }

protected:
    Part() = default;
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
};

}  // namespace ringshard::model
