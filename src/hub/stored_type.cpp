#include "stored_type.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "ringshard/base/error.hpp"

namespace ringshard::hub {

namespace {

struct Named {
    StoredType type;
    std::string_view name;
    size_t bytes;
};
constexpr Named types[] = {
    {StoredType::fp32, "F32", 4},         {StoredType::bf16, "BF16", 2},
    {StoredType::fp16, "F16", 2},         {StoredType::fp8_e4m3, "F8_E4M3", 1},
    {StoredType::fp64, "F64", 8},         {StoredType::fp8_e5m2, "F8_E5M2", 1},
    {StoredType::fp8_e8m0, "F8_E8M0", 1}, {StoredType::int64, "I64", 8},
    {StoredType::uint64, "U64", 8},       {StoredType::int32, "I32", 4},
    {StoredType::uint32, "U32", 4},       {StoredType::int16, "I16", 2},
    {StoredType::uint16, "U16", 2},       {StoredType::int8, "I8", 1},
    {StoredType::uint8, "U8", 1},         {StoredType::boolean, "BOOL", 1}};

const Named& named(StoredType type) { return *std::ranges::find(types, type, &Named::type); }

}  // namespace

std::optional<StoredType> read_stored_type(std::string_view name) {
    const auto* const found = std::ranges::find(types, name, &Named::name);
    return found == std::end(types) ? std::nullopt : std::optional(found->type);
}

std::string_view to_text(StoredType type) { return named(type).name; }

size_t bytes_per_element(StoredType type) { return named(type).bytes; }

bool can_be_weight(StoredType type) { return type <= StoredType::fp16; }

namespace {

// Files promise no alignment, so elements are copied out before they are converted.
template <class Stored>
void convert(std::span<const std::byte> from, std::span<float> into) {
    for (size_t i = 0; i < into.size(); ++i) {
        Stored element{};
        std::memcpy(&element, from.data() + i * sizeof(Stored), sizeof(Stored));
        into[i] = static_cast<float>(element);
    }
}

template <class Stored>
void convert(std::span<const float> from, std::vector<std::byte>& into) {
    for (size_t i = 0; i < from.size(); ++i) {
        const Stored element(from[i]);
        std::memcpy(into.data() + i * sizeof(Stored), &element, sizeof(Stored));
    }
}

}  // namespace

void to_fp32(StoredType type, std::span<const std::byte> from, std::span<float> into) {
    RINGSHARD_CHECK(from.size() == into.size() * bytes_per_element(type));
    switch (type) {
        case StoredType::fp32:
            if (!into.empty()) std::memcpy(into.data(), from.data(), from.size());
            return;
        case StoredType::bf16: return convert<c10::BFloat16>(from, into);
        case StoredType::fp16: return convert<c10::Half>(from, into);
        case StoredType::fp8_e4m3: return convert<c10::Float8_e4m3fn>(from, into);
        default: RINGSHARD_CHECK(false, "no type of weights");
    }
}

std::vector<std::byte> from_fp32(StoredType type, std::span<const float> from) {
    std::vector<std::byte> bytes(from.size() * bytes_per_element(type));
    switch (type) {
        case StoredType::fp32: convert<float>(from, bytes); break;
        case StoredType::bf16: convert<c10::BFloat16>(from, bytes); break;
        case StoredType::fp16: convert<c10::Half>(from, bytes); break;
        default: RINGSHARD_CHECK(false, "no type in which weights are written");
    }
    return bytes;
}

void round_to(StoredType type, std::span<float> numbers) {
    if (type != StoredType::fp32) to_fp32(type, from_fp32(type, numbers), numbers);
}

}  // namespace ringshard::hub
