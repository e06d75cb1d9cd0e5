#include "nvfp4.hpp"
#include "../stored_type.hpp"
#include "e2m1.hpp"
#include "ringshard/base/text.hpp"

// NVFP4, of quant_method compressed-tensors (format nvfp4-pack-quantized) and modelopt. Two numbers
// of four bits lie in a byte, the lower half first [out, in / 2]; MODULE.weight_scale [out, in /
// 16] has a scale in F8_E4M3 for 16 numbers. compressed-tensors names the codes
// MODULE.weight_packed and divides all scales by MODULE.weight_global_scale; modelopt names them
// MODULE.weight and multiplies by MODULE.weight_scale_2. Numbers are rounded to bf16, as
// compressed-tensors decompresses them.
namespace ringshard::hub {

namespace {

constexpr std::string_view nvfp4_name = "NVFP4";
constexpr int64_t scale_numbers = 16;

class Nvfp4Decoder final : public Decoder {
public:
    Nvfp4Decoder(StoredTensor codes, StoredTensor scales, StoredTensor global, GlobalScale use)
        : codes_(std::move(codes)),
          scales_(std::move(scales)),
          global_(std::move(global)),
          use_(use) {}

    std::optional<Failure> read(const StoredModel& files, int64_t first,
                                std::span<float> into) const override {
        if (into.empty()) return std::nullopt;
        float global = 0;
        if (auto failure = files.read(global_, 0, std::span(&global, 1))) return failure;
        const auto codes = read_codes(files, codes_, first, into.size(), FirstCode::low);
        if (!codes) return codes.failure();
        const int64_t first_scale = first / scale_numbers;
        std::vector<float> scales(
            static_cast<size_t>((first + std::ssize(into) - 1) / scale_numbers - first_scale + 1));
        if (auto failure = files.read(scales_, first_scale, scales)) return failure;
        for (float& scale : scales)
            scale = use_ == GlobalScale::divides ? scale / global : scale * global;
        for (size_t i = 0; i < into.size(); ++i) {
            const int64_t place = (first + static_cast<int64_t>(i)) / scale_numbers - first_scale;
            into[i] = e2m1_numbers[codes.value()[i]] * scales[static_cast<size_t>(place)];
        }
        round_to(StoredType::bf16, into);
        return std::nullopt;
    }

private:
    StoredTensor codes_;
    StoredTensor scales_;
    StoredTensor global_;
    GlobalScale use_;
};

}  // namespace

Expected<Decoded> find_nvfp4(const StoredModel& stored, const shard::TensorSpec& weight,
                             const Nvfp4Names& names) {
    constexpr std::string_view ending = "weight";
    if (!weight.name.ends_with(ending)) return Decoded{};
    const std::string module = weight.name.substr(0, weight.name.size() - ending.size());
    Decoded found;
    // Scales of what a layer reads, and of keys and values, matter for no weight.
    for (const char* const of_inputs : {"input_global_scale", "input_scale", "k_scale", "v_scale"})
        if (stored.find(module + of_inputs) != nullptr) found.parts.push_back(module + of_inputs);
    const StoredTensor* const codes = stored.find(module + names.codes);
    if (codes == nullptr || codes->type != StoredType::uint8) return found;
    const StoredTensor* const scales = stored.find(module + "weight_scale");
    const StoredTensor* const global = stored.find(module + names.global);
    const std::vector<int64_t>& shape = weight.shape;
    const auto is_cut = [&](const StoredTensor* tensor, StoredType type, int64_t numbers) {
        return tensor != nullptr && tensor->type == type &&
               tensor->shape == std::vector<int64_t>{shape[0], shape[1] / numbers};
    };
    if (shape.size() != 2 || shape[1] % scale_numbers != 0 ||
        !is_cut(codes, StoredType::uint8, 2) ||
        !is_cut(scales, StoredType::fp8_e4m3, scale_numbers) || global == nullptr ||
        global->type != StoredType::fp32 || num_elements(global->shape) != 1)
        return refuse_stored(
            weight.name, nvfp4_name,
            format_text("{}{} is not beside a scale in F8_E4M3 for 16 numbers (weight_scale) and "
                        "one in F32 for all ({}), of the shape that config.json asks for",
                        module, names.codes, names.global));
    for (const std::string& part :
         {module + names.codes, module + "weight_scale", module + names.global})
        found.parts.push_back(part);
    found.tensor = StoredTensor{
        .shape = shape,
        .decoder = std::make_shared<Nvfp4Decoder>(*codes, *scales, *global, names.use)};
    return found;
}

namespace {

Expected<Decoded> find_modelopt(const StoredModel& stored, const shard::TensorSpec& weight,
                                const model::StoredForm&) {
    return find_nvfp4(stored, weight, {"weight", "weight_scale_2", GlobalScale::multiplies});
}

}  // namespace

const StoredFormat modelopt_format{
    .method = "modelopt", .is_told_by_names = false, .find = find_modelopt};

}  // namespace ringshard::hub
