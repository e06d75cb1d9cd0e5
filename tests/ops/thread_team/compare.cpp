#include "compare.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>

namespace ringshard::test {

namespace {

constexpr std::align_val_t alignment{128};

}  // namespace

void* Memory::allocate(size_t bytes, size_t bytes_before, Kind kind) {
    auto* const made = new (alignment) unsigned char[bytes_before + bytes];
    std::memset(made, 0xff, bytes_before + bytes);  // NaN
    std::shared_ptr<unsigned char> owner(
        made, [](unsigned char* memory) { ::operator delete[](memory, alignment); });
    arguments_.push_back({std::move(owner), made + bytes_before, bytes, kind});
    return made + bytes_before;
}

// Sums of uniform numbers: in [-2, 2).
float Memory::next() {
    float sum = -2;
    for (int i = 0; i < 4; ++i) {
        random_ = random_ * 1664525U + 1013904223U;
        sum += static_cast<float>(random_ >> 8) / 16777216.0F;
    }
    return sum;
}

int Memory::first_with_nan() const {
    for (size_t i = 0; i < arguments_.size(); ++i) {
        const Argument& argument = arguments_[i];
        const auto* const floats = static_cast<const float*>(argument.first);
        const auto* const halves = static_cast<const bf16*>(argument.first);
        for (size_t k = 0; argument.kind == Kind::floats && k < argument.bytes / sizeof(float); ++k)
            if (std::isnan(floats[k])) return static_cast<int>(i);
        for (size_t k = 0; argument.kind == Kind::halves && k < argument.bytes / sizeof(bf16); ++k)
            if (std::isnan(__bfloat162float(halves[k]))) return static_cast<int>(i);
    }
    return -1;
}

int Memory::first_difference(const Memory& other) const {
    for (size_t i = 0; i < arguments_.size(); ++i)
        if (arguments_[i].bytes != other.arguments_.at(i).bytes ||
            std::memcmp(arguments_[i].first, other.arguments_[i].first, arguments_[i].bytes) != 0)
            return static_cast<int>(i);
    return -1;
}

Selection& selection() {
    static Selection of_process;
    return of_process;
}

void compare(const std::string& name, const Work& work, const std::vector<size_t>& shifts) {
    Selection& chosen = selection();
    for (const size_t shift : shifts) {
        if (chosen.seen++ % chosen.of != chosen.number) continue;
        if (chosen.only_counts_launches) {
            Memory memory(shift);
            work({.on_gpu = true, .stream = nullptr}, memory);
            continue;
        }
        std::printf("%s%s\n", name.c_str(), shift == 0 ? "" : ", shifted by one element");
        std::fflush(stdout);
        Memory of_loops(shift);
        Memory of_threads(shift);
        work({.on_gpu = false, .stream = nullptr}, of_loops);
        work({.on_gpu = true, .stream = nullptr}, of_threads);
        if (const int argument = of_threads.first_with_nan(); argument >= 0)
            throw std::runtime_error("argument " + std::to_string(argument) + " holds NaN");
        if (const int argument = of_threads.first_difference(of_loops); argument >= 0)
            throw std::runtime_error("argument " + std::to_string(argument) +
                                     " is not that of the loops");
    }
}

}  // namespace ringshard::test
