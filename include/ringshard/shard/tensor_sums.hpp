#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::shard {

// Hashes of tensors that no rank holds whole: of each two sums mod 2^64 over its elements, of a mix
// of the number of the element and the bits of its fp32 value. So the order of additions, and which
// rank adds what, are nothing.
class TensorSums {
public:
    // Of these tensors; what is added of others does not count.
    explicit TensorSums(const std::set<std::string>& names);

    // Adds elements from `first` on. Every element is added by one rank.
    void add(const std::string& name, int64_t first, std::span<const float> values);

    // Returns the hash of every tensor, 32 hexadecimal digits. Collective over the group, once.
    std::map<std::string, std::string> over(const comm::Group& group) const;

private:
    struct Sums {
        uint64_t a = 0;
        uint64_t b = 0;
    };
    std::map<std::string, Sums> sums_;
};

// Returns the first tensor whose hash is another one, or missing, in `now`.
std::optional<std::string> first_changed(const std::map<std::string, std::string>& then,
                                         const std::map<std::string, std::string>& now);

// Reads elements [first, first + into.size()) of a weight as fp32.
using ReadWeight = std::function<std::optional<Failure>(const std::string& tensor, int64_t first,
                                                        std::span<float> into)>;

// Where frozen weights are read again when they are written, since they lie rounded in memory; and
// the hashes of what was read there at first.
struct FrozenSource {
    ReadWeight read;
    std::map<std::string, std::string> hashes;
};

}  // namespace ringshard::shard
