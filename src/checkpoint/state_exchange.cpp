#include "state_exchange.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/shared_file.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

// All shards of one kind, which lie in one group of the file.
struct Kind {
    std::string group;
    const shard::Shelf* shelf;
    const shard::Chunks* chunks;
    shard::FlatStore* shards;
    const optim::State* state = nullptr;  // null: the weights

    ElementType type() const {
        if (shards->type() == at::kByte) return ElementType::u8;
        return shards->type() == at::kBFloat16 ? ElementType::bf16 : ElementType::fp32;
    }
    std::vector<int64_t> shape_of(const shard::PlacedTensor& tensor) const {
        return state == nullptr ? tensor.spec.shape : state->spec.shape_of(tensor);
    }
    // The pieces of a chunk, in its numbers: all of them, or those of this rank alone.
    enum class Part { whole, exclusive };
    std::vector<shard::TensorPiece> pieces(const shard::Zero& zero, size_t chunk, Part part) const {
        const bool is_whole = part == Part::whole;
        const auto& [unit, numbers] = (*chunks)[chunk];
        if (state != nullptr && state->spec.is_factor())
            return factor_pieces(zero, unit,
                                 is_whole ? numbers : state->exclusive_range(zero, unit));
        const shard::Range range = shelf->chunks[chunk].range;
        const shard::Range mine = is_whole ? range : intersect(zero.exclusive_range(unit), range);
        const optim::StateSpec spec = state == nullptr ? optim::StateSpec{} : state->spec;
        std::vector<shard::TensorPiece> pieces = spec.pieces(zero.units()[unit], mine);
        for (shard::TensorPiece& piece : pieces)
            piece.in_range += mine.begin / spec.weights - range.begin / spec.weights;
        return pieces;
    }

private:
    std::vector<shard::TensorPiece> factor_pieces(const shard::Zero& zero, size_t unit,
                                                  const shard::Range& numbers) const {
        std::vector<shard::TensorPiece> cut;
        for (const shard::TensorPiece& piece :
             state->spec.pieces(zero.units()[unit], zero.section_range(unit))) {
            const shard::Range mine =
                intersect({piece.in_range, piece.in_range + piece.size}, numbers);
            if (mine.size() > 0)
                cut.push_back({piece.tensor, piece.first + mine.begin - piece.in_range, mine.begin,
                               mine.size()});
        }
        return cut;
    }
};

std::vector<Kind> kinds_of(const shard::Zero& zero, const optim::Optimizer* optimizer) {
    std::vector<Kind> kinds;
    for (const shard::Shelf& shelf : zero.shelves())
        if (shelf.placement.is_trained)
            kinds.push_back({weights_group, &shelf, &shelf.chunks, &shelf.exact()});
    if (optimizer == nullptr) return kinds;
    for (const auto& updater : optimizer->updaters())
        for (const optim::State& state : updater->states())
            kinds.push_back({group_of_state(state.spec.name), &updater->shelf(), state.chunks.get(),
                             state.numbers.get(), &state});
    return kinds;
}

at::ScalarType scalar_type_of(ElementType type) {
    if (type == ElementType::u8) return at::kByte;
    return type == ElementType::bf16 ? at::kBFloat16 : at::kFloat;
}

}  // namespace

std::span<const shard::PlacedTensor> trained_tensors(const shard::FlatUnit& unit) {
    if (!unit.is_trained()) return {};
    return unit.tensors();
}

std::vector<DatasetSpec> all_datasets(const shard::Zero& zero, const optim::Optimizer& optimizer,
                                      Contents contents) {
    std::vector<DatasetSpec> datasets;
    for (const Kind& kind : kinds_of(zero, contents == Contents::everything ? &optimizer : nullptr))
        for (size_t unit = 0; unit < zero.num_units(); ++unit) {
            if (&zero.shelf_of(unit) != kind.shelf) continue;
            for (const shard::PlacedTensor& tensor : zero.units()[unit].tensors())
                if (!tensor.begins_before)
                    datasets.push_back(
                        {kind.group + tensor.spec.name, kind.shape_of(tensor), kind.type()});
        }
    return datasets;
}

namespace {

// Joins a piece to the one before, if it continues the same tensor.
void add(std::vector<OwnPiece>& pieces, OwnPiece piece) {
    const bool goes_on = !pieces.empty() && pieces.back().dataset == piece.dataset &&
                         pieces.back().first + pieces.back().count == piece.first;
    if (!goes_on) return pieces.push_back(std::move(piece));
    pieces.back().count += piece.count;
    pieces.back().parts.push_back(piece.parts.front());
}

}  // namespace

std::vector<OwnPiece> own_pieces(const shard::Zero& zero, const optim::Optimizer& optimizer,
                                 Contents contents) {
    std::vector<OwnPiece> pieces;
    for (const Kind& kind : kinds_of(zero, contents == Contents::everything ? &optimizer : nullptr))
        for (size_t chunk = 0; chunk < kind.chunks->size(); ++chunk)
            for (const shard::TensorPiece& piece : kind.pieces(zero, chunk, Kind::Part::exclusive))
                add(pieces, {kind.group + piece.tensor->spec.name,
                             piece.first,
                             piece.size,
                             kind.type(),
                             kind.shards,
                             {{chunk, piece.in_range, piece.size}}});
    return pieces;
}

StateFile broadcast_layout(const StateFile& state, const comm::Group& group) {
    json message;
    message["datasets"] = json::object();
    for (const auto& [name, placed] : state.datasets)
        message["datasets"][name] = {placed.shape, placed.type, placed.offset};
    message["numbers"] = state.numbers;
    message["texts"] = state.texts;
    message = parse_json<json>(group.broadcast(message.dump())).value();
    StateFile received{{}, message["numbers"], message["texts"]};
    for (const auto& [name, placed] : message["datasets"].items())
        received.datasets[name] = {placed[0], placed[1], placed[2]};
    return received;
}

namespace {

// Reads elements of a checkpoint from its files.
class ElementReader {
public:
    ElementReader(const Checkpoint& checkpoint, ByteCounter& bytes)
        : checkpoint_(checkpoint), bytes_(bytes) {}

    // Fills a flat tensor of any type with elements of a dataset from `first` on.
    std::optional<Failure> read(const std::string& dataset, int64_t first,
                                const at::Tensor& place) {
        const ElementType type = checkpoint_.state.datasets.at(dataset).type;
        const bool is_direct =
            place.scalar_type() == scalar_type_of(type) && place.device().is_cpu();
        const at::Tensor stored =
            is_direct ? place : at::empty({place.numel()}, at::TensorOptions(scalar_type_of(type)));
        const int64_t element = bytes_of(type);
        const std::span<std::byte> bytes{static_cast<std::byte*>(stored.data_ptr()),
                                         static_cast<size_t>(stored.nbytes())};
        const auto& parts = checkpoint_.stored.parts.at(dataset);
        const int64_t end = first + place.numel();
        // Begin with the last part that does not start after `first`.
        auto at = std::prev(std::ranges::upper_bound(parts, first, {}, &StoredParts::Part::first));
        for (; at != parts.end(); ++at) {
            const int64_t from = std::max(first, at->first);
            const int64_t to = std::min(end, at->first + at->length / element);
            if (from >= to) break;
            const auto into = bytes.subspan(static_cast<size_t>((from - first) * element),
                                            static_cast<size_t>((to - from) * element));
            const auto file = open(checkpoint_.stored.files.at(static_cast<size_t>(at->file)));
            if (!file) return file.failure();
            if (auto failure = read(*file.value(), into, at->offset + (from - at->first) * element))
                return failure;
        }
        if (!is_direct) place.copy_(stored);
        return std::nullopt;
    }

private:
    // Reads in parts, so that the counter grows while a large tensor is read.
    std::optional<Failure> read(const File& file, std::span<std::byte> into, int64_t offset) {
        constexpr size_t part_bytes = size_t{64} << 20;
        while (!into.empty()) {
            const auto part = into.first(std::min(part_bytes, into.size()));
            if (auto failure = file.read_at(part, offset)) return failure;
            bytes_.add(std::ssize(part));
            offset += std::ssize(part);
            into = into.subspan(part.size());
        }
        return std::nullopt;
    }

    Expected<const File*> open(const std::string& name) {
        if (!files_.contains(name)) {
            auto opened = open_when_visible(checkpoint_.folder / name, O_RDONLY);
            if (!opened) return opened.failure();
            files_[name] = std::move(opened).value();
        }
        return &files_[name];
    }

    const Checkpoint& checkpoint_;
    ByteCounter& bytes_;
    std::map<std::string, File> files_;
};

int64_t num_elements(const StateFile::Placed& placed) {
    int64_t count = 1;
    for (const int64_t size : placed.shape) count *= size;
    return count;
}

}  // namespace

shard::ReadWeight reader_of(const Checkpoint& checkpoint, ByteCounter& bytes) {
    return [reader = std::make_shared<ElementReader>(checkpoint, bytes)](
               const std::string& tensor, int64_t first, std::span<float> into) {
        return reader->read(
            weights_group + tensor, first,
            at::from_blob(into.data(), {std::ssize(into)}, at::TensorOptions(at::kFloat)));
    };
}

std::optional<Failure> read_shards(const Checkpoint& checkpoint, shard::Zero& zero,
                                   const optim::Optimizer* optimizer, ByteCounter& bytes,
                                   std::optional<size_t> variant) {
    ElementReader reader(checkpoint, bytes);
    for (const Kind& kind : kinds_of(zero, optimizer))
        for (size_t chunk = 0; chunk < kind.chunks->size(); ++chunk) {
            // Files do not hold the padding of a unit: it stays unchanged.
            const at::Tensor flat = kind.shards->load(chunk, shard::Access::read);
            for (const shard::TensorPiece& piece : kind.pieces(zero, chunk, Kind::Part::whole)) {
                if (variant && piece.tensor->variant != *variant) continue;
                const std::string dataset = kind.group + piece.tensor->spec.name;
                const int64_t there = num_elements(checkpoint.state.datasets.at(dataset));
                const int64_t count = std::clamp<int64_t>(there - piece.first, 0, piece.size);
                if (auto failure =
                        reader.read(dataset, piece.first, flat.narrow(0, piece.in_range, count)))
                    return failure;
            }
            kind.shards->store(chunk, flat);
        }
    return std::nullopt;
}

}  // namespace ringshard::checkpoint
