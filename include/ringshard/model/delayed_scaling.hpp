#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/ops/fp8.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::config {
struct TrainingSettings;
}

// Delayed scaling: in products in FP8 the scale of an input, and that of an output gradient,
// follows from the largest magnitudes that the same tensor had in earlier steps, over all ranks and
// micro-batches. So no scale depends on other tokens of its step, and all layouts have the same
// scales. A tensor whose history is empty, or has zeros alone, has a scale for each row.
namespace ringshard::model {

class DelayedScaling {
public:
    struct Options {
        ops::Fp8Format gradients;
        int64_t history_length;  // steps
        bool takes_largest;      // of the history; otherwise the newest
        int64_t margin;          // binary exponents
    };
    DelayedScaling(const ModelSpec& spec, const Options& options, at::Device device);

    // The factors of a projection that have a history.
    enum class Factor { input, output_gradient };
    // Returns a number for a factor of the projection of a block with this weight, whose product is
    // in FP8.
    size_t tensor_of(size_t block, shard::ParameterId weight, Factor factor) const;
    size_t num_tensors() const { return exponents_.size(); }

    // Returns true if a scale follows from the history: then a product takes it.
    bool has_scale(size_t tensor) const { return has_scale_[tensor]; }
    // Returns what a product takes and records of a factor. The tensors keep their addresses.
    // counted: the first rows, whose magnitudes count; 0: nothing is recorded.
    ops::DelayedScale scale_of(size_t tensor, int64_t counted) const;
    // Changes whenever has_scale() of any tensor does.
    int64_t generation() const { return generation_; }

    // Returns the magnitudes that this rank has recorded since the last call, as the bits of fp32.
    // Waits for a GPU.
    std::vector<int64_t> take_maxima() const;
    // Ends a step: adds the magnitudes of all ranks to the history. One that is not finite counts
    // as 0.
    void push(const std::vector<int64_t>& maxima);

    int64_t steps_in_history() const { return static_cast<int64_t>(history_.size()); }
    void forget();
    // The history as a text of a checkpoint.
    std::string to_text() const;
    // Takes the newest steps of such a text, as many as this history keeps. `file`: for messages.
    std::optional<Failure> load(const std::string& text, const std::string& file);

private:
    void update_scales();

    Options options_;
    std::vector<std::map<size_t, size_t>> sites_;  // of a block: of weights, in the order of blocks
    // [1] int32 each, of all tensors: the inputs and the output gradients take turns.
    at::Tensor all_exponents_;
    at::Tensor all_maxima_;
    std::vector<at::Tensor> exponents_;
    std::vector<at::Tensor> maxima_;
    std::vector<bool> has_scale_;
    std::deque<std::vector<uint16_t>> history_;  // of all tensors, as the bits of bf16; newest last
    int64_t generation_ = 0;
};

// The text of a state file that holds the history.
inline constexpr const char* fp8_history_text = "fp8_amax_history";

// Returns the options that the settings ask for; nothing with another recipe.
std::optional<DelayedScaling::Options> delayed_scaling_options(
    const config::TrainingSettings& training);

}  // namespace ringshard::model
