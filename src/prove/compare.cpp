#include "compare.hpp"

#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "ringshard/base/error.hpp"

namespace ringshard::prove {

namespace {

// Largest differences of runs that compute the same: of the order of sums, and of the moments of
// the optimizer, which make of a rounded gradient near 0 a step of the whole rate.
struct Limits {
    double loss;
    double gradients;
};
constexpr Limits at_first{2e-6, 1e-4};
constexpr Limits after_steps{1e-4, 1e-2};
// In a rounded precision, beside the rounding of one rank.
constexpr Limits rounded_at_first{2e-3, 2e-2};
constexpr Limits rounded_after_steps{5e-3, 5e-2};
constexpr double roundings = 4;
// Gradients that cancel are rounding alone: a tensor's is measured against this share of the mean
// over all tensors at least.
constexpr double smallest_share = 1e-2;
// The rounding of a few numbers in one order says little about it in another: the quotient of two
// such samples has no bound. In a rounded precision a tensor of fewer numbers is measured with all
// of its block.
constexpr int64_t fewest_numbers = 16;

double squares(const at::Tensor& numbers) {
    const at::Tensor wide = numbers.to(at::kDouble);
    return wide.mul(wide).sum().item<double>();
}

// Returns the name of all experts of a block for a tensor of one of them.
std::string with_all_experts(const std::string& name) {
    const std::string word = ".experts.";
    const size_t place = name.find(word);
    if (place == std::string::npos) return name;
    const size_t first = place + word.size();
    size_t end = first;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
    return end == first ? name : name.substr(0, first) + "*" + name.substr(end);
}

// Returns the name of all tensors of the block to which a tensor belongs; its own outside of
// blocks.
std::string with_all_of_block(const std::string& name) {
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
        const size_t end = name.find_first_not_of("0123456789", dot + 1);
        if (end != std::string::npos && end > dot + 1 && name[end] == '.')
            return name.substr(0, end) + ".*";
    }
    return name;
}

// Sums of squares over a tensor, or over those of all experts of a block, or over a block.
struct Sums {
    double numbers = 0;
    double difference = 0;
    double rounding = 0;
    double size = 0;

    void add(const Sums& more) {
        numbers += more.numbers;
        difference += more.difference;
        rounding += more.rounding;
        size += more.size;
    }
};

using SumsByName = std::map<std::string, Sums>;

SumsByName sums_of(const Moment& in_mesh, const Moment& alone, const Moment* exact) {
    SumsByName sums;
    for (const auto& [name, gradient] : alone.gradients) {
        Sums& mine = sums[name];
        mine.numbers = squares(gradient);
        mine.difference = squares(in_mesh.gradients.at(name).sub(gradient));
        if (exact != nullptr) mine.rounding = squares(exact->gradients.at(name).sub(gradient));
        mine.size = static_cast<double>(gradient.numel());
    }
    return sums;
}

// A token at the border of two experts goes to another one if it, or the weights that three steps
// have made, are rounded in another way.
SumsByName with_experts_as_one(const SumsByName& by_tensor) {
    SumsByName groups;
    for (const auto& [name, mine] : by_tensor) groups[with_all_experts(name)].add(mine);
    return groups;
}

SumsByName grouped_for_rounding(const SumsByName& by_tensor) {
    SumsByName blocks;
    for (const auto& [name, mine] : by_tensor) blocks[with_all_of_block(name)].add(mine);
    SumsByName groups;
    for (const auto& [name, mine] : by_tensor) {
        const std::string block = with_all_of_block(name);
        if (mine.size < fewest_numbers)
            groups[block] = blocks.at(block);
        else
            groups[with_all_experts(name)].add(mine);
    }
    return groups;
}

// Returns the difference of the tensor that is farthest from its limit. In fp32 the gradients of a
// model with experts may differ by that of one token too, once the weights have taken steps: of
// `num_tokens` of about the same size, in a sum whose terms are nearly orthogonal.
Check compare_gradients(const SumsByName& by_tensor, bool is_rounded, const Limits& limits,
                        int64_t num_tokens, const Check& blank) {
    Check check = blank;
    check.what = What::gradients;
    const bool has_steps = blank.steps > 0;
    const bool has_experts = std::ranges::any_of(by_tensor, [](const auto& tensor) {
        return tensor.first.find(".experts.") != std::string::npos;
    });
    const double of_token = has_experts && has_steps && !is_rounded
                                ? std::sqrt(2 / static_cast<double>(num_tokens))
                                : 0;
    const SumsByName sums = is_rounded  ? grouped_for_rounding(by_tensor)
                            : has_steps ? with_experts_as_one(by_tensor)
                                        : by_tensor;
    double all = 0;
    double size = 0;
    for (const auto& [name, of_tensor] : sums) {
        all += of_tensor.numbers;
        size += of_tensor.size;
    }
    double farthest = -1;
    for (const auto& [name, of_tensor] : sums) {
        const double least = smallest_share * std::sqrt(all / size * of_tensor.size);
        const double length =
            std::max({std::sqrt(of_tensor.numbers), least, std::numeric_limits<double>::min()});
        const double difference = std::sqrt(of_tensor.difference) / length;
        const double allowed =
            limits.gradients + of_token + roundings * std::sqrt(of_tensor.rounding) / length;
        if (difference / allowed <= farthest) continue;  // of NaN: it is the farthest
        check.difference = difference;
        check.limit = allowed;
        check.tensor = name;
        farthest = difference / allowed;
        if (std::isnan(farthest)) break;
    }
    check.compared = static_cast<int64_t>(sums.size());
    return check;
}

// Returns the share by which rounding changes numbers of a step, of one rank: the distance of its
// gradients from those in fp32.
double relative_rounding(const SumsByName& sums) {
    double numbers = 0;
    double rounding = 0;
    for (const auto& [name, of_tensor] : sums) {
        numbers += of_tensor.numbers;
        rounding += of_tensor.rounding;
    }
    return std::sqrt(rounding / std::max(numbers, std::numeric_limits<double>::min()));
}

// Compares one number of the runs. `rounding`: relative, at least.
Check compare_numbers(double in_mesh, double alone, const double* exact, double limit,
                      double rounding, const Check& blank) {
    Check check = blank;
    check.difference = std::abs(in_mesh - alone) / std::abs(alone);
    if (exact != nullptr) rounding = std::max(rounding, std::abs(*exact - alone) / std::abs(alone));
    check.limit = limit + roundings * rounding;
    return check;
}

void add_checks(const Moment& in_mesh, const Moment& alone, const Moment* exact,
                const Limits& limits, const Check& blank, std::vector<Check>& checks) {
    const SumsByName sums = sums_of(in_mesh, alone, exact);
    // The loss is a mean over tokens, whose roundings partly cancel: by chance those of one run.
    const double of_mean =
        relative_rounding(sums) / std::sqrt(static_cast<double>(alone.num_tokens));
    checks.push_back(compare_numbers(in_mesh.loss, alone.loss,
                                     exact == nullptr ? nullptr : &exact->loss, limits.loss,
                                     of_mean, blank));
    checks.push_back(compare_gradients(sums, exact != nullptr, limits, alone.num_tokens, blank));
    Check norm = compare_numbers(in_mesh.grad_norm, alone.grad_norm,
                                 exact == nullptr ? nullptr : &exact->grad_norm, limits.gradients,
                                 relative_rounding(sums), blank);
    norm.what = What::norm;
    checks.push_back(norm);
    Check documents = blank;
    documents.what = What::documents;
    documents.difference = static_cast<double>(in_mesh.documents.moved);
    documents.compared = in_mesh.documents.compared;
    checks.push_back(documents);
}

std::vector<Check> compare(const Outcome& in_mesh, const Outcome& alone, const Outcome* exact,
                           const std::string& precision, const std::array<Limits, 2>& limits) {
    for (const Outcome* const run : {&in_mesh, &alone, exact})
        if (run != nullptr && !run->failure.empty())
            return {{.precision = precision, .failure = run->failure}};
    std::vector<Check> checks;
    for (size_t i = 0; i < limits.size(); ++i)
        add_checks(in_mesh.moments[i], alone.moments[i],
                   exact == nullptr ? nullptr : &exact->moments[i], limits[i],
                   {.precision = precision, .steps = i == 0 ? 0 : steps_between}, checks);
    return checks;
}

}  // namespace

std::vector<Check> compare_exactly(const Outcome& in_mesh, const Outcome& alone) {
    return compare(in_mesh, alone, nullptr, "fp32", {at_first, after_steps});
}

std::vector<Check> compare_rounded(const Outcome& in_mesh, const Outcome& alone,
                                   const Outcome& exact, const std::string& precision) {
    return compare(in_mesh, alone, &exact, precision, {rounded_at_first, rounded_after_steps});
}

}  // namespace ringshard::prove
