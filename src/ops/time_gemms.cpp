#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "gemm_backends.hpp"
#include "ringshard/base/timer.hpp"

namespace ringshard::ops {

namespace {

// Below that calls cost as much as products, and a timing depends more on the moment than on
// the library.
constexpr int64_t smallest_weight = int64_t{1} << 18;
// Times a corner of larger weights in place of the whole, so that a large model takes no longer to
// start.
constexpr int64_t longest_timed_side = 768;
constexpr int64_t rows = 128;
constexpr int rounds = 4;  // the first one compiles and meets cold memory

// One product of a kind, on numbers of its own.
class Sample {
public:
    explicit Sample(const GemmKind& kind)
        : pass_(kind.pass),
          x_(numbers(rows, std::min(kind.in, longest_timed_side), kind.type)),
          weight_(numbers(std::min(kind.out, longest_timed_side), x_.size(1), kind.type)),
          dy_(numbers(rows, weight_.size(0), kind.type)),
          result_(result()) {}

    double seconds(GemmBackend& backend) const {
        const Timer timer;
        switch (pass_) {
            case GemmPass::forward: backend.multiply(result_, x_, weight_.t(), {}); break;
            case GemmPass::input_gradient: backend.multiply(result_, dy_, weight_, {}); break;
            case GemmPass::weight_gradient: backend.add_product(result_, dy_.t(), x_); break;
        }
        return timer.seconds();
    }

private:
    static at::Tensor numbers(int64_t height, int64_t width, at::ScalarType type) {
        return at::full({height, width}, 0.01, at::TensorOptions(type));
    }
    at::Tensor result() const {
        if (pass_ == GemmPass::forward) return at::empty_like(dy_);
        if (pass_ == GemmPass::input_gradient) return at::empty_like(x_);
        return at::zeros(weight_.sizes(), at::TensorOptions(at::kFloat));
    }

    GemmPass pass_;
    at::Tensor x_;
    at::Tensor weight_;
    at::Tensor dy_;
    at::Tensor result_;
};

// Candidates take turns, and the shortest time of each counts: others may use the host meanwhile.
GemmBackend* fastest(const Gemms& gemms, const GemmKind& kind) {
    const std::vector<GemmBackend*> candidates = gemms.candidates(kind);
    const Sample sample(kind);
    std::map<GemmBackend*, double> shortest;
    for (int round = 0; round < rounds; ++round)
        for (GemmBackend* backend : candidates) {
            const double seconds = sample.seconds(*backend);
            const auto [place, is_first] = shortest.emplace(backend, seconds);
            if (!is_first) place->second = std::min(place->second, seconds);
        }
    constexpr double enough_gain = 0.8;
    GemmBackend* best = &gemms.by_rule(kind);
    double to_beat = enough_gain * shortest.at(best);
    for (const auto& [backend, seconds] : shortest)
        if (seconds < to_beat) {
            best = backend;
            to_beat = seconds;
        }
    return best;
}

}  // namespace

std::map<GemmKind, GemmBackend*> time_gemms(const Gemms& gemms, std::span<const GemmKind> kinds) {
    std::map<GemmKind, GemmBackend*> of_corners;
    std::map<GemmKind, GemmBackend*> best;
    for (const GemmKind& kind : kinds) {
        if (kind.out * kind.in < smallest_weight) continue;
        const GemmKind corner{kind.pass, kind.type, std::min(kind.out, longest_timed_side),
                              std::min(kind.in, longest_timed_side)};
        auto found = of_corners.find(corner);
        if (found == of_corners.end())
            found = of_corners.emplace(corner, fastest(gemms, kind)).first;
        best[kind] = found->second;
    }
    for (const auto& backend : gemms.backends()) free_product_memory(*backend);
    return best;
}

}  // namespace ringshard::ops
