#include "pairs.hpp"

#include "pair_loss.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/device_copies.hpp"

namespace ringshard::model {

std::vector<SideSums> sum_sides(const TokenPairs& pairs, const at::Tensor& token_stats,
                                const mesh::Mesh& mesh) {
    std::vector<SideSums> sums(pairs.sides.size());
    const auto* stat = token_stats.const_data_ptr<float>();
    for (const auto& [number, is_of_answer] : pairs.targets) {
        SideSums& side = sums[static_cast<size_t>(number)];
        const auto log_prob = -static_cast<double>(*stat);
        side.with_prompt += log_prob;
        if (is_of_answer) side.of_answer += log_prob;
        stat += token_stats.size(1);
    }
    const bool is_split = mesh.shape().ring > 1 || mesh.shape().ulysses > 1;
    if (!is_split || sums.empty()) return sums;
    std::vector<double> numbers;
    for (const SideSums& side : sums)
        numbers.insert(numbers.end(), {side.of_answer, side.with_prompt});
    const at::Tensor all = ops::on_device(numbers, mesh.device());
    mesh.ring().all_reduce(all).wait();
    mesh.ulysses().all_reduce(all).wait();
    const at::Tensor read = ops::on_host(all);
    const auto* number = read.const_data_ptr<double>();
    for (SideSums& side : sums) side = {*number++, *number++};
    return sums;
}

WeighedPairs weigh_pairs(const Objective& objective, const TokenPairs& pairs,
                         const at::Tensor& token_stats, const mesh::Mesh& mesh) {
    const at::Tensor read = ops::on_host(token_stats);
    const std::vector<SideSums> sums = sum_sides(pairs, read, mesh);
    const auto side = [&](size_t number) {
        const TokenPairs::Side& known = pairs.sides[number];
        return PairSide{sums[number].of_answer, known.reference, known.of_answer,
                        sums[number].with_prompt, known.targets};
    };
    std::vector<PairLoss::Value> values;
    for (size_t chosen = 0; chosen < sums.size(); chosen += 2)
        values.push_back(objective.pair_loss()->of(side(chosen), side(chosen + 1), pairs.all));
    std::vector<float> weights;
    std::vector<float> numbers;
    const auto* stat = read.const_data_ptr<float>();
    for (const auto& [number, is_of_answer] : pairs.targets) {
        const size_t chosen = static_cast<size_t>(number) / 2 * 2;
        const bool is_rejected = number % 2 == 1;
        const PairLoss::Value& value = values[chosen / 2];
        const double of_answer = is_rejected ? value.d_rejected : value.d_chosen;
        const double of_likelihood = is_rejected ? 0 : value.d_likelihood;
        weights.push_back(static_cast<float>(-of_likelihood - (is_of_answer ? of_answer : 0)));
        const double targets = pairs.sides[chosen].targets + pairs.sides[chosen + 1].targets;
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
