#include "ringshard/hub/tied_head.hpp"

#include <algorithm>

#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::hub {

namespace {

constexpr int64_t compared_elements = int64_t{1} << 20;  // compared at a time

const StoredTensor* find_weight(const StoredModel& stored, const std::string& name) {
    return stored.find(name + ".weight");
}

}  // namespace

bool holds_head_and_embedding(const StoredModel& stored, const model::ParameterNames& names) {
    return find_weight(stored, names.embedding) != nullptr &&
           find_weight(stored, names.head) != nullptr;
}

Expected<bool> is_head_the_embedding(const StoredModel& stored, const model::ParameterNames& names,
                                     int64_t part, int64_t num_parts) {
    const StoredTensor& embedding = *find_weight(stored, names.embedding);
    const StoredTensor& head = *find_weight(stored, names.head);
    if (embedding.shape != head.shape) return false;
    int64_t size = 1;
    for (const int64_t length : embedding.shape) size *= length;
    const shard::Range range = shard::part_of(size, part, num_parts);
    std::vector<float> of_embedding;
    std::vector<float> of_head;
    for (int64_t begin = range.begin; begin < range.end; begin += compared_elements) {
        const auto count = static_cast<size_t>(std::min(compared_elements, range.end - begin));
        of_embedding.resize(count);
        of_head.resize(count);
        if (auto failure = stored.read(embedding, begin, of_embedding)) return *failure;
        if (auto failure = stored.read(head, begin, of_head)) return *failure;
        if (of_embedding != of_head) return false;
    }
    return true;
}

}  // namespace ringshard::hub
