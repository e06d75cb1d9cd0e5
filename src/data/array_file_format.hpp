#pragma once

#include <xxhash.h>

#include <array>
#include <string_view>

#include "ringshard/data/array_file.hpp"

namespace ringshard::data {

// The first bytes of a file; numbers have this machine's byte order. The table is at the end, so
// that the offsets of arrays do not depend on the text about the file, which only one writer has.
struct HeadStart {
    std::array<char, 8> magic{'r', 's', 'd', 'a', 't', 'a', '0', '2'};
    uint64_t table_offset = 0;
    uint64_t file_bytes = 0;
    uint64_t hash = 0;  // of the table and of the two numbers above
};

inline uint64_t hash_of_table(std::string_view table, const HeadStart& start) {
    const std::array numbers{start.table_offset, start.file_bytes};
    return XXH3_64bits_withSeed(table.data(), table.size(),
                                XXH3_64bits(numbers.data(), sizeof(numbers)));
}

// Returns a hash for a sum over chunks in any order: a chunk's offset is part of the hash.
inline uint64_t summand_of(const Chunk& chunk) { return XXH3_64bits(&chunk, sizeof(chunk)); }

constexpr uint64_t array_alignment = 64;

}  // namespace ringshard::data
