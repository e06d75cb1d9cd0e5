#include "ringshard/model/fp8_products.hpp"

#include <set>

#include "model_parts.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/training_settings.hpp"

namespace ringshard::model {

std::optional<ops::Fp8Format> fp8_gradients(const config::TrainingSettings& training) {
    if (!training.has_fp8()) return std::nullopt;
    return training.fp8_format == config::Fp8Format::hybrid ? ops::Fp8Format::e5m2
                                                            : ops::Fp8Format::e4m3;
}

Expected<std::string> describe_fp8(const ModelSpec& spec,
                                   const config::TrainingSettings& training) {
    int64_t in_fp8 = 0;
    int64_t others = 0;
    std::set<std::string> shapes;
    for (const Block& block : ModelParts(spec).blocks)
        for (const Projection* projection : block.projections()) {
            const WeightShape& shape = projection->shape();
            const bool fits = ops::fits_fp8(shape.out, shape.in);
            ++(fits ? in_fp8 : others);
            if (!fits) shapes.insert(format_text("[{}, {}]", shape.out, shape.in));
        }
    const std::string rule = format_text("sizes that are no multiples of 16: {}",
                                         join({shapes.begin(), shapes.end()}, ", "));
    if (in_fp8 == 0)
        return Failure{ExitCode::settings,
                       format_text("mixed_precision = fp8: no linear layer of the blocks has sizes "
                                   "for products in FP8 ({}); give bf16",
                                   others == 0 ? "they have no linear layer" : rule)};
    const bool is_hybrid = training.fp8_format == config::Fp8Format::hybrid;
    std::string text = format_text(
        "products in FP8: with {} weights of linear layers (e4m3{}, a scale for each row); in "
        "bf16: gradients of weights, adapters, routers, experts, the head",
        in_fp8, is_hybrid ? ", gradients e5m2" : "");
    if (others > 0) text += format_text(", and {} weights with {}", others, rule);
    return text;
}

}  // namespace ringshard::model
