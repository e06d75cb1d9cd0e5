#include "stored_type.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstring>

#include "ringshard/base/error.hpp"

namespace ringshard::model {

std::optional<StoredType> read_stored_type(std::string_view name) {
    if (name == "F32") return StoredType::fp32;
    if (name == "BF16") return StoredType::bf16;
    if (name == "F16") return StoredType::fp16;
    return std::nullopt;
}

std::string_view to_text(StoredType type) {
    return type == StoredType::fp32 ? "F32" : type == StoredType::bf16 ? "BF16" : "F16";
}

size_t bytes_per_element(StoredType type) { return type == StoredType::fp32 ? 4 : 2; }

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
    }
}

std::vector<std::byte> from_fp32(StoredType type, std::span<const float> from) {
    std::vector<std::byte> bytes(from.size() * bytes_per_element(type));
    switch (type) {
        case StoredType::fp32: convert<float>(from, bytes); break;
        case StoredType::bf16: convert<c10::BFloat16>(from, bytes); break;
        case StoredType::fp16: convert<c10::Half>(from, bytes); break;
    }
    return bytes;
}

}  // namespace ringshard::model
