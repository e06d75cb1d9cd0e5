#include "probe_rows.hpp"

#include <numeric>
#include <random>
#include <vector>

#include "ringshard/data/plan_rows.hpp"

namespace ringshard::prove {

data::Rows one_row_each(data::SampleList samples, const data::RowContent& content) {
    data::TokenStore store(std::move(samples));
    std::vector<int64_t> numbers(static_cast<size_t>(store.size()));
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    data::RowSettings settings;
    settings.content = content;
    data::RowReport report;
    data::RowPlan plan = data::plan_rows(store, numbers, settings, report);
    return {std::move(store), std::move(plan), content};
}

namespace {

class Random {
public:
    explicit Random(uint32_t seed) : random_(seed) {}
    int32_t below(int64_t bound) {
        return static_cast<int32_t>(random_() % static_cast<unsigned>(bound));
    }

private:
    std::mt19937 random_;
};

}  // namespace

data::Rows make_rows(RowKind kind, int64_t num_rows, int longest, int64_t vocabulary,
                     uint32_t seed) {
    Random random(seed);
    const auto below = [&](int64_t bound) { return random.below(bound); };
    const int third = longest / 3;
    data::SampleList rows;
    for (int64_t row = 0; row < num_rows; ++row) {
        const bool is_one = kind == RowKind::one_document ||
                            (kind == RowKind::uneven && row % 4 == 0) ||
                            (kind == RowKind::mixed && row % 3 == 0);
        const bool is_packed = kind == RowKind::packed || (kind == RowKind::mixed && row % 3 == 1);
        std::vector<int32_t> lengths;
        if (is_one)
            lengths = {2 * third + below(third)};
        else if (is_packed)
            lengths = {third - 9 + below(9), 1, 5 + below(third / 2), third / 2 + below(third / 2)};
        else
            lengths = {1, 4 + below(6), 1, 5 + below(3)};
        std::vector<int32_t> tokens;
        std::vector<int32_t> labels;
        for (const int32_t length : lengths) {
            for (int32_t t = 0; t < length; ++t) {
                tokens.push_back(below(vocabulary));
                labels.push_back(t < length / 4 ? -100 : tokens.back());
            }
        }
        rows.add(tokens, labels, lengths);
    }
    return one_row_each(std::move(rows));
}

data::Rows make_rows(const PairsOrLabels& wanted, int64_t num_rows, int longest, int64_t vocabulary,
                     uint32_t seed) {
    Random random(seed);
    const auto& [content, num_labels] = wanted;
    data::SampleList rows;
    for (int64_t row = 0; row < num_rows; ++row) {
        std::vector<int32_t> lengths;
        for (int side = 0; side < (content.is_embedded ? 3 : content.is_pair ? 2 : 1); ++side)
            lengths.push_back(longest / 3 + random.below(longest / 2));
        std::vector<int32_t> tokens;
        std::vector<int32_t> labels;
        for (size_t side = 0; side < lengths.size(); ++side) {
            const int32_t length = lengths[side];
            // Both answers of a pair have one prompt.
            const int32_t prompt = content.is_pair && side == 1 ? lengths[0] / 4 : 0;
            const int32_t of_document = content.is_scored ? random.below(num_labels) : 0;
            const int32_t padding = random.below(3);
            for (int32_t t = 0; t < length; ++t) {
                tokens.push_back(t < prompt ? tokens[static_cast<size_t>(t)]
                                            : random.below(vocabulary));
                const bool counts = content.is_scored ? t < length - padding : t >= length / 4;
                const int32_t label = content.is_scored ? of_document : tokens.back();
                labels.push_back(counts ? label : data::no_label);
            }
        }
        const auto number = static_cast<float>(row % 2 == 1 ? -1 : 1);
        rows.add(tokens, labels, lengths,
                 std::vector<float>(tokens.size(), content.weighs_by_label() ? number : 1.0F));
    }
    return one_row_each(std::move(rows), content);
}

}  // namespace ringshard::prove
