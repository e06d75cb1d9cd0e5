#include "adapter_values.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "ringshard/base/mix.hpp"
#include "ringshard/base/random_values.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"
#include "ringshard/peft/adapters.hpp"

namespace ringshard::peft {

std::map<std::string, std::vector<int64_t>> trained_shapes(const model::ModelSpec& spec) {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const shard::UnitLayout& module : model::modules_of(spec))
        for (const shard::ParameterGroup& group : module.groups())
            if (group.placement.is_trained)
                for (const shard::TensorSpec& tensor : group.tensors)
                    shapes[tensor.name] = tensor.shape;
    return shapes;
}

namespace {

constexpr std::string_view trained_rows_ending = ".token_adapter.trainable_tokens_delta";

using RowsByModule = std::map<std::string, std::vector<int64_t>>;

RowsByModule rows_by_module(const model::ModelSpec& spec) {
    return {{spec.names.embedding, spec.trained_rows.embedding},
            {spec.names.head, spec.trained_rows.head}};
}

// Reads elements of the rows [n, width] that train: they begin as those of the model.
std::optional<Failure> read_trained_rows(const shard::ReadWeight& model, const std::string& tensor,
                                         const RowsByModule& rows, int64_t width, int64_t first,
                                         std::span<float> into) {
    const std::string module = tensor.substr(0, tensor.size() - trained_rows_ending.size());
    const std::vector<int64_t>& of_module = rows.at(module);
    while (!into.empty()) {
        const int64_t column = first % width;
        const auto length = std::min(into.size(), static_cast<size_t>(width - column));
        const int64_t row = of_module.at(static_cast<size_t>(first / width));
        if (auto failure = model(module + ".weight", row * width + column, into.first(length)))
            return failure;
        into = into.subspan(length);
        first += static_cast<int64_t>(length);
    }
    return std::nullopt;
}

constexpr const char* why_embeddings =
    "; PEFT adds embeddings where the vocabulary has grown or they are among target_modules, and "
    "loading them changes the model: "
    "save it with save_embedding_layers=False, or name them in modules_to_save";

bool is_embedding(const std::string& name) {
    return name.find("embed_tokens.") != std::string::npos ||
           name.find("lm_head.") != std::string::npos;
}

}  // namespace

std::optional<Failure> check_adapter(const hub::StoredModel& stored, const model::ModelSpec& spec,
                                     const std::string& folder) {
    const auto refuse = [&](const std::string& what) {
        return Failure{ExitCode::bad_data, format_text("{}: {}", folder, what)};
    };
    std::set<std::string> wanted;
    const std::set<std::string> adapters = adapter_tensors(spec);
    for (const auto& [name, shape] : trained_shapes(spec)) {
        const std::string stored_name = name_in_adapter(name, adapters);
        wanted.insert(stored_name);
        const hub::StoredTensor* const found = stored.find(stored_name);
        if (found == nullptr)
            return refuse(format_text(
                "{} is not in {}: the adapter is not of this model, or its configuration not of it",
                stored_name, hub::adapter_weights_name));
        if (found->shape != shape)
            return refuse(
                format_text("{} has another shape in {} than in this model: the adapter is of "
                            "another model; give "
                            "the one that base_model_name_or_path in its {} names",
                            stored_name, hub::adapter_weights_name, adapter_config_name));
    }
    for (const auto& [name, tensor] : stored.tensors())
        if (!wanted.contains(name))
            return refuse(format_text("{} is in {}, and {} names no such weight{}", name,
                                      hub::adapter_weights_name, adapter_config_name,
                                      is_embedding(name) ? why_embeddings : ""));
    return std::nullopt;
}

shard::ReadWeight read_adapter(const shard::ReadWeight& model, const model::ModelSpec& spec,
                               const AdapterOrigin& origin) {
    const auto shapes =
        std::make_shared<const std::map<std::string, std::vector<int64_t>>>(trained_shapes(spec));
    const auto adapters = std::make_shared<const std::set<std::string>>(adapter_tensors(spec));
    const auto rows = std::make_shared<const RowsByModule>(rows_by_module(spec));
    return [model, shapes, adapters, rows, start = origin.start, &stored = origin.stored](
               const std::string& tensor, int64_t first,
               std::span<float> into) -> std::optional<Failure> {
        if (stored) {
            const hub::StoredTensor* const found = stored->find(name_in_adapter(tensor, *adapters));
            return found == nullptr ? model(tensor, first, into)
                                    : stored->read(*found, first, into);
        }
        if (!adapters->contains(tensor)) return model(tensor, first, into);
        const auto shape = shapes->find(tensor);
        const uint64_t key = mix_bits(start.seed) ^ hash_text(tensor);
        if (tensor.ends_with(trained_rows_ending))
            return read_trained_rows(model, tensor, *rows, shape->second[1], first, into);
        if (tensor.ends_with(".lora_embedding_B"))
            fill_normal(key, first, 1, into);
        else if (!tensor.ends_with(".lora_A.weight"))
            std::ranges::fill(into, 0.0F);
        else if (start.init.kind == config::AdapterInit::Kind::normal)
            fill_normal(key, first, 1 / static_cast<double>(shape->second[0]), into);
        else
            fill_uniform(key, first, 1 / std::sqrt(static_cast<double>(shape->second[1])), into);
        return std::nullopt;
    };
}

}  // namespace ringshard::peft
