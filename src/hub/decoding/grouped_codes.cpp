#include "grouped_codes.hpp"

#include <algorithm>
#include <cstring>

#include "../stored_type.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::hub {

namespace {

constexpr int64_t word_bits = 32;
constexpr auto word_bytes = static_cast<int64_t>(sizeof(uint32_t));

// Returns how many words hold so many codes; the last one may be filled up.
int64_t words_of(int64_t codes, int64_t bits) {
    const int64_t per_word = word_bits / bits;
    return (codes + per_word - 1) / per_word;
}

// Some columns of a matrix of words, all of its rows.
struct Words {
    std::vector<uint32_t> words;
    int64_t first;
    int64_t columns;

    uint32_t at(int64_t row, int64_t column) const {
        return words[static_cast<size_t>(row * columns + column - first)];
    }
};

Expected<Words> read_columns(const StoredModel& files, const StoredTensor& tensor,
                             const shard::Range& rows, const shard::Range& columns) {
    Words read{std::vector<uint32_t>(static_cast<size_t>(rows.size() * columns.size())),
               columns.begin, columns.size()};
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const auto into = std::span(read.words)
                              .subspan(static_cast<size_t>((row - rows.begin) * columns.size()),
                                       static_cast<size_t>(columns.size()));
        const int64_t place = row * tensor.shape[1] + columns.begin;
        if (auto failure =
                files.read_bytes(tensor, place * word_bytes, std::as_writable_bytes(into)))
            return *failure;
    }
    return read;
}

class GroupedDecoder final : public Decoder {
public:
    explicit GroupedDecoder(std::string weight, GroupedCodes codes)
        : weight_(std::move(weight)), codes_(std::move(codes)) {}

    // The files hold a column where the weight has a row: a rank reads the columns of its rows.
    std::optional<Failure> read(const StoredModel& files, int64_t first,
                                std::span<float> into) const override {
        if (into.empty()) return std::nullopt;
        const int64_t end = first + std::ssize(into);
        const shard::Range outputs{first / codes_.in, (end - 1) / codes_.in + 1};
        const bool is_one = outputs.size() == 1;
        const shard::Range inputs{is_one ? first % codes_.in : 0,
                                  is_one ? (end - 1) % codes_.in + 1 : codes_.in};
        const bool holds_inputs = codes_.words_hold == WordsHold::inputs;
        const shard::Range rows = holds_inputs ? in_words(inputs) : inputs;
        const auto words =
            read_columns(files, codes_.codes, rows, holds_inputs ? outputs : in_words(outputs));
        if (!words) return words.failure();
        const auto groups = read_groups(files, inputs);
        if (!groups) return groups.failure();
        const auto constants = read_constants(files, outputs);
        if (!constants) return constants.failure();
        for (int64_t place = first; place < end; ++place) {
            const int64_t output = place / codes_.in;
            const int64_t input = place % codes_.in;
            const uint32_t word = holds_inputs
                                      ? words.value().at(input / per_word() - rows.begin, output)
                                      : words.value().at(input - rows.begin, output / per_word());
            const int64_t code =
                code_in(word, holds_inputs ? input % per_word() : place_of(output));
            const auto group = groups.value()[static_cast<size_t>(input - inputs.begin)];
            into[static_cast<size_t>(place - first)] =
                constants.value().weight(group, output, code);
        }
        return std::nullopt;
    }

private:
    // Of some outputs, in all groups.
    struct Constants {
        shard::Range outputs;
        std::vector<float> scales;
        std::vector<int64_t> zeros;

        float weight(int64_t group, int64_t output, int64_t code) const {
            const auto place = static_cast<size_t>(group * outputs.size() + output - outputs.begin);
            return scales[place] * static_cast<float>(code - zeros[place]);
        }
    };

    int64_t per_word() const { return word_bits / codes_.bits; }
    int64_t place_of(int64_t output) const {
        return codes_.order[static_cast<size_t>(output % per_word())];
    }
    int64_t most() const { return (int64_t{1} << codes_.bits) - 1; }
    int64_t code_in(uint32_t word, int64_t place) const {
        return static_cast<int64_t>(word >> (codes_.bits * place)) & most();
    }
    shard::Range in_words(const shard::Range& numbers) const {
        return {numbers.begin / per_word(), (numbers.end - 1) / per_word() + 1};
    }
    int64_t num_groups() const { return codes_.scales.shape[0]; }

    Expected<std::vector<int64_t>> read_groups(const StoredModel& files,
                                               const shard::Range& inputs) const {
        std::vector<int64_t> groups(static_cast<size_t>(inputs.size()));
        if (!codes_.group_of) {
            const int64_t size = codes_.group == 0 ? codes_.in : codes_.group;
            for (int64_t i = 0; i < inputs.size(); ++i)
                groups[static_cast<size_t>(i)] = (inputs.begin + i) / size;
            return groups;
        }
        std::vector<int32_t> numbers(groups.size());
        if (auto failure = files.read_bytes(*codes_.group_of, inputs.begin * word_bytes,
                                            std::as_writable_bytes(std::span(numbers))))
            return *failure;
        for (size_t i = 0; i < groups.size(); ++i) {
            groups[i] = numbers[i];
            if (groups[i] < 0 || groups[i] >= num_groups())
                return Failure{ExitCode::bad_data,
                               format_text("{}: g_idx names the group {}, and there are {}",
                                           weight_, groups[i], num_groups())};
        }
        return groups;
    }

    Expected<Constants> read_constants(const StoredModel& files,
                                       const shard::Range& outputs) const {
        const auto words = read_columns(files, codes_.zeros, {0, num_groups()}, in_words(outputs));
        if (!words) return words.failure();
        Constants read{outputs, {}, {}};
        std::vector<float> scales(static_cast<size_t>(outputs.size()));
        for (int64_t group = 0; group < num_groups(); ++group) {
            if (auto failure =
                    files.read(codes_.scales, group * codes_.out + outputs.begin, scales))
                return *failure;
            read.scales.insert(read.scales.end(), scales.begin(), scales.end());
            for (int64_t output = outputs.begin; output < outputs.end; ++output) {
                const int64_t zero =
                    code_in(words.value().at(group, output / per_word()), place_of(output));
                read.zeros.push_back(codes_.adds_one_to_zeros ? (zero + 1) & most() : zero);
            }
        }
        return read;
    }

    std::string weight_;
    GroupedCodes codes_;
};

// Takes bits and a group that the shapes say; leaves to check_grouped what has no shape of any.
std::optional<Failure> take_from_shapes(GroupedCodes& codes, const std::string& weight,
                                        std::string_view format) {
    const std::vector<int64_t>& scales = codes.scales.shape;
    if (codes.codes.shape.size() != 2 || scales.size() != 2 || scales[0] <= 0) return std::nullopt;
    if (codes.codes.shape[0] == words_of(codes.in, 4))
        codes.bits = 4;
    else if (codes.codes.shape[0] == words_of(codes.in, 8))
        codes.bits = 8;
    else
        return refuse_stored(weight, format,
                             format_text("a rule in config.json gives it {} bits: 4 and 8 are read",
                                         codes.codes.shape[0] * word_bits / codes.in));
    const bool has_own_group =
        codes.group == 0 ? scales[0] != 1 : (codes.in + codes.group - 1) / codes.group != scales[0];
    if (!has_own_group) return std::nullopt;
    if (!codes.group_of && codes.in % scales[0] != 0)
        return refuse_stored(
            weight, format,
            format_text("without g_idx its {} groups must be of one size", scales[0]));
    codes.group = (codes.in + scales[0] - 1) / scales[0];
    return std::nullopt;
}

std::optional<Failure> check_grouped(const GroupedCodes& codes, const std::string& weight,
                                     std::string_view format) {
    const bool holds_inputs = codes.words_hold == WordsHold::inputs;
    const std::vector<int64_t> of_codes{holds_inputs ? words_of(codes.in, codes.bits) : codes.in,
                                        holds_inputs ? codes.out : words_of(codes.out, codes.bits)};
    const std::vector<int64_t>& scales = codes.scales.shape;
    const bool has_groups = scales.size() == 2 && scales[0] > 0 && scales[1] == codes.out;
    const std::vector<int64_t> of_zeros{scales.empty() ? 0 : scales[0],
                                        words_of(codes.out, codes.bits)};
    const bool fits = codes.codes.shape == of_codes && has_groups &&
                      codes.zeros.shape == of_zeros && codes.codes.type == StoredType::int32 &&
                      codes.zeros.type == StoredType::int32 && can_be_weight(codes.scales.type);
    if (!fits)
        return refuse_stored(
            weight, format,
            format_text("qweight, qzeros and scales are not those of [{}, {}] in {} bits",
                        codes.out, codes.in, codes.bits));
    const int64_t groups = codes.group == 0 ? 1 : (codes.in + codes.group - 1) / codes.group;
    if (scales[0] != groups)
        return refuse_stored(
            weight, format,
            format_text("scales are of {} groups of inputs, and group_size in config.json makes {}",
                        scales[0], groups));
    if (codes.group_of && (codes.group_of->type != StoredType::int32 ||
                           codes.group_of->shape != std::vector<int64_t>{codes.in}))
        return refuse_stored(weight, format, "g_idx is not a number of a group for each input");
    return std::nullopt;
}

}  // namespace

Expected<Decoded> find_grouped_codes(const StoredModel& stored, const shard::TensorSpec& weight,
                                     std::string_view format, GroupedCodes codes) {
    constexpr std::string_view ending = ".weight";
    if (!weight.name.ends_with(ending) || weight.shape.size() != 2) return Decoded{};
    const std::string module = weight.name.substr(0, weight.name.size() - ending.size());
    const StoredTensor* const words = stored.find(module + ".qweight");
    if (words == nullptr) return Decoded{};
    const StoredTensor* const zeros = stored.find(module + ".qzeros");
    const StoredTensor* const scales = stored.find(module + ".scales");
    if (zeros == nullptr || scales == nullptr)
        return refuse_stored(
            weight.name, format,
            format_text("{}.qzeros or {}.scales is not in the model's files", module, module));
    Decoded found{{}, {module + ".qweight", module + ".qzeros", module + ".scales"}};
    codes.codes = *words;
    codes.zeros = *zeros;
    codes.scales = *scales;
    codes.out = weight.shape[0];
    codes.in = weight.shape[1];
    if (const StoredTensor* const group_of = stored.find(module + ".g_idx")) {
        codes.group_of = *group_of;
        found.parts.push_back(module + ".g_idx");
    }
    if (codes.is_told_by_shapes)
        if (auto failure = take_from_shapes(codes, weight.name, format)) return *failure;
    if (auto failure = check_grouped(codes, weight.name, format)) return *failure;
    found.tensor =
        StoredTensor{.shape = weight.shape,
                     .decoder = std::make_shared<GroupedDecoder>(weight.name, std::move(codes))};
    return found;
}

}  // namespace ringshard::hub
