#pragma once

#include "c10/cuda/CUDAStream.h"

namespace c10::cuda {

class CUDAGuard {
public:
    explicit CUDAGuard(Device) {}
    ~CUDAGuard() {}  // so that nobody takes a guard for an unused variable
};

class CUDAStreamGuard {
public:
    explicit CUDAStreamGuard(const CUDAStream& stream)
        : before_(ringshard::test::StreamModel::current()->stream()) {
        ringshard::test::StreamModel::current()->set_stream(stream.stream());
    }
    CUDAStreamGuard(const CUDAStreamGuard&) = delete;
    CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
    ~CUDAStreamGuard() { ringshard::test::StreamModel::current()->set_stream(before_); }

private:
    int before_;
};

}  // namespace c10::cuda
