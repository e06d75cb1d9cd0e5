#include "ringshard/shard/tensor_sums.hpp"

#include <bit>
#include <iomanip>
#include <sstream>
#include <vector>

namespace ringshard::shard {

namespace {

// The last steps of splitmix64: each bit of the result depends on all bits of the value.
uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

// A double holds sums of 2^20 halves exactly.
constexpr int half_bits = 32;

void append_halves(std::vector<double>& halves, uint64_t sum) {
    halves.push_back(static_cast<double>(sum >> half_bits));
    halves.push_back(static_cast<double>(sum & 0xffffffffU));
}

uint64_t join_halves(double high, double low) {
    return (static_cast<uint64_t>(high) << half_bits) + static_cast<uint64_t>(low);
}

}  // namespace

TensorSums::TensorSums(const std::set<std::string>& names) {
    for (const std::string& name : names) sums_[name] = {};
}

void TensorSums::add(const std::string& name, int64_t first, std::span<const float> values) {
    const auto found = sums_.find(name);
    if (found == sums_.end()) return;
    auto [a, b] = found->second;
    auto element = static_cast<uint64_t>(first);
    for (const float value : values) {
        constexpr uint64_t golden = 0x9e3779b97f4a7c15U;
        const uint64_t bits = std::bit_cast<uint32_t>(value);
        const uint64_t mix = mixed(++element * golden ^ mixed(bits + golden));
        a += mix;
        b += (mix ^ (mix >> 29)) * 0xd6e8feb86659fd93U;
    }
    found->second = {a, b};
}

std::optional<std::string> first_changed(const std::map<std::string, std::string>& then,
                                         const std::map<std::string, std::string>& now) {
    for (const auto& [name, hash] : then) {
        const auto found = now.find(name);
        if (found == now.end() || found->second != hash) return name;
    }
    return std::nullopt;
}

std::map<std::string, std::string> TensorSums::over(const comm::Group& group) const {
    if (sums_.empty()) return {};
    std::vector<double> halves;
    for (const auto& [name, sums] : sums_) {
        append_halves(halves, sums.a);
        append_halves(halves, sums.b);
    }
    halves = group.sum(std::move(halves));
    std::map<std::string, std::string> hashes;
    size_t at = 0;
    for (const auto& [name, ignored] : sums_) {
        std::ostringstream digits;
        digits << std::hex << std::setfill('0') << std::setw(16)
               << join_halves(halves[at], halves[at + 1]) << std::setw(16)
               << join_halves(halves[at + 2], halves[at + 3]);
        hashes[name] = digits.str();
        at += 4;
    }
    return hashes;
}

}  // namespace ringshard::shard
