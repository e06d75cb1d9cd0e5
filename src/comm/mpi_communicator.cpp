#include "mpi_communicator.hpp"

#include <algorithm>
#include <span>
#include <thread>

#include "check_tensors.hpp"
#include "mpi_call.hpp"
#include "ringshard/base/narrow.hpp"
#include "sums.hpp"

namespace ringshard::comm {

namespace {

// Up to this size latency dominates, and MPI's own trees beat a ring.
constexpr size_t small_bytes = size_t{16} << 10;

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
    return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())};
}

std::vector<std::span<std::byte>> equal_parts(std::span<std::byte> whole, int count) {
    const size_t length = whole.size() / static_cast<size_t>(count);
    std::vector<std::span<std::byte>> parts;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i)
        parts.push_back(whole.subspan(i * length, length));
    return parts;
}

std::vector<std::span<std::byte>> parts_of_rows(const at::Tensor& tensor, const RowCounts& rows) {
    const auto whole = bytes_of(tensor);
    const size_t of_row = whole.size() / static_cast<size_t>(std::max<int64_t>(1, tensor.size(0)));
    std::vector<std::span<std::byte>> parts;
    size_t begin = 0;
    for (const int64_t count : rows) {
        parts.push_back(whole.subspan(begin, static_cast<size_t>(count) * of_row));
        begin += parts.back().size();
    }
    return parts;
}

// Splits a tensor whose size the ranks need not divide: whole elements, the last parts shorter or
// empty.
std::vector<std::span<std::byte>> nearly_equal_parts(std::span<std::byte> whole, int count) {
    constexpr size_t alignment = 64;
    const size_t per_part =
        (whole.size() + static_cast<size_t>(count) - 1) / static_cast<size_t>(count);
    const size_t length = (per_part + alignment - 1) / alignment * alignment;
    std::vector<std::span<std::byte>> parts;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const size_t begin = std::min(i * length, whole.size());
        parts.push_back(whole.subspan(begin, std::min(length, whole.size() - begin)));
    }
    return parts;
}

MPI_Datatype mpi_type_of(at::ScalarType type) {
    switch (type) {
        case at::kFloat: return MPI_FLOAT;
        case at::kDouble: return MPI_DOUBLE;
        case at::kInt: return MPI_INT32_T;
        case at::kLong: return MPI_INT64_T;
        case at::kByte: return MPI_UINT8_T;
        default: return MPI_DATATYPE_NULL;  // bf16: MPI cannot add it
    }
}

// One rank adds and broadcasts the sum: MPI's all-reduce may round differently on every rank.
void reduce_and_broadcast(std::span<std::byte> whole, int count, MPI_Datatype type,
                          const Group& group) {
    MPI_Request request = MPI_REQUEST_NULL;
    const void* const mine = group.is_root() ? MPI_IN_PLACE : whole.data();
    void* const total = group.is_root() ? whole.data() : nullptr;
    RINGSHARD_MPI(MPI_Ireduce(mine, total, count, type, MPI_SUM, 0, group.handle(), &request));
    wait_for(request);
    RINGSHARD_MPI(MPI_Ibcast(whole.data(), count, type, 0, group.handle(), &request));
    wait_for(request);
}

class WorkerCompletion final : public Completion {
public:
    WorkerCompletion(Worker::Done done, GroupLog& log, int64_t number)
        : done_(std::move(done)), log_(log), number_(number) {}
    void wait() override {
        if (done_->load()) return;
        const GroupLog::Waiting noted(log_, number_);
        done_->wait(false);
    }

private:
    Worker::Done done_;
    GroupLog& log_;  // the communicator's, which outlives its operations
    int64_t number_;
};

}  // namespace

Pending MpiCommunicator::start(const char* what, size_t bytes, std::function<void()> task) {
    GroupLog& log = group_.log();
    const int64_t number = log.begin(what, narrow<int64_t>(bytes));
    const std::chrono::duration<double> delay =
        link_.delay * (size() - 1) + link_.delay_of_byte * static_cast<double>(bytes);
    auto noted = [this, number, delay, task = std::move(task)] {
        if (delay > delay.zero()) std::this_thread::sleep_for(delay);
        task();
        group_.log().end(number);
    };
    return Pending(
        std::make_unique<WorkerCompletion>(worker_.submit(std::move(noted)), log, number));
}

Pending MpiCommunicator::all_reduce(at::Tensor in_out) {
    check_tensor(in_out, at::kCPU);
    return start("all-reduce", in_out.nbytes(), [this, in_out] {
        const auto whole = bytes_of(in_out);
        const MPI_Datatype type = mpi_type_of(in_out.scalar_type());
        if (whole.size() <= small_bytes && type != MPI_DATATYPE_NULL) {
            return reduce_and_broadcast(whole, narrow<int>(in_out.numel()), type, group_);
        }
        const auto parts = nearly_equal_parts(whole, size());
        ring_reduce_in_place(
            ring_, parts,
            [&](std::byte* into, const std::byte* from, size_t bytes) {
                add(into, from, bytes, in_out.scalar_type());
            },
            ring_buffers_);
        ring_all_gather(ring_, parts);
    });
}

Pending MpiCommunicator::all_gather(at::Tensor out, at::Tensor in) {
    check_parts(out, in, size(), at::kCPU);
    return start("all-gather", out.nbytes(), [this, out, in] {
        const auto parts = equal_parts(bytes_of(out), size());
        const auto mine = parts[static_cast<size_t>(rank())];
        if (mine.data() != bytes_of(in).data()) std::ranges::copy(bytes_of(in), mine.begin());
        ring_all_gather(ring_, parts);
    });
}

Pending MpiCommunicator::reduce_scatter(at::Tensor out, at::Tensor in) {
    check_parts(in, out, size(), at::kCPU);
    return start("reduce-scatter", in.nbytes(), [this, out, in] {
        std::vector<std::span<const std::byte>> parts;
        for (const auto part : equal_parts(bytes_of(in), size())) parts.emplace_back(part);
        ring_reduce_scatter(
            ring_, bytes_of(out), parts,
            [&](std::byte* into, const std::byte* from, size_t bytes) {
                add(into, from, bytes, in.scalar_type());
            },
            ring_buffers_);
    });
}

void MpiCommunicator::exchange_parts(const std::vector<std::span<std::byte>>& received,
                                     const std::vector<std::span<std::byte>>& sent) {
    std::vector<MPI_Request> requests;
    for (int distance = 1; distance < size(); ++distance) {
        const auto from = static_cast<size_t>((rank() + size() - distance) % size());
        const auto to = static_cast<size_t>((rank() + distance) % size());
        if (!received[from].empty())
            start_receive(ring_, received[from], static_cast<int>(from), requests);
        if (!sent[to].empty()) start_send(ring_, sent[to], static_cast<int>(to), requests);
    }
    const auto mine = static_cast<size_t>(rank());
    std::ranges::copy(sent[mine], received[mine].begin());
    wait_for(requests);
}

Pending MpiCommunicator::all_to_all(at::Tensor out, at::Tensor in) {
    check_tensor(in, at::kCPU);
    check_tensor(out, at::kCPU);
    RINGSHARD_CHECK(in.nbytes() == out.nbytes() && in.numel() % size() == 0,
                    "an all-to-all of {} elements over {} ranks", in.numel(), size());
    RINGSHARD_CHECK(in.numel() == 0 || in.data_ptr() != out.data_ptr(),
                    "an all-to-all is not done in place");
    return start("all-to-all", in.nbytes(), [this, out, in] {
        exchange_parts(equal_parts(bytes_of(out), size()), equal_parts(bytes_of(in), size()));
    });
}

Pending MpiCommunicator::all_to_all_uneven(at::Tensor out, RowCounts received, at::Tensor in,
                                           RowCounts sent) {
    check_rows(out, received, size(), at::kCPU);
    check_rows(in, sent, size(), at::kCPU);
    return start("all-to-all", std::max(in.nbytes(), out.nbytes()),
                 [this, out, received = std::move(received), in, sent = std::move(sent)] {
                     exchange_parts(parts_of_rows(out, received), parts_of_rows(in, sent));
                 });
}

Pending MpiCommunicator::shift(std::vector<Exchange> exchanges) {
    size_t bytes = 0;
    for (const Exchange& exchange : exchanges) {
        check_tensor(exchange.send, at::kCPU);
        check_tensor(exchange.receive, at::kCPU);
        RINGSHARD_CHECK(exchange.send.nbytes() == exchange.receive.nbytes(), "a shift keeps sizes");
        bytes += exchange.send.nbytes();
    }
    return start("shift", bytes, [this, exchanges = std::move(exchanges)] {
        std::vector<MPI_Request> requests;
        for (const Exchange& exchange : exchanges) {
            start_receive(ring_, bytes_of(exchange.receive), ring_.previous(), requests);
            start_send(ring_, bytes_of(exchange.send), ring_.next(), requests);
        }
        wait_for(requests);
    });
}

Pending MpiCommunicator::broadcast(at::Tensor in_out, int root) {
    check_tensor(in_out, at::kCPU);
    return start("broadcast", in_out.nbytes(), [this, in_out, root] {
        const auto whole = bytes_of(in_out);
        for (size_t begin = 0; begin < whole.size(); begin += ring_.longest_message) {
            const auto piece =
                whole.subspan(begin, std::min(ring_.longest_message, whole.size() - begin));
            MPI_Request request = MPI_REQUEST_NULL;
            RINGSHARD_MPI(MPI_Ibcast(piece.data(), narrow<int>(piece.size()), MPI_BYTE, root,
                                     group_.handle(), &request));
            wait_for(request);
        }
    });
}

}  // namespace ringshard::comm
