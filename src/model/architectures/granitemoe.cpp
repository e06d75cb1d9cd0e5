#include "common.hpp"

namespace ringshard::model {

// Granite with experts in place of the MLP; the files hold those of a block as one tensor.
ModelSpec read_granitemoe(ConfigReader& config) {
    ModelSpec spec = read_granite(config);
    ExpertsSpec experts = read_experts(
        config, spec,
        {.count = 8, .per_token = 2, .intermediate_name = "intermediate_size", .aux_loss = 0.001});
    // The softmax of the chosen logits is that of all, to the sum 1.
    experts.routing.normalises = true;
    experts.tensors = ExpertTensors::stacked;
    experts.router = "block_sparse_moe.router.layer";
    experts.experts = "block_sparse_moe";
    experts.up = "input_linear.weight";
    experts.down = "output_linear.weight";
    for (BlockSpec& block : spec.blocks) block.experts = experts;
    return spec;
}

}  // namespace ringshard::model
