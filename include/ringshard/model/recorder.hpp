#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace ringshard::model {

// Operations of a device that were recorded once, and can be launched again at once: the same
// operations on the same memory (a CUDA graph).
class Recording {
public:
    virtual ~Recording() = default;
    virtual void replay() = 0;

protected:
    Recording() = default;
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
};

class Recorder {
public:
    virtual ~Recorder() = default;

    // Records `work`, which does not wait, reads no number on the host, and returns the tensors
    // that it makes for the caller. They hold no values before the first replay, and each replay
    // overwrites them. They, and the tensors that the work reads, must outlive the recording.
    using Work = std::function<std::vector<at::Tensor>()>;
    struct Recorded {
        std::unique_ptr<Recording> recording;
        std::vector<at::Tensor> made;
    };
    virtual Recorded record(Work work) = 0;

protected:
    Recorder() = default;
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;
};

// The batches so far, and how many of them were replayed or recorded.
struct Replays {
    int64_t batches = 0;
    int64_t replayed = 0;
};

// Makes the recorder of a GPU: CUDA graphs, which share one pool of memory.
std::unique_ptr<Recorder> make_recorder(at::Device device);

}  // namespace ringshard::model
