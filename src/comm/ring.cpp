#include "ring.hpp"

#include <algorithm>
#include <array>

#include "mpi_call.hpp"
#include "ringshard/base/narrow.hpp"

namespace ringshard::comm {

namespace {

constexpr int tag = 1;

// A reduction sends each part in segments, so that it adds one while the next arrives. The receive
// buffers hold one block of segments, however long the parts are.
constexpr size_t segment_bytes = size_t{256} << 10;
constexpr size_t block_bytes = 8 * segment_bytes;

template <class Byte>
std::span<Byte> cut(std::span<Byte> whole, size_t begin, size_t length) {
    begin = std::min(begin, whole.size());
    return whole.subspan(begin, std::min(length, whole.size() - begin));
}

size_t wrap(int index, int size) { return static_cast<size_t>((index % size + size) % size); }

// One block of a ring reduction, pipelined by segments. At step s a rank receives the partial sum
// of part rank-s-2, adds its own share and sends the sum on at step s+1. Partial sums form in the
// receive buffers, the last one in `out`.
class BlockReduction {
public:
    BlockReduction(const RingPlace& ring, const Adder& add,
                   std::array<std::span<std::byte>, 2> arrivals)
        : ring_(ring), add_(add), arrivals_(arrivals) {}

    // own[p]: this rank's share of part p. `out`: receives the sum of this rank's part.
    void run(const std::vector<std::span<const std::byte>>& own, std::span<std::byte> out) {
        own_ = own;
        out_ = out;
        num_segments_ = 0;
        for (const auto& part : own_)
            num_segments_ =
                std::max(num_segments_, (part.size() + segment_bytes - 1) / segment_bytes);
        sends_.assign(num_segments_, MPI_REQUEST_NULL);
        receives_.assign(num_segments_, MPI_REQUEST_NULL);
        const int last_step = ring_.size - 2;
        for (size_t segment = 0; segment < num_segments_; ++segment) {
            start_receive_of(0, segment);
            start_send_of(cut(own_[part_sent(0)], segment * segment_bytes, segment_bytes), segment);
        }
        for (int step = 0; step <= last_step; ++step) {
            for (size_t segment = 0; segment < num_segments_; ++segment) {
                wait_for(receives_[segment]);
                const auto sum = where_sum_forms(step, segment);
                const auto share =
                    cut(own_[part_received(step)], segment * segment_bytes, segment_bytes);
                add_(sum.data(), share.data(), sum.size());
                if (step == last_step) continue;
                wait_for(sends_[segment]);  // the next receive fills the buffer of this send
                start_receive_of(step + 1, segment);
                start_send_of(sum, segment);
            }
        }
        wait_for(sends_);
    }

private:
    size_t part_sent(int step) const { return wrap(ring_.rank - step - 1, ring_.size); }
    size_t part_received(int step) const { return wrap(ring_.rank - step - 2, ring_.size); }
    std::span<std::byte> where_sum_forms(int step, size_t segment) const {
        const bool is_last = step == ring_.size - 2;
        const size_t length = own_[part_received(step)].size();
        const auto whole = is_last ? out_ : arrivals_[static_cast<size_t>(step % 2)].first(length);
        return cut(whole, segment * segment_bytes, segment_bytes);
    }
    void start_receive_of(int step, size_t segment) {
        const auto into = where_sum_forms(step, segment);
        RINGSHARD_MPI(MPI_Irecv(into.data(), narrow<int>(into.size()), MPI_BYTE, ring_.previous(),
                                tag, ring_.communicator, &receives_[segment]));
    }
    void start_send_of(std::span<const std::byte> bytes, size_t segment) {
        RINGSHARD_MPI(MPI_Isend(bytes.data(), narrow<int>(bytes.size()), MPI_BYTE, ring_.next(),
                                tag, ring_.communicator, &sends_[segment]));
    }

    const RingPlace& ring_;
    const Adder& add_;
    std::array<std::span<std::byte>, 2> arrivals_;
    std::vector<std::span<const std::byte>> own_;
    std::span<std::byte> out_;
    size_t num_segments_ = 0;
    std::vector<MPI_Request> sends_;
    std::vector<MPI_Request> receives_;
};

}  // namespace

void start_send(const RingPlace& ring, std::span<const std::byte> bytes, int to,
                std::vector<MPI_Request>& requests) {
    for (size_t begin = 0; begin == 0 || begin < bytes.size(); begin += ring.longest_message) {
        const auto piece = cut(bytes, begin, ring.longest_message);
        RINGSHARD_MPI(MPI_Isend(piece.data(), narrow<int>(piece.size()), MPI_BYTE, to, tag,
                                ring.communicator, &requests.emplace_back(MPI_REQUEST_NULL)));
    }
}

void start_receive(const RingPlace& ring, std::span<std::byte> bytes, int from,
                   std::vector<MPI_Request>& requests) {
    for (size_t begin = 0; begin == 0 || begin < bytes.size(); begin += ring.longest_message) {
        const auto piece = cut(bytes, begin, ring.longest_message);
        RINGSHARD_MPI(MPI_Irecv(piece.data(), narrow<int>(piece.size()), MPI_BYTE, from, tag,
                                ring.communicator, &requests.emplace_back(MPI_REQUEST_NULL)));
    }
}

void ring_all_gather(const RingPlace& ring, const std::vector<std::span<std::byte>>& parts) {
    std::vector<MPI_Request> receives;
    std::vector<MPI_Request> sends;
    for (int step = 0; step + 1 < ring.size; ++step) {
        receives.clear();
        start_receive(ring, parts[wrap(ring.rank - step - 1, ring.size)], ring.previous(),
                      receives);
        start_send(ring, parts[wrap(ring.rank - step, ring.size)], ring.next(), sends);
        wait_for(receives);
    }
    wait_for(sends);
}

namespace {

size_t longest_of(const std::vector<std::span<const std::byte>>& parts) {
    size_t longest = 0;
    for (const auto& part : parts) longest = std::max(longest, part.size());
    return longest;
}

std::vector<std::span<const std::byte>> block_of(
    const std::vector<std::span<const std::byte>>& parts, size_t begin) {
    std::vector<std::span<const std::byte>> block;
    for (const auto& part : parts) block.push_back(cut(part, begin, block_bytes));
    return block;
}

}  // namespace

void ring_reduce_scatter(const RingPlace& ring, std::span<std::byte> out,
                         const std::vector<std::span<const std::byte>>& parts, const Adder& add,
                         RingBuffers& buffers) {
    const size_t longest = longest_of(parts);
    for (auto& buffer : buffers)
        buffer.resize(std::max(buffer.size(), std::min(longest, block_bytes)));
    BlockReduction reduction(ring, add, {buffers[0], buffers[1]});
    for (size_t begin = 0; begin < longest; begin += block_bytes)
        reduction.run(block_of(parts, begin), cut(out, begin, block_bytes));
}

void ring_reduce_in_place(const RingPlace& ring, const std::vector<std::span<std::byte>>& parts,
                          const Adder& add, RingBuffers& buffers) {
    // The last sum of a block forms in a third buffer, since the data received must not overwrite
    // this rank's own share; then copy the sum over the share.
    const std::vector<std::span<const std::byte>> shares(parts.begin(), parts.end());
    const size_t longest = longest_of(shares);
    for (auto& buffer : buffers)
        buffer.resize(std::max(buffer.size(), std::min(longest, block_bytes)));
    BlockReduction reduction(ring, add, {buffers[0], buffers[1]});
    for (size_t begin = 0; begin < longest; begin += block_bytes) {
        const auto mine = cut(parts[static_cast<size_t>(ring.rank)], begin, block_bytes);
        const auto sum = std::span(buffers[2]).first(mine.size());
        reduction.run(block_of(shares, begin), sum);
        std::ranges::copy(sum, mine.begin());
    }
}

}  // namespace ringshard::comm
