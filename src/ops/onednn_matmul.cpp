#include "onednn_matmul.hpp"

#include <map>
#include <optional>
#include <vector>

#include "onednn_library.hpp"

namespace ringshard::ops {

// RTLD_DEEPBIND: LibTorch hides an oneDNN of its own, but exports some of its C++ symbols; without
// the flag this library would call those in place of its own of the same names.
Expected<OnednnLibrary> OnednnLibrary::open() {
    constexpr int flags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
    void* handle = dlopen(onednn_file_name(), flags);
    if (handle == nullptr) handle = dlopen(RINGSHARD_ONEDNN_FILE, flags);
    if (handle == nullptr)
        return Failure{ExitCode::missing_input,
                       format_text("oneDNN, with which this program was built, cannot be loaded: "
                                   "{}; install it (Debian: libdnnl2), put its folder into "
                                   "LD_LIBRARY_PATH, or build the program without it",
                                   dlerror())};
    return OnednnLibrary(handle);
}

namespace {

// A product of one shape, compiled, and the objects through which it is given its operands.
struct Compiled {
    OnednnHandle<dnnl_primitive> primitive;
    std::array<OnednnHandle<dnnl_memory>, 4> operands;  // a, b, c, bias
    std::vector<dnnl_exec_arg_t> arguments;
};

using Key = std::array<int64_t, 12>;

Key key_of(const OnednnProduct& product) {
    const auto& [c, a, b, has_bias, accumulates] = product;
    return {c.sizes[0],        c.sizes[1],        a.sizes[1],
            a.strides[0],      a.strides[1],      b.strides[0],
            b.strides[1],      c.strides[0],      c.strides[1],
            a.is_bf16 ? 1 : 0, c.is_bf16 ? 1 : 0, (has_bias ? 2 : 0) + (accumulates ? 1 : 0)};
}

class Matmul final : public OnednnMatmul {
public:
    explicit Matmul(OnednnLibrary library)
        : library_(library),
          execute_(library.find<decltype(dnnl_primitive_execute)>("dnnl_primitive_execute")),
          wait_(library.find<decltype(dnnl_stream_wait)>("dnnl_stream_wait")),
          set_data_(
              library.find<decltype(dnnl_memory_set_data_handle)>("dnnl_memory_set_data_handle")),
          engine_(nullptr, library.find<decltype(dnnl_engine_destroy)>("dnnl_engine_destroy")),
          stream_(nullptr, library.find<decltype(dnnl_stream_destroy)>("dnnl_stream_destroy")) {
        dnnl_engine_t engine = nullptr;
        check(
            library.find<decltype(dnnl_engine_create)>("dnnl_engine_create")(&engine, dnnl_cpu, 0));
        engine_.reset(engine);
        dnnl_stream_t stream = nullptr;
        check(library.find<decltype(dnnl_stream_create)>("dnnl_stream_create")(
            &stream, engine, dnnl_stream_default_flags));
        stream_.reset(stream);
    }

    std::string version() const override {
        const dnnl_version_t* version = library_.find<decltype(dnnl_version)>("dnnl_version")();
        return format_text("{}.{}.{}", version->major, version->minor, version->patch);
    }

    bool has_bf16() const override {
        const StridedMatrix square{nullptr, {64, 64}, {64, 1}, true};
        return describe_product(library_, engine_.get(), {square, square, square, false, false}) !=
               nullptr;
    }

    void multiply(const StridedMatrix& c, const StridedMatrix& a, const StridedMatrix& b,
                  void* bias) override {
        run({c, a, b, bias != nullptr, false}, bias);
    }

    void add_product(const StridedMatrix& c, const StridedMatrix& a,
                     const StridedMatrix& b) override {
        run({c, a, b, false, true}, nullptr);
    }

    size_t num_kept() const override { return kept_.size(); }

private:
    static void check(dnnl_status_t status) {
        RINGSHARD_CHECK(status == dnnl_success, "oneDNN answers {}", status);
    }

    Compiled compile(const OnednnProduct& product) const {
        const auto description = describe_product(library_, engine_.get(), product);
        RINGSHARD_CHECK(description != nullptr, "oneDNN has no such product");
        const auto destroy =
            library_.find<decltype(dnnl_primitive_destroy)>("dnnl_primitive_destroy");
        dnnl_primitive_t primitive = nullptr;
        check(library_.find<decltype(dnnl_primitive_create)>("dnnl_primitive_create")(
            &primitive, description.get()));
        const auto memory_of = [&](const StridedMatrix& matrix) {
            return OnednnHandle<dnnl_memory>(
                make_memory(library_, engine_.get(), matrix),
                library_.find<decltype(dnnl_memory_destroy)>("dnnl_memory_destroy"));
        };
        Compiled made{{primitive, destroy},
                      {memory_of(product.a), memory_of(product.b), memory_of(product.c),
                       memory_of(bias_of(product))},
                      {}};
        made.arguments = {{DNNL_ARG_SRC, made.operands[0].get()},
                          {DNNL_ARG_WEIGHTS, made.operands[1].get()},
                          {DNNL_ARG_DST, made.operands[2].get()}};
        if (product.has_bias) made.arguments.push_back({DNNL_ARG_BIAS, made.operands[3].get()});
        return made;
    }

    // Batches of other lengths are other shapes: where too many have come, all are given up, and
    // those that come again are compiled again.
    const Compiled& compiled(const OnednnProduct& product) {
        constexpr size_t most = 512;
        const Key key = key_of(product);
        const auto found = kept_.find(key);
        if (found != kept_.end()) return found->second;
        if (kept_.size() == most) kept_.clear();
        return kept_.emplace(key, compile(product)).first->second;
    }

    void run(const OnednnProduct& product, void* bias) {
        const Compiled& with = compiled(product);
        const std::array<void*, 4> data{product.a.data, product.b.data, product.c.data, bias};
        for (size_t i = 0; i < with.arguments.size(); ++i)
            check(set_data_(with.arguments[i].memory, data[i]));
        check(execute_(with.primitive.get(), stream_.get(), static_cast<int>(with.arguments.size()),
                       with.arguments.data()));
        check(wait_(stream_.get()));
    }

    OnednnLibrary library_;
    decltype(dnnl_primitive_execute)* execute_;
    decltype(dnnl_stream_wait)* wait_;
    decltype(dnnl_memory_set_data_handle)* set_data_;
    OnednnHandle<dnnl_engine> engine_;
    OnednnHandle<dnnl_stream> stream_;
    std::map<Key, Compiled> kept_;
};

}  // namespace

Expected<std::unique_ptr<OnednnMatmul>> OnednnMatmul::open() {
    const auto library = OnednnLibrary::open();
    if (!library) return library.failure();
    return std::unique_ptr<OnednnMatmul>(std::make_unique<Matmul>(library.value()));
}

}  // namespace ringshard::ops
