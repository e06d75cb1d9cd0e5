#pragma once

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <memory>

#include "onednn_matmul.hpp"
#include "ringshard/base/error.hpp"

namespace ringshard::ops {

// oneDNN's library, loaded; it stays loaded until the process ends.
class OnednnLibrary {
public:
    static Expected<OnednnLibrary> open();

    template <class Function>
    Function* find(const char* name) const {
        void* const symbol = dlsym(handle_, name);
        RINGSHARD_CHECK(symbol != nullptr, "{}: {}", name, dlerror());
        return reinterpret_cast<Function*>(symbol);
    }

private:
    explicit OnednnLibrary(void* handle) : handle_(handle) {}
    void* handle_;
};

// An object of oneDNN with the function that frees it.
template <class Object>
using OnednnHandle = std::unique_ptr<Object, dnnl_status_t (*)(Object*)>;

// c = a b + bias, or c += a b.
struct OnednnProduct {
    const StridedMatrix& c;
    const StridedMatrix& a;
    const StridedMatrix& b;
    bool has_bias;
    bool accumulates;
};

// Functions that have different names in oneDNN 2 and 3; a file for each, and CMake takes the one
// that suits the header it found.
const char* onednn_file_name();  // "libdnnl.so.2"
// Null where oneDNN does not serve such a product here.
OnednnHandle<dnnl_primitive_desc> describe_product(const OnednnLibrary& library,
                                                   dnnl_engine_t engine,
                                                   const OnednnProduct& product);
dnnl_memory_t make_memory(const OnednnLibrary& library, dnnl_engine_t engine,
                          const StridedMatrix& matrix);

// One row of the width of c, in the type of a.
inline StridedMatrix bias_of(const OnednnProduct& product) {
    return {nullptr, {1, product.c.sizes[1]}, {product.c.sizes[1], 1}, product.a.is_bf16};
}

inline dnnl_data_type_t type_of(const StridedMatrix& matrix) {
    return matrix.is_bf16 ? dnnl_bf16 : dnnl_f32;
}

}  // namespace ringshard::ops
