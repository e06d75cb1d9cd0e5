#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ringshard/base/finite.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/hub/weights.hpp"

// Weights in four or eight bits: each rank quantises those of its shards, then all ranks share the
// scales, which lie behind all codes; a nested one depends on all scales of its matrix.
namespace ringshard::hub {

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

shard::Range moved(const shard::Range& range, int64_t by) {
    return {range.begin + by, range.end + by};
}

// A chunk of a shard of codes, on the host. Ranges are of the section of the unit, in bytes.
struct CodedChunk {
    const shard::CodeLayout& layout;
    shard::Range range;
    shard::Range own;          // of no other rank
    std::span<uint8_t> codes;  // the chunk
    shard::Range begun;        // the scales of the groups that begin in the shard
    std::span<float> scales;
};

// The part of a matrix whose codes a chunk holds.
struct CodedPart {
    const std::string& name;  // of the tensor
    int64_t matrix_first;     // element of the tensor: where the matrix begins
    int64_t matrix_size;
    int64_t width;
    shard::Range weights;  // of the matrix
    int64_t matrix_byte;   // of the section
};

CodedPart part_of_piece(const shard::TensorPiece& piece, const CodedChunk& chunk) {
    const std::vector<int64_t>& shape = piece.tensor->spec.shape;
    const int64_t width = shape.back();
    const int64_t size = shape[shape.size() - 2] * width;
    const int64_t begin = piece.first % size;
    const int64_t of_byte = chunk.layout.weights_of_byte();
    return {piece.tensor->spec.name,
            piece.first - begin,
            size,
            width,
            {begin, begin + piece.size},
            chunk.range.begin + (piece.in_range - begin) / of_byte};
}

// Adds the weights that are this rank's alone, of weights of a matrix that begin at `first`.
void add_own(const CodedPart& part_of, const CodedChunk& chunk, int64_t first,
             std::span<const float> weights, shard::TensorSums& sums) {
    const int64_t of_byte = chunk.layout.weights_of_byte();
    const shard::Range own = moved(chunk.own, -part_of.matrix_byte);
    const shard::Range mine =
        intersect(intersect({first, first + std::ssize(weights)}, part_of.weights),
                  {own.begin * of_byte, own.end * of_byte});
    if (mine.size() > 0)
        sums.add(part_of.name, part_of.matrix_first + mine.begin,
                 part(weights, mine.begin - first, mine.size()));
}

// Quantises whole groups, which begin with a weight of the matrix, and keeps the codes of the part.
bool quantize_groups(const CodedPart& part_of, const CodedChunk& chunk, int64_t first,
                     std::span<const float> weights) {
    const shard::CodeLayout& layout = chunk.layout;
    const int64_t group = layout.group(part_of.width);
    std::vector<uint8_t> codes(static_cast<size_t>(layout.code_bytes_of(std::ssize(weights))));
    std::vector<float> scales(static_cast<size_t>((std::ssize(weights) + group - 1) / group));
    if (!layout.quantize(weights, part_of.width, codes, scales)) return false;
    const int64_t begin = part_of.matrix_byte + first / layout.weights_of_byte();  // of the section
    const shard::Range kept = intersect({begin, begin + std::ssize(codes)}, chunk.range);
    std::copy_n(codes.begin() + (kept.begin - begin), kept.size(),
                chunk.codes.begin() + (kept.begin - chunk.range.begin));
    const int64_t scale = layout.first_scale_from(begin);
    const shard::Range begun = intersect({scale, scale + std::ssize(scales)}, chunk.begun);
    std::copy_n(scales.begin() + (begun.begin - scale), begun.size(),
                chunk.scales.begin() + (begun.begin - chunk.begun.begin));
    return true;
}

// Returns the codes that files hold of a matrix and a unit in four bits keeps; null: none.
Expected<const StoredNf4*> kept_codes(const CodedFiles& coded, const shard::CodeLayout& layout,
                                      const std::string& tensor) {
    const StoredTensor* const found =
        coded.files != nullptr && layout.is_in_four_bits() ? coded.files->find(tensor) : nullptr;
    if (found == nullptr || !found->decoder) return static_cast<const StoredNf4*>(nullptr);
    return found->decoder->nf4(*coded.files);
}

// The counter grows by the bytes of the codes.
std::optional<Failure> read_exact(const CodedFiles& coded, const StoredNf4& kept,
                                  const std::string& tensor, int64_t first, std::span<float> into) {
    if (auto failure = kept.read_exact(*coded.files, first, into)) return failure;
    const StoredTensor& stored = *coded.files->find(tensor);
    coded.bytes->add(
        static_cast<int64_t>(static_cast<double>(stored.length) * static_cast<double>(into.size()) /
                             static_cast<double>(num_elements(stored.shape))));
    return std::nullopt;
}

// Reads whole groups, and so the weights of a row that another rank holds too.
std::optional<Failure> quantize_piece(const shard::ReadWeight& read, const CodedFiles& coded,
                                      const shard::TensorPiece& piece, const CodedChunk& chunk,
                                      shard::TensorSums& sums) {
    const CodedPart part_of = part_of_piece(piece, chunk);
    const auto kept = kept_codes(coded, chunk.layout, part_of.name);
    if (!kept) return kept.failure();
    const int64_t group = chunk.layout.group(part_of.width);
    const int64_t most = std::max<int64_t>(1, weights_at_once / group) * group;
    const int64_t groups_end =
        std::min((part_of.weights.end + group - 1) / group * group, part_of.matrix_size);
    std::vector<float> buffer;
    for (int64_t begin = part_of.weights.begin / group * group; begin < groups_end; begin += most) {
        buffer.resize(static_cast<size_t>(std::min(most, groups_end - begin)));
        const int64_t first = part_of.matrix_first + begin;
        if (auto failure = kept.value() != nullptr
                               ? read_exact(coded, *kept.value(), part_of.name, first, buffer)
                               : read(part_of.name, first, buffer))
            return failure;
        if (!all_finite(buffer))
            return Failure{
                ExitCode::bad_data,
                format_text("{} holds NaN or infinite numbers in the model's files", part_of.name)};
        if (!quantize_groups(part_of, chunk, begin, buffer))
            return Failure{
                ExitCode::bad_data,
                format_text("{} holds numbers beyond 65504, the largest of fp16, to which "
                            "load_in_8bit rounds weights; give load_in_4bit, or leave it out",
                            part_of.name)};
        if (kept.value() != nullptr) kept.value()->round(buffer);  // as the sums have the numbers
        add_own(part_of, chunk, begin, buffer, sums);
    }
    return std::nullopt;
}

// Reads the nested scales that files hold of the matrices of a unit whose scales lie in this rank's
// shard.
std::optional<Failure> read_nested_scales(const CodedFiles& coded, const shard::Zero& zero,
                                          size_t unit, CodeScales& scales) {
    const shard::FlatUnit& layout = zero.units()[unit];
    const shard::Range section = zero.section_range(unit);
    const shard::Range of_scales{section.begin + layout.codes()->code_bytes(), section.end};
    if (layout.placement().codec != shard::Codec::nested_nf4 ||
        intersect(of_scales, zero.weights_at_rest_of(unit).chunks.shard(unit)).size() == 0)
        return std::nullopt;
    const std::vector<shard::TensorPiece> matrices = layout.pieces(section);
    for (size_t number = 0; number < matrices.size(); ++number) {
        const auto kept = kept_codes(coded, *layout.codes(), matrices[number].tensor->spec.name);
        if (!kept) return kept.failure();
        if (kept.value() == nullptr) continue;
        auto nested = kept.value()->nested_scales(*coded.files);
        if (!nested) return nested.failure();
        if (nested.value()) scales.stored[unit].emplace(number, std::move(*nested.value()));
    }
    return std::nullopt;
}

shard::Range in_section(const shard::Zero& zero, size_t unit, const shard::Range& range) {
    return moved(range, -zero.section_range(unit).begin);
}

// Returns the scales of a unit, or of this rank's section of it, in their order: those of each
// shard, of which every rank knows how many there are. Collective over the zero group.
std::vector<float> join_scales(const shard::Zero& zero, size_t unit, const at::Tensor& of_shard) {
    const shard::CodeLayout& layout = *zero.units()[unit].codes();
    std::vector<shard::Range> begun;
    const int ranks = zero.shard_ranks(unit) != nullptr ? zero.shard_ranks(unit)->size() : 1;
    for (int rank = 0; rank < ranks; ++rank)
        begun.push_back(layout.scales_begun_in(in_section(
            zero, unit, ranks > 1 ? zero.shard_of_rank(unit, rank) : zero.section_range(unit))));
    const int64_t most = std::ranges::max(begun, {}, &shard::Range::size).size();
    const at::Tensor padded = at::zeros({most}, at::TensorOptions(at::kFloat));
    padded.narrow(0, 0, of_shard.numel()).copy_(of_shard);
    const at::Tensor joined = zero.join_shards(unit, padded.to(zero.device())).to(at::kCPU);
    const std::span<const float> from = span_of<const float>(joined);
    std::vector<float> scales(static_cast<size_t>(layout.num_scales()));
    for (size_t rank = 0; rank < begun.size(); ++rank)
        std::ranges::copy(part(from, static_cast<int64_t>(rank) * most, begun[rank].size()),
                          scales.begin() + begun[rank].begin);
    return scales;
}

void write_scales_of(const shard::Zero& zero, size_t unit, std::span<const float> scales,
                     const shard::CodeLayout::NestedByMatrix& known) {
    const shard::CodeLayout& layout = *zero.units()[unit].codes();
    const auto [chunks, shards] = zero.weights_at_rest_of(unit);
    const int64_t section = zero.section_range(unit).begin;
    const shard::Range of_scales{section + layout.code_bytes(), section + layout.bytes()};
    if (intersect(of_scales, chunks.shard(unit)).size() == 0) return;
    std::vector<uint8_t> bytes = layout.scale_bytes(scales, known);
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

std::optional<Failure> load_coded_weights(const shard::ReadWeight& read, const shard::Zero& zero,
                                          CodeScales& scales, shard::TensorSums& sums,
                                          const CodedFiles& coded) {
    for (const auto& [chunks, shards] : zero.coded_weights())
        for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
            const auto& [unit, range] = chunks[chunk];
            const shard::CodeLayout& layout = *zero.units()[unit].codes();
            const shard::Range begun =
                layout.scales_begun_in(in_section(zero, unit, chunks.shard(unit)));
            at::Tensor& of_shard = scales.begun[unit];
            if (!of_shard.defined()) {
                of_shard = at::zeros({begun.size()}, at::TensorOptions(at::kFloat));
                if (auto failure = read_nested_scales(coded, zero, unit, scales)) return failure;
            }
            const at::Tensor numbers = shards.load(chunk, shard::Access::read);
            const at::Tensor here = numbers.to(at::kCPU);
            const CodedChunk part{layout,
                                  in_section(zero, unit, range),
                                  in_section(zero, unit, zero.exclusive_range(unit)),
                                  span_of<uint8_t>(here),
                                  begun,
                                  span_of<float>(of_shard)};
            for (const shard::TensorPiece& piece : zero.units()[unit].pieces(range))
                if (auto failure = quantize_piece(read, coded, piece, part, sums)) return failure;
            if (!here.is_same(numbers)) numbers.copy_(here);
            shards.store(chunk, numbers);
        }
    return std::nullopt;
}

void write_scales(const CodeScales& scales, const shard::Zero& zero) {
    for (const auto& [unit, of_shard] : scales.begun) {
        const auto known = scales.stored.find(unit);
        write_scales_of(
            zero, unit, join_scales(zero, unit, of_shard),
            known == scales.stored.end() ? shard::CodeLayout::NestedByMatrix() : known->second);
    }
}

}  // namespace ringshard::hub
