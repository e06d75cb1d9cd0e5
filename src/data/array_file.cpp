#include "ringshard/data/array_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ringshard::data {

namespace {

// The head, all numbers as this machine keeps them: magic, length of the head, length of the file,
// hash of the rest of the head; then the text about the file and the table of arrays.
struct HeadStart {
    std::array<char, 8> magic{'r', 's', 'd', 'a', 't', 'a', '0', '1'};
    uint64_t head_bytes = 0;
    uint64_t file_bytes = 0;
    uint64_t hash = 0;
};

constexpr uint64_t round_up(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

void put(std::string& head, uint64_t number) {
    head.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
void put(std::string& head, const std::string& text) {
    put(head, text.size());
    head += text;
}

// Reads what put() wrote; goes to `is_broken` instead of past the end.
class HeadReader {
public:
    explicit HeadReader(std::string_view head) : rest_(head) {}
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

// Sets the offsets, and returns the head with its start.
std::string make_head(const std::string& about, std::vector<ArrayPlace>& arrays) {
    uint64_t table = 2 * sizeof(uint64_t) + about.size();
    for (const ArrayPlace& array : arrays) table += 3 * sizeof(uint64_t) + array.name.size();
    HeadStart start{.head_bytes = sizeof(HeadStart) + table};
    uint64_t offset = round_up(start.head_bytes);
    std::string rest;
    put(rest, about);
    put(rest, arrays.size());
    for (ArrayPlace& array : arrays) {
        array.offset = offset;
        offset = round_up(offset + array.bytes);
        put(rest, array.name);
        put(rest, array.bytes);
        put(rest, array.offset);
    }
    start.file_bytes = offset;
    start.hash = XXH3_64bits(rest.data(), rest.size());
    return std::string(reinterpret_cast<const char*>(&start), sizeof(start)) + rest;
}

struct Unmap {
    size_t bytes;
    void operator()(const std::byte* address) const {
        munmap(const_cast<std::byte*>(address), bytes);
    }
};

}  // namespace

Expected<ArrayFileWriter> ArrayFileWriter::open(const std::filesystem::path& file,
                                                const std::string& about,
                                                std::vector<ArrayPlace> arrays, bool writes_head) {
    auto opened = File::open(file, O_WRONLY | O_CREAT);
    if (!opened) return opened.failure();
    const std::string head = make_head(about, arrays);
    if (writes_head) {
        HeadStart start;
        std::memcpy(&start, head.data(), sizeof(start));
        if (truncate(file.c_str(), static_cast<off_t>(start.file_bytes)) != 0)
            return io_failure(file, "cannot be made as large as the data");
        if (const auto failure = opened.value().write_at(std::as_bytes(std::span(head)), 0))
            return *failure;
    }
    return ArrayFileWriter(std::move(opened).value(), std::move(arrays));
}

std::optional<Failure> ArrayFileWriter::write(const std::string& array, uint64_t at,
                                              std::span<const std::byte> bytes) {
    const auto place = std::ranges::find(arrays_, array, &ArrayPlace::name);
    RINGSHARD_CHECK(place != arrays_.end() && at + bytes.size() <= place->bytes, array);
    return file_.write_at(bytes, static_cast<int64_t>(place->offset + at));
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
                       concat(file.string(), ": cannot be mapped: ", std::strerror(why))};

    ArrayFile mapped;
    mapped.mapping_ = {static_cast<const std::byte*>(address), Unmap{size}};
    HeadStart start;
    std::memcpy(&start, address, sizeof(start));
    if (start.magic != HeadStart().magic)
        return refuse(" is no prepared data of this version of the program");
    if (start.file_bytes != size || start.head_bytes > size || start.head_bytes < sizeof(HeadStart))
        return refuse(" is not whole: it has another size than its head says");
    const std::string_view rest(static_cast<const char*>(address) + sizeof(start),
                                start.head_bytes - sizeof(start));
    if (start.hash != XXH3_64bits(rest.data(), rest.size()))
        return refuse(" is damaged: its head has another hash");
    HeadReader reader(rest);
    mapped.about_ = reader.text();
    for (uint64_t left = reader.number(); left > 0 && !reader.is_broken; --left) {
        ArrayPlace place;
        place.name = reader.text();
        place.bytes = reader.number();
        place.offset = reader.number();
        if (place.offset > size || place.bytes > size - place.offset) reader.is_broken = true;
        mapped.arrays_.push_back(std::move(place));
    }
    if (reader.is_broken) return refuse(" is damaged: its table of arrays does not fit");
    return mapped;
}

bool ArrayFile::has(const std::string& name) const {
    return std::ranges::find(arrays_, name, &ArrayPlace::name) != arrays_.end();
}

std::span<const std::byte> ArrayFile::bytes_of(const std::string& name) const {
    const auto place = std::ranges::find(arrays_, name, &ArrayPlace::name);
    if (place == arrays_.end()) return {};
    return {mapping_.get() + place->offset, place->bytes};
}

}  // namespace ringshard::data
