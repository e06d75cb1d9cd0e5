#include "format.hpp"

#include <algorithm>
#include <array>

#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::hub {

namespace {

// Those that names tell come last: a tensor in FP8 may belong to one of the others.
constexpr std::array formats{
    &bitsandbytes_format, &gptq_format, &awq_format,  &compressed_tensors_format,
    &modelopt_format,     &fp8_format,  &mxfp4_format};

}  // namespace

std::optional<Failure> decode(StoredModel& stored, const model::StoredForm& form,
                              const std::vector<shard::TensorSpec>& weights) {
    for (const StoredFormat* const format : formats) {
        if (!format->is_told_by_names && format->method != form.method) continue;
        for (const shard::TensorSpec& weight : weights) {
            auto decoded = format->find(stored, weight, form);
            if (!decoded) return decoded.failure();
            if (!decoded.value().parts.empty())
                stored.replace(decoded.value().parts, weight.name,
                               std::move(decoded.value().tensor));
        }
    }
    return std::nullopt;
}

Failure refuse_stored(const std::string& weight, std::string_view format, const std::string& why) {
    return {ExitCode::bad_data, format_text("{} is stored in {}, and {}", weight, format, why)};
}

Expected<std::vector<uint8_t>> read_codes(const StoredModel& files, const StoredTensor& tensor,
                                          int64_t first, size_t count, FirstCode first_code) {
    const int64_t begin = first / 2;
    const int64_t end = (first + static_cast<int64_t>(count) + 1) / 2;
    std::vector<std::byte> bytes(static_cast<size_t>(end - begin));
    if (auto failure = files.read_bytes(tensor, begin, bytes)) return *failure;
    std::vector<uint8_t> codes(count);
    const int64_t low = first_code == FirstCode::low ? 0 : 1;  // the place of the lower half
    for (size_t i = 0; i < count; ++i) {
        const int64_t place = first + static_cast<int64_t>(i);
        const auto byte = std::to_integer<uint8_t>(bytes[static_cast<size_t>(place / 2 - begin)]);
        codes[i] = place % 2 == low ? byte & 15 : byte >> 4;
    }
    return codes;
}

}  // namespace ringshard::hub
