#include "ringshard/model/fp8_products.hpp"

#include <set>
#include <stdexcept>

#include "model_parts.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/training_settings.hpp"

namespace ringshard::model {

std::optional<Fp8Options> fp8_options(const config::TrainingSettings& training) {
    if (!training.has_fp8()) return std::nullopt;
    return Fp8Options{
        .gradients = training.fp8_format == config::Fp8Format::hybrid ? ops::Fp8Format::e5m2
                                                                      : ops::Fp8Format::e4m3,
        .scales = training.fp8_recipe == config::Fp8Recipe::tensorwise ? ops::Fp8Scales::of_tensor
                                                                       : ops::Fp8Scales::of_rows};
}

namespace {

std::string describe_scales(const config::TrainingSettings& training) {
    switch (training.fp8_recipe) {
        case config::Fp8Recipe::rowwise: return "a scale for each row";
        case config::Fp8Recipe::tensorwise: return "a scale for each tensor";
        case config::Fp8Recipe::delayed:
            return format_text(
                "a scale for each tensor, of inputs and gradients from their maxima in {}, and for "
                "each row where there are none",
                training.fp8_amax_history_len == 1 ||
                        training.fp8_amax_compute_algo == config::AmaxAlgorithm::most_recent
                    ? "the step before"
                    : format_text("the {} steps before", training.fp8_amax_history_len));
    }
    throw std::logic_error("a recipe of FP8 without a description");
}

}  // namespace

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
        "products in FP8: with {} weights of linear layers (e4m3{}, {}); in "
        "bf16: gradients of weights, adapters, routers, experts, the head",
        in_fp8, is_hybrid ? ", gradients e5m2" : "", describe_scales(training));
    if (others > 0) text += format_text(", and {} weights with {}", others, rule);
    if (training.fp8_recipe == config::Fp8Recipe::tensorwise)
        text +=
            "\nnote: with fp8_recipe tensorwise a token's numbers depend on the other rows of its "
            "product, and losses on the layout; with rowwise and delayed they do not";
    return text;
}

}  // namespace ringshard::model
