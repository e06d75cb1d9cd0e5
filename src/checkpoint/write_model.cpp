#include "write_model.hpp"

#include <ATen/ops/empty.h>
#include <fcntl.h>

#include <algorithm>

#include "direct_file.hpp"
#include "ringshard/base/files.hpp"

namespace ringshard::checkpoint {

bool is_copy_of_weights(const std::string& file_name) {
    return file_name.find(".safetensors") != std::string::npos;
}

std::vector<FrozenPart> frozen_parts(const shard::Zero& zero) {
    std::vector<FrozenPart> parts;
    for (const auto& [chunks, shards] : zero.frozen_weights())
        for (const auto& [unit, range] : chunks)
            for (const shard::TensorPiece& piece :
                 zero.units()[unit].pieces(intersect(zero.exclusive_range(unit), range)))
                parts.push_back({piece.tensor->spec.name, piece.first, piece.size,
                                 zero.units()[unit].placement().codec == shard::Codec::fp32});
    return parts;
}

std::optional<Failure> lay_out_model(const std::filesystem::path& folder,
                                     const std::vector<ModelFile>& files) {
    for (const ModelFile& file : files) {
        // One of several adapters has a folder of its name.
        const std::filesystem::path parent = (folder / file.name).parent_path();
        std::error_code error;
        if (!folder_exists(parent) && !std::filesystem::create_directory(parent, error))
            return Failure{ExitCode::io,
                           format_text("{} cannot be made: {}", parent.string(), error.message())};
        auto opened = File::open(folder / file.name, O_WRONLY | O_CREAT | O_TRUNC);
        if (!opened) return opened.failure();
        if (auto failure = opened.value().write_at(std::as_bytes(std::span(file.head)), 0))
            return failure;
        if (auto failure = opened.value().flush()) return failure;
    }
    return std::nullopt;
}

namespace {

std::optional<Failure> write_piece(const OwnPiece& piece, ElementType type, int64_t offset,
                                   ChunkReader& chunks, DirectFile& file, ByteCounter& written) {
    std::optional<Failure> failure;
    const int64_t element = bytes_of(type);
    const int64_t at_once = DirectFile::part_bytes / element;
    piece.for_numbers(chunks, [&](const at::Tensor& numbers) {
        for (int64_t done = 0; done < numbers.numel() && !failure; done += at_once) {
            const at::Tensor part =
                numbers.narrow(0, done, std::min(at_once, numbers.numel() - done))
                    .to(at::kCPU, type == ElementType::bf16 ? at::kBFloat16 : at::kFloat);
            failure = file.write_at({static_cast<const std::byte*>(part.data_ptr()),
                                     static_cast<size_t>(part.nbytes())},
                                    offset);
            written.add(static_cast<int64_t>(part.nbytes()));
            offset += part.numel() * element;
        }
    });
    return failure;
}

// The numbers are fp32, in the file too. `begin`: of the dataset in the file.
std::optional<Failure> write_changed(const OwnPiece& piece, const ChangeElements& change,
                                     int64_t begin, ChunkReader& chunks, DirectFile& file,
                                     ByteCounter& written) {
    std::optional<Failure> failure;
    const WriteElements write = [&](int64_t first, std::span<const float> values) {
        const auto bytes = std::as_bytes(values);
        written.add(std::ssize(bytes));
        return file.write_at(bytes, begin + first * bytes_of(ElementType::fp32));
    };
    int64_t first = piece.first;
    piece.for_numbers(chunks, [&](const at::Tensor& numbers) {
        if (failure) return;
        const at::Tensor values = numbers.to(at::kCPU, at::kFloat).contiguous();
        failure =
            change(piece.dataset, first,
                   {values.const_data_ptr<float>(), static_cast<size_t>(values.numel())}, write);
        first += values.numel();
    });
    return failure;
}

std::optional<Failure> write_frozen(const FrozenPart& part, const shard::ReadWeight& read,
                                    ElementType type, int64_t offset, shard::TensorSums& sums,
                                    DirectFile& file, ByteCounter& written) {
    const int64_t element = bytes_of(type);
    const int64_t at_once = DirectFile::part_bytes / element;
    for (int64_t done = 0; done < part.count; done += at_once) {
        const int64_t count = std::min(at_once, part.count - done);
        const at::Tensor read_again = at::empty({count}, at::TensorOptions(at::kFloat));
        const std::span<float> numbers(static_cast<float*>(read_again.data_ptr()),
                                       static_cast<size_t>(count));
        if (auto failure = read(part.tensor, part.first + done, numbers)) return failure;
        sums.add(part.tensor, part.first + done, numbers);
        const at::Tensor stored =
            read_again.to(type == ElementType::bf16 ? at::kBFloat16 : at::kFloat);
        if (auto failure = file.write_at({static_cast<const std::byte*>(stored.data_ptr()),
                                          static_cast<size_t>(stored.nbytes())},
                                         offset + done * element))
            return failure;
        written.add(count * element);
    }
    return std::nullopt;
}

std::optional<Failure> copy_bytes(const CopiedBytes& bytes, DirectFile& file,
                                  ByteCounter& written) {
    std::vector<std::byte> buffer;
    for (int64_t done = 0; done < bytes.count; done += DirectFile::part_bytes) {
        const int64_t count = std::min(DirectFile::part_bytes, bytes.count - done);
        buffer.resize(static_cast<size_t>(count));
        if (auto failure = bytes.read(done, buffer)) return failure;
        if (auto failure = file.write_at(buffer, bytes.offset + done)) return failure;
        written.add(count);
    }
    return std::nullopt;
}

}  // namespace

std::optional<Failure> write_model(const std::filesystem::path& folder, const Extras& extras,
                                   const std::vector<OwnPiece>& pieces, Faults& faults,
                                   shard::TensorSums& sums, ByteCounter& written) {
    ChunkReader chunks;
    for (const ModelFile& model : extras.model) {
        std::optional<DirectFile> file;  // opened once this rank has a part of it
        const auto open = [&]() -> std::optional<Failure> {
            if (!file) {
                auto opened = DirectFile::open(folder / model.name);
                if (!opened) return opened.failure();
                file.emplace(std::move(opened).value());
            }
            return faults.reach("save:model", folder / model.name);
        };
        // Returns the offset of these elements of a tensor; nothing if this file does not hold it.
        const auto place_of = [&](const std::string& dataset, int64_t first,
                                  ElementType type) -> Expected<std::optional<int64_t>> {
            const auto place = model.offsets.find(dataset);
            if (place == model.offsets.end()) return std::optional<int64_t>();
            if (auto failure = open()) return *failure;
            return std::optional(place->second + first * bytes_of(type));
        };
        for (const OwnPiece& piece : pieces) {
            const auto offset = place_of(piece.dataset, piece.first, model.type);
            if (!offset) return offset.failure();
            if (!offset.value()) continue;
            if (auto failure =
                    model.change
                        ? write_changed(piece, model.change, model.offsets.at(piece.dataset),
                                        chunks, *file, written)
                        : write_piece(piece, model.type, *offset.value(), chunks, *file, written))
                return failure;
        }
        for (const FrozenPart& part : extras.frozen) {
            const ElementType type = part.is_wide ? ElementType::fp32 : model.type;
            const auto offset = place_of(weights_group + part.tensor, part.first, type);
            if (!offset) return offset.failure();
            if (!offset.value()) continue;
            if (auto failure = write_frozen(part, extras.frozen_source.read, type, *offset.value(),
                                            sums, *file, written))
                return failure;
        }
        for (const CopiedBytes& bytes : model.copied) {
            if (auto failure = open()) return failure;
            if (auto failure = copy_bytes(bytes, *file, written)) return failure;
        }
        if (file)
            if (auto failure = file->flush()) return failure;
    }
    return std::nullopt;
}

}  // namespace ringshard::checkpoint
