#include "scaled_numbers.hpp"

#include "../stored_type.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::hub {

namespace {

constexpr int64_t bits_of_word = 32;
constexpr auto bytes_of_word = static_cast<int64_t>(sizeof(uint32_t));

// Codes in words of 32 bits, the first in the lowest; they lie plus half of their range.
struct WordCodes {
    int64_t bits;

    int64_t per_word() const { return bits_of_word / bits; }
    float in(uint32_t word, int64_t place) const {
        const uint32_t code = word >> (bits * (place % per_word())) & ((1U << bits) - 1);
        return static_cast<float>(static_cast<int64_t>(code) - (int64_t{1} << (bits - 1)));
    }
};

class ScaledDecoder final : public Decoder {
public:
    ScaledDecoder(std::string weight, ScaledNumbers numbers)
        : weight_(std::move(weight)),
          of_(std::move(numbers)),
          blocks_(find_blocks(of_.shape, of_.scales.shape).value()) {}

    std::optional<Failure> read(const StoredModel& files, int64_t first,
                                std::span<float> into) const override {
        if (into.empty()) return std::nullopt;
        const int64_t width = of_.shape[1];
        const shard::Range rows{first / width, (first + std::ssize(into) - 1) / width + 1};
        if (auto failure = read_signed_codes(files, first, into)) return failure;
        const shard::Range block_rows{rows.begin / blocks_.rows, (rows.end - 1) / blocks_.rows + 1};
        std::vector<float> scales(static_cast<size_t>(block_rows.size() * blocks_.across));
        if (auto failure = files.read(of_.scales, block_rows.begin * blocks_.across, scales))
            return failure;
        const auto groups = read_groups(files);
        if (!groups) return groups.failure();
        const auto zeros = read_zeros(files, rows);
        if (!zeros) return zeros.failure();
        int64_t row = rows.begin;
        int64_t column = first % width;
        for (float& number : into) {
            const int64_t group = groups.value()[static_cast<size_t>(column)];
            const int64_t block = (row / blocks_.rows - block_rows.begin) * blocks_.across + group;
            const int64_t zero = (row - rows.begin) * blocks_.across + group;
            if (!zeros.value().empty()) number -= zeros.value()[static_cast<size_t>(zero)];
            number *= scales[static_cast<size_t>(block)];
            if (++column == width) {
                column = 0;
                ++row;
            }
        }
        round_to(of_.rounds_to, into);
        return std::nullopt;
    }

private:
    std::optional<Failure> read_signed_codes(const StoredModel& files, int64_t first,
                                             std::span<float> into) const {
        if (of_.codes.type == StoredType::int32) return read_words(files, first, into);
        if (of_.codes.type != StoredType::int8) return files.read(of_.codes, first, into);
        std::vector<int8_t> codes(into.size());
        if (auto failure =
                files.read_bytes(of_.codes, first, std::as_writable_bytes(std::span(codes))))
            return failure;
        std::copy(codes.begin(), codes.end(), into.begin());
        return std::nullopt;
    }

    // The words of a range lie one after the other: rows begin with a word of their own.
    std::optional<Failure> read_words(const StoredModel& files, int64_t first,
                                      std::span<float> into) const {
        const WordCodes codes{of_.bits};
        const int64_t width = of_.shape[1];
        const int64_t across = of_.codes.shape[1];
        const auto word_of = [&](int64_t number) {
            return number / width * across + number % width / codes.per_word();
        };
        const int64_t begin = word_of(first);
        std::vector<uint32_t> words(
            static_cast<size_t>(word_of(first + std::ssize(into) - 1) + 1 - begin));
        if (auto failure = files.read_bytes(of_.codes, begin * bytes_of_word,
                                            std::as_writable_bytes(std::span(words))))
            return failure;
        for (int64_t i = 0; i < std::ssize(into); ++i)
            into[static_cast<size_t>(i)] = codes.in(
                words[static_cast<size_t>(word_of(first + i) - begin)], (first + i) % width);
        return std::nullopt;
    }

    // Of each input.
    Expected<std::vector<int32_t>> read_groups(const StoredModel& files) const {
        std::vector<int32_t> groups(static_cast<size_t>(of_.shape[1]));
        if (!of_.group_of) {
            for (size_t i = 0; i < groups.size(); ++i)
                groups[i] = static_cast<int32_t>(static_cast<int64_t>(i) / blocks_.columns);
            return groups;
        }
        if (auto failure =
                files.read_bytes(*of_.group_of, 0, std::as_writable_bytes(std::span(groups))))
            return *failure;
        for (const int32_t group : groups)
            if (group < 0 || group >= blocks_.across)
                return Failure{ExitCode::bad_data,
                               format_text("{}: weight_g_idx names the group {}, and there are {}",
                                           weight_, group, blocks_.across)};
        return groups;
    }

    // Of some rows, in all groups; nothing where all are 0.
    Expected<std::vector<float>> read_zeros(const StoredModel& files,
                                            const shard::Range& rows) const {
        std::vector<float> zeros;
        if (!of_.zeros) return zeros;
        const WordCodes codes{of_.bits};
        const int64_t groups = blocks_.across;
        const int64_t begin = rows.begin / codes.per_word();
        std::vector<uint32_t> words(
            static_cast<size_t>(((rows.end - 1) / codes.per_word() + 1 - begin) * groups));
        if (auto failure = files.read_bytes(*of_.zeros, begin * groups * bytes_of_word,
                                            std::as_writable_bytes(std::span(words))))
            return *failure;
        for (int64_t row = rows.begin; row < rows.end; ++row)
            for (int64_t group = 0; group < groups; ++group)
                zeros.push_back(codes.in(
                    words[static_cast<size_t>((row / codes.per_word() - begin) * groups + group)],
                    row));
        return zeros;
    }

    std::string weight_;
    ScaledNumbers of_;
    ScaleBlocks blocks_;
};

}  // namespace

std::optional<ScaleBlocks> find_blocks(const std::vector<int64_t>& shape,
                                       const std::vector<int64_t>& scales) {
    if (shape.size() != 2) return std::nullopt;
    if (num_elements(scales) == 1) return ScaleBlocks{shape[0], shape[1], 1};
    if (scales.size() != 2 || scales[0] < 1 || scales[1] < 1 || shape[0] % scales[0] != 0 ||
        shape[1] % scales[1] != 0)
        return std::nullopt;
    return ScaleBlocks{shape[0] / scales[0], shape[1] / scales[1], scales[1]};
}

StoredTensor tensor_of(const std::string& weight, ScaledNumbers numbers) {
    const std::vector<int64_t> shape = numbers.shape;
    return {.shape = shape, .decoder = std::make_shared<ScaledDecoder>(weight, std::move(numbers))};
}

}  // namespace ringshard::hub
