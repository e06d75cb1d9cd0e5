#include "state_exchange.hpp"

#include <fcntl.h>

#include <array>
#include <nlohmann/json.hpp>

#include "range_check.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/finite.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

constexpr int64_t element_bytes = 4;

// The three tensors that a shard holds of everything, and where they stand in the file.
struct Kind {
    const char* group;
    at::Tensor flat;  // of the shard's range
};
std::array<Kind, 3> kinds_of(const shard::Zero& zero, optim::AdamW& optimizer, size_t unit) {
    return {Kind{"/model/", zero.shard(unit).weights},
            Kind{"/optimizer/exp_avg/", optimizer.moments(unit).first},
            Kind{"/optimizer/exp_avg_sq/", optimizer.moments(unit).second}};
}

std::span<std::byte> bytes_of(const at::Tensor& flat, int64_t first, int64_t count) {
    return {static_cast<std::byte*>(flat.data_ptr()) + first * element_bytes,
            static_cast<size_t>(count * element_bytes)};
}

std::span<const float> numbers_in(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / element_bytes};
}

}  // namespace

std::vector<DatasetSpec> all_datasets(const std::vector<shard::FlatUnit>& units) {
    std::vector<DatasetSpec> datasets;
    for (const auto* group : {"/model/", "/optimizer/exp_avg/", "/optimizer/exp_avg_sq/"})
        for (const shard::FlatUnit& unit : units)
            for (const shard::PlacedTensor& tensor : unit.tensors())
                datasets.push_back({group + tensor.spec.name, tensor.spec.shape});
    return datasets;
}

std::optional<Failure> check_datasets(const std::filesystem::path& file, const StateFile& state,
                                      const std::vector<shard::FlatUnit>& units) {
    for (const DatasetSpec& wanted : all_datasets(units)) {
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
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        const shard::Range mine = zero.own_range(unit);
        const int64_t before = mine.begin - zero.shard(unit).range.begin;
        for (const shard::TensorPiece& piece : zero.units()[unit].pieces(mine)) {
            for (const Kind& kind : kinds_of(zero, optimizer, unit)) {
                const std::string name = kind.group + piece.tensor->spec.name;
                const int64_t offset =
                    layout.datasets.at(name).offset + piece.first * element_bytes;
                const auto bytes = bytes_of(kind.flat, before + piece.in_range, piece.size);
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
                                   shard::Zero& zero, optim::AdamW& optimizer) {
    const auto opened = File::open(file, O_RDONLY);
    if (!opened) return opened.failure();
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        for (const shard::TensorPiece& piece : zero.units()[unit].pieces(zero.shard(unit).range)) {
            for (const Kind& kind : kinds_of(zero, optimizer, unit)) {
                const int64_t offset =
                    state.datasets.at(kind.group + piece.tensor->spec.name).offset +
                    piece.first * element_bytes;
                if (auto failure = opened.value().read_at(
                        bytes_of(kind.flat, piece.in_range, piece.size), offset))
                    return failure;
            }
        }
    }
    return std::nullopt;
}

}  // namespace ringshard::checkpoint
