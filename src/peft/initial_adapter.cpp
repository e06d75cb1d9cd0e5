#include "ringshard/peft/initial_adapter.hpp"

#include <ATen/Parallel.h>

#include <algorithm>

#include "initial_layers.hpp"
#include "ringshard/base/mix.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"
#include "ringshard/shard/tensor_sums.hpp"

namespace ringshard::peft {

namespace {

constexpr int64_t elements_at_once = int64_t{1} << 22;

// The elements of a row of B0 A0, in the order of the ranks: the same bits however rows are cut.
void add_row(const float* b, const std::vector<float>& a, int64_t width, std::span<float> product,
             int64_t column) {
    const int64_t rank = std::ssize(a) / width;
    for (int64_t k = 0; k < rank; ++k) {
        const float factor = b[k];
        const float* const row = a.data() + k * width + column;
        for (size_t i = 0; i < product.size(); ++i) product[i] += factor * row[i];
    }
}

std::optional<Failure> add_to_sums(const hub::StoredModel& stored, const std::string& name,
                                   shard::TensorSums& sums, ByteCounter& bytes) {
    const hub::StoredTensor& tensor = *stored.find(name);
    const int64_t size = tensor.shape[0] * tensor.shape[1];
    for (int64_t first = 0; first < size; first += elements_at_once) {
        std::vector<float> values(static_cast<size_t>(std::min(elements_at_once, size - first)));
        if (auto failure = stored.read(tensor, first, values)) return failure;
        sums.add(name, first, values);
        bytes.add(std::ssize(values) * static_cast<int64_t>(sizeof(float)));
    }
    return std::nullopt;
}

std::string a_of(const std::string& layer) { return name_in_adapter(layer + ".lora_A.weight"); }
std::string b_of(const std::string& layer) { return name_in_adapter(layer + ".lora_B.weight"); }

}  // namespace

comm::Agreed<InitialAdapter> InitialAdapter::open(const std::filesystem::path& folder,
                                                  const model::ModelSpec& spec,
                                                  const comm::Group& group) {
    const auto file = folder / hub::adapter_weights_name;
    if (group.maximum(group.is_root() && !file_exists(file) ? 1 : 0) == 1)
        return comm::found_by_all(
            {ExitCode::missing_input,
             format_text("{}: is not there, and the adapters of this run have no meaning without "
                         "it (init_lora_weights): put the folder back, beside the checkpoints, or "
                         "begin another run",
                         file.string())});
    auto stored = hub::StoredModel::open_file(file, group);
    if (!stored) return stored.failure();
    InitialAdapter made;
    made.stored_ = std::move(stored).value();
    std::set<std::string> names;
    for (const AdaptedLayer& layer : adapted_layers(spec)) {
        const hub::StoredTensor* const a = made.stored_.find(a_of(layer.name));
        const hub::StoredTensor* const b = made.stored_.find(b_of(layer.name));
        if (a == nullptr || b == nullptr || a->shape != std::vector{layer.adapter.rank, layer.in} ||
            b->shape != std::vector{layer.out, layer.adapter.rank})
            return comm::found_by_all(
                {ExitCode::bad_data,
                 format_text("{}: does not hold the adapter of {}: it is of another run",
                             file.string(), layer.name)});
        made.factors_[layer.name + ".weight"] = {*a, *b, layer.adapter.scaling};
        names.insert({a_of(layer.name), b_of(layer.name)});
    }
    shard::TensorSums sums(names);
    std::optional<Failure> failure;
    ByteCounter& bytes = group.flight_recorder().bytes();
    for (const AdaptedLayer& layer : share_of_layers(spec, group.rank(), group.size()))
        for (const std::string& name : {a_of(layer.name), b_of(layer.name)})
            if (!failure) failure = add_to_sums(made.stored_, name, sums, bytes);
    if (const auto agreed = comm::first_failure(group, failure)) return *agreed;
    std::string all;
    for (const auto& [name, hash] : sums.over(group)) all += format_text("{} {}\n", name, hash);
    made.hash_ = std::to_string(hash_text(all));
    return made;
}

std::optional<Failure> InitialAdapter::subtract(const std::string& weight, int64_t first,
                                                std::span<float> from) const {
    const auto found = factors_.find(weight);
    if (found == factors_.end() || from.empty()) return std::nullopt;
    const auto& [of_a, of_b, scaling] = found->second;
    const int64_t rank = of_a.shape[0];
    const int64_t width = of_a.shape[1];
    const int64_t end = first + std::ssize(from);
    const int64_t first_row = first / width;
    const int64_t end_row = (end + width - 1) / width;
    std::vector<float> a(static_cast<size_t>(rank * width));
    std::vector<float> b(static_cast<size_t>(rank * (end_row - first_row)));
    if (auto failure = stored_.read(of_a, 0, a)) return failure;
    if (auto failure = stored_.read(of_b, first_row * rank, b)) return failure;
    const auto scale = static_cast<float>(scaling);
    at::parallel_for(first_row, end_row, 16, [&](int64_t begin_here, int64_t end_here) {
        std::vector<float> product(static_cast<size_t>(width));
        for (int64_t row = begin_here; row < end_here; ++row) {
            const int64_t begin = std::max(first, row * width);
            const int64_t length = std::min(end, (row + 1) * width) - begin;
            const auto part = std::span(product).first(static_cast<size_t>(length));
            std::ranges::fill(part, 0.0F);
            add_row(b.data() + (row - first_row) * rank, a, width, part, begin - row * width);
            float* const numbers = from.data() + (begin - first);
            for (int64_t i = 0; i < length; ++i) numbers[i] -= scale * part[static_cast<size_t>(i)];
        }
    });
    return std::nullopt;
}

std::vector<int64_t> InitialAdapter::widened_shape(const std::string& tensor,
                                                   std::vector<int64_t> shape) {
    if (tensor.ends_with(".lora_A.weight")) shape[0] *= 2;
    if (tensor.ends_with(".lora_B.weight")) shape[1] *= 2;
    return shape;
}

std::optional<Failure> InitialAdapter::write_widened(const std::string& tensor, int64_t first,
                                                     std::span<const float> values,
                                                     const hub::WriteElements& write) const {
    const hub::StoredTensor* const initial = stored_.find(name_in_adapter(tensor));
    if (initial == nullptr) return write(first, values);
    if (tensor.ends_with(".lora_B.weight")) return write_beside(*initial, first, values, write);
    std::vector<float> below(values.size());
    if (auto failure = stored_.read(*initial, first, below)) return failure;
    if (auto failure = write(first, values)) return failure;
    return write(initial->shape[0] * initial->shape[1] + first, below);
}

// Whole rows together, parts of rows at the ends each by itself.
std::optional<Failure> InitialAdapter::write_beside(const hub::StoredTensor& of_b, int64_t first,
                                                    std::span<const float> values,
                                                    const hub::WriteElements& write) const {
    const int64_t rank = of_b.shape[1];
    std::vector<float> beside(values.size());
    if (auto failure = stored_.read(of_b, first, beside)) return failure;
    for (float& value : beside) value = -value;
    for (int64_t done = 0; done < std::ssize(values);) {
        const int64_t column = (first + done) % rank;
        const int64_t row = (first + done) / rank;
        const int64_t left = std::ssize(values) - done;
        const int64_t rows = column == 0 ? left / rank : 0;
        const int64_t count = rows > 0 ? rows * rank : std::min(left, rank - column);
        const auto cut = [&](const auto& all, int64_t from, int64_t length) {
            return std::span<const float>(all).subspan(static_cast<size_t>(done + from),
                                                       static_cast<size_t>(length));
        };
        std::vector<float> both;
        for (int64_t i = 0; i < rows; ++i)
            for (const auto& part : {cut(values, i * rank, rank), cut(beside, i * rank, rank)})
                both.insert(both.end(), part.begin(), part.end());
        if (rows > 0) {
            if (auto failure = write(row * 2 * rank, both)) return failure;
        } else {
            const int64_t place = row * 2 * rank + column;
            if (auto failure = write(place, cut(values, 0, count))) return failure;
            if (auto failure = write(place + rank, cut(beside, 0, count))) return failure;
        }
        done += count;
    }
    return std::nullopt;
}

}  // namespace ringshard::peft
