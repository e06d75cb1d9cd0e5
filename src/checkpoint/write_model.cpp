#include "write_model.hpp"

#include <fcntl.h>

#include <algorithm>

#include "direct_file.hpp"
#include "ringshard/base/files.hpp"

namespace ringshard::checkpoint {

bool is_copy_of_weights(const std::string& file_name) {
    return file_name.find(".safetensors") != std::string::npos;
}

std::optional<Failure> lay_out_model(const std::filesystem::path& folder,
                                     const std::vector<ModelFile>& files) {
    for (const ModelFile& file : files) {
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
                                   SlotReader& slots, DirectFile& file, ByteCounter& written) {
    std::optional<Failure> failure;
    const int64_t element = bytes_of(type);
    const int64_t at_once = DirectFile::part_bytes / element;
    piece.for_numbers(slots, [&](const at::Tensor& numbers) {
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

}  // namespace

std::optional<Failure> write_model(const std::filesystem::path& folder,
                                   const std::vector<ModelFile>& files,
                                   const std::vector<OwnPiece>& pieces, Faults& faults,
                                   ByteCounter& written) {
    SlotReader slots;
    for (const ModelFile& model : files) {
        std::optional<DirectFile> file;  // of those in which this rank has something
        for (const OwnPiece& piece : pieces) {
            const auto place = model.offsets.find(piece.dataset);
            if (place == model.offsets.end()) continue;
            if (!file) {
                auto opened = DirectFile::open(folder / model.name);
                if (!opened) return opened.failure();
                file.emplace(std::move(opened).value());
            }
            if (auto fault = faults.reach("save:model", folder / model.name)) return fault;
            const int64_t offset = place->second + piece.first * bytes_of(model.type);
            if (auto failure = write_piece(piece, model.type, offset, slots, *file, written))
                return failure;
        }
        if (file)
            if (auto failure = file->flush()) return failure;
    }
    return std::nullopt;
}

}  // namespace ringshard::checkpoint
