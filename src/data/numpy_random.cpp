#include "numpy_random.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

namespace ringshard::data {

namespace {

// NumPy's SeedSequence for one whole number: hashes a seed into words for a generator.
class SeedSequence {
public:
    explicit SeedSequence(uint64_t seed) {
        uint32_t constant = 0x43b0d7e5;
        const auto hash = [&constant](uint32_t value) {
            value ^= constant;
            constant *= 0x931e8875;
            value *= constant;
            return value ^ (value >> 16U);
        };
        pool_ = {hash(static_cast<uint32_t>(seed)), hash(static_cast<uint32_t>(seed >> 32U)),
                 hash(0), hash(0)};
        for (std::size_t from = 0; from < pool_.size(); ++from)
            for (std::size_t to = 0; to < pool_.size(); ++to)
                if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
    }

    // Returns four words for the generator's state and increment.
    std::array<uint64_t, 4> words() const {
        std::array<uint64_t, 4> words{};
        uint32_t constant = 0x8b51f9dd;
        for (std::size_t half = 0; half < 8; ++half) {
            uint32_t value = pool_[half % pool_.size()] ^ constant;
            constant *= 0x58f38ded;
            value *= constant;
            value ^= value >> 16U;
            words[half / 2] |= uint64_t{value} << (half % 2 * 32U);
        }
        return words;
    }

private:
    static uint32_t mix(uint32_t x, uint32_t y) {
        const uint32_t mixed = 0xca01f9ddU * x - 0x4973f715U * y;
        return mixed ^ (mixed >> 16U);
    }
    std::array<uint32_t, 4> pool_{};
};

// PCG64: a 128-bit linear congruential generator with output XSL-RR.
class Pcg64 {
    __extension__ using Wide = unsigned __int128;

public:
    explicit Pcg64(uint64_t seed) {
        const auto words = SeedSequence(seed).words();
        const Wide start = Wide{words[0]} << 64U | words[1];
        increment_ = (Wide{words[2]} << 64U | words[3]) << 1U | 1U;
        advance();
        state_ += start;
        advance();
    }

    // Draws uniformly from 0 to `last`, inclusive, like NumPy: masks draws to the bits of `last`
    // until one is small enough.
    uint64_t up_to(uint64_t last) {
        if (last == 0) return 0;
        const uint64_t mask = UINT64_MAX >> static_cast<unsigned>(std::countl_zero(last));
        uint64_t draw = 0;
        do {
            draw = (last <= UINT32_MAX ? next32() : next64()) & mask;
        } while (draw > last);
        return draw;
    }

    // Draws uniformly from [0, 1).
    double share() { return static_cast<double>(next64() >> 11U) * 0x1p-53; }

private:
    void advance() {
        constexpr Wide factor = Wide{0x2360ED051FC65DA4} << 64U | 0x4385DF649FCCF645;
        state_ = state_ * factor + increment_;
    }
    uint64_t next64() {
        advance();
        const auto folded = static_cast<uint64_t>(state_ >> 64U) ^ static_cast<uint64_t>(state_);
        const auto turn = static_cast<unsigned>(state_ >> 122U);
        return folded >> turn | folded << ((64U - turn) & 63U);
    }
    // Returns half a draw and keeps the upper half for the next call.
    uint32_t next32() {
        if (std::exchange(has_half_, !has_half_)) return half_;
        const uint64_t draw = next64();
        half_ = static_cast<uint32_t>(draw >> 32U);
        return static_cast<uint32_t>(draw);
    }
    Wide state_ = 0;
    Wide increment_ = 0;
    bool has_half_ = false;
    uint32_t half_ = 0;
};

template <class T>
void shuffle(uint64_t seed, std::span<T> items) {
    Pcg64 random(seed);
    for (std::size_t i = items.size(); i-- > 1;) std::swap(items[i], items[random.up_to(i)]);
}

}  // namespace

void numpy_shuffle(uint64_t seed, std::span<int64_t> items) { shuffle(seed, items); }

void numpy_shuffle(uint64_t seed, std::span<Piece> items) { shuffle(seed, items); }

std::vector<int64_t> numpy_permutation(uint64_t seed, int64_t size) {
    std::vector<int64_t> order(static_cast<std::size_t>(size));
    std::iota(order.begin(), order.end(), int64_t{0});
    shuffle(seed, std::span(order));
    return order;
}

struct NumpyChoice::State {
    Pcg64 random;
    std::vector<double> ends;  // cumulative shares
};

NumpyChoice::NumpyChoice(uint64_t seed, std::span<const double> shares)
    : state_(std::make_unique<State>(State{Pcg64(seed), {}})) {
    std::vector<double>& ends = state_->ends;
    ends.resize(shares.size());
    std::partial_sum(shares.begin(), shares.end(), ends.begin());
    const double sum = ends.back();
    for (double& end : ends) end /= sum;
}
NumpyChoice::~NumpyChoice() = default;

std::size_t NumpyChoice::next() {
    const std::vector<double>& ends = state_->ends;
    return static_cast<std::size_t>(std::ranges::upper_bound(ends, state_->random.share()) -
                                    ends.begin());
}

}  // namespace ringshard::data
