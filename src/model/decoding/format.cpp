#include "format.hpp"

#include <algorithm>
#include <array>

#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

// Those that names tell come last: a tensor in FP8 may belong to one of the others.
constexpr std::array formats{
    &bitsandbytes_format, &gptq_format, &awq_format,  &compressed_tensors_format,
    &modelopt_format,     &fp8_format,  &mxfp4_format};

std::string served_methods(bool may_be_mxfp4) {
    std::vector<std::string> names;
    for (const StoredFormat* const format : formats)
        if (format != &mxfp4_format || may_be_mxfp4) names.emplace_back(format->method);
    return join(names, ", ");
}

// Returns the method as which files are packed. AutoRound packs them as others do.
std::string packed_as(ConfigReader& config, const json& given, const std::string& method) {
    if (method != "auto-round") return method;
    const json packing = given.value("packing_format", json("auto_round:auto_gptq"));
    if (packing == "auto_round:auto_gptq") return "gptq";
    if (packing == "auto_round:auto_awq") return "awq";
    config.complain(
        format_text("quantization_config: packing_format = {}: must be "
                    "auto_round:auto_gptq or auto_round:auto_awq",
                    shown(packing.dump())));
    return "gptq";
}

}  // namespace

void read_stored_form(ConfigReader& config, const MatrixSizes& sizes, bool may_be_mxfp4,
                      StoredForm& form) {
    if (!config.has("quantization_config")) return;
    const json given = config.part("quantization_config");
    const json method = given.is_object() ? given.value("quant_method", json()) : json();
    const std::string name =
        packed_as(config, given, method.is_string() ? method.get<std::string>() : "");
    const auto* const found = std::ranges::find(formats, name, &StoredFormat::method);
    if (found == formats.end() || (*found == &mxfp4_format && !may_be_mxfp4))
        return config.complain(format_text(
            "quantization_config{}: must have a quant_method that is read, one of {}, auto-round; "
            "name the "
            "model's unquantised release (load_in_4bit quantises it), or remove "
            "quantization_config from config.json if the files hold float weights",
            method.is_string() ? concat(": quant_method = ", shown(method.dump())) : "",
            served_methods(may_be_mxfp4)));
    form.method = (*found)->method;
    form.trains_whole = (*found)->trains_whole;
    ConfigReader quantised(config.file(), given, "quantization_config: ");
    (*found)->read_config(quantised, sizes, form);
    config.complain(quantised);
}

std::optional<Failure> decode(StoredModel& stored, const StoredForm& form,
                              const std::vector<shard::TensorSpec>& weights) {
    for (const StoredFormat* const format : formats) {
        if (!format->is_told_by_names && format->method != form.method) continue;
        for (const shard::TensorSpec& weight : weights) {
            auto decoded = format->find(stored, weight, form);
            if (!decoded) return decoded.failure();
            if (!decoded.value().parts.empty())
                stored.replace(decoded.value().parts, weight.name,
                               std::move(decoded.value().tensor));
        }
    }
    return std::nullopt;
}

Failure refuse_stored(const std::string& weight, std::string_view format, const std::string& why) {
    return {ExitCode::bad_data, format_text("{} is stored in {}, and {}", weight, format, why)};
}

Expected<std::vector<uint8_t>> read_codes(const StoredModel& files, const StoredTensor& tensor,
                                          int64_t first, size_t count, FirstCode first_code) {
    const int64_t begin = first / 2;
    const int64_t end = (first + static_cast<int64_t>(count) + 1) / 2;
    std::vector<std::byte> bytes(static_cast<size_t>(end - begin));
    if (auto failure = files.read_bytes(tensor, begin, bytes)) return *failure;
    std::vector<uint8_t> codes(count);
    const int64_t low = first_code == FirstCode::low ? 0 : 1;  // the place of the lower half
    for (size_t i = 0; i < count; ++i) {
        const int64_t place = first + static_cast<int64_t>(i);
        const auto byte = std::to_integer<uint8_t>(bytes[static_cast<size_t>(place / 2 - begin)]);
        codes[i] = place % 2 == low ? byte & 15 : byte >> 4;
    }
    return codes;
}

}  // namespace ringshard::model
