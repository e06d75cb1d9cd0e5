#pragma once

#include <cstdint>
#include <string_view>

// Random-looking bits that are a function of their input: the same in every process and layout.
namespace ringshard {

// splitmix64's finaliser.
constexpr uint64_t mix_bits(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

// The bits of the n-th number of a sequence.
constexpr uint64_t mix_bits(uint64_t sequence, uint64_t number) {
    return mix_bits(sequence + (number + 1) * 0x9e3779b97f4a7c15U);
}

// FNV-1a.
constexpr uint64_t hash_text(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return hash;
}

}  // namespace ringshard
