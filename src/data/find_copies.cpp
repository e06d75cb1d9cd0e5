#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>

#include "ringshard/data/plan_rows.hpp"

namespace ringshard::data {

namespace {

struct Content {
    std::array<uint64_t, 2> hash;
    int64_t sample;
    auto operator<=>(const Content&) const = default;
};

// Hashes the tokens, their labels and weights, and the lengths of the documents.
std::array<uint64_t, 2> hash_sample(const TokenStore& store, int64_t number,
                                    std::vector<int32_t>& bytes) {
    const uint64_t begin = store.sample(number).begin;
    bytes.clear();
    for (uint64_t place = begin; place < begin + store.length(number); ++place) {
        bytes.push_back(store.token(place));
        bytes.push_back(store.label(place));
        bytes.push_back(std::bit_cast<int32_t>(store.weight(place)));
    }
    for (const uint32_t length : store.documents(number))
        bytes.push_back(static_cast<int32_t>(length));
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size() * sizeof(int32_t));
    return {hash.high64, hash.low64};
}

}  // namespace

std::vector<bool> find_copies(const TokenStore& store) {
    std::vector<Content> contents;
    contents.reserve(static_cast<size_t>(store.size()));
    std::vector<int32_t> bytes;
    for (int64_t number = 0; number < store.size(); ++number)
        contents.push_back({hash_sample(store, number, bytes), number});
    std::ranges::sort(contents);
    std::vector<bool> is_copy(contents.size());
    for (size_t i = 1; i < contents.size(); ++i)
        if (contents[i].hash == contents[i - 1].hash)
            is_copy[static_cast<size_t>(contents[i].sample)] = true;
    return is_copy;
}

}  // namespace ringshard::data
