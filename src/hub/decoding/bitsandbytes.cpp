#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "../stored_type.hpp"
#include "format.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"

// quant_method bitsandbytes. Of a weight of n numbers, row by row, in four bits: NAME holds two
// codes in a byte, the first in the higher bits; NAME.quant_map the 16 numbers of codes (NF4 or
// FP4); NAME.absmax the scale of each block. Nested scales are codes of a byte: with
// NAME.nested_quant_map, NAME.nested_absmax for blocks of them, and an offset. The tensor
// NAME.quant_state.bitsandbytes__nf4 (or fp4) is JSON with sizes of blocks, the offset and the type
// that the numbers are rounded to, as transformers dequantises them. In eight bits: NAME holds
// I8, and SCB beside it 127 times the scale of each row.
namespace ringshard::hub {

using nlohmann::json;

namespace {

constexpr std::string_view bnb4_name = "four bits of bitsandbytes";

struct Bnb4Tensors {
    StoredTensor numbers;
    StoredTensor values;
    StoredTensor scales;
    StoredTensor state;
    std::optional<StoredTensor> nested_values{};
    std::optional<StoredTensor> nested_scales{};
};

// What the tensors say of a weight, beside its codes.
struct Bnb4State {
    int64_t block = 0;
    StoredType type = StoredType::fp32;
    std::array<float, 16> values{};
    int64_t nested_block = 0;
    float offset = 0;
    std::array<float, 256> nested_values{};
};

class Bnb4Decoder final : public Decoder, public StoredNf4 {
public:
    Bnb4Decoder(const shard::TensorSpec& weight, Bnb4Tensors tensors)
        : weight_(weight), tensors_(std::move(tensors)) {}

    std::optional<Failure> read(const StoredModel& files, int64_t first,
                                std::span<float> into) const override {
        if (auto failure = read_exact(files, first, into)) return failure;
        if (!into.empty()) round(into);
        return std::nullopt;
    }

    Expected<const StoredNf4*> nf4(const StoredModel& files) const override {
        if (auto failure = find_state(files)) return *failure;
        const bool is_nf4 = state_->block == ops::nf4_block && state_->values == ops::nf4_values;
        return is_nf4 ? static_cast<const StoredNf4*>(this) : nullptr;
    }

    void round(std::span<float> numbers) const override { round_to(state_->type, numbers); }

    Expected<std::optional<ops::NestedScales>> nested_scales(
        const StoredModel& files) const override {
        using Nested = std::optional<ops::NestedScales>;
        if (auto failure = find_state(files)) return *failure;
        if (!tensors_.nested_scales || state_->nested_block != ops::nf4_nested_block ||
            state_->nested_values != ops::nf4_scale_values())
            return Nested();
        ops::NestedScales nested{
            std::vector<uint8_t>(static_cast<size_t>(num_elements(tensors_.scales.shape))),
            std::vector<float>(static_cast<size_t>(num_elements(tensors_.nested_scales->shape))),
            state_->offset};
        if (auto failure = files.read_bytes(tensors_.scales, 0,
                                            std::as_writable_bytes(std::span(nested.codes))))
            return *failure;
        if (auto failure = files.read(*tensors_.nested_scales, 0, nested.scales)) return *failure;
        return Nested(std::move(nested));
    }

    std::optional<Failure> read_exact(const StoredModel& files, int64_t first,
                                      std::span<float> into) const override {
        if (into.empty()) return std::nullopt;
        if (auto failure = find_state(files)) return failure;
        const auto codes = read_codes(files, tensors_.numbers, first, into.size(), FirstCode::high);
        if (!codes) return codes.failure();
        const int64_t first_block = first / state_->block;
        const int64_t last_block = (first + std::ssize(into) - 1) / state_->block;
        std::vector<float> scales(static_cast<size_t>(last_block - first_block + 1));
        if (auto failure = read_scales(files, first_block, scales)) return failure;
        for (size_t i = 0; i < into.size(); ++i) {
            const int64_t block = (first + static_cast<int64_t>(i)) / state_->block - first_block;
            into[i] = state_->values[codes.value()[i]] * scales[static_cast<size_t>(block)];
        }
        return std::nullopt;
    }

private:
    std::optional<Failure> find_state(const StoredModel& files) const {
        return state_ ? std::nullopt : read_state(files);
    }

    std::optional<Failure> read_state(const StoredModel& files) const {
        std::string text(tensors_.state.length, '\0');
        if (auto failure =
                files.read_bytes(tensors_.state, 0, std::as_writable_bytes(std::span(text))))
            return failure;
        const json content = json_or_null<json>(text);
        const auto number = [&](const char* name) {
            const json found = content.is_object() ? content.value(name, json()) : json();
            return found.is_number() ? found.get<double>() : 0.0;
        };
        Bnb4State state;
        state.block = static_cast<int64_t>(number("blocksize"));
        state.nested_block = static_cast<int64_t>(number("nested_blocksize"));
        state.offset = static_cast<float>(number("nested_offset"));
        const json type = content.is_object() ? content.value("dtype", json()) : json();
        if (type == "bfloat16") state.type = StoredType::bf16;
        if (type == "float16") state.type = StoredType::fp16;
        if (auto failure = check_state(content, state)) return failure;
        if (auto failure = files.read(tensors_.values, 0, state.values)) return failure;
        if (tensors_.nested_values)
            if (auto failure = files.read(*tensors_.nested_values, 0, state.nested_values))
                return failure;
        state_ = state;
        return std::nullopt;
    }

    std::optional<Failure> check_state(const json& content, const Bnb4State& state) const {
        const auto blocks_of = [](int64_t size, int64_t block) {
            return block > 0 ? (size + block - 1) / block : 0;
        };
        const int64_t scales = num_elements(tensors_.scales.shape);
        const int64_t size = num_elements(weight_.shape);
        const bool is_whole =
            content.is_object() && content.value("shape", json()) == json(weight_.shape) &&
            blocks_of(size, state.block) == scales &&
            (!tensors_.nested_scales ||
             blocks_of(scales, state.nested_block) == num_elements(tensors_.nested_scales->shape));
        if (is_whole) return std::nullopt;
        return refuse_stored(weight_.name, bnb4_name,
                             "its quant_state names another shape than config.json, or blocks "
                             "that do not fit its absmax");
    }

    // Products of nested scales are rounded by themselves, and are no part of a fused sum: they are
    // exact in double precision.
    std::optional<Failure> read_scales(const StoredModel& files, int64_t first,
                                       std::span<float> scales) const {
        if (!tensors_.nested_scales) return files.read(tensors_.scales, first, scales);
        std::vector<std::byte> codes(scales.size());
        if (auto failure = files.read_bytes(tensors_.scales, first, codes)) return failure;
        const int64_t block = state_->nested_block;
        const int64_t first_block = first / block;
        std::vector<float> nested(
            static_cast<size_t>((first + std::ssize(scales) - 1) / block - first_block + 1));
        if (auto failure = files.read(*tensors_.nested_scales, first_block, nested)) return failure;
        for (size_t i = 0; i < scales.size(); ++i) {
            const int64_t of_block = (first + static_cast<int64_t>(i)) / block - first_block;
            const double value = state_->nested_values[std::to_integer<size_t>(codes[i])];
            scales[i] =
                static_cast<float>(value * nested[static_cast<size_t>(of_block)]) + state_->offset;
        }
        return std::nullopt;
    }

    shard::TensorSpec weight_;
    Bnb4Tensors tensors_;
    mutable std::optional<Bnb4State> state_;  // from the first read on
};

class Bnb8Decoder final : public Decoder {
public:
    Bnb8Decoder(StoredTensor codes, StoredTensor scales)
        : codes_(std::move(codes)), scales_(std::move(scales)) {}

    std::optional<Failure> read(const StoredModel& files, int64_t first,
                                std::span<float> into) const override {
        if (into.empty()) return std::nullopt;
        constexpr float of_code = 7.874015748698502e-3F;  // 1 / 127, as bitsandbytes rounds it
        const int64_t width = codes_.shape[1];
        const int64_t first_row = first / width;
        std::vector<float> scales(
            static_cast<size_t>((first + std::ssize(into) - 1) / width - first_row + 1));
        std::vector<std::byte> codes(into.size());
        if (auto failure = files.read(scales_, first_row, scales)) return failure;
        if (auto failure = files.read_bytes(codes_, first, codes)) return failure;
        for (size_t i = 0; i < into.size(); ++i) {
            const int64_t row = (first + static_cast<int64_t>(i)) / width - first_row;
            const auto code = static_cast<float>(std::to_integer<int8_t>(codes[i]));
            into[i] = code * scales[static_cast<size_t>(row)] * of_code;
        }
        return std::nullopt;
    }

private:
    StoredTensor codes_;
    StoredTensor scales_;
};

// Returns the tensors of a weight in four bits whose state has this name.
Expected<Decoded> find_in_four_bits(const StoredModel& stored, const shard::TensorSpec& weight,
                                    const std::string& state) {
    Decoded found;
    const auto find = [&](const std::string& name) -> std::optional<StoredTensor> {
        const StoredTensor* const tensor = stored.find(name);
        if (tensor == nullptr) return std::nullopt;
        found.parts.push_back(name);
        return *tensor;
    };
    const auto numbers = find(weight.name);
    const auto values = find(weight.name + ".quant_map");
    const auto scales = find(weight.name + ".absmax");
    const auto nested_values = find(weight.name + ".nested_quant_map");
    const auto nested_scales = find(weight.name + ".nested_absmax");
    const auto is_of = [](const auto& tensor, StoredType type, int64_t size) {
        return tensor && tensor->type == type && num_elements(tensor->shape) == size;
    };
    const int64_t bytes = (num_elements(weight.shape) + 1) / 2;
    const bool is_nested = scales && scales->type == StoredType::uint8;
    const bool is_whole = numbers && static_cast<int64_t>(numbers->length) == bytes && scales &&
                          is_of(values, StoredType::fp32, 16) &&
                          (is_nested ? is_of(nested_values, StoredType::fp32, 256) &&
                                           nested_scales && nested_scales->type == StoredType::fp32
                                     : scales->type == StoredType::fp32);
    if (!is_whole)
        return refuse_stored(weight.name, bnb4_name,
                             format_text("its codes, {}.absmax and {}.quant_map are not those of "
                                         "as many weights as config.json asks for",
                                         weight.name, weight.name));
    Bnb4Tensors tensors{*numbers, *values, *scales, *find(state)};
    if (is_nested) {
        tensors.nested_values = nested_values;
        tensors.nested_scales = nested_scales;
    }
    found.tensor =
        StoredTensor{.shape = weight.shape,
                     .decoder = std::make_shared<Bnb4Decoder>(weight, std::move(tensors))};
    return found;
}

Expected<Decoded> find_in_eight_bits(const StoredModel& stored, const shard::TensorSpec& weight,
                                     const StoredTensor& codes) {
    const std::string module = weight.name.substr(0, weight.name.rfind('.') + 1);
    const StoredTensor* const scales = stored.find(module + "SCB");
    if (scales == nullptr || scales->type != StoredType::fp32 || codes.shape.size() != 2 ||
        num_elements(scales->shape) != codes.shape[0])
        return refuse_stored(weight.name, "eight bits of bitsandbytes",
                             format_text("{}SCB is not a scale for each of its rows", module));
    return Decoded{StoredTensor{.shape = codes.shape,
                                .decoder = std::make_shared<Bnb8Decoder>(codes, *scales)},
                   {weight.name, module + "SCB", module + "weight_format"}};
}

Expected<Decoded> find_bitsandbytes(const StoredModel& stored, const shard::TensorSpec& weight,
                                    const model::StoredForm&) {
    for (const char* const type : {"nf4", "fp4"})
        if (const std::string state =
                format_text("{}.quant_state.bitsandbytes__{}", weight.name, type);
            stored.find(state) != nullptr)
            return find_in_four_bits(stored, weight, state);
    const StoredTensor* const found = stored.find(weight.name);
    if (found != nullptr && found->type == StoredType::int8)
        return find_in_eight_bits(stored, weight, *found);
    return Decoded{};
}

}  // namespace

const StoredFormat bitsandbytes_format{
    .method = "bitsandbytes", .is_told_by_names = false, .find = find_bitsandbytes};

}  // namespace ringshard::hub
