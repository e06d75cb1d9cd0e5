#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ringshard/base/finite.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/weights.hpp"
#include "ringshard/ops/nf4.hpp"

// Weights in four bits: each rank quantises the blocks of its shards, then all ranks share the
// scales, since a nested one depends on all scales of its matrix.
namespace ringshard::model {

namespace {

constexpr int64_t weights_at_once = int64_t{1} << 22;

template <class Number>
std::span<Number> span_of(const at::Tensor& tensor) {
    return {static_cast<Number*>(tensor.data_ptr()), static_cast<size_t>(tensor.numel())};
}

template <class Number>
std::span<Number> part(std::span<Number> whole, int64_t first, int64_t count) {
    return whole.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

// A chunk of a shard in four bits, on the host.
struct QuantizedChunk {
    shard::Range range;        // of the unit, in bytes
    shard::Range own;          // of the unit, in bytes: of no other rank
    std::span<uint8_t> codes;  // the chunk
    std::span<float> scales;   // of its blocks
};

// Some weights of a tensor: where they begin in it, and in the unit.
struct Begin {
    int64_t in_tensor;
    int64_t in_unit;
};

// Adds the weights that are this rank's alone.
void add_own(const shard::TensorPiece& piece, const QuantizedChunk& chunk, const Begin& begin,
             std::span<const float> weights, shard::TensorSums& sums) {
    const shard::Range own{2 * chunk.own.begin, 2 * chunk.own.end};
    const shard::Range mine = intersect({begin.in_unit, begin.in_unit + std::ssize(weights)}, own);
    if (mine.size() > 0)
        sums.add(piece.tensor->spec.name, begin.in_tensor + mine.begin - begin.in_unit,
                 part(weights, mine.begin - begin.in_unit, mine.size()));
}

std::optional<Failure> quantize_piece(const shard::ReadWeight& read,
                                      const shard::TensorPiece& piece, const QuantizedChunk& chunk,
                                      shard::TensorSums& sums) {
    const std::string& name = piece.tensor->spec.name;
    const int64_t most = std::min(weights_at_once, piece.size);
    const at::Tensor buffer = at::empty({most}, at::TensorOptions(at::kFloat));
    for (int64_t done = 0; done < piece.size; done += most) {
        const int64_t count = std::min(most, piece.size - done);
        const std::span<float> weights = part(span_of<float>(buffer), 0, count);
        if (auto failure = read(name, piece.first + done, weights)) return failure;
        if (!all_finite(weights))
            return Failure{
                ExitCode::bad_data,
                format_text("{} holds NaN or infinite numbers in the model's files", name)};
        const int64_t first = piece.in_range + done;  // weight of the chunk
        const int64_t block = first / ops::nf4_block;
        const int64_t blocks = (count + ops::nf4_block - 1) / ops::nf4_block;
        ops::quantize_nf4(
            weights, part(chunk.codes, block * ops::nf4_block_bytes, blocks * ops::nf4_block_bytes),
            part(chunk.scales, block, blocks));
        add_own(piece, chunk, {piece.first + done, 2 * chunk.range.begin + first}, weights, sums);
    }
    return std::nullopt;
}

void write_scales(const shard::Zero& zero, size_t unit, std::span<const float> scales) {
    const shard::Nf4Layout& layout = *zero.units()[unit].nf4();
    const auto [chunks, shards] = zero.weights_at_rest_of(unit);
    const int64_t section = zero.section_range(unit).begin;
    const shard::Range of_scales{section + layout.code_bytes(), section + layout.bytes()};
    if (intersect(of_scales, chunks.shard(unit)).size() == 0) return;
    std::vector<uint8_t> bytes = layout.scale_bytes(part(scales, 0, layout.num_blocks()));
    const at::Tensor written =
        at::from_blob(bytes.data(), {std::ssize(bytes)}, at::TensorOptions(at::kByte));
    for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
        const shard::Range& range = chunks[chunk].range;
        const shard::Range both = intersect(of_scales, range);
        if (both.size() == 0) continue;
        const at::Tensor numbers = shards.load(chunk, shard::Access::read);
        numbers.narrow(0, both.begin - range.begin, both.size())
            .copy_(written.narrow(0, both.begin - of_scales.begin, both.size()));
        shards.store(chunk, numbers);
    }
}

}  // namespace

std::optional<Failure> load_nf4_weights(const shard::ReadWeight& read, const shard::Zero& zero,
                                        Nf4Scales& scales, shard::TensorSums& sums) {
    for (const auto& [chunks, shards] : zero.nf4_weights())
        for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
            const auto& [unit, range] = chunks[chunk];
            const shard::Range& shard = chunks.shard(unit);
            at::Tensor& of_shard = scales[unit];
            if (!of_shard.defined())
                of_shard =
                    at::zeros({shard.size() / ops::nf4_block_bytes}, at::TensorOptions(at::kFloat));
            const at::Tensor numbers = shards.load(chunk, shard::Access::read);
            const at::Tensor here = numbers.to(at::kCPU);
            const QuantizedChunk quantized{
                range, zero.exclusive_range(unit), span_of<uint8_t>(here),
                part(span_of<float>(of_shard), (range.begin - shard.begin) / ops::nf4_block_bytes,
                     range.size() / ops::nf4_block_bytes)};
            for (const shard::TensorPiece& piece : zero.units()[unit].pieces(range))
                if (auto failure = quantize_piece(read, piece, quantized, sums)) return failure;
            if (!here.is_same(numbers)) numbers.copy_(here);
            shards.store(chunk, numbers);
        }
    return std::nullopt;
}

void write_nf4_scales(const Nf4Scales& scales, const shard::Zero& zero) {
    for (const auto& [unit, of_shard] : scales) {
        const at::Tensor joined = zero.join_shards(unit, of_shard.to(zero.device())).to(at::kCPU);
        write_scales(zero, unit, span_of<const float>(joined));
    }
}

}  // namespace ringshard::model
