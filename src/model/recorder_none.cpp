#include "ringshard/base/error.hpp"
#include "ringshard/model/recorder.hpp"

// For builds without CUDA.
namespace ringshard::model {

std::unique_ptr<Recorder> make_recorder(at::Device device) {
    RINGSHARD_CHECK(false, "work of {} cannot be recorded", device.str());
}

}  // namespace ringshard::model
