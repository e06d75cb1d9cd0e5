#include "ringshard/report/tensorboard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iomanip>

#include "ringshard/base/text.hpp"

namespace ringshard::report {

namespace {

static_assert(std::endian::native == std::endian::little, "fields are little-endian");

// --- CRC32C (Castagnoli), reflected and masked as in TFRecord files

constexpr std::array<uint32_t, 256> make_crc_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
        table[byte] = crc;
    }
    return table;
}

uint32_t masked_crc(std::string_view bytes) {
    static constexpr std::array<uint32_t, 256> table = make_crc_table();
    uint32_t crc = 0xffffffffU;
    for (const char byte : bytes)
        crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xffU] ^ (crc >> 8U);
    crc = ~crc;
    return std::rotr(crc, 15) + 0xa282ead8U;  // masked, since a CRC over data with CRCs is weak
}

// --- protobuf: the fields of Event in use

// wall_time = 1 (double), step = 2 (varint), file_version = 3 (text), summary = 5, session_log = 7.
// Summary: value = 1, repeated. Value: tag = 1 (text), simple_value = 2 (float). SessionLog: status
// = 1 (varint), where 1 is START.
enum class NumberType : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class Number>
std::string raw(Number number) {
    std::string bytes(sizeof(number), '\0');
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
}

std::string varint(uint64_t number) {
    std::string bytes;
    for (; number >= 0x80; number >>= 7U) bytes += static_cast<char>((number & 0x7fU) | 0x80U);
    return bytes + static_cast<char>(number);
}

std::string field(uint32_t number, NumberType type, const std::string& content) {
    return varint(number << 3U | static_cast<uint32_t>(type)) + content;
}
std::string bytes_field(uint32_t number, const std::string& content) {
    return field(number, NumberType::bytes, varint(content.size()) + content);
}

std::string event(double wall_time, int64_t step, const std::string& content) {
    const std::string number =
        step == 0 ? "" : field(2, NumberType::varint, varint(static_cast<uint64_t>(step)));
    return field(1, NumberType::fixed64, raw(wall_time)) + number + content;
}

}  // namespace

std::string tensorboard_tag(std::string_view key) {
    for (const std::string_view part : {"eval", "test"})
        if (key.starts_with(part) && key.substr(part.size()).starts_with('_'))
            return format_text("{}/{}", part, key.substr(part.size() + 1));
    return format_text("train/{}", key);
}

Expected<TensorBoardFile> TensorBoardFile::create(const std::filesystem::path& folder,
                                                  const std::string& host, double wall_time,
                                                  int64_t first_step) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        return Failure{ExitCode::io,
                       format_text("{} cannot be made: {}", folder.string(), error.message())};
    const auto path = folder / concat("events.out.tfevents.", std::setfill('0'), std::setw(10),
                                      static_cast<int64_t>(wall_time), ".", host, ".", getpid());
    auto opened = File::open(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (!opened) return opened.failure();
    TensorBoardFile made(path, std::move(opened).value());
    const std::string version = bytes_field(3, "brain.Event:2");
    const std::string start = bytes_field(7, field(1, NumberType::varint, varint(1)));
    if (auto failure = made.append(event(wall_time, 0, version))) return *failure;
    if (auto failure = made.append(event(wall_time, first_step, start))) return *failure;
    return made;
}

std::optional<Failure> TensorBoardFile::add(int64_t step, double wall_time,
                                            std::span<const Scalar> scalars) {
    std::string summary;
    for (const auto& [tag, value] : scalars)
        summary += bytes_field(
            1, bytes_field(1, tag) + field(2, NumberType::fixed32, raw(static_cast<float>(value))));
    return append(event(wall_time, step, bytes_field(5, summary)));
}

std::optional<Failure> TensorBoardFile::flush() { return file_.flush(); }

// A record: length, its CRC, the event, its CRC. One write, so that readers see whole records.
std::optional<Failure> TensorBoardFile::append(std::string_view event) {
    const std::string length = raw(uint64_t{event.size()});
    const std::string record =
        concat(length, raw(masked_crc(length)), event, raw(masked_crc(event)));
    if (auto failure = file_.write_at(std::as_bytes(std::span(record)), end_)) return failure;
    end_ += static_cast<int64_t>(record.size());
    return std::nullopt;
}

}  // namespace ringshard::report
