#include "compare.hpp"

using namespace ringshard::ops::gpu;

namespace ringshard::test {

namespace {

template <class T>
void loss(int64_t vocabulary, float smoothing, bool times_probability) {
    constexpr int64_t tokens = 2;
    compare(named<T>("cross_entropy", vocabulary), [&](const Queue& queue, Memory& memory) {
        cross_entropy(queue, {.type = number_type<T>,
                              .logits = memory.numbers<T>(tokens * vocabulary, 3),
                              .targets = memory.values<int64_t>({1, vocabulary - 1}),
                              .weights = memory.numbers<float>(tokens),
                              .token_stats = memory.unset<float>(tokens * 3),
                              .tokens = tokens,
                              .vocabulary = vocabulary,
                              .writes_gradient = true,
                              .gradient_scale = 0.5F,
                              .times_probability = times_probability,
                              .smoothing = smoothing});
    });
}

}  // namespace

// Fewer packs than threads, and more.
void loss_cases(Part part) {
    loss<bf16>(520, 0.1F, false);
    if (part == Part::some) return;
    loss<bf16>(17000, 0, true);
    loss<float>(37, 0.1F, true);
    loss<float>(5000, 0, false);
}

}  // namespace ringshard::test
