#pragma once

#include <ATen/record_function.h>

namespace ringshard::test {

// Notes the operators of LibTorch that this thread calls, while it lives.
class Observing {
public:
    Observing();
    Observing(const Observing&) = delete;
    Observing& operator=(const Observing&) = delete;
    ~Observing();

private:
    at::CallbackHandle handle_;
};

}  // namespace ringshard::test
