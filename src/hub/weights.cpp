#include "ringshard/hub/weights.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ringshard/base/error.hpp"
#include "ringshard/base/finite.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/score_head.hpp"
#include "stored_type.hpp"

namespace ringshard::hub {

using shard::ReadWeight;
using shard::TensorSums;

namespace {

// The elements of a piece that the files have: a tensor may have more rows here than there.
size_t num_stored(const shard::TensorPiece& piece, const model::ModelSpec& spec) {
    int64_t size = 1;
    for (const int64_t length : spec.stored_shape(piece.tensor->spec)) size *= length;
    return static_cast<size_t>(std::clamp<int64_t>(size - piece.first, 0, piece.size));
}

// The tensor in the files that a weight is read from. transformers ties the embedding to a head
// that is stored without it.
const StoredTensor* find_source(const StoredModel& stored, const model::ModelSpec& spec,
                                const std::string& name) {
    const StoredTensor* const found = stored.find(name);
    const std::string embedding = spec.names.embedding + ".weight";
    const std::string head = spec.names.head + ".weight";
    if (found == nullptr && spec.tied && name == embedding) return stored.find(head);
    if (spec.reads_head_from_embedding && name == head) return find_source(stored, spec, embedding);
    return found;
}

// Blocks that predict further tokens have the numbers behind those of the model, or lie in "mtp".
bool is_of_further_block(const std::string& name, const model::ModelSpec& spec) {
    if (!spec.ignores_further_blocks) return false;
    if (name.starts_with("mtp.") || name.starts_with("model.mtp.")) return true;
    if (!name.starts_with(spec.names.blocks + ".")) return false;
    const auto number = name.substr(spec.names.blocks.size() + 1);
    const auto block = read_whole_number(number.substr(0, number.find('.')));
    return block && *block >= std::ssize(spec.blocks);
}

// Releases hold projections and norms of keys and values for blocks that take those of another one.
bool is_of_missing_keys(const std::string& name, const model::ModelSpec& spec) {
    if (!name.starts_with(spec.names.blocks + ".")) return false;
    const std::string in_blocks = name.substr(spec.names.blocks.size() + 1);
    const auto block = read_whole_number(in_blocks.substr(0, in_blocks.find('.')));
    if (!block || *block >= std::ssize(spec.blocks)) return false;
    return std::ranges::any_of(
        spec.blocks[static_cast<size_t>(*block)].mixers, [&](const auto& mixer) {
            const auto* const attention = std::get_if<model::AttentionSpec>(&mixer.part);
            if (attention == nullptr || attention->has_keys()) return false;
            return in_blocks.find(concat(".", attention->module, ".k_")) != std::string::npos ||
                   in_blocks.find(concat(".", attention->module, ".v_")) != std::string::npos;
        });
}

// Tensors that files may hold and no weight is made of, as causal masks.
bool is_ignored(const std::string& name, const model::ModelSpec& spec) {
    if (is_of_further_block(name, spec) || is_of_missing_keys(name, spec)) return true;
    return name.ends_with("rotary_emb.inv_freq") || name.ends_with(".attention.bias") ||
           name.ends_with(".attention.masked_bias") || name.ends_with(".attn.bias") ||
           name.ends_with(".attn.masked_bias") ||
           (spec.tied && name == spec.names.head + ".weight") ||
           (spec.scores &&
            (name == spec.scores->replaced + ".weight" || name == spec.scores->replaced + ".bias"));
}

bool is_drawn(const std::string& name, const model::ModelSpec& spec) {
    return spec.scores && spec.scores->drawn_by && name == spec.names.head + ".weight";
}

}  // namespace

namespace {

// Constants that files hold must be those of the architecture, rounded to their type.
std::optional<Failure> check_constants(const StoredModel& stored, const model::ModelSpec& spec,
                                       std::set<std::string>& known) {
    for (const auto& [name, value] : spec.constants) {
        known.insert(name);
        const StoredTensor* const found = stored.find(name);
        if (found == nullptr) continue;
        float here = 0;
        const bool is_number = can_be_weight(found->type) && num_elements(found->shape) == 1;
        if (is_number)
            if (auto failure = stored.read(*found, 0, std::span(&here, 1))) return failure;
        constexpr float rounding = 1.0F / 128;  // of bf16
        if (!is_number || std::abs(here - value) > rounding * std::abs(value))
            return Failure{
                ExitCode::bad_data,
                format_text("{} = {} in the model's files: must be {}", name, here, value)};
    }
    return std::nullopt;
}

// Older packages wrote a bias of zeros beside the codes of every matrix (GPTQ), which transformers
// leaves out where the model has none.
std::optional<Failure> check_biases_of_codes(const StoredModel& stored,
                                             const model::ModelSpec& spec,
                                             std::set<std::string>& known) {
    constexpr std::string_view ending = "bias";
    if (spec.stored_form.method != "gptq") return std::nullopt;
    for (const auto& [name, bias] : stored.tensors()) {
        if (known.contains(name) || !name.ends_with(".bias") || !can_be_weight(bias.type)) continue;
        const StoredTensor* const matrix =
            stored.find(name.substr(0, name.size() - ending.size()) + "weight");
        if (matrix == nullptr || !matrix->decoder) continue;
        std::vector<float> numbers(static_cast<size_t>(num_elements(bias.shape)));
        if (auto failure = stored.read(bias, 0, numbers)) return failure;
        if (std::ranges::any_of(numbers, [](float number) { return number != 0; }))
            return Failure{
                ExitCode::bad_data,
                format_text("{} is in the model's files with numbers other than 0, and config.json "
                            "has no such weight",
                            name)};
        known.insert(name);
    }
    return std::nullopt;
}

}  // namespace

std::optional<Failure> check_weights_of(const StoredModel& stored, const model::ModelSpec& spec,
                                        const std::vector<shard::FlatUnit>& units) {
    for (const shard::FlatUnit& unit : units) {
        for (const shard::PlacedTensor& tensor : unit.tensors()) {
            if (tensor.is_made_by_run || is_drawn(tensor.spec.name, spec)) continue;
            const StoredTensor* const found = find_source(stored, spec, tensor.spec.name);
            if (found == nullptr)
                return Failure{ExitCode::bad_data,
                               format_text("{} is not in the model's files", tensor.spec.name)};
            if (!can_be_weight(found->type))
                return Failure{ExitCode::bad_data,
                               format_text("{} has the dtype {} in the model's files, and weights "
                                           "must be floats: F32, BF16 or F16",
                                           tensor.spec.name, to_text(found->type))};
            if (const auto shape = spec.stored_shape(tensor.spec); found->shape != shape)
                return Failure{
                    ExitCode::bad_data,
                    format_text(
                        "{} has the shape {} in the model's files, and config.json asks for {}",
                        tensor.spec.name, shape_text(found->shape), shape_text(shape))};
        }
    }
    return std::nullopt;
}

std::optional<Failure> check_weights(const StoredModel& stored, const model::ModelSpec& spec,
                                     const std::vector<shard::FlatUnit>& units) {
    if (auto failure = check_weights_of(stored, spec, units)) return failure;
    std::set<std::string> wanted;
    for (const shard::FlatUnit& unit : units)
        for (const shard::PlacedTensor& tensor : unit.tensors()) wanted.insert(tensor.spec.name);
    if (auto failure = check_constants(stored, spec, wanted)) return failure;
    if (auto failure = check_biases_of_codes(stored, spec, wanted)) return failure;
    for (const auto& [name, tensor] : stored.tensors())
        if (!wanted.contains(name) && !is_ignored(name, spec))
            return Failure{
                ExitCode::bad_data,
                format_text("{} is in the model's files, and config.json has no such weight",
                            name)};
    return std::nullopt;
}

namespace {

// Elements of a tensor from `first` on, in parts, so that the counter grows while a large one is
// read.
std::optional<Failure> read_in_parts(const StoredModel& stored, const StoredTensor& tensor,
                                     int64_t first, std::span<float> into, ByteCounter& bytes) {
    constexpr size_t part_elements = size_t{16} << 20;
    const double bytes_per_number =
        static_cast<double>(tensor.length) / static_cast<double>(num_elements(tensor.shape));
    while (!into.empty()) {
        const auto part = into.first(std::min(part_elements, into.size()));
        if (auto failure = stored.read(tensor, first, part)) return failure;
        bytes.add(static_cast<int64_t>(bytes_per_number * static_cast<double>(part.size())));
        first += std::ssize(part);
        into = into.subspan(part.size());
    }
    return std::nullopt;
}

// Adds the elements of a piece that are this rank's alone.
void add_own(const shard::TensorPiece& piece, const shard::Chunk& chunk, const shard::Range& own,
             std::span<const float> values, TensorSums& sums) {
    const int64_t begin = chunk.range.begin + piece.in_range;  // of the values, in the unit
    const shard::Range mine = intersect({begin, begin + std::ssize(values)}, own);
    if (mine.size() == 0) return;
    const int64_t before = mine.begin - begin;
    sums.add(piece.tensor->spec.name, piece.first + before,
             values.subspan(static_cast<size_t>(before), static_cast<size_t>(mine.size())));
}

std::optional<Failure> load_slots(const ReadWeight& read, const model::ModelSpec& spec,
                                  const shard::Zero& zero, const shard::Zero::Weights& into_shards,
                                  TensorSums& sums, const ChangeWeight& change) {
    const auto& [chunks, shards] = into_shards;
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
        const auto& [unit, range] = chunks[chunk];
        const at::Tensor numbers = shards.load(chunk, shard::Access::read);
        // Other types, and a GPU, by way of fp32 on the host.
        const bool is_direct = numbers.device().is_cpu() && numbers.scalar_type() == at::kFloat;
        const at::Tensor here =
            is_direct ? numbers : at::zeros(numbers.sizes(), at::TensorOptions(at::kFloat));
        auto* const weights = static_cast<float*>(here.data_ptr());
        for (const shard::TensorPiece& piece : zero.units()[unit].pieces(range)) {
            const std::string& name = piece.tensor->spec.name;
            const std::span<float> into(weights + piece.in_range, num_stored(piece, spec));
            if (auto failure = read(name, piece.first, into)) return failure;
            if (!all_finite(into))
                return Failure{
                    ExitCode::bad_data,
                    format_text("{} holds NaN or infinite numbers in the model's files", name)};
            add_own(piece, chunks[chunk], zero.exclusive_range(unit), into, sums);
            if (change)
                if (auto failure = change(name, piece.first, into)) return failure;
        }
        if (!here.is_same(numbers)) numbers.copy_(here);
        shards.store(chunk, numbers);
    }
    return std::nullopt;
}

}  // namespace

ReadWeight reader_of(const StoredModel& stored, const model::ModelSpec& spec, ByteCounter& bytes) {
    return [&stored, &spec, &bytes](const std::string& name, int64_t first, std::span<float> into) {
        if (!is_drawn(name, spec))
            return read_in_parts(stored, *find_source(stored, spec, name), first, into, bytes);
        model::draw_score_head(spec, first, into);
        return std::optional<Failure>();
    };
}

std::optional<Failure> load_weights(const ReadWeight& read, const model::ModelSpec& spec,
                                    const shard::Zero& zero,
                                    const std::vector<shard::Zero::Weights>& into, TensorSums& sums,
                                    const ChangeWeight& change) {
    for (const shard::Zero::Weights& weights : into)
        if (auto failure = load_slots(read, spec, zero, weights, sums, change)) return failure;
    return std::nullopt;
}

std::optional<Failure> load_weights(const StoredModel& stored, const model::ModelSpec& spec,
                                    shard::Zero& zero, ByteCounter& bytes) {
    if (auto failure = check_weights(stored, spec, zero.units())) return failure;
    RINGSHARD_CHECK(zero.coded_weights().empty(), "weights are quantised first");
    TensorSums none({});
    return load_weights(reader_of(stored, spec, bytes), spec, zero, zero.all_weights(), none);
}

}  // namespace ringshard::hub
