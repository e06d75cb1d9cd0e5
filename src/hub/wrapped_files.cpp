#include "ringshard/hub/wrapped_files.hpp"

#include <algorithm>
#include <array>

#include "decoding/format.hpp"
#include "ringshard/base/text.hpp"
#include "stored_type.hpp"

namespace ringshard::hub {

namespace {

constexpr std::string_view head = "lm_head.";
constexpr std::string_view embedding = "embed_tokens.weight";
// Prefixes in files of transformers 5 and of older releases.
constexpr std::array body_prefixes{"model.language_model.", "language_model.model.", "model."};

// Prefixes of the text model's names in the files.
struct Prefixes {
    std::string body;
    std::string head;
};

Expected<Prefixes> find_prefixes(const StoredModel& stored) {
    std::vector<std::string> looked_for;
    const bool has_inner_head = stored.find("language_model.lm_head.weight") != nullptr;
    for (const char* const prefix : body_prefixes) {
        const std::string body = prefix;
        looked_for.push_back(body + std::string(embedding));
        if (stored.find(looked_for.back()) == nullptr) continue;
        const bool is_inside = has_inner_head || body == "language_model.model.";
        return Prefixes{body, concat(is_inside ? "language_model." : "", head)};
    }
    return Failure{ExitCode::bad_data,
                   format_text("the model's files hold no text model, and config.json names a "
                               "model that has one: none of {} is there",
                               join(looked_for, ", "))};
}

std::optional<std::string> after(const std::string& name, const std::string& prefix) {
    if (!name.starts_with(prefix)) return std::nullopt;
    return name.substr(prefix.size());
}

// Returns the prefix of the names of all tensors but the head's.
std::string body_prefix(const model::ModelSpec& spec) {
    return spec.names.blocks.substr(0, spec.names.blocks.rfind('.') + 1);
}

// transformers reads both forms: one tensor of all experts for gate and up, and one for down; or
// one for each matrix, as it writes them.
void divide_experts(StoredModel& stored, const std::string& prefix, const model::ExpertsSpec& spec,
                    int64_t width) {
    const int64_t inner = spec.intermediate;
    const auto divide = [&](const char* name, const std::vector<std::string>& layers,
                            const std::vector<int64_t>& shape) {
        const std::string stacked = format_text("{}{}.{}", prefix, spec.experts, name);
        const StoredTensor* const found = stored.find(stacked);
        const std::vector<int64_t> expected{spec.count, shape[0] * std::ssize(layers), shape[1]};
        const bool is_float = found != nullptr && can_be_weight(found->type);
        if (!is_float || found->shape != expected) return;
        std::vector<StoredModel::Part> parts;
        for (int64_t expert = 0; expert < spec.count; ++expert)
            for (const std::string& layer : layers)
                parts.push_back(
                    {format_text("{}{}.{}.{}.weight", prefix, spec.experts, expert, layer), shape,
                     std::ssize(parts) * shape[0] * shape[1]});
        stored.divide(stacked, parts);
    };
    divide("gate_up_proj", {spec.gate, spec.up}, {inner, width});
    divide("down_proj", {spec.down}, {width, inner});
}

// Reads the transposes [count, in, out] of stored matrices [count, out, in], each as a whole.
class TransposedMatrices : public Decoder {
public:
    explicit TransposedMatrices(StoredTensor matrices) : matrices_(std::move(matrices)) {}

    std::optional<Failure> read(const StoredModel& files, int64_t first,
                                std::span<float> into) const override {
        const int64_t out = matrices_.shape[1];
        const int64_t in = matrices_.shape[2];
        std::vector<float> matrix(static_cast<size_t>(out * in));
        for (int64_t done = 0; done < std::ssize(into);) {
            const int64_t number = (first + done) / (out * in);
            if (auto failure = files.read(matrices_, number * out * in, matrix)) return failure;
            const int64_t begin = (first + done) % (out * in);
            const int64_t end = std::min(out * in, begin + std::ssize(into) - done);
            for (int64_t place = begin; place < end; ++place)
                into[static_cast<size_t>(done++)] =
                    matrix[static_cast<size_t>(place % out * in + place / out)];
        }
        return std::nullopt;
    }

private:
    StoredTensor matrices_;
};

// transformers writes the matrices of experts whose transposes releases have, and reads both.
void transpose_experts(StoredModel& stored, const std::string& prefix,
                       const model::ExpertsSpec& spec, int64_t width) {
    const auto transpose = [&](const std::string& layer, int64_t out, int64_t in) {
        const std::string name = format_text("{}{}.{}", prefix, spec.experts, layer);
        const StoredTensor* const found = stored.find(name);
        const bool is_float = found != nullptr && can_be_weight(found->type);
        if (!is_float || found->shape != std::vector<int64_t>{spec.count, out, in}) return;
        StoredTensor transposed{.type = found->type, .shape = {spec.count, in, out}};
        transposed.decoder = std::make_shared<TransposedMatrices>(*found);
        stored.replace({name}, name, std::move(transposed));
    };
    transpose(spec.up, spec.inner_width(), width);
    transpose(spec.down, width, spec.intermediate);
}

// Gives experts the form in which the units have them.
void arrange_experts(StoredModel& stored, const model::ModelSpec& spec) {
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        const model::ExpertsSpec* const experts = spec.blocks[block].experts();
        if (!experts) continue;
        const std::string prefix = format_text("{}.{}.", spec.names.blocks, block);
        if (experts->tensors == model::ExpertTensors::single)
            divide_experts(stored, prefix, *experts, spec.width);
        if (experts->tensors == model::ExpertTensors::transposed)
            transpose_experts(stored, prefix, *experts, spec.width);
    }
}

// What passes through is written as it is, beside a config.json without quantization_config.
std::optional<Failure> refuse_passed_codes(const StoredModel& stored,
                                           const model::ModelSpec& spec) {
    for (const auto& [name, tensor] : stored.others()) {
        const bool is_fp8 = tensor.type == StoredType::fp8_e4m3;
        const bool is_code = spec.stored_form.is_quantised() &&
                             (tensor.type == StoredType::uint8 || tensor.type == StoredType::int8 ||
                              tensor.type == StoredType::int32);
        if (is_fp8 || is_code)
            return Failure{
                ExitCode::bad_data,
                format_text(
                    "{} is stored in {}: only weights of the text model are "
                    "read from it",
                    name, is_fp8 ? "FP8 (F8_E4M3)" : concat("codes of ", spec.stored_form.method))};
    }
    return std::nullopt;
}

std::optional<Failure> find_text_model(StoredModel& stored, const model::ModelSpec& spec) {
    if (!spec.is_wrapped) return std::nullopt;
    const auto found = find_prefixes(stored);
    if (!found) return found.failure();
    const Prefixes& prefixes = found.value();
    stored.rename([&](const std::string& name) -> std::optional<std::string> {
        if (const auto of_body = after(name, prefixes.body)) return body_prefix(spec) + *of_body;
        if (const auto of_head = after(name, prefixes.head)) return std::string(head) + *of_head;
        return std::nullopt;
    });
    return refuse_passed_codes(stored, spec);
}

// Turns what the files hold quantised into tensors of numbers.
std::optional<Failure> decode_weights(StoredModel& stored, const model::ModelSpec& spec) {
    const auto is_code = [](const auto& tensor) { return !can_be_weight(tensor.second.type); };
    if (std::ranges::none_of(stored.tensors(), is_code)) return std::nullopt;
    std::vector<shard::TensorSpec> weights;
    constexpr int64_t whole = 1;
    for (const shard::FlatUnit& unit : model::make_units(spec, whole))
        for (const shard::PlacedTensor& tensor : unit.tensors())
            if (!tensor.is_made_by_run)
                weights.push_back({tensor.spec.name, spec.stored_shape(tensor.spec)});
    return decode(stored, spec.stored_form, weights);
}

// Some files have other names of tensors that they hold.
void take_other_names(StoredModel& stored, const model::ModelSpec& spec) {
    if (spec.other_names.empty()) return;
    std::map<std::string, std::string> name_of;
    constexpr int64_t whole = 1;
    for (const shard::FlatUnit& unit : model::make_units(spec, whole))
        for (const shard::PlacedTensor& tensor : unit.tensors())
            for (const auto& [ours, other] : spec.other_names) {
                std::string there = tensor.spec.name;
                const size_t at = there.find(ours);
                if (at == std::string::npos || stored.find(there) != nullptr) continue;
                there.replace(at, ours.size(), other);
                if (stored.find(there) != nullptr) name_of[there] = tensor.spec.name;
            }
    stored.rename([&](const std::string& name) -> std::optional<std::string> {
        const auto found = name_of.find(name);
        return found == name_of.end() ? name : found->second;
    });
}

// transformers reads the files of a model without a head too, whose names lack the prefix.
void add_missing_prefix(StoredModel& stored, const model::ModelSpec& spec) {
    const std::string prefix = body_prefix(spec);
    const auto bare = after(spec.names.embedding + ".weight", prefix);
    if (!bare || stored.find(*bare) == nullptr || stored.find(prefix + *bare) != nullptr) return;
    stored.rename([&](const std::string& name) -> std::optional<std::string> {
        return name.starts_with(head) || name.starts_with(prefix) ? name : prefix + name;
    });
}

}  // namespace

std::optional<Failure> find_weights(StoredModel& stored, const model::ModelSpec& spec) {
    auto failure = find_text_model(stored, spec);
    if (failure) return failure;
    if (!spec.is_wrapped) add_missing_prefix(stored, spec);
    take_other_names(stored, spec);
    arrange_experts(stored, spec);
    return decode_weights(stored, spec);
}

comm::Agreed<WrappedFiles> WrappedFiles::open(const std::filesystem::path& folder,
                                              const model::ModelSpec& spec,
                                              const comm::Group& group) {
    auto stored = StoredModel::open(folder, group);
    if (!stored) return stored.failure();
    const auto prefixes = find_prefixes(stored.value());
    if (!prefixes) return comm::found_by_all(prefixes.failure());
    if (const auto failure = find_weights(stored.value(), spec))
        return comm::found_by_all(*failure);
    WrappedFiles files(std::move(stored).value(), body_prefix(spec));
    files.body_prefix_ = prefixes.value().body;
    files.head_prefix_ = prefixes.value().head;
    return files;
}

WrappedFiles::WrappedFiles(StoredModel stored, std::string prefix)
    : stored_(std::move(stored)), prefix_(std::move(prefix)) {}

std::string WrappedFiles::stored_name(const std::string& tensor) const {
    if (const auto of_body = after(tensor, prefix_)) return body_prefix_ + *of_body;
    return head_prefix_ + tensor.substr(head.size());
}

}  // namespace ringshard::hub
