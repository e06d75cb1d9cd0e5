#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "ringshard/base/error.hpp"
#include "ringshard/model/recorder.hpp"

namespace ringshard::model {

namespace {

class Graph final : public Recording {
public:
    // The default stream cannot be recorded: the work goes to another one, which never runs it.
    std::vector<at::Tensor> record(const Recorder::Work& work, at::cuda::MempoolId_t pool,
                                   c10::cuda::CUDAStream stream) {
        at::cuda::CUDAEvent before;
        before.record(c10::cuda::getCurrentCUDAStream(stream.device_index()));
        before.block(stream);
        const c10::cuda::CUDAStreamGuard guard(stream);
        // Other threads go on copying what is saved meanwhile.
        graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
        std::vector<at::Tensor> made = work();
        graph_.capture_end();
        return made;
    }
    void replay() override { graph_.replay(); }

private:
    at::cuda::CUDAGraph graph_;
};

class GraphRecorder final : public Recorder {
public:
    explicit GraphRecorder(at::Device device)
        : pool_(at::cuda::graph_pool_handle()),
          stream_(c10::cuda::getStreamFromPool(false, device.index())) {}
    Recorded record(Work work) override {
        auto graph = std::make_unique<Graph>();
        std::vector<at::Tensor> made = graph->record(work, pool_, stream_);
        return {std::move(graph), std::move(made)};
    }

private:
    at::cuda::MempoolId_t pool_;
    c10::cuda::CUDAStream stream_;
};

}  // namespace

std::unique_ptr<Recorder> make_recorder(at::Device device) {
    RINGSHARD_CHECK(device.is_cuda(), "work of ", device.str(), " cannot be recorded");
    return std::make_unique<GraphRecorder>(device);
}

}  // namespace ringshard::model
