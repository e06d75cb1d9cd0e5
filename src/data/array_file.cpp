#include "ringshard/data/array_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "array_file_format.hpp"

namespace ringshard::data {

namespace {

// Parses the table; sets `is_broken` instead of reading past the end.
class TableReader {
public:
    explicit TableReader(std::string_view table) : rest_(table) {}
    uint64_t number() {
        uint64_t value = 0;
        const std::string_view bytes = take(sizeof(value));
        std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }
    std::string text() { return std::string(take(number())); }
    bool is_broken = false;

private:
    std::string_view take(uint64_t count) {
        is_broken = is_broken || count > rest_.size();
        const std::string_view taken = is_broken ? std::string_view() : rest_.substr(0, count);
        rest_.remove_prefix(taken.size());
        return taken;
    }
    std::string_view rest_;
};

struct Unmap {
    size_t bytes;
    void operator()(const std::byte* address) const {
        munmap(const_cast<std::byte*>(address), bytes);
    }
};

bool is_inside(uint64_t offset, uint64_t bytes, uint64_t end) {
    return offset <= end && bytes <= end - offset;
}

// Requests large read-ahead, or releases pages. Mapped pages count as memory of this process from
// the first access, and the system may keep them.
void advise(const std::byte* begin, uint64_t bytes, int advice) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = std::bit_cast<uintptr_t>(begin) / page * page;
    madvise(std::bit_cast<void*>(first), std::bit_cast<uintptr_t>(begin) + bytes - first, advice);
}

}  // namespace

Failure damaged_data(const std::filesystem::path& file, const std::string& what) {
    return {ExitCode::bad_data,
            format_text("{}: {}: the file is damaged; remove it, and it is made again",
                        file.string(), what)};
}

Expected<ArrayFile> ArrayFile::map(const std::filesystem::path& file) {
    const auto refuse = [&](const char* why) {
        return Failure{ExitCode::bad_data, concat(file.string(), why)};
    };
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return io_failure(file, "cannot be opened");
    struct stat status {};
    const bool is_sized = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    const auto size = static_cast<size_t>(is_sized ? status.st_size : 0);
    void* address = size < sizeof(HeadStart)
                        ? nullptr
                        : mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    const int why = errno;
    ::close(descriptor);
    if (address == nullptr) return refuse(" is no prepared data: it is too short");
    if (address == MAP_FAILED)
        return Failure{ExitCode::io,
                       format_text("{}: cannot be mapped: {}", file.string(), std::strerror(why))};

    ArrayFile mapped;
    mapped.name_ = file;
    mapped.mapping_ = {static_cast<const std::byte*>(address), Unmap{size}};
    HeadStart start;
    std::memcpy(&start, address, sizeof(start));
    if (start.magic != HeadStart().magic)
        return refuse(" is no prepared data of this version of the program");
    if (start.file_bytes != size || !is_inside(sizeof(start), 0, start.table_offset) ||
        start.table_offset > size)
        return refuse(" is not whole: its size differs from the one in its header");
    const std::string_view table(static_cast<const char*>(address) + start.table_offset,
                                 size - start.table_offset);
    if (start.hash != hash_of_table(table, start))
        return damaged_data(file, "its head has another hash");
    TableReader reader(table);
    mapped.about_ = reader.text();
    mapped.chunks_offset_ = reader.number();
    mapped.num_chunks_ = reader.number();
    mapped.chunk_sum_ = reader.number();
    const auto is_in_place = [&](uint64_t offset, uint64_t bytes) {
        return offset % array_alignment == 0 && is_inside(offset, bytes, start.table_offset);
    };
    bool fits = mapped.num_chunks_ <= size / sizeof(Chunk) &&
                is_in_place(mapped.chunks_offset_, mapped.num_chunks_ * sizeof(Chunk));
    for (uint64_t left = reader.number(); left > 0 && !reader.is_broken; --left) {
        ArrayPlace place;
        place.name = reader.text();
        place.bytes = reader.number();
        place.offset = reader.number();
        fits = fits && is_in_place(place.offset, place.bytes);
        mapped.arrays_.push_back(std::move(place));
    }
    if (reader.is_broken || !fits) return damaged_data(file, "its table of arrays does not fit");
    return mapped;
}

Expected<uint64_t> ArrayFile::sum_checked(uint64_t first, uint64_t last) const {
    RINGSHARD_CHECK(first <= last && last <= num_chunks_);
    const std::span list(reinterpret_cast<const Chunk*>(mapping_.get() + chunks_offset_),
                         num_chunks_);
    uint64_t sum = 0;
    for (uint64_t i = first; i < last; ++i) {
        const Chunk chunk = list[i];
        if (!is_inside(chunk.offset, chunk.bytes, chunks_offset_))
            return damaged_data(name_, format_text("its list of hashes, at byte {}",
                                                   chunks_offset_ + i * sizeof(Chunk)));
        if (i + 1 < last && is_inside(list[i + 1].offset, list[i + 1].bytes, chunks_offset_))
            advise(mapping_.get() + list[i + 1].offset, list[i + 1].bytes, MADV_WILLNEED);
        const std::byte* bytes = mapping_.get() + chunk.offset;
        if (XXH3_64bits(bytes, chunk.bytes) != chunk.hash)
            return damaged_data(
                name_, format_text("the {} bytes from byte {} on are not those that were written",
                                   chunk.bytes, chunk.offset));
        advise(bytes, chunk.bytes, MADV_DONTNEED);
        sum += summand_of(chunk);
    }
    return sum;
}

const ArrayPlace* ArrayFile::find(const std::string& name) const {
    const auto place = std::ranges::find(arrays_, name, &ArrayPlace::name);
    return place == arrays_.end() ? nullptr : &*place;
}

bool ArrayFile::has(const std::string& name) const { return find(name) != nullptr; }

uint64_t ArrayFile::offset_of(const std::string& array) const {
    const ArrayPlace* place = find(array);
    return place == nullptr ? 0 : place->offset;
}

std::span<const std::byte> ArrayFile::bytes_of(const std::string& name) const {
    const ArrayPlace* place = find(name);
    if (place == nullptr) return {};
    return {mapping_.get() + place->offset, place->bytes};
}

}  // namespace ringshard::data
