#include "gpu_gemm.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <set>

#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/config/row_length.hpp"
#include "ringshard/model/operations.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/run/run_adapters.hpp"

namespace ringshard::run {

using ops::LayerProduct;

std::vector<LayerProduct> products_of_step(const config::Config& config,
                                           const model::ModelSpec& spec,
                                           const mesh::MeshShape& shape, double device_memory) {
    const int64_t rows =
        config.training.per_device_train_batch_size * config.adapter.at_a_time(spec.num_learners());
    const int64_t length = config::most_tokens_of_row(config).value_or(spec.max_positions);
    const int64_t tokens = rows * length / shape.sequence();
    const model::Chunks chunks =
        model::chunks_of(spec, at::kBFloat16, c10::DeviceType::CUDA, device_memory);
    std::set<LayerProduct> products;
    for (const auto& [out, in] : model::linear_layers(spec))
        for (const ops::GemmPass pass : ops::gemm_passes) {
            const bool is_head = out == spec.head_rows() && in == spec.width;
            products.insert({pass, is_head ? std::min(tokens, chunks.head) : tokens, out, in});
            if (!is_head && tokens > chunks.mlp) products.insert({pass, chunks.mlp, out, in});
        }
    const bool trains_layers = !asks_for_adapters(config);
    std::erase_if(products, [&](const LayerProduct& each) {
        return !is_worth_timing(each) ||
               (each.pass == ops::GemmPass::weight_gradient && !trains_layers);
    });
    return {products.begin(), products.end()};
}

namespace {

std::optional<int64_t> former_choice(const GemmTable& former, const LayerProduct& product) {
    const auto found = former.products.find(name_of(product));
    if (found == former.products.end()) return std::nullopt;
    int64_t kernel = 0;
    const char* const end = found->second.data() + found->second.size();
    const auto result = std::from_chars(found->second.data(), end, kernel);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return kernel;
}

// Of all products: the most that every rank has.
std::vector<int64_t> counts_of(const comm::Group& world, ops::ProductKernels& kernels,
                               const std::vector<LayerProduct>& products) {
    std::vector<int64_t> counts;
    for (const LayerProduct& product : products) counts.push_back(-kernels.count(product));
    counts = world.maximum(std::move(counts));
    for (int64_t& count : counts) count = -count;
    return counts;
}

}  // namespace

GemmTable choose_kernels(const comm::Group& world, ops::ProductKernels& kernels,
                         const std::vector<LayerProduct>& products, const GemmTable& former) {
    GemmTable table{kernels.gpu(), kernels.library(), 0, {}};
    const auto of_root = parse_table(world.broadcast(to_json(former)));
    const bool is_same = of_root && of_root.value().processor == table.processor &&
                         of_root.value().libraries == table.libraries;
    const bool all_are_same = world.all(is_same);
    const std::vector<int64_t> counts = counts_of(world, kernels, products);
    std::vector<std::optional<int64_t>> chosen(products.size());
    std::vector<int64_t> nanoseconds;  // of all kernels of the products that are timed
    for (size_t i = 0; i < products.size(); ++i) {
        if (all_are_same) chosen[i] = former_choice(of_root.value(), products[i]);
        if (chosen[i] && *chosen[i] >= 0 && *chosen[i] < counts[i]) continue;
        chosen[i].reset();
        for (const double seconds : time_kernels(kernels, products[i], counts[i]))
            nanoseconds.push_back(std::llround(1e9 * seconds));
    }
    nanoseconds = world.maximum(std::move(nanoseconds));
    size_t place = 0;
    for (size_t i = 0; i < products.size(); ++i) {
        if (!chosen[i]) {
            const auto begin = nanoseconds.begin() + narrow<std::ptrdiff_t>(place);
            const std::vector<double> times(begin, begin + counts[i]);
            chosen[i] = ops::fastest_kernel(times);
            place += narrow<size_t>(counts[i]);
        }
        kernels.take(products[i], *chosen[i]);
        table.products[name_of(products[i])] = concat(*chosen[i]);
    }
    return table;
}

void choose_gpu_kernels(const CommandContext& context, const Placement& placement,
                        const model::ModelSpec& spec, ChosenGemms& gemms, double device_memory) {
    const config::Config& config = context.settings.values;
    if (config.training.mixed_precision != config::Precision::bf16 || config.run.full_determinism)
        return;
    const auto kernels = ops::open_product_kernels(gemms.gemms);
    const std::vector<LayerProduct> products =
        products_of_step(config, spec, placement.shape, device_memory);
    GemmTable former;
    if (context.world.is_root()) former = former_table(config, "gpu_gemm");
    const Timer timer;
    const GemmTable table = choose_kernels(context.world, *kernels, products, former);
    if (!context.world.is_root()) return;
    const auto num_others = std::ranges::count_if(
        table.products, [](const auto& product) { return product.second != "0"; });
    std::cerr << "matrix products: " << num_others << " of " << products.size()
              << " by other kernels than " << table.libraries << " takes by itself (timed in "
              << std::llround(1e3 * timer.seconds()) << " ms)\n";
    gemms.gpu_record = to_json(table);
}

}  // namespace ringshard::run
