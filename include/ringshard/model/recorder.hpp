#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace ringshard::model {

// Work that was given to a device once, and can be given again without going through it: the same
// operations on the same memory.
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

    // Goes through `work`, which waits for nobody, looks at no number and returns the tensors that
    // it made for others. They hold nothing before the first replay, which comes next, and are
    // filled anew by each. They, and what the work reads, must live as long as the recording.
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

// Batches so far, and those of them that were replayed, or recorded to be.
struct Replays {
    int64_t batches = 0;
    int64_t replayed = 0;
};

// Of a GPU: by CUDA graphs, which share one pool of memory.
std::unique_ptr<Recorder> make_recorder(at::Device device);

}  // namespace ringshard::model
