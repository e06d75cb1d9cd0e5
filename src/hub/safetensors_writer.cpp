#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringshard/base/error.hpp"
#include "stored_type.hpp"

namespace ringshard::hub {

int64_t num_elements(const std::vector<int64_t>& shape) {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    return elements;
}

int64_t num_bytes(const TensorEntry& entry) {
    return num_elements(entry.shape) * static_cast<int64_t>(bytes_per_element(entry.type));
}

std::string safetensors_header(const std::vector<TensorEntry>& entries) {
    nlohmann::ordered_json list = {{"__metadata__", {{"format", "pt"}}}};
    int64_t offset = 0;
    for (const TensorEntry& entry : entries) {
        const int64_t end = offset + num_bytes(entry);
        list[entry.name] = {{"dtype", to_text(entry.type)},
                            {"shape", entry.shape},
                            {"data_offsets", {offset, end}}};
        offset = end;
    }
    std::string text = list.dump();
    text.append((8 - text.size() % 8) % 8, ' ');  // elements begin at a multiple of 8
    const uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file,
                                     std::vector<TensorEntry> entries)
    : entries_(std::move(entries)) {
    auto opened = File::open(file, O_WRONLY | O_CREAT | O_TRUNC);
    if (opened)
        output_ = std::move(opened).value();
    else
        failure_ = opened.failure();
    const std::string header = safetensors_header(entries_);
    put(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::put(std::span<const std::byte> bytes) {
    if (!failure_) failure_ = output_->write_at(bytes, end_);
    end_ += static_cast<int64_t>(bytes.size());
}

void SafetensorsWriter::write(std::span<const float> elements) {
    while (!elements.empty()) {
        RINGSHARD_CHECK(entry_ < entries_.size());
        const TensorEntry& entry = entries_[entry_];
        const int64_t left = num_elements(entry.shape) - written_of_entry_;
        const auto piece = elements.first(std::min(elements.size(), static_cast<size_t>(left)));
        put(from_fp32(entry.type, piece));
        elements = elements.subspan(piece.size());
        written_of_entry_ += static_cast<int64_t>(piece.size());
        if (written_of_entry_ == num_elements(entry.shape)) {
            ++entry_;
            written_of_entry_ = 0;
        }
    }
}

std::optional<Failure> SafetensorsWriter::close() {
    RINGSHARD_CHECK(failure_ || entry_ == entries_.size(), "not all tensors were written");
    if (!failure_) failure_ = output_->flush();
    output_.reset();
    return failure_;
}

}  // namespace ringshard::hub
