#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

// Fields of protobuf messages as bytes. A message is its fields one after another.
namespace ringshard::report {

static_assert(std::endian::native == std::endian::little, "fields are little-endian");

template <class Number>
std::string raw(Number number) {
    std::string bytes(sizeof(number), '\0');
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
}

inline std::string varint(uint64_t number) {
    std::string bytes;
    for (; number >= 0x80; number >>= 7U) bytes += static_cast<char>((number & 0x7fU) | 0x80U);
    return bytes + static_cast<char>(number);
}

enum class WireType : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

inline std::string field_key(uint32_t number, WireType type) {
    return varint(number << 3U | static_cast<uint32_t>(type));
}
// An integer that is not negative.
inline std::string varint_field(uint32_t number, int64_t value) {
    return field_key(number, WireType::varint) + varint(static_cast<uint64_t>(value));
}
inline std::string double_field(uint32_t number, double value) {
    return field_key(number, WireType::fixed64) + raw(value);
}
inline std::string float_field(uint32_t number, float value) {
    return field_key(number, WireType::fixed32) + raw(value);
}
// A text or a message.
inline std::string bytes_field(uint32_t number, const std::string& content) {
    return field_key(number, WireType::bytes) + varint(content.size()) + content;
}

}  // namespace ringshard::report
