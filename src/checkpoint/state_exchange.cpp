#include "state_exchange.hpp"

#include <fcntl.h>

#include <nlohmann/json.hpp>

#include "range_check.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/finite.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

constexpr int64_t element_bytes = 4;
const char* const first_moments = "/optimizer/exp_avg/";
const char* const second_moments = "/optimizer/exp_avg_sq/";

// Everything that a shard holds, and where it stands in the file.
struct Kind {
    std::string group;
    shard::FlatStore& shards;
};
std::vector<Kind> kinds_of(const shard::Zero& zero, const optim::AdamW* optimizer) {
    std::vector<Kind> kinds{{weights_group, zero.weight_shards()}};
    if (optimizer == nullptr) return kinds;
    kinds.push_back({first_moments, optimizer->first_moments()});
    kinds.push_back({second_moments, optimizer->second_moments()});
    return kinds;
}

// The file holds fp32. Moments in bf16 go there, and come back, exactly.
at::Tensor as_stored(const at::Tensor& flat, int64_t first, int64_t count) {
    return flat.narrow(0, first, count).to(at::kFloat);
}

std::span<std::byte> bytes_of(const at::Tensor& stored) {
    return {static_cast<std::byte*>(stored.data_ptr()), static_cast<size_t>(stored.nbytes())};
}

std::span<const float> numbers_in(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / element_bytes};
}

}  // namespace

std::vector<DatasetSpec> all_datasets(const std::vector<shard::FlatUnit>& units, Extent extent) {
    std::vector<std::string> groups{weights_group};
    if (extent == Extent::everything) groups.insert(groups.end(), {first_moments, second_moments});
    std::vector<DatasetSpec> datasets;
    for (const std::string& group : groups)
        for (const shard::FlatUnit& unit : units)
            for (const shard::PlacedTensor& tensor : unit.tensors())
                datasets.push_back({group + tensor.spec.name, tensor.spec.shape});
    return datasets;
}

std::optional<Failure> check_datasets(const std::filesystem::path& file, const StateFile& state,
                                      const std::vector<shard::FlatUnit>& units, Extent extent) {
    for (const DatasetSpec& wanted : all_datasets(units, extent)) {
        const auto found = state.datasets.find(wanted.name);
        if (found == state.datasets.end())
            return Failure{ExitCode::bad_data,
                           concat(file.string(), ": has no dataset ", wanted.name)};
        if (found->second.shape != wanted.shape)
            return Failure{ExitCode::bad_data,
                           concat(file.string(), ": ", wanted.name, " has the shape ",
                                  json(found->second.shape).dump(), ", and the model asks for ",
                                  json(wanted.shape).dump())};
    }
    return std::nullopt;
}

StateFile broadcast_layout(const StateFile& state, const comm::Group& group) {
    json letter;
    for (const auto& [name, placed] : state.datasets)
        letter["datasets"][name] = {placed.shape, placed.offset};
    letter["numbers"] = state.numbers;
    letter["texts"] = state.texts;
    letter = json::parse(group.broadcast(letter.dump()));
    StateFile received{{}, letter["numbers"], letter["texts"]};
    for (const auto& [name, placed] : letter["datasets"].items())
        received.datasets[name] = {placed[0], placed[1]};
    return received;
}

std::optional<Failure> write_ranges(const std::filesystem::path& file, const StateFile& layout,
                                    const shard::Zero& zero, optim::AdamW& optimizer,
                                    std::vector<WrittenRange>& ranges) {
    auto opened = File::open(file, O_WRONLY);
    if (!opened) return opened.failure();
    const std::vector<Kind> kinds = kinds_of(zero, &optimizer);
    for (size_t slot = 0; slot < zero.slots().size(); ++slot) {
        const auto& [unit, range] = zero.slots()[slot];
        const shard::Range mine = intersect(zero.own_range(unit), range);
        if (mine.size() == 0) continue;
        const int64_t before = mine.begin - range.begin;
        for (const Kind& kind : kinds) {
            const at::Tensor flat = kind.shards.take(slot, shard::Content::kept);
            for (const shard::TensorPiece& piece : zero.units()[unit].pieces(mine)) {
                const std::string name = kind.group + piece.tensor->spec.name;
                const int64_t offset =
                    layout.datasets.at(name).offset + piece.first * element_bytes;
                const at::Tensor stored = as_stored(flat, before + piece.in_range, piece.size);
                const auto bytes = bytes_of(stored);
                if (!all_finite(numbers_in(bytes)))
                    return Failure{ExitCode::bad_numbers,
                                   concat(name,
                                          " holds NaN or infinite numbers: no checkpoint "
                                          "is made of them")};
                if (auto failure = opened.value().write_at(bytes, offset)) return failure;
                ranges.push_back(
                    {name, offset, static_cast<int64_t>(bytes.size()), hash_of(bytes)});
            }
        }
    }
    return opened.value().flush();
}

std::optional<Failure> read_ranges(const std::filesystem::path& file, const StateFile& state,
                                   shard::Zero& zero, optim::AdamW* optimizer) {
    const auto opened = File::open(file, O_RDONLY);
    if (!opened) return opened.failure();
    const std::vector<Kind> kinds = kinds_of(zero, optimizer);
    for (size_t slot = 0; slot < zero.slots().size(); ++slot) {
        const auto& [unit, range] = zero.slots()[slot];
        for (const Kind& kind : kinds) {
            const at::Tensor flat = kind.shards.take(slot, shard::Content::kept);
            for (const shard::TensorPiece& piece : zero.units()[unit].pieces(range)) {
                const int64_t offset =
                    state.datasets.at(kind.group + piece.tensor->spec.name).offset +
                    piece.first * element_bytes;
                const at::Tensor place = flat.narrow(0, piece.in_range, piece.size);
                const at::Tensor stored = as_stored(flat, piece.in_range, piece.size);
                if (auto failure = opened.value().read_at(bytes_of(stored), offset)) return failure;
                if (stored.data_ptr() != place.data_ptr()) place.copy_(stored);
            }
            kind.shards.put_back(slot, flat);
        }
    }
    return std::nullopt;
}

}  // namespace ringshard::checkpoint
