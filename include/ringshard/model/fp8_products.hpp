#pragma once

#include <optional>
#include <string>

#include "ringshard/base/expected.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/ops/fp8.hpp"

namespace ringshard::config {
struct TrainingSettings;
}

// The products of a run in FP8: y = x w^T and dx = dy w of the linear layers of blocks. Gradients
// of weights, adapters, routers, experts, the head and attention compute in bf16.
namespace ringshard::model {

// How factors become FP8, if nothing is known of them from earlier steps.
struct Fp8Options {
    ops::Fp8Format gradients;                         // of outputs
    ops::Fp8Scales scales = ops::Fp8Scales::of_rows;  // or of_tensor
};

// Returns nothing if the settings ask for no products in FP8.
std::optional<Fp8Options> fp8_options(const config::TrainingSettings& training);

// Returns the text of the start that says which products are in FP8: "products in FP8: ..."; fails
// (78) if no layer of the model has sizes for them.
Expected<std::string> describe_fp8(const ModelSpec& spec, const config::TrainingSettings& training);

}  // namespace ringshard::model
