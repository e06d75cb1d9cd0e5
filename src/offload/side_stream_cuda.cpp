#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <iostream>
#include <map>
#include <set>

#include "host_copies.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"
#include "touch_pages.hpp"

namespace ringshard::offload {

namespace {

// No setting makes a copy fail: the context is broken, by an earlier kernel or the hardware.
void throw_if_failed(cudaError_t error, const char* what) {
    if (error != cudaSuccess)
        throw Error(ExitCode::internal, format_text("{}: {}", what, cudaGetErrorString(error)));
}

class CudaSideStream final : public SideStream {
public:
    explicit CudaSideStream(at::Device device)
        : device_(device), stream_(c10::cuda::getStreamFromPool(false, device.index())) {}

    // Copies to and from memory that is not pinned give the same result, but block the host.
    void pin(void* memory, size_t bytes) override {
        touch_pages(memory, bytes);
        const c10::cuda::CUDAGuard guard(device_);
        const cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterDefault);
        if (error == cudaSuccess) {
            pinned_.insert(memory);
            return;
        }
        cudaGetLastError();  // clears the error
        std::cerr << format_text(
            "warning: {} of the host's memory cannot be pinned ({}): copies between it and the GPU "
            "are slow; look at `ulimit -l` and the limits of the job\n",
            human_bytes(static_cast<double>(bytes)), cudaGetErrorString(error));
    }
    // wait() makes the device wait, not the host: copies may still be in flight.
    void unpin(void* memory) override {
        const c10::cuda::CUDAGuard guard(device_);
        cudaDeviceSynchronize();
        if (pinned_.erase(memory) > 0) cudaHostUnregister(memory);
    }

    void begin() override {
        at::cuda::CUDAEvent now;
        now.record(c10::cuda::getCurrentCUDAStream(device_.index()));
        now.block(stream_);
    }
    void copy(void* into, const void* from, size_t bytes) override {
        throw_if_failed(cudaMemcpyAsync(into, from, bytes, cudaMemcpyDefault, stream_.stream()),
                        "a copy between GPU and host");
    }
    Mark mark() override {
        at::cuda::CUDAEvent& event = marks_[++last_];
        event.record(stream_);
        return last_;
    }
    void wait(Mark mark) override {
        const auto found = marks_.extract(mark);
        RINGSHARD_CHECK(found, "mark {} was waited for", mark);
        found.mapped().block(c10::cuda::getCurrentCUDAStream(device_.index()));
    }

private:
    at::Device device_;
    c10::cuda::CUDAStream stream_;
    Mark last_ = 0;
    std::map<Mark, at::cuda::CUDAEvent> marks_;
    std::set<const void*> pinned_;
};

}  // namespace

std::unique_ptr<SideStream> make_side_stream(at::Device device) {
    if (device.is_cuda()) return std::make_unique<CudaSideStream>(device);
    return std::make_unique<HostCopies>();
}

}  // namespace ringshard::offload
