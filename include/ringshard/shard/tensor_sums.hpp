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

// Hashes of tensors that no rank holds whole: two sums mod 2^64 over the elements of each, of a mix
// of the number of the element and the bits of its fp32 value. The hash does not depend on the
// order of additions, nor on which rank adds which element.
class TensorSums {
public:
    // Hashes the tensors of these names, and ignores others.
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

// Returns the first tensor whose hash differs, or is missing, in `now`.
std::optional<std::string> first_changed(const std::map<std::string, std::string>& then,
                                         const std::map<std::string, std::string>& now);

// Reads elements [first, first + into.size()) of a weight as fp32.
using ReadWeight = std::function<std::optional<Failure>(const std::string& tensor, int64_t first,
                                                        std::span<float> into)>;

// Reads frozen weights again for a written model, since memory holds them rounded, and has the
// hashes of the values that the run read at its start.
struct FrozenSource {
    ReadWeight read;
    std::map<std::string, std::string> hashes;
};

}  // namespace ringshard::shard
