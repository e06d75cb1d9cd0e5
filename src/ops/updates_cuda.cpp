#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

void update(const UpdateBuffers& buffers, const UpdateRule& rule) {
    gpu::Update work{.weights = gpu::data<float>(buffers.weights),
                     .gradient = gpu::data<float>(buffers.gradient),
                     .copy = buffers.copy.defined() ? gpu::data(buffers.copy) : nullptr,
                     .count = buffers.weights.numel(),
                     .first_place = buffers.first_place,
                     .step = static_cast<uint32_t>(buffers.step)};
    RINGSHARD_CHECK(buffers.moments.size() == num_moments_of(rule));
    for (size_t moment = 0; moment < buffers.moments.size(); ++moment) {
        work.moment_type = gpu::type_of(buffers.moments[moment]);
        work.moments[moment] = gpu::data(buffers.moments[moment]);
    }
    gpu::update(gpu::queue_of(buffers.weights), work, rule);
}

void coded_update(const CodedUpdateBuffers& buffers, const UpdateRule& rule) {
    RINGSHARD_CHECK(buffers.weights.numel() % moment_block == 0);
    gpu::CodedUpdate work{.weights = gpu::data<float>(buffers.weights),
                          .gradient = gpu::data<float>(buffers.gradient),
                          .copy = buffers.copy.defined() ? gpu::data(buffers.copy) : nullptr,
                          .blocks = buffers.weights.numel() / moment_block};
    RINGSHARD_CHECK(!buffers.moments.empty() && buffers.moments.size() == num_moments_of(rule));
    for (size_t moment = 0; moment < buffers.moments.size(); ++moment)
        work.moments[moment] = {buffers.moments[moment].codes.data_ptr<uint8_t>(),
                                gpu::data<float>(buffers.moments[moment].maxima),
                                gpu::data<float>(buffers.moments[moment].values)};
    gpu::coded_update(gpu::queue_of(buffers.weights), work, rule);
}

}  // namespace ringshard::ops::cuda
