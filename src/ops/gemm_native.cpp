#include <ATen/ops/empty.h>

#include <limits>

#include "gemm_backends.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

// bf16 as its 16 bits.
template <class T>
GemmMatrix<T> matrix_of(const at::Tensor& matrix) {
    const bool is_transposed = matrix.stride(1) != 1 && matrix.size(1) != 1;
    RINGSHARD_CHECK(
        matrix.stride(is_transposed ? 0 : 1) == 1 || matrix.size(is_transposed ? 0 : 1) == 1,
        "neither rows nor columns are contiguous");
    return {static_cast<const T*>(matrix.const_data_ptr()), matrix.stride(is_transposed ? 1 : 0),
            is_transposed};
}

// The rows and columns from `row` and `column` on.
template <class T>
GemmTask<T> part_of(GemmTask<T> task, RowRange rows, RowRange columns) {
    task.a.data += rows.begin * (task.a.is_transposed ? 1 : task.a.stride);
    task.b.data += columns.begin * (task.b.is_transposed ? task.b.stride : 1);
    if (task.bias != nullptr) task.bias += columns.begin;
    const int64_t result = rows.begin * task.result_stride + columns.begin;
    if (task.sums != nullptr) task.sums += result;
    if (task.rounded != nullptr) task.rounded += result;
    task.rows = rows.end - rows.begin;
    task.columns = columns.end - columns.begin;
    return task;
}

// Parts of a matrix, one for each thread.
struct Grid {
    int64_t rows = 1;
    int64_t columns = 1;
};

// The grid whose parts have the shortest sides: these are the numbers that a thread packs.
Grid grid_of(int64_t threads, int64_t rows, int64_t columns) {
    Grid best{threads, 1};
    int64_t shortest = std::numeric_limits<int64_t>::max();
    for (int64_t high = 1; high <= threads; ++high) {
        if (threads % high != 0) continue;
        const int64_t sides = rows / high + columns / (threads / high);
        if (sides >= shortest) continue;
        shortest = sides;
        best = {high, threads / high};
    }
    return best;
}

// Part `number` of `parts`, of whole tiles but for the last.
RowRange tiles_of_part(int64_t number, int64_t parts, int64_t size, int64_t tile) {
    const RowRange tiles = range_of_thread(number, parts, (size + tile - 1) / tile);
    return {std::min(size, tiles.begin * tile), std::min(size, tiles.end * tile)};
}

// The program's own kernels.
class NativeGemm final : public GemmBackend {
public:
    explicit NativeGemm(const Kernels& kernels) : kernels_(kernels) {}

    std::string_view name() const override { return "native"; }
    std::string version() const override { return kernels_.name; }
    bool serves(at::ScalarType) const override { return true; }

    void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                  const at::Tensor& bias) override {
        if (has_no_terms(a)) {
            c.zero_();
            if (bias.defined()) c.add_(bias);
            return;
        }
        if (a.scalar_type() == at::kFloat)
            return run(kernels_.gemm.fp32, into_sums<float>(c, a, b, bias, false));
        run(kernels_.gemm.bf16, rounded(c, a, b, bias, false));
    }

    void accumulate(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) override {
        if (a.scalar_type() == at::kFloat) return add_product(c, a, b);
        if (!has_no_terms(a)) run(kernels_.gemm.bf16, rounded(c, a, b, {}, true));
    }
    bool accumulates(at::ScalarType) const override { return true; }

    void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) override {
        run_into_sums(c, a, b, true);
    }
    void write_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) override {
        if (has_no_terms(a)) c.zero_();
        run_into_sums(c, a, b, false);
    }

    int64_t workspace_bytes(const GemmKind&, const GemmSizes&) const override { return 0; }

    void keep_memory() {
        while (std::ssize(memory_) < at::get_num_threads())
            memory_.push_back(at::empty({kernels_.gemm.memory_bytes}, at::kByte));
    }
    void free_memory() { memory_.clear(); }

private:
    // The sums of such a product are zeros: kernels take none.
    static bool has_no_terms(const at::Tensor& a) { return a.size(1) == 0; }

    template <class T>
    static GemmTask<T> into_sums(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                                 const at::Tensor& bias, bool adds) {
        return {c.size(0),
                c.size(1),
                a.size(1),
                matrix_of<T>(a),
                matrix_of<T>(b),
                bias.defined() ? static_cast<const T*>(bias.const_data_ptr()) : nullptr,
                static_cast<float*>(c.mutable_data_ptr()),
                adds,
                nullptr,
                c.stride(0)};
    }

    static GemmTask<uint16_t> rounded(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                                      const at::Tensor& bias, bool adds) {
        GemmTask<uint16_t> task = into_sums<uint16_t>(c, a, b, bias, adds);
        task.sums = nullptr;
        task.rounded = static_cast<uint16_t*>(c.mutable_data_ptr());
        return task;
    }

    void run_into_sums(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool adds) {
        if (has_no_terms(a)) return;
        if (a.scalar_type() == at::kFloat)
            run(kernels_.gemm.fp32, into_sums<float>(c, a, b, {}, adds));
        else
            run(kernels_.gemm.bf16, into_sums<uint16_t>(c, a, b, {}, adds));
    }

    template <class T>
    void run(void (*kernel)(const GemmTask<T>&, void*), const GemmTask<T>& task) {
        const int64_t threads = at::get_num_threads();
        keep_memory();
        const Grid grid = grid_of(threads, task.rows, task.columns);
        at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
            for (int64_t part = first; part < last; ++part) {
                const RowRange rows = tiles_of_part(part / grid.columns, grid.rows, task.rows,
                                                    kernels_.gemm.tile_rows);
                const RowRange columns = tiles_of_part(part % grid.columns, grid.columns,
                                                       task.columns, kernels_.gemm.tile_columns);
                kernel(part_of(task, rows, columns),
                       memory_[static_cast<size_t>(part)].mutable_data_ptr());
            }
        });
    }

    const Kernels& kernels_;
    // One for each thread. Tensors begin at addresses that 64 divides, and are accounted for.
    std::vector<at::Tensor> memory_;
};

}  // namespace

std::unique_ptr<GemmBackend> make_native_gemm(const Kernels& kernels) {
    return std::make_unique<NativeGemm>(kernels);
}

void keep_product_memory(GemmBackend& backend) {
    if (auto* const native = dynamic_cast<NativeGemm*>(&backend)) native->keep_memory();
}
void free_product_memory(GemmBackend& backend) {
    if (auto* const native = dynamic_cast<NativeGemm*>(&backend)) native->free_memory();
}

}  // namespace ringshard::ops
