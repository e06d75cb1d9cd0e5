#include "pairs.hpp"

#include "pair_loss.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/device_copies.hpp"

namespace ringshard::model {

std::vector<double> sum_sides(const TokenPairs& pairs, const at::Tensor& token_stats,
                              const mesh::Mesh& mesh) {
    std::vector<double> sums(pairs.targets.size());
    const auto* stat = token_stats.const_data_ptr<float>();
    for (const int64_t side : pairs.sides) {
        sums[static_cast<size_t>(side)] -= static_cast<double>(*stat);
        stat += token_stats.size(1);
    }
    const bool is_split = mesh.shape().ring > 1 || mesh.shape().ulysses > 1;
    if (!is_split || sums.empty()) return sums;
    const at::Tensor all = ops::on_device(sums, mesh.device());
    mesh.ring().all_reduce(all).wait();
    mesh.ulysses().all_reduce(all).wait();
    const at::Tensor read = ops::on_host(all);
    sums.assign(read.const_data_ptr<double>(), read.const_data_ptr<double>() + read.numel());
    return sums;
}

WeighedPairs weigh_pairs(const Objective& objective, const TokenPairs& pairs,
                         const at::Tensor& token_stats, const mesh::Mesh& mesh) {
    const at::Tensor read = ops::on_host(token_stats);
    const std::vector<double> scores = sum_sides(pairs, read, mesh);
    const auto side = [&](size_t number) {
        return PairSide{scores[number], pairs.reference[number], pairs.targets[number]};
    };
    std::vector<PairLoss::Value> values;
    for (size_t chosen = 0; chosen < scores.size(); chosen += 2)
        values.push_back(
            objective.pair_loss()->of(side(chosen), side(chosen + 1), pairs.mean_chosen_targets));
    std::vector<float> weights;
    std::vector<float> numbers;
    const auto* stat = read.const_data_ptr<float>();
    for (const int64_t number : pairs.sides) {
        const auto pair = static_cast<size_t>(number) / 2;
        const bool is_rejected = number % 2 == 1;
        const PairLoss::Value& value = values[pair];
        weights.push_back(static_cast<float>(is_rejected ? -value.d_rejected : -value.d_chosen));
        const double targets = pairs.targets[2 * pair] + pairs.targets[2 * pair + 1];
        const auto share = [&](double of_pair) {
            numbers.push_back(static_cast<float>(of_pair / targets));
        };
        share(value.loss);
        for (int64_t i = 1; i < ops::stats_per_token; ++i) numbers.push_back(stat[i]);
        for (const double further : value.further) share(further);
        stat += read.size(1);
    }
    return {ops::on_device(weights, token_stats.device()),
            ops::on_device(numbers, token_stats.device())
                .view({std::ssize(weights), objective.numbers_per_token()})};
}

}  // namespace ringshard::model
