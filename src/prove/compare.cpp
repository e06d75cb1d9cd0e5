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

// Sums of squares over a tensor, or over those of all experts of a block.
struct Sums {
    double numbers = 0;
    double difference = 0;
    double rounding = 0;
    double size = 0;
};

std::map<std::string, Sums> sums_of(const Moment& in_mesh, const Moment& alone,
                                    const Moment* exact) {
    std::map<std::string, Sums> sums;
    for (const auto& [name, gradient] : alone.gradients) {
        // A token at the border of two experts goes to another one if it is rounded in another way.
        Sums& mine = sums[exact == nullptr ? name : with_all_experts(name)];
        mine.numbers += squares(gradient);
        mine.difference += squares(in_mesh.gradients.at(name).sub(gradient));
        if (exact != nullptr) mine.rounding += squares(exact->gradients.at(name).sub(gradient));
        mine.size += static_cast<double>(gradient.numel());
    }
    return sums;
}

// Sets the difference of the tensor that is farthest from its limit.
void compare_gradients(const std::map<std::string, Sums>& sums, double limit, Check& check) {
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
        const double allowed = limit + roundings * std::sqrt(of_tensor.rounding) / length;
        if (difference / allowed <= farthest) continue;  // of NaN: it is the farthest
        check.difference = difference;
        check.limit = allowed;
        check.tensor = name;
        farthest = difference / allowed;
        if (std::isnan(farthest)) break;
    }
    check.compared = static_cast<int64_t>(sums.size());
}

void add_checks(const Moment& in_mesh, const Moment& alone, const Moment* exact,
                const Limits& limits, const Check& blank, std::vector<Check>& checks) {
    const double rounding = exact == nullptr ? 0 : std::abs(exact->loss - alone.loss);
    Check loss = blank;
    loss.difference = std::abs(in_mesh.loss - alone.loss) / std::abs(alone.loss);
    loss.limit = limits.loss + roundings * rounding / std::abs(alone.loss);
    checks.push_back(loss);
    Check gradients = blank;
    gradients.what = What::gradients;
    compare_gradients(sums_of(in_mesh, alone, exact), limits.gradients, gradients);
    checks.push_back(gradients);
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
