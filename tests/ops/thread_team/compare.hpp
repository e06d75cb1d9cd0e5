#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels.hpp"

namespace ringshard::test {

using bf16 = __nv_bfloat16;

// Memory of a kernel's arguments, each with no byte to spare, so that the sanitizer sees accesses
// before and behind it. With shift 1 each begins one element behind a multiple of 128 bytes, so
// that kernels read single numbers.
class Memory {
public:
    explicit Memory(size_t shift) : shift_(shift) {}

    // Numbers around 0, the same in every Memory that is filled alike.
    template <class T>
    T* numbers(int64_t count, float scale = 1) {
        T* const made = make<T>(count, shift_);
        for (int64_t i = 0; i < count; ++i) made[i] = T(scale * next());
        return made;
    }
    // Results: NaN until a kernel writes them.
    template <class T>
    T* unset(int64_t count) {
        return make<T>(count, shift_);
    }
    template <class T>
    T* values(const std::vector<T>& values) {
        T* const made = make<T>(static_cast<int64_t>(values.size()), shift_);
        std::copy(values.begin(), values.end(), made);
        return made;
    }
    // Of kernels that take aligned memory only.
    template <class T>
    T* aligned_unset(int64_t count) {
        return make<T>(count, 0);
    }

    // Returns the number of the first argument that holds NaN, or -1.
    int first_with_nan() const;
    // Returns the number of the first argument whose bits differ, or -1.
    int first_difference(const Memory& other) const;

private:
    enum class Kind { floats, halves, other };
    struct Argument {
        std::shared_ptr<unsigned char> owner;
        const void* first;
        size_t bytes;
        Kind kind;
    };
    template <class T>
    T* make(int64_t count, size_t shift) {
        constexpr Kind kind = std::is_same_v<T, float>  ? Kind::floats
                              : std::is_same_v<T, bf16> ? Kind::halves
                                                        : Kind::other;
        return static_cast<T*>(
            allocate(static_cast<size_t>(count) * sizeof(T), shift * sizeof(T), kind));
    }
    void* allocate(size_t bytes, size_t bytes_before, Kind kind);
    float next();

    size_t shift_;
    uint32_t random_ = 1;
    std::vector<Argument> arguments_;
};

// Which cases of this process run: every one, or one of so many in a row. Where launches are
// counted, every case begins its kernels, which do not run.
struct Selection {
    bool only_counts_launches = false;
    int number = 0;
    int of = 1;
    int seen = 0;
};
Selection& selection();

// Runs `work` on the host's loops and on the thread team, aligned and shifted by one element. Fails
// if a number of the second is NaN or a bit differs from the first.
using Work = std::function<void(const ops::gpu::Queue& queue, Memory& memory)>;
void compare(const std::string& name, const Work& work, const std::vector<size_t>& shifts = {0, 1});

// A part of the cases runs with every test suite, and at least one of each file of kernels.
enum class Part { some, all };
void attention_cases(Part part);
void delta_cases(Part part);
void flat_cases(Part part);
void fp8_cases(Part part);
void head_cases(Part part);
void loss_cases(Part part);
void norm_cases(Part part);
void row_cases(Part part);
// Launches the kernels of rows of every width up to 16,384 columns, where launches are counted.
void launches_of_all_widths();

template <class T>
constexpr ops::gpu::NumberType number_type =
    std::is_same_v<T, float> ? ops::gpu::NumberType::fp32 : ops::gpu::NumberType::bf16;

// Calls `each` with a null pointer of bf16 and, if all cases run, of fp32.
template <class Each>
void for_types(Part part, Each each) {
    each(static_cast<bf16*>(nullptr));
    if (part == Part::all) each(static_cast<float*>(nullptr));
}
template <class T>
std::string named(const char* kernel, int64_t width) {
    return std::string(kernel) + (std::is_same_v<T, float> ? ", fp32, " : ", bf16, ") +
           std::to_string(width) + " wide";
}

}  // namespace ringshard::test
