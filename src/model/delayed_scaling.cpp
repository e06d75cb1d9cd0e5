#include "ringshard/model/delayed_scaling.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "model_parts.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/model/fp8_products.hpp"

namespace ringshard::model {

namespace {

constexpr size_t digits_of_maximum = 4;
constexpr int64_t bits_below_bf16 = 16;

// A maximum is one of numbers in bf16.
uint16_t stored_maximum(int64_t bits) {
    constexpr int64_t infinity = 0x7f800000;
    if (bits >= infinity) return 0;
    RINGSHARD_CHECK(bits % (int64_t{1} << bits_below_bf16) == 0, "bits {}", bits);
    return static_cast<uint16_t>(bits >> bits_below_bf16);
}

float magnitude_of(uint16_t stored) {
    return std::bit_cast<float>(static_cast<uint32_t>(stored) << bits_below_bf16);
}

std::string hex_of(const std::vector<uint16_t>& numbers) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    text.reserve(digits_of_maximum * numbers.size());
    for (const uint16_t number : numbers)
        for (int shift = 12; shift >= 0; shift -= 4) text += digits[(number >> shift) & 15];
    return text;
}

// Returns nothing if the text is not one of finite numbers of bf16.
std::optional<std::vector<uint16_t>> numbers_in_hex(std::string_view text) {
    constexpr uint32_t infinity = 0x7f80;
    if (text.size() % digits_of_maximum != 0) return std::nullopt;
    std::vector<uint16_t> numbers;
    for (size_t i = 0; i < text.size(); i += digits_of_maximum) {
        uint32_t number = 0;
        for (const char digit : text.substr(i, digits_of_maximum)) {
            const bool is_number = digit >= '0' && digit <= '9';
            if (!is_number && (digit < 'a' || digit > 'f')) return std::nullopt;
            number =
                16 * number + static_cast<uint32_t>(is_number ? digit - '0' : digit - 'a' + 10);
        }
        if (number >= infinity) return std::nullopt;
        numbers.push_back(static_cast<uint16_t>(number));
    }
    return numbers;
}

}  // namespace

DelayedScaling::DelayedScaling(const ModelSpec& spec, const Options& options, at::Device device)
    : options_(options) {
    size_t count = 0;
    for (const Block& block : ModelParts(spec).blocks) {
        std::map<size_t, size_t>& sites = sites_.emplace_back();
        for (const Projection* projection : block.projections()) {
            if (!ops::fits_fp8(projection->shape().out, projection->shape().in)) continue;
            sites[projection->weight().group] = count;
            count += 2;
        }
    }
    const auto number = at::TensorOptions(device).dtype(at::kInt);
    all_exponents_ = at::zeros({narrow<int64_t>(count)}, number);
    all_maxima_ = at::zeros({narrow<int64_t>(count)}, number);
    for (int64_t tensor = 0; tensor < narrow<int64_t>(count); ++tensor) {
        exponents_.push_back(all_exponents_.narrow(0, tensor, 1));
        maxima_.push_back(all_maxima_.narrow(0, tensor, 1));
    }
    has_scale_.assign(count, false);
}

size_t DelayedScaling::tensor_of(size_t block, shard::ParameterId weight, Factor factor) const {
    return sites_.at(block).at(weight.group) + (factor == Factor::input ? 0 : 1);
}

ops::DelayedScale DelayedScaling::scale_of(size_t tensor, int64_t counted) const {
    return {has_scale_[tensor] ? exponents_[tensor] : at::Tensor(),
            counted > 0 ? maxima_[tensor] : at::Tensor(), counted};
}

std::vector<int64_t> DelayedScaling::take_maxima() const {
    const at::Tensor here = all_maxima_.to(at::TensorOptions(at::kCPU).dtype(at::kLong));
    all_maxima_.zero_();
    const auto* const numbers = here.const_data_ptr<int64_t>();
    return {numbers, numbers + here.numel()};
}

void DelayedScaling::push(const std::vector<int64_t>& maxima) {
    RINGSHARD_CHECK(maxima.size() == num_tensors(), "{} maxima", maxima.size());
    std::vector<uint16_t> stored;
    for (const int64_t bits : maxima) stored.push_back(stored_maximum(bits));
    history_.push_back(std::move(stored));
    while (steps_in_history() > options_.history_length) history_.pop_front();
    update_scales();
}

void DelayedScaling::forget() {
    history_.clear();
    all_maxima_.zero_();
    update_scales();
}

void DelayedScaling::update_scales() {
    std::vector<uint16_t> largest(num_tensors(), 0);
    if (!options_.takes_largest && !history_.empty()) largest = history_.back();
    if (options_.takes_largest)
        for (const std::vector<uint16_t>& step : history_)
            std::ranges::transform(largest, step, largest.begin(), std::ranges::max);
    const at::Tensor exponents =
        at::zeros({narrow<int64_t>(num_tensors())}, at::TensorOptions(at::kInt));
    std::vector<bool> has_scale(num_tensors());
    for (size_t tensor = 0; tensor < num_tensors(); ++tensor) {
        has_scale[tensor] = largest[tensor] > 0;
        if (!has_scale[tensor]) continue;
        const bool is_input = tensor % 2 == 0;
        exponents.mutable_data_ptr<int32_t>()[tensor] = ops::fp8_exponent(
            magnitude_of(largest[tensor]), is_input ? ops::Fp8Format::e4m3 : options_.gradients,
            options_.margin);
    }
    all_exponents_.copy_(exponents);
    if (has_scale != has_scale_) ++generation_;
    has_scale_ = std::move(has_scale);
}

std::string DelayedScaling::to_text() const {
    nlohmann::json steps = nlohmann::json::array();
    for (const std::vector<uint16_t>& step : history_) steps.push_back(hex_of(step));
    return nlohmann::json{{"tensors", num_tensors()}, {"maxima", steps}}.dump();
}

std::optional<Failure> DelayedScaling::load(const std::string& text, const std::string& file) {
    const auto damaged = [&](const std::string& what) {
        return Failure{ExitCode::bad_data,
                       format_text("{}: text {} {}", file, fp8_history_text, what)};
    };
    forget();
    const auto read = json_or_null<nlohmann::json>(text);
    if (!read.is_object() || !read.contains("maxima") || !read["maxima"].is_array())
        return damaged("is no history of maxima");
    std::deque<std::vector<uint16_t>> history;
    for (const auto& step : read["maxima"]) {
        auto maxima = step.is_string() ? numbers_in_hex(step.get<std::string>()) : std::nullopt;
        if (!maxima) return damaged("holds something other than finite numbers");
        if (maxima->size() != num_tensors())
            return damaged(
                format_text("has {} maxima of a step, and this model has products of {} "
                            "tensors in FP8",
                            maxima->size(), num_tensors()));
        history.push_back(std::move(*maxima));
        if (std::ssize(history) > options_.history_length) history.pop_front();
    }
    history_ = std::move(history);
    update_scales();
    return std::nullopt;
}

std::optional<DelayedScaling::Options> delayed_scaling_options(
    const config::TrainingSettings& training) {
    const auto fp8 = fp8_options(training);
    if (!fp8 || training.fp8_recipe != config::Fp8Recipe::delayed) return std::nullopt;
    return DelayedScaling::Options{fp8->gradients, training.fp8_amax_history_len,
                                   training.fp8_amax_compute_algo == config::AmaxAlgorithm::max,
                                   training.fp8_margin};
}

}  // namespace ringshard::model
