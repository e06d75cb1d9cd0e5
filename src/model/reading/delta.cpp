#include "common.hpp"

namespace ringshard::model {

attention::DeltaSizes read_delta_sizes(ConfigReader& config, const attention::DeltaSizes& usual) {
    attention::DeltaSizes sizes = usual;
    sizes.key_heads = config.whole_number_or("linear_num_key_heads", widest, usual.key_heads);
    sizes.value_heads = config.whole_number_or("linear_num_value_heads", widest, usual.value_heads);
    sizes.key_dim = config.whole_number_or("linear_key_head_dim", widest, usual.key_dim);
    sizes.value_dim = config.whole_number_or("linear_value_head_dim", widest, usual.value_dim);
    if (sizes.value_heads % sizes.key_heads != 0)
        config.complain(format_text(
            "linear_num_value_heads = {}: must be a multiple of linear_num_key_heads = {}",
            sizes.value_heads, sizes.key_heads));
    if (sizes.key_dim > widest / sizes.key_heads || sizes.value_dim > widest / sizes.value_heads)
        config.complain("linear_key_head_dim, linear_value_head_dim: are wider than any model");
    check_taps(config, "linear_conv_kernel_dim",
               config.whole_number_or("linear_conv_kernel_dim", widest, 4));
    return sizes;
}

attention::DeltaSizes square_states(ConfigReader& config, const char* name, int64_t heads,
                                    int64_t dim) {
    if (dim > widest / heads)
        config.complain(format_text("{} = {}: heads are wider than any model", name, dim));
    return {.key_heads = heads,
            .value_heads = heads,
            .key_dim = dim,
            .value_dim = dim,
            .rule = ops::StateRule::delta_by_row};
}

void check_taps(ConfigReader& config, const char* name, int64_t taps) {
    constexpr int64_t served = attention::rows_before + 1;
    if (taps != served) config.complain(format_text("{} = {}: must be {}", name, taps, served));
}

std::vector<bool> read_grouped_states(ConfigReader& config, size_t num_blocks, int64_t group) {
    if (config.has("layer_types")) return read_state_layers(config, "layer_types", num_blocks);
    std::vector<bool> has_state(num_blocks);
    for (size_t block = 0; block < num_blocks; ++block)
        has_state[block] = (block + 1) % static_cast<size_t>(group) != 0;
    return has_state;
}

}  // namespace ringshard::model
