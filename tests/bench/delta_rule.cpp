// bench_delta_rule TOKENS KEY_HEADS VALUE_HEADS HEAD_DIM THREADS REPETITIONS RULE: the gated delta
// rule over one document, forward and backward. RULE: 0, or 1 with a decay for each row of a state.
// Prints the seconds of each repetition after the first.
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include <iostream>

#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/device/host_memory.hpp"
#include "ringshard/ops/delta_rule.hpp"

using namespace ringshard;

int main(int argc, char** argv) {
    RINGSHARD_CHECK(
        argc == 8,
        "bench_delta_rule TOKENS KEY_HEADS VALUE_HEADS HEAD_DIM THREADS REPETITIONS RULE");
    const auto number = [&](int i) { return read_whole_number(argv[i]).value(); };
    const int64_t tokens = number(1);
    const int64_t value_heads = number(3);
    const int64_t width = number(4);
    at::set_num_threads(static_cast<int>(number(5)));
    const c10::InferenceMode no_autograd;
    device::keep_host_memory();
    const auto rule = number(7) == 1 ? ops::StateRule::delta_by_row : ops::StateRule::delta;
    const int64_t decays = rule == ops::StateRule::delta_by_row ? width : 1;
    const ops::DeltaHeads heads{
        at::randn({tokens, number(2), width}),   at::randn({tokens, number(2), width}),
        at::randn({tokens, value_heads, width}), at::rand({tokens, value_heads, decays}).mul_(-0.1),
        at::rand({tokens, value_heads}),         rule};
    const ops::DeltaHeads gradients{at::empty_like(heads.q), at::empty_like(heads.k),
                                    at::empty_like(heads.v), at::empty_like(heads.log_decay),
                                    at::empty_like(heads.beta)};
    const std::vector<ops::Stretch> all{{0, tokens}};
    const at::Tensor d_out = at::randn(heads.v.sizes());
    for (int64_t repetition = 0; repetition <= number(6); ++repetition) {
        const Timer timer;
        const at::Tensor between = ops::make_between(heads, all);
        ops::delta_rule(heads, all, {{}, {}, between});
        const double forward = timer.seconds();
        ops::delta_rule_backward(heads, all, {{}, {}, between}, d_out, gradients);
        if (repetition > 0)
            std::cout << format_text("{{\"forward\": {}, \"both\": {}}}\n", forward,
                                     timer.seconds());
    }
}
