#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "array_file_format.hpp"
#include "ringshard/base/shared_file.hpp"

namespace ringshard::data {

namespace {

constexpr uint64_t round_up(uint64_t bytes) {
    return (bytes + array_alignment - 1) / array_alignment * array_alignment;
}

void put(std::string& table, uint64_t number) {
    table.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
void put(std::string& table, const std::string& text) {
    put(table, text.size());
    table += text;
}

std::string make_table(const std::string& about, const ArrayLayout& layout, uint64_t chunk_sum) {
    std::string table;
    put(table, about);
    put(table, layout.chunks_offset);
    put(table, layout.num_chunks);
    put(table, chunk_sum);
    put(table, layout.arrays.size());
    for (const ArrayPlace& array : layout.arrays) {
        put(table, array.name);
        put(table, array.bytes);
        put(table, array.offset);
    }
    return table;
}

}  // namespace

ArrayLayout::ArrayLayout(std::vector<ArrayPlace> of_arrays, uint64_t of_chunks)
    : arrays(std::move(of_arrays)), num_chunks(of_chunks) {
    uint64_t offset = round_up(sizeof(HeadStart));
    for (ArrayPlace& array : arrays) {
        array.offset = offset;
        offset = round_up(offset + array.bytes);
    }
    chunks_offset = offset;
}

Expected<ArrayFileWriter> ArrayFileWriter::begin(const std::filesystem::path& file,
                                                 ArrayLayout layout) {
    auto opened = File::open(file, O_WRONLY | O_CREAT | O_TRUNC);
    if (!opened) return opened.failure();
    if (truncate(file.c_str(), static_cast<off_t>(layout.table_offset())) != 0)
        return io_failure(file, "cannot be made as large as the data");
    return ArrayFileWriter(std::move(opened).value(), std::move(layout));
}

Expected<ArrayFileWriter> ArrayFileWriter::join(const std::filesystem::path& file,
                                                ArrayLayout layout) {
    auto opened = open_when_visible(file, O_WRONLY);
    if (!opened) return opened.failure();
    return ArrayFileWriter(std::move(opened).value(), std::move(layout));
}

std::optional<Failure> ArrayFileWriter::write(const std::string& array, uint64_t at,
                                              std::span<const std::byte> bytes) {
    const auto place = std::ranges::find(layout_.arrays, array, &ArrayPlace::name);
    RINGSHARD_CHECK(place != layout_.arrays.end() && at + bytes.size() <= place->bytes, "{}",
                    array);
    const uint64_t offset = place->offset + at;
    for (size_t done = 0; done < bytes.size(); done += largest_chunk) {
        const auto part = bytes.subspan(done, std::min(bytes.size() - done, largest_chunk));
        chunks_.push_back({offset + done, part.size(), XXH3_64bits(part.data(), part.size())});
        chunk_sum_ += summand_of(chunks_.back());
    }
    return file_.write_at(bytes, static_cast<int64_t>(offset));
}

std::optional<Failure> ArrayFileWriter::finish_part(uint64_t first_chunk) {
    RINGSHARD_CHECK(first_chunk + chunks_.size() <= layout_.num_chunks, "more chunks than planned");
    const uint64_t place = layout_.chunks_offset + first_chunk * sizeof(Chunk);
    if (auto failure =
            file_.write_at(std::as_bytes(std::span(chunks_)), static_cast<int64_t>(place)))
        return failure;
    return file_.flush();
}

std::optional<Failure> ArrayFileWriter::write_head(const std::string& about,
                                                   uint64_t total_chunk_sum) {
    const std::string table = make_table(about, layout_, total_chunk_sum);
    HeadStart start{.table_offset = layout_.table_offset(),
                    .file_bytes = layout_.table_offset() + table.size()};
    start.hash = hash_of_table(table, start);
    if (auto failure = file_.write_at(std::as_bytes(std::span(table)),
                                      static_cast<int64_t>(start.table_offset)))
        return failure;
    if (auto failure = file_.write_at(std::as_bytes(std::span(&start, 1)), 0)) return failure;
    return file_.flush();
}

std::optional<Failure> write_array_file(const std::filesystem::path& file, const std::string& about,
                                        std::span<const NamedBytes> arrays) {
    std::vector<ArrayPlace> places;
    uint64_t num_chunks = 0;
    for (const NamedBytes& array : arrays) {
        places.push_back({array.name, array.bytes.size()});
        num_chunks += chunks_of(array.bytes.size());
    }
    auto writer = ArrayFileWriter::begin(file, ArrayLayout(std::move(places), num_chunks));
    if (!writer) return writer.failure();
    for (const NamedBytes& array : arrays)
        if (auto failure = writer.value().write(array.name, 0, array.bytes)) return failure;
    if (auto failure = writer.value().finish_part(0)) return failure;
    return writer.value().write_head(about, writer.value().chunk_sum());
}

}  // namespace ringshard::data
