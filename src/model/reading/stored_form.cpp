#include "stored_form.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

// Reads a size of groups of inputs: -1 or a whole number.
int64_t read_group_size(ConfigReader& quantised) {
    const json given = quantised.part("group_size");
    if (given == -1) return 0;
    return quantised.whole_number_or("group_size", int64_t{1} << 22, 128);
}

// Whether `dynamic` gives modules bits or groups of their own. Its rules are named by patterns of
// modules; those that begin with "-:" name modules that lie as numbers.
bool has_rules(const json& dynamic) {
    if (!dynamic.is_object()) return false;
    for (const auto& [pattern, rule] : dynamic.items())
        if (!pattern.starts_with("-:") && rule.is_object() && !rule.empty()) return true;
    return false;
}

void read_gptq_config(ConfigReader& quantised, const MatrixSizes&, StoredForm& form) {
    form.bits = quantised.whole_number_or("bits", 64, 4);
    if (form.bits != 4 && form.bits != 8)
        quantised.complain(format_text("bits = {}: 4 and 8 are read", form.bits));
    form.group = read_group_size(quantised);
    const std::string format =
        quantised.word("checkpoint_format", quantised.word("format", "gptq"));
    if (format != "gptq" && format != "gptq_v2")
        quantised.complain(format_text("checkpoint_format = {}: must be gptq or gptq_v2", format));
    form.adds_one_to_zeros = format == "gptq";
    form.differs_by_module = has_rules(quantised.part("dynamic")) || quantised.has("extra_config");
}

void read_awq_config(ConfigReader& quantised, const MatrixSizes&, StoredForm& form) {
    form.bits = quantised.whole_number_or("bits", 64, 4);
    if (form.bits != 4) quantised.complain(format_text("bits = {}: 4 is read", form.bits));
    form.group = read_group_size(quantised);
    const std::string version = quantised.word("version", quantised.word("format", "gemm"));
    if (version != "gemm" && version != "GEMM")
        quantised.complain(format_text("version = {}: must be gemm", version));
}

// Blocks of transformers' reader are equal, so the last one of a row is no smaller.
void check_blocks(ConfigReader& quantised, const MatrixSizes& sizes) {
    const json blocks = quantised.part("weight_block_size");
    if (blocks.is_null()) return;
    const auto is_size = [](const json& size) { return size.is_number_integer() && size > 0; };
    if (!blocks.is_array() || blocks.size() != 2 || !is_size(blocks[0]) || !is_size(blocks[1]))
        return quantised.complain(
            format_text("weight_block_size = {}: must be two whole numbers above 0, or null",
                        shown(blocks.dump())));
    for (const int64_t size : sizes)
        for (const json& of_block : blocks)
            if (const auto block = of_block.get<int64_t>(); size > block && size % block != 0)
                quantised.complain(
                    format_text("weight_block_size = {}: {}, a size of the model's matrices, is no "
                                "multiple of {}",
                                shown(blocks.dump()), size, block));
}

void read_fp8_config(ConfigReader& quantised, const MatrixSizes& sizes, StoredForm&) {
    for (const auto& [name, usual] :
         {std::pair{"scale_fmt", "float"}, {"expert_dtype", "fp8"}, {"fmt", "e4m3"}})
        if (const std::string value = quantised.word(name, usual); value != usual)
            quantised.complain(format_text("{} = {}: must be {}", name, value, usual));
    check_blocks(quantised, sizes);
}

constexpr std::array formats_of_compressed{"nvfp4-pack-quantized", "pack-quantized",
                                           "int-quantized", "float-quantized", "naive-quantized"};

bool is_served(const std::string& format) {
    return std::ranges::find(formats_of_compressed, format) != formats_of_compressed.end();
}

// Fields that are null are not there.
std::string format_in(const json& object, const std::string& otherwise) {
    const json found = object.is_object() ? object.value("format", json()) : json();
    return found.is_string() ? found.get<std::string>() : otherwise;
}

// Where groups of layers lie in several formats, each names its own.
void check_formats(ConfigReader& quantised) {
    const std::string format = quantised.word("format", "");
    const json groups = quantised.part("config_groups");
    std::string other = is_served(format) ? "" : format;
    if (format == "mixed-precision" && groups.is_object()) {
        other.clear();
        for (const auto& [name, group] : groups.items())
            if (!is_served(format_in(group, "")))
                other = concat(format, " of ", shown(group.dump()));
    }
    if (!other.empty() || format.empty())
        quantised.complain(format_text("format = {}: must be one of {}, or mixed-precision of them",
                                       other,
                                       join(std::vector<std::string>(formats_of_compressed.begin(),
                                                                     formats_of_compressed.end()),
                                            ", ")));
}

void read_compressed_config(ConfigReader& quantised, const MatrixSizes&, StoredForm&) {
    check_formats(quantised);
    const json sparsity = quantised.part("sparsity_config");
    const std::string sparse = format_in(sparsity, "dense");
    if (sparse != "dense")
        quantised.complain(format_text("sparsity_config: format = {}: must be dense", sparse));
    // The model rotates what its layers read while it computes.
    const json transforms = quantised.part("transform_config");
    if (transforms.is_object() && !transforms.value("config_groups", json::object()).empty())
        quantised.complain("transform_config: rotations are not computed; it must be empty");
}

void read_modelopt_config(ConfigReader& quantised, const MatrixSizes&, StoredForm& form) {
    form.bits = 4;
    const std::string algorithm = quantised.word("quant_algo", "");
    if (algorithm != "NVFP4")
        quantised.complain(format_text("quant_algo = {}: must be NVFP4", algorithm));
}

void read_bitsandbytes_config(ConfigReader& quantised, const MatrixSizes&, StoredForm& form) {
    const auto says = [&](const char* name) {
        return quantised.boolean(name, quantised.boolean(concat("_", name).c_str(), false));
    };
    form.bits = says("load_in_8bit") ? 8 : 4;
    if (form.bits == 4 && !says("load_in_4bit"))
        quantised.complain("load_in_4bit or load_in_8bit must be true");
}

// Says nothing of its own.
void read_mxfp4_config(ConfigReader&, const MatrixSizes&, StoredForm&) {}

// A quant_method, as it stands in config.json.
struct StoredMethod {
    std::string_view name;
    bool trains_whole;  // StoredForm's
    void (*read)(ConfigReader& quantised, const MatrixSizes& sizes, StoredForm& form);
};
constexpr std::string_view mxfp4 = "mxfp4";
constexpr std::array methods{StoredMethod{"bitsandbytes", false, read_bitsandbytes_config},
                             StoredMethod{"gptq", false, read_gptq_config},
                             StoredMethod{"awq", false, read_awq_config},
                             StoredMethod{"compressed-tensors", false, read_compressed_config},
                             StoredMethod{"modelopt", false, read_modelopt_config},
                             StoredMethod{"fp8", true, read_fp8_config},
                             StoredMethod{mxfp4, true, read_mxfp4_config}};

std::string served_methods(bool may_be_mxfp4) {
    std::vector<std::string> names;
    for (const StoredMethod& method : methods)
        if (method.name != mxfp4 || may_be_mxfp4) names.emplace_back(method.name);
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
    const auto* const found = std::ranges::find(methods, name, &StoredMethod::name);
    if (found == methods.end() || (name == mxfp4 && !may_be_mxfp4))
        return config.complain(format_text(
            "quantization_config{}: must have a quant_method that is read, one of {}, auto-round; "
            "name the "
            "model's unquantised release (load_in_4bit quantises it), or remove "
            "quantization_config from config.json if the files hold float weights",
            method.is_string() ? concat(": quant_method = ", shown(method.dump())) : "",
            served_methods(may_be_mxfp4)));
    form.method = found->name;
    form.trains_whole = found->trains_whole;
    ConfigReader quantised(config.file(), given, "quantization_config: ");
    found->read(quantised, sizes, form);
    config.complain(quantised);
}

}  // namespace ringshard::model
