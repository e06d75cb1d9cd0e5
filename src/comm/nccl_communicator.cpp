#include "nccl_communicator.hpp"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cublas_v2.h>

#include <exception>

#include "check_tensors.hpp"

namespace ringshard::comm {

namespace {

// NCCL's own words about its last error: the address of the peer, the call that failed.
std::string details_of(ncclComm_t communicator) {
    const char* const words = ncclGetLastError(communicator);
    return words == nullptr || *words == '\0' ? "" : format_text(": {}", words);
}

void throw_if_nccl_failed(ncclResult_t result, const char* call, const char* file, int line) {
    if (result == ncclSuccess) return;
    throw Error(ExitCode::peer_lost, format_text("{}:{}: {}: {}{}", file, line, call,
                                                 ncclGetErrorString(result), details_of(nullptr)));
}

#define RINGSHARD_NCCL(call) throw_if_nccl_failed((call), #call, __FILE__, __LINE__)

ncclDataType_t nccl_type_of(const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
        case at::kFloat: return ncclFloat32;
        case at::kDouble: return ncclFloat64;
        case at::kBFloat16: return ncclBfloat16;
        case at::kInt: return ncclInt32;
        case at::kLong: return ncclInt64;
        case at::kByte: return ncclUint8;
        default:
            RINGSHARD_CHECK(false, "tensors of type {} do not travel",
                            c10::toString(tensor.scalar_type()));
    }
}

size_t count_of(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

std::byte* part(const at::Tensor& whole, int index, int count) {
    return static_cast<std::byte*>(whole.data_ptr()) +
           static_cast<size_t>(index) *
               (static_cast<size_t>(whole.nbytes()) / static_cast<size_t>(count));
}

// Multiprocessors that NCCL takes at most, from the products that run beside it.
constexpr int most_of_nccl = 16;

}  // namespace

class NcclCommunicator::EventCompletion final : public Completion {
public:
    EventCompletion(NcclCommunicator& communicator, std::vector<at::Tensor> tensors,
                    std::shared_ptr<at::cuda::CUDAEvent> end, int64_t beside_products)
        : communicator_(communicator),
          tensors_(std::move(tensors)),
          end_(std::move(end)),
          beside_products_(beside_products) {}
    void wait() override { communicator_.wait_for(*end_, beside_products_); }

private:
    NcclCommunicator& communicator_;
    std::vector<at::Tensor> tensors_;  // kept alive
    std::shared_ptr<at::cuda::CUDAEvent> end_;
    int64_t beside_products_;
};

NcclCommunicator::NcclCommunicator(Group group, at::Device device, std::optional<bool> spans_hosts)
    : group_(std::move(group)),
      device_(device),
      stream_(c10::cuda::getStreamFromPool(true, device.index())),
      spans_hosts_(spans_hosts) {}

void NcclCommunicator::connect() {
    const c10::cuda::CUDAGuard guard(device_);
    ncclUniqueId id{};
    if (group_.is_root()) RINGSHARD_NCCL(ncclGetUniqueId(&id));
    const std::string id_of_root = group_.broadcast(std::string(id.internal, sizeof(id.internal)));
    std::copy(id_of_root.begin(), id_of_root.end(), id.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = most_of_nccl;  // leaves the others to the block that computes meanwhile
    RINGSHARD_NCCL(ncclCommInitRankConfig(&communicator_, size(), id, rank(), &config));
    name_ = group_.log().state().name;
    if (!spans_hosts_) spans_hosts_ = group_.split_by_host().size() < size();
    group_.log().set_backend([this] { refresh(); },
                             [this] {
                                 const c10::cuda::CUDAGuard of_this_gpu(device_);
                                 ncclCommAbort(communicator_);
                             });
}

// cuBLAS's products on Hopper and newer stay on all multiprocessors until they end, so one that
// begins beside NCCL waits for those that NCCL holds. Between hosts an operation takes about as
// long as the products that hide it: until a wait for the newest one, products run without NCCL's
// multiprocessors. Inside a host it is soon over, and they take all. An operation that an exception
// leaves behind is never awaited: the next one frees them, or the end of the communicator.
bool NcclCommunicator::takes_multiprocessors() const {
    constexpr int hopper = 9;
    return spans_hosts_.value() && at::cuda::getDeviceProperties(device_.index())->major >= hopper;
}

void NcclCommunicator::leave_multiprocessors(int count) const {
    const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(device_.index());
    const int target = count == 0 ? 0 : gpu.multiProcessorCount - count;  // 0: all
    const cublasStatus_t status =
        cublasSetSmCountTarget(at::cuda::getCurrentCUDABlasHandle(), target);
    RINGSHARD_CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasSetSmCountTarget to {}: {}", target,
                    cublasGetStatusString(status));
}

void NcclCommunicator::wait_for(at::cuda::CUDAEvent& end, int64_t beside_products) {
    const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device_.index());
    // A long evaluation has many waits, and no end of a step that counts them.
    constexpr size_t most_stalls = 256;
    if (stalls_.size() >= most_stalls) count_stalls();
    Stall& stall = stalls_.emplace_back();
    stall.begin.record(stream);
    end.block(stream);
    stall.end.record(stream);
    if (has_newest_beside_products(beside_products)) leave_multiprocessors(0);
}

bool NcclCommunicator::has_newest_beside_products(int64_t number) const {
    return number > 0 && group_.flight_recorder().beside_products().frees_processors(number);
}

// The host never waits for NCCL, so the wait of a rank for others is that of its stream.
void NcclCommunicator::count_stalls() {
    double milliseconds = 0;
    for (; !stalls_.empty() && stalls_.front().end.query(); stalls_.pop_front())
        milliseconds += stalls_.front().begin.elapsed_time(stalls_.front().end);
    group_.flight_recorder().add_wait(milliseconds / 1e3);
}

// The watchdog's thread calls this about once a second, and the training thread at a step's end.
void NcclCommunicator::refresh() {
    // A broken CUDA context fails every later call. The training thread reports it, since it knows
    // what it was doing.
    if (note_what_has_ended() == cudaSuccess) throw_if_a_peer_is_lost();
    if (group_.flight_recorder().is_main_thread()) count_stalls();
}

// Where an exception has left the newest operation behind. It stays under way for a moment, and
// products are only slower beside it.
void NcclCommunicator::free_multiprocessors() const noexcept {
    if (!has_newest_beside_products(last_beside_products_)) return;
    try {
        leave_multiprocessors(0);
    } catch (const std::exception&) {
        // A broken CUDA context, which the exception on its way tells of.
    }
}

NcclCommunicator::~NcclCommunicator() {
    if (communicator_ == nullptr) return;
    group_.log().set_backend({}, {});
    free_multiprocessors();
    // ncclCommFinalize is collective: while an exception unwinds, the peers do not call it.
    if (std::uncaught_exceptions() > 0)
        ncclCommAbort(communicator_);
    else if (ncclCommFinalize(communicator_) == ncclSuccess)
        ncclCommDestroy(communicator_);
}

template <class Enqueue>
Pending NcclCommunicator::start(const char* what, std::vector<at::Tensor> tensors,
                                Enqueue enqueue) {
    size_t bytes = 0;
    for (const at::Tensor& tensor : tensors) {
        check_tensor(tensor, at::kCUDA);
        bytes = std::max(bytes, tensor.nbytes());
    }
    if (communicator_ == nullptr) connect();
    const int64_t number = group_.log().begin(what, static_cast<int64_t>(bytes));
    const c10::cuda::CUDAGuard guard(device_);
    at::cuda::CUDAEvent ready;
    ready.record(c10::cuda::getCurrentCUDAStream(device_.index()));
    ready.block(stream_);
    enqueue();
    auto end = std::make_shared<at::cuda::CUDAEvent>();
    end->record(stream_);
    {
        const std::lock_guard lock(mutex_);
        under_way_.push_back({number, what, end});
    }
    const cudaError_t error = note_what_has_ended();
    RINGSHARD_CHECK(error == cudaSuccess,
                    "GPU {}, found before {} {} of group {}: {}. An earlier kernel failed; "
                    "CUDA_LAUNCH_BLOCKING=1 shows which",
                    device_.index(), what, number, name_, cudaGetErrorString(error));
    int64_t beside_products = 0;
    if (takes_multiprocessors()) {
        beside_products = group_.flight_recorder().beside_products().begin();
        last_beside_products_ = beside_products;
        leave_multiprocessors(most_of_nccl);
    }
    return Pending(std::make_unique<EventCompletion>(*this, std::move(tensors), std::move(end),
                                                     beside_products));
}

cudaError_t NcclCommunicator::note_what_has_ended() {
    // Without this the watchdog's thread would open a context on GPU 0, half a GiB for each rank.
    const c10::cuda::CUDAGuard guard(device_);
    const std::lock_guard lock(mutex_);
    for (; !under_way_.empty(); under_way_.pop_front()) {
        const cudaError_t state = cudaEventQuery(under_way_.front().end->event());
        if (state != cudaSuccess) {
            cudaGetLastError();  // of this thread: clears it
            return state == cudaErrorNotReady ? cudaSuccess : state;
        }
        group_.log().end(under_way_.front().number);
    }
    return cudaSuccess;
}

// A link that fails leaves the training thread waiting for the GPU, so this ends the job from the
// thread that finds the error.
void NcclCommunicator::throw_if_a_peer_is_lost() {
    ncclResult_t result = ncclSuccess;
    if (ncclCommGetAsyncError(communicator_, &result) != ncclSuccess || result == ncclSuccess ||
        result == ncclInProgress)
        return;
    const std::lock_guard lock(mutex_);
    const std::string operation = under_way_.empty() ? "between operations"
                                                     : format_text("{} {}", under_way_.front().what,
                                                                   under_way_.front().number);
    throw Error(ExitCode::peer_lost,
                format_text("NCCL, group {}, rank {} of {}, {}: {}{}", name_, rank(), size(),
                            operation, ncclGetErrorString(result), details_of(communicator_)));
}

Pending NcclCommunicator::all_reduce(at::Tensor in_out) {
    return start("all-reduce", {in_out}, [&] {
        RINGSHARD_NCCL(ncclAllReduce(in_out.data_ptr(), in_out.data_ptr(), count_of(in_out),
                                     nccl_type_of(in_out), ncclSum, communicator_, stream_));
    });
}

Pending NcclCommunicator::all_gather(at::Tensor out, at::Tensor in) {
    check_parts(out, in, size(), at::kCUDA);
    return start("all-gather", {out, in}, [&] {
        RINGSHARD_NCCL(ncclAllGather(in.data_ptr(), out.data_ptr(), count_of(in), nccl_type_of(in),
                                     communicator_, stream_));
    });
}

Pending NcclCommunicator::reduce_scatter(at::Tensor out, at::Tensor in) {
    check_parts(in, out, size(), at::kCUDA);
    return start("reduce-scatter", {out, in}, [&] {
        RINGSHARD_NCCL(ncclReduceScatter(in.data_ptr(), out.data_ptr(), count_of(out),
                                         nccl_type_of(out), ncclSum, communicator_, stream_));
    });
}

Pending NcclCommunicator::all_to_all(at::Tensor out, at::Tensor in) {
    RINGSHARD_CHECK(in.nbytes() == out.nbytes() && in.numel() % size() == 0,
                    "an all-to-all of {} elements over {} ranks", in.numel(), size());
    return start("all-to-all", {out, in}, [&] {
        const size_t count = count_of(in) / static_cast<size_t>(size());
        const ncclDataType_t type = nccl_type_of(in);
        RINGSHARD_NCCL(ncclGroupStart());
        for (int peer = 0; peer < size(); ++peer) {
            RINGSHARD_NCCL(
                ncclSend(part(in, peer, size()), count, type, peer, communicator_, stream_));
            RINGSHARD_NCCL(
                ncclRecv(part(out, peer, size()), count, type, peer, communicator_, stream_));
        }
        RINGSHARD_NCCL(ncclGroupEnd());
    });
}

Pending NcclCommunicator::all_to_all_uneven(at::Tensor out, RowCounts received, at::Tensor in,
                                            RowCounts sent) {
    check_rows(out, received, size(), at::kCUDA);
    check_rows(in, sent, size(), at::kCUDA);
    return start("all-to-all", {out, in}, [&] {
        const ncclDataType_t type = nccl_type_of(in);
        int64_t first_sent = 0;
        int64_t first_received = 0;
        RINGSHARD_NCCL(ncclGroupStart());
        for (int peer = 0; peer < size(); ++peer) {
            const at::Tensor to = in.narrow(0, first_sent, sent[static_cast<size_t>(peer)]);
            const at::Tensor from =
                out.narrow(0, first_received, received[static_cast<size_t>(peer)]);
            RINGSHARD_NCCL(
                ncclSend(to.data_ptr(), count_of(to), type, peer, communicator_, stream_));
            RINGSHARD_NCCL(
                ncclRecv(from.data_ptr(), count_of(from), type, peer, communicator_, stream_));
            first_sent += to.size(0);
            first_received += from.size(0);
        }
        RINGSHARD_NCCL(ncclGroupEnd());
    });
}

Pending NcclCommunicator::shift(std::vector<Exchange> exchanges) {
    if (exchanges.empty()) return {};
    std::vector<at::Tensor> tensors;
    for (const Exchange& exchange : exchanges) {
        RINGSHARD_CHECK(exchange.send.nbytes() == exchange.receive.nbytes(), "a shift keeps sizes");
        tensors.push_back(exchange.send);
        tensors.push_back(exchange.receive);
    }
    return start("shift", std::move(tensors), [&] {
        const int next = (rank() + 1) % size();
        const int previous = (rank() + size() - 1) % size();
        RINGSHARD_NCCL(ncclGroupStart());
        for (const auto& [send, receive] : exchanges) {
            RINGSHARD_NCCL(ncclSend(send.data_ptr(), count_of(send), nccl_type_of(send), next,
                                    communicator_, stream_));
            RINGSHARD_NCCL(ncclRecv(receive.data_ptr(), count_of(receive), nccl_type_of(receive),
                                    previous, communicator_, stream_));
        }
        RINGSHARD_NCCL(ncclGroupEnd());
    });
}

Pending NcclCommunicator::broadcast(at::Tensor in_out, int root) {
    return start("broadcast", {in_out}, [&] {
        RINGSHARD_NCCL(ncclBroadcast(in_out.data_ptr(), in_out.data_ptr(), count_of(in_out),
                                     nccl_type_of(in_out), root, communicator_, stream_));
    });
}

}  // namespace ringshard::comm
