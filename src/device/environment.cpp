#include "ringshard/device/environment.hpp"

#include <cstdlib>

namespace ringshard::device {

void prepare_environment(const Environment& environment) {
    const auto set_if_unset = [&](const char* name, const char* value) {
        if (!environment.find(name)) setenv(name, value, 0);
    };
    set_if_unset("NCCL_DEBUG", "WARN");
    // Several communicators on one GPU: kernels are launched in the order of the calls.
    set_if_unset("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
    set_if_unset("PYTORCH_ALLOC_CONF", "expandable_segments:True");
    // What oneDNN and LibTorch's layer over it keep of every product of another shape: half a
    // megabyte in bf16, and rows of all lengths make a thousand of them.
    set_if_unset("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128");
    set_if_unset("LRU_CACHE_CAPACITY", "128");
}

}  // namespace ringshard::device
