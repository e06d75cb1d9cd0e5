// NCCL with a communicator of one rank, which sends to itself: each operation is a copy. So all
// that a machine with one GPU can show of NcclCommunicator is tried: streams, events, the flight
// recorder, cuBLAS's multiprocessors, and the ends of a communicator.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <stdexcept>
#include <thread>

#include "nccl_communicator.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/comm/mpi_session.hpp"

using namespace ringshard;
using comm::Group;
using comm::GroupLog;
using comm::NcclCommunicator;
using comm::Pending;

namespace {

struct Session {
    comm::MpiSession mpi;  // once in a process
};

BOOST_TEST_GLOBAL_FIXTURE(Session);

const at::Device gpu(at::kCUDA, 0);

// A communicator, and the log of its group in the flight recorder.
struct OneRank {
    explicit OneRank(bool spans_hosts = false) : OneRank(Group(MPI_COMM_SELF), spans_hosts) {}
    OneRank(Group group, bool spans_hosts)
        : log(&group.log()),
          communicator(std::make_unique<NcclCommunicator>(std::move(group), gpu, spans_hosts)) {}

    GroupLog* log;  // lives as long as the communicator
    std::unique_ptr<NcclCommunicator> communicator;
};

at::Tensor random(int64_t elements) { return at::randn({elements}, at::TensorOptions(gpu)); }

int multiprocessor_target() {
    int target = -1;
    const cublasStatus_t status =
        cublasGetSmCountTarget(at::cuda::getCurrentCUDABlasHandle(), &target);
    BOOST_TEST(status == CUBLAS_STATUS_SUCCESS);
    return target;
}

void wait_for_gpu() { BOOST_TEST(cudaDeviceSynchronize() == cudaSuccess); }

// An operation: it begins, and fills `out` with `in` once it has ended.
struct Operation {
    const char* name;
    std::function<Pending(NcclCommunicator&, const at::Tensor& out, const at::Tensor& in)> begin;
};

const std::vector<Operation> operations{
    {"all-reduce",
     [](NcclCommunicator& nccl, const at::Tensor& out, const at::Tensor& in) {
         out.copy_(in);
         return nccl.all_reduce(out);
     }},
    {"all-gather", [](NcclCommunicator& nccl, const at::Tensor& out,
                      const at::Tensor& in) { return nccl.all_gather(out, in); }},
    {"reduce-scatter", [](NcclCommunicator& nccl, const at::Tensor& out,
                          const at::Tensor& in) { return nccl.reduce_scatter(out, in); }},
    {"all-to-all", [](NcclCommunicator& nccl, const at::Tensor& out,
                      const at::Tensor& in) { return nccl.all_to_all(out, in); }},
    {"all-to-all of uneven parts",
     [](NcclCommunicator& nccl, const at::Tensor& out, const at::Tensor& in) {
         return nccl.all_to_all_uneven(out, {out.size(0)}, in, {in.size(0)});
     }},
    {"shift",
     [](NcclCommunicator& nccl, const at::Tensor& out, const at::Tensor& in) {
         return nccl.shift({{in, out}});
     }},
    {"broadcast",
     [](NcclCommunicator& nccl, const at::Tensor& out, const at::Tensor& in) {
         out.copy_(in);
         return nccl.broadcast(out, 0);
     }},
};

constexpr int64_t megabyte = 1 << 18;  // elements of fp32
constexpr int64_t connecting = 1;      // the first operation sends the communicator's id over MPI

void check_every_operation(OneRank& rank) {
    for (const Operation& operation : operations)
        for (const int64_t elements : {int64_t{0}, megabyte, int64_t{0}, megabyte}) {
            BOOST_TEST_INFO_SCOPE(operation.name << " of " << elements << " elements");
            const at::Tensor in = random(elements);
            const at::Tensor out = at::full_like(in, -1);
            Pending pending = operation.begin(*rank.communicator, out, in);
            pending.wait();
            BOOST_TEST(out.equal(in));
        }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_operation_of_one_rank_is_a_copy) {
    OneRank rank;
    check_every_operation(rank);
    wait_for_gpu();
    const comm::GroupLogState state = rank.log->state();
    BOOST_TEST(state.begun == connecting + static_cast<int64_t>(4 * operations.size()));
    BOOST_TEST(state.ended == state.begun);
    BOOST_TEST(multiprocessor_target() == 0);
}

BOOST_AUTO_TEST_CASE(other_types_and_several_exchanges_travel) {
    OneRank rank;
    for (const auto type : {at::kBFloat16, at::kInt, at::kLong, at::kByte}) {
        BOOST_TEST_INFO_SCOPE(at::toString(type));
        const at::Tensor a = at::arange(1000, at::TensorOptions(gpu)).remainder(100).to(type);
        const at::Tensor b = a.flip(0);
        const at::Tensor into_a = at::zeros_like(a);
        const at::Tensor into_b = at::zeros_like(b);
        Pending pending = rank.communicator->shift({{a, into_a}, {b, into_b}});
        pending.wait();
        BOOST_TEST(into_a.equal(a));
        BOOST_TEST(into_b.equal(b));
    }
}

// An operation begins after the work that the stream of the caller holds, and the stream waits for
// it: no host does.
BOOST_AUTO_TEST_CASE(operations_are_ordered_with_the_work_around_them) {
    OneRank rank;
    const at::Tensor matrix = at::randn({4096, 4096}, at::TensorOptions(gpu)) / 64;
    at::Tensor product = matrix;
    for (int i = 0; i < 20; ++i) product = product.mm(matrix);
    const at::Tensor out = at::zeros_like(product);
    Pending pending = rank.communicator->all_gather(out, product);
    pending.wait();
    const at::Tensor twice = out * 2;
    BOOST_TEST(twice.equal(product * 2));
}

BOOST_AUTO_TEST_CASE(an_operation_that_nobody_awaits_ends_with_its_scope) {
    OneRank rank;
    const at::Tensor in = random(megabyte);
    const at::Tensor out = at::zeros_like(in);
    { const Pending pending = rank.communicator->all_gather(out, in); }
    BOOST_TEST(out.equal(in));
    wait_for_gpu();
    BOOST_TEST(rank.log->state().ended == connecting + 1);
}

// As the watchdog does, about once a second.
BOOST_AUTO_TEST_CASE(another_thread_looks_meanwhile) {
    OneRank rank;
    std::atomic<bool> has_ended = false;
    std::atomic<int64_t> looks = 0;
    std::atomic<bool> is_in_order = true;
    std::thread watchdog([&] {
        while (!has_ended) {
            const comm::GroupLogState state = rank.log->state();
            if (state.ended > state.begun) is_in_order = false;
            ++looks;
        }
    });
    for (int round = 0; round < 20; ++round) check_every_operation(rank);
    wait_for_gpu();
    has_ended = true;
    watchdog.join();
    BOOST_TEST(looks > 0);
    BOOST_TEST(is_in_order.load());
    const comm::GroupLogState state = rank.log->state();
    BOOST_TEST(state.ended == state.begun);
    BOOST_TEST(rank.log->flight_recorder().seconds_waited() >= 0);
}

// Between hosts products leave NCCL its multiprocessors until the newest operation is awaited.
BOOST_AUTO_TEST_CASE(products_leave_multiprocessors_to_operations_under_way) {
    const cudaDeviceProp& properties = *at::cuda::getCurrentDeviceProperties();
    constexpr bool spans_hosts = true;
    OneRank rank(spans_hosts);
    const at::Tensor in = random(megabyte);
    const at::Tensor out = at::zeros_like(in);
    const at::Tensor other = at::zeros_like(in);
    BOOST_TEST(multiprocessor_target() == 0);
    Pending first = rank.communicator->all_gather(out, in);
    Pending second = rank.communicator->all_gather(other, in);
    constexpr int hopper = 9;
    const int left = properties.major >= hopper ? properties.multiProcessorCount - 16 : 0;
    BOOST_TEST(multiprocessor_target() == left);
    const at::Tensor matrix = at::randn({512, 512}, at::TensorOptions(gpu)).to(at::kBFloat16);
    BOOST_TEST(matrix.mm(matrix).isfinite().all().item<bool>());
    first.wait();
    BOOST_TEST(multiprocessor_target() == left);
    second.wait();
    BOOST_TEST(multiprocessor_target() == 0);
    BOOST_TEST(out.equal(in));
    BOOST_TEST(other.equal(in));
}

// Two communicators at a time, as a mesh has them, and one after the other.
BOOST_AUTO_TEST_CASE(communicators_live_beside_one_another) {
    for (int round = 0; round < 2; ++round) {
        OneRank a;
        OneRank b;
        const at::Tensor in = random(megabyte);
        const at::Tensor of_a = at::zeros_like(in);
        const at::Tensor of_b = at::zeros_like(in);
        Pending first = a.communicator->all_gather(of_a, in);
        Pending second = b.communicator->all_gather(of_b, of_a);
        first.wait();
        second.wait();
        BOOST_TEST(of_a.equal(in));
    }
    const OneRank never_connects;
}

// While an exception unwinds, peers do not come: the communicator is aborted, products get all
// multiprocessors, and the GPU goes on.
BOOST_AUTO_TEST_CASE(an_exception_aborts_the_communicator) {
    const Timer timer;
    const auto fail = [] {
        constexpr bool spans_hosts = true;
        const OneRank rank(spans_hosts);
        const at::Tensor in = random(megabyte);
        const Pending pending = rank.communicator->all_gather(at::zeros_like(in), in);
        throw std::runtime_error("a step failed");
    };
    BOOST_CHECK_THROW(fail(), std::runtime_error);
    BOOST_TEST(multiprocessor_target() == 0);
    wait_for_gpu();
    BOOST_TEST(random(10).isfinite().all().item<bool>());
    BOOST_TEST(timer.seconds() < 20);
}

// The watchdog's path: it aborts, and then the process ends, so the communicator is left behind.
BOOST_AUTO_TEST_CASE(the_watchdog_aborts_a_communicator) {
    const Timer timer;
    OneRank rank;
    const at::Tensor in = random(megabyte);
    const at::Tensor out = at::zeros_like(in);
    Pending pending = rank.communicator->all_gather(out, in);
    std::thread watchdog([&] { rank.log->abort(); });
    watchdog.join();
    pending.wait();
    wait_for_gpu();
    BOOST_TEST(random(10).isfinite().all().item<bool>());
    BOOST_TEST(timer.seconds() < 20);
    static_cast<void>(rank.communicator.release());
}
