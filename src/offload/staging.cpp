#include "ringshard/offload/staging.hpp"

#include <ATen/ops/from_blob.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#include "ringshard/offload/scratch_file.hpp"

namespace ringshard::offload {

// Shared with all tensors: any thread may free one, and later than Staging itself.
struct Staging::Pages {
    explicit Pages(at::Device its_device) : device(its_device) {}
    ~Pages() { release_free(); }

    void* take(int64_t size) {
        const std::lock_guard lock(mutex);
        const auto found = free.find(size);
        if (found != free.end()) {
            void* const memory = found->second;
            free.erase(found);
            return memory;
        }
        void* const memory =
            device.is_cpu() ? std::aligned_alloc(page_bytes, static_cast<size_t>(size)) : nullptr;
        if (memory == nullptr && device.is_cpu()) throw std::bad_alloc();
        bytes += size;
        return memory;
    }

    void give_back(void* memory, int64_t size) {
        const std::lock_guard lock(mutex);
        free.emplace(size, memory);
    }

    void release_free() {
        const std::lock_guard lock(mutex);
        for (const auto& [size, memory] : free) {
            std::free(memory);
            bytes -= size;
        }
        free.clear();
    }

    at::Device device;
    std::mutex mutex;
    std::multimap<int64_t, void*> free;  // by size
    int64_t bytes = 0;
};

Staging::Staging(at::Device device) : pages_(std::make_shared<Pages>(device)) {}

at::Tensor Staging::take(int64_t elements, at::ScalarType type) {
    const int64_t size = whole_pages(elements * static_cast<int64_t>(c10::elementSize(type)));
    void* const memory = pages_->take(size);
    return at::from_blob(
        memory, {elements}, [pages = pages_, size](void* done) { pages->give_back(done, size); },
        at::TensorOptions(pages_->device).dtype(type), pages_->device);
}

void Staging::release_free() { pages_->release_free(); }

int64_t Staging::bytes() const {
    const std::lock_guard lock(pages_->mutex);
    return pages_->bytes;
}

std::span<std::byte> pages_of(const at::Tensor& staged) {
    return {static_cast<std::byte*>(staged.data_ptr()),
            static_cast<size_t>(whole_pages(static_cast<int64_t>(staged.nbytes())))};
}

}  // namespace ringshard::offload
