#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "numpy_random.hpp"
#include "ringshard/data/plan_rows.hpp"

namespace ringshard::data {

namespace {

// More samples are a mistake: rank 0 holds a number for each.
constexpr double most_samples = 2147483648.0;  // 2^31

std::vector<int64_t> sizes_of(const SampleChoice& choice) {
    std::vector<int64_t> sizes;
    uint64_t begin = 0;
    for (const uint64_t end : choice.source_ends) {
        sizes.push_back(static_cast<int64_t>(end - begin));
        begin = end;
    }
    return sizes;
}

// Returns how many samples a mixture takes from each source: fractions of the largest mixture in
// which no source gives more than it has.
std::vector<int64_t> counts_by_fraction(const std::vector<double>& fractions,
                                        std::vector<int64_t> counts) {
    const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
    double total = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < counts.size(); ++i)
        if (fractions[i] > 0)
            total = std::min(total, static_cast<double>(counts[i]) / (fractions[i] / sum));
    for (size_t i = 0; i < counts.size(); ++i)
        counts[i] = static_cast<int64_t>(std::nearbyint(fractions[i] / sum * total));
    return counts;
}

Failure too_many(double samples) {
    return {ExitCode::settings,
            format_text("datasets: the mixture would have about {} samples, and at most {} are "
                        "served; give the smallest weights more, or stop with first_exhausted",
                        std::nearbyint(samples), most_samples)};
}

// Takes the samples of one source after another, starting over after the last sample.
Expected<std::vector<int64_t>> one_after_another(const std::vector<int64_t>& sizes,
                                                 const std::vector<double>& counts) {
    const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
    if (total > most_samples) return too_many(total);
    std::vector<int64_t> chosen;
    chosen.reserve(static_cast<size_t>(total));
    int64_t begin = 0;
    for (size_t source = 0; source < sizes.size(); ++source) {
        for (int64_t i = 0; sizes[source] > 0 && i < static_cast<int64_t>(counts[source]); ++i)
            chosen.push_back(begin + i % sizes[source]);
        begin += sizes[source];
    }
    return chosen;
}

// Shuffles the sources with a number of passes, takes the first samples of each, again and again if
// there are too few, and shuffles all of them, as alignment-handbook does with datasets.
Expected<std::vector<int64_t>> shuffled(const SampleChoice& choice,
                                        const std::vector<int64_t>& sizes,
                                        const std::vector<double>& counts) {
    auto taken = one_after_another(sizes, counts);
    if (!taken) return taken;
    const auto seed = static_cast<uint64_t>(*choice.shuffle_seed);
    std::vector<int64_t> places;
    for (size_t i = 0; i < sizes.size(); ++i) {
        const auto first = static_cast<int64_t>(places.size());
        std::vector<int64_t> order(static_cast<size_t>(sizes[i]));
        std::iota(order.begin(), order.end(), int64_t{0});
        if (i < choice.shuffles.size() && choice.shuffles[i])
            order = numpy_permutation(seed, sizes[i]);
        for (const int64_t place : order) places.push_back(first + place);
    }
    for (int64_t& sample : taken.value()) sample = places[static_cast<size_t>(sample)];
    numpy_shuffle(seed, std::span(taken.value()));
    return taken;
}

// Estimates the draws until the mixture ends.
double expected_draws(const std::vector<int64_t>& sizes, const std::vector<double>& shares,
                      config::StoppingStrategy stops) {
    const bool ends_first = stops == config::StoppingStrategy::first_exhausted;
    double draws = ends_first ? std::numeric_limits<double>::infinity() : 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
        const double of_source = static_cast<double>(sizes[i]) / shares[i];
        draws = ends_first ? std::min(draws, of_source) : std::max(draws, of_source);
    }
    return draws;
}

// Draws like interleave_datasets: draws a source for every sample and starts a used-up source over,
// until the first or all of them are used up.
Expected<std::vector<int64_t>> drawn(const SampleChoice& choice, const std::vector<int64_t>& sizes,
                                     const std::vector<double>& weights) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<double> shares;
    for (size_t i = 0; i < weights.size(); ++i) {
        if (sizes[i] == 0)
            return Failure{
                ExitCode::bad_data,
                format_text("datasets: {} has no sample to draw; leave it out of the mixture",
                            choice.names[i])};
        shares.push_back(weights[i] / sum);
    }
    const double draws = expected_draws(sizes, shares, choice.drawing.stops);
    if (!(draws <= most_samples)) return too_many(draws);
    std::vector<int64_t> begins{0};
    for (const int64_t size : sizes) begins.push_back(begins.back() + size);
    const bool ends_first = choice.drawing.stops == config::StoppingStrategy::first_exhausted;
    std::vector<int64_t> next(sizes.size());
    std::vector<bool> is_used_up(sizes.size());
    size_t num_used_up = 0;
    NumpyChoice draw(static_cast<uint64_t>(choice.drawing.seed), shares);
    std::vector<int64_t> chosen;
    while (num_used_up < (ends_first ? 1 : sizes.size())) {
        const size_t source = draw.next();
        chosen.push_back(begins[source] + next[source]);
        if (++next[source] < sizes[source]) continue;
        next[source] = 0;
        num_used_up += is_used_up[source] ? 0 : 1;
        is_used_up[source] = true;
    }
    return chosen;
}

Expected<std::vector<int64_t>> samples_of_mixture(const SampleChoice& choice) {
    const std::vector<int64_t> sizes = sizes_of(choice);
    if (choice.drawing.temperature) {
        std::vector<double> weights;
        for (const int64_t size : sizes)
            weights.push_back(
                std::pow(static_cast<double>(size), 1.0 / *choice.drawing.temperature));
        return drawn(choice, sizes, weights);
    }
    if (!choice.weights.empty()) return drawn(choice, sizes, choice.weights);
    const auto taken =
        choice.fractions.empty() ? sizes : counts_by_fraction(choice.fractions, sizes);
    std::vector<double> counts(taken.begin(), taken.end());
    for (size_t i = 0; i < choice.epochs.size(); ++i)
        counts[i] = choice.shuffle_seed ? std::floor(counts[i] * choice.epochs[i])
                                        : std::nearbyint(counts[i] * choice.epochs[i]);
    if (choice.shuffle_seed) return shuffled(choice, sizes, counts);
    return one_after_another(sizes, counts);
}

}  // namespace

Expected<std::vector<int64_t>> choose_samples(const SampleChoice& choice) {
    auto of_mixture = samples_of_mixture(choice);
    if (!of_mixture) return of_mixture;
    if (!choice.is_copy.empty())
        std::erase_if(of_mixture.value(),
                      [&](int64_t sample) { return choice.is_copy[static_cast<size_t>(sample)]; });
    if (choice.side == SampleChoice::Side::all) return of_mixture;
    std::vector<int64_t> chosen = std::move(of_mixture).value();
    numpy_shuffle(static_cast<uint64_t>(choice.shuffle_seed.value_or(choice.seed)),
                  std::span(chosen));
    const auto num_samples = static_cast<double>(chosen.size());
    const bool is_share = choice.test_size < 1;
    const double num_tested =
        std::ceil(is_share ? choice.test_size * num_samples : choice.test_size);
    if (num_tested >= num_samples && !is_share)
        return Failure{
            ExitCode::settings,
            format_text("test_split_size = {}: the data has {} samples, and some have to "
                        "be left to train on",
                        num_tested, num_samples)};
    const auto test_end = chosen.begin() + static_cast<std::ptrdiff_t>(num_tested);
    if (choice.side == SampleChoice::Side::test)
        chosen.erase(test_end, chosen.end());
    else
        chosen.erase(chosen.begin(), test_end);
    return chosen;
}

std::vector<SourceUse> use_of_sources(const SampleChoice& choice,
                                      std::span<const int64_t> samples) {
    const std::vector<int64_t> sizes = sizes_of(choice);
    std::vector<SourceUse> uses;
    for (size_t i = 0; i < sizes.size(); ++i) uses.push_back({choice.names[i], sizes[i]});
    for (const int64_t sample : samples) {
        const auto end =
            std::ranges::upper_bound(choice.source_ends, static_cast<uint64_t>(sample));
        ++uses[static_cast<size_t>(end - choice.source_ends.begin())].taken;
    }
    return uses;
}

}  // namespace ringshard::data
