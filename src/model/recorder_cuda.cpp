#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "ringshard/attention/prepare_for_recording.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/model/recorder.hpp"

namespace ringshard::model {

namespace {

using Pool = std::shared_ptr<const at::cuda::MempoolId_t>;

class Graph final : public Recording {
public:
    explicit Graph(Pool pool) : pool_(std::move(pool)) {}
    // It may be under way, and not on the stream that its memory belongs to.
    ~Graph() override { cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()); }

    // The default stream cannot be recorded: the work goes to another one, which never runs it.
    std::vector<at::Tensor> record(const Recorder::Work& work, c10::cuda::CUDAStream stream) {
        at::cuda::CUDAEvent before;
        before.record(c10::cuda::getCurrentCUDAStream(stream.device_index()));
        before.block(stream);
        const c10::cuda::CUDAStreamGuard guard(stream);
        // Other threads may copy a save meanwhile.
        graph_.capture_begin(*pool_, cudaStreamCaptureModeThreadLocal);
        std::vector<at::Tensor> made = work();
        graph_.capture_end();
        return made;
    }
    void replay() override { graph_.replay(); }

private:
    Pool pool_;
    at::cuda::CUDAGraph graph_;
};

class GraphRecorder final : public Recorder {
public:
    explicit GraphRecorder(at::Device device)
        : stream_(c10::cuda::getStreamFromPool(false, device.index())) {}
    Recorded record(Work work) override {
        auto graph = std::make_unique<Graph>(pool_of_living_graphs());
        std::vector<at::Tensor> made = graph->record(work, stream_);
        return {std::move(graph), std::move(made)};
    }

private:
    // LibTorch gives the memory of a pool free with its last graph, and takes no graph into it
    // after that: those of another shape of batches get a pool of their own.
    Pool pool_of_living_graphs() {
        Pool pool = pool_.lock();
        if (!pool)
            pool_ = pool = std::make_shared<Pool::element_type>(at::cuda::graph_pool_handle());
        return pool;
    }

    std::weak_ptr<Pool::element_type> pool_;
    c10::cuda::CUDAStream stream_;
};

}  // namespace

std::unique_ptr<Recorder> make_recorder(at::Device device) {
    RINGSHARD_CHECK(device.is_cuda(), "work of {} cannot be recorded", device.str());
    attention::prepare_for_recording(device);
    return std::make_unique<GraphRecorder>(device);
}

}  // namespace ringshard::model
