#pragma once

#include <utility>
#include <vector>

#include "c10/cuda/CUDAStream.h"

namespace at::cuda {

using MempoolId_t = std::pair<unsigned long long, unsigned long long>;
inline MempoolId_t graph_pool_handle() { return {0, 1}; }

// Repeats the accesses of the recorded launches, whose memory it keeps.
class CUDAGraph {
public:
    void capture_begin(MempoolId_t, cudaStreamCaptureMode) {
        ringshard::test::StreamModel::current()->begin_recording();
    }
    void capture_end() { launches_ = ringshard::test::StreamModel::current()->end_recording(); }
    void replay() {
        ringshard::test::StreamModel& model = *ringshard::test::StreamModel::current();
        for (const auto& launch : launches_) model.launch(model.stream(), launch);
    }

private:
    std::vector<ringshard::test::StreamModel::Launch> launches_;
};

}  // namespace at::cuda
