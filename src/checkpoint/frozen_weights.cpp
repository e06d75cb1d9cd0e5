#include "ringshard/checkpoint/frozen_weights.hpp"

#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

std::set<std::string> FrozenWeights::names() const {
    std::set<std::string> names;
    for (const auto& [name, tensor] : tensors) names.insert(name);
    return names;
}

std::map<std::string, std::string> FrozenWeights::hashes() const {
    std::map<std::string, std::string> hashes;
    for (const auto& [name, tensor] : tensors) hashes[name] = tensor.hash;
    return hashes;
}

std::string to_text(const FrozenWeights& frozen) {
    json tensors = json::object();
    for (const auto& [name, tensor] : frozen.tensors)
        tensors[name] = {{"shape", tensor.shape}, {"hash", tensor.hash}};
    return json{{"base", frozen.base}, {"tensors", std::move(tensors)}}.dump(
        2, ' ', false, json::error_handler_t::replace);
}

namespace {

bool is_shape(const json& value) {
    if (!value.is_array()) return false;
    for (const json& size : value)
        if (!size.is_number_unsigned()) return false;
    return true;
}

}  // namespace

Expected<FrozenWeights> frozen_weights_of(const StateFile& state, const std::string& file) {
    const auto found = state.texts.find(frozen_text);
    if (found == state.texts.end()) return FrozenWeights();
    const json read = json_or_null<json>(found->second);
    const Failure damaged{ExitCode::bad_data,
                          format_text("{}: its list of frozen weights cannot be read", file)};
    const auto text_in = [](const json& object, const char* name) {
        return object.is_object() && object.contains(name) && object[name].is_string();
    };
    if (!text_in(read, "base") || !read.contains("tensors") || !read["tensors"].is_object())
        return damaged;
    FrozenWeights frozen{.base = read["base"].get<std::string>(), .tensors = {}};
    for (const auto& [name, tensor] : read["tensors"].items()) {
        if (!text_in(tensor, "hash") || !tensor.contains("shape") || !is_shape(tensor["shape"]))
            return damaged;
        frozen.tensors[name] = {tensor["shape"].get<std::vector<int64_t>>(),
                                tensor["hash"].get<std::string>()};
    }
    return frozen;
}

}  // namespace ringshard::checkpoint
