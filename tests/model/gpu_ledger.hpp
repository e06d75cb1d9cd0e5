#pragma once

#include <ATen/record_function.h>

#include <map>
#include <string>
#include <unordered_set>

#include "gpu/host_accesses.hpp"

// Counts the work of the GPU path where the host runs its kernels.
namespace ringshard::test {

struct Count {
    int64_t launches = 0;
    int64_t bytes = 0;  // read and written: of a kernel's, those of distinct places
};

// By names: kernels of src/ops/gpu, operators of LibTorch that compute or copy, products of
// matrices, and attention.
using Counts = std::map<std::string, Count>;

class Ledger {
public:
    void begin_kernel(const std::string& name) {
        end_kernel();
        kernel_ = name;
        counts[name].launches += 1;
    }
    void access(ops::gpu::HostAccess access, const void* place, size_t bytes) {
        constexpr size_t line = 2;  // a number of bf16, the smallest
        auto& lines = access == ops::gpu::HostAccess::read ? read_ : written_;
        const auto first = reinterpret_cast<uintptr_t>(place);
        for (uintptr_t at = first; at < first + bytes; at += line) lines.insert(at);
    }
    void end_kernel() {
        if (!kernel_.empty())
            counts[kernel_].bytes += 2 * static_cast<int64_t>(read_.size() + written_.size());
        read_.clear();
        written_.clear();
        kernel_.clear();
    }

    Counts counts;
    int64_t waits = 0;         // of the host, that no reading back is
    int64_t to_device = 0;     // copies by ops::on_device()
    int64_t to_host = 0;       // by ops::on_host()
    int64_t other_copies = 0;  // of index tensors, by which the host would wait for a device
    int64_t addends = 0;       // bytes that products read beside their factors

private:
    std::string kernel_;
    std::unordered_set<uintptr_t> read_;
    std::unordered_set<uintptr_t> written_;
};

// Counts the work of this thread while it lives.
class Counting {
public:
    explicit Counting(Ledger& counted);
    Counting(const Counting&) = delete;
    Counting& operator=(const Counting&) = delete;
    ~Counting();

private:
    at::CallbackHandle handle_;
};

}  // namespace ringshard::test
