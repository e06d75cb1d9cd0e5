#include "onednn_library.hpp"

// Names that differ in oneDNN 3.
namespace ringshard::ops {

namespace {

dnnl_memory_desc_t describe(const OnednnLibrary& library, const StridedMatrix& matrix) {
    dnnl_memory_desc_t description;
    const auto status = library.find<decltype(dnnl_memory_desc_init_by_strides)>(
        "dnnl_memory_desc_init_by_strides")(&description, 2, matrix.sizes.data(), type_of(matrix),
                                            matrix.strides.data());
    RINGSHARD_CHECK(status == dnnl_success, "oneDNN answers {}", status);
    return description;
}

}  // namespace

const char* onednn_file_name() { return "libdnnl.so.2"; }

OnednnHandle<dnnl_primitive_desc> describe_product(const OnednnLibrary& library,
                                                   dnnl_engine_t engine,
                                                   const OnednnProduct& product) {
    const dnnl_memory_desc_t a = describe(library, product.a);
    const dnnl_memory_desc_t b = describe(library, product.b);
    const dnnl_memory_desc_t c = describe(library, product.c);
    const dnnl_memory_desc_t bias = describe(library, bias_of(product));
    OnednnHandle<dnnl_primitive_desc> description(
        nullptr,
        library.find<decltype(dnnl_primitive_desc_destroy)>("dnnl_primitive_desc_destroy"));
    dnnl_matmul_desc_t operation;
    if (library.find<decltype(dnnl_matmul_desc_init)>("dnnl_matmul_desc_init")(
            &operation, &a, &b, product.has_bias ? &bias : nullptr, &c) != dnnl_success)
        return description;

    dnnl_post_ops_t post_ops = nullptr;
    library.find<decltype(dnnl_post_ops_create)>("dnnl_post_ops_create")(&post_ops);
    const OnednnHandle<dnnl_post_ops> owned_post_ops(
        post_ops, library.find<decltype(dnnl_post_ops_destroy)>("dnnl_post_ops_destroy"));
    if (product.accumulates)
        library.find<decltype(dnnl_post_ops_append_sum)>("dnnl_post_ops_append_sum")(post_ops, 1);
    dnnl_primitive_attr_t attributes = nullptr;
    library.find<decltype(dnnl_primitive_attr_create)>("dnnl_primitive_attr_create")(&attributes);
    const OnednnHandle<dnnl_primitive_attr> owned_attributes(
        attributes,
        library.find<decltype(dnnl_primitive_attr_destroy)>("dnnl_primitive_attr_destroy"));
    library.find<decltype(dnnl_primitive_attr_set_post_ops)>("dnnl_primitive_attr_set_post_ops")(
        attributes, post_ops);

    dnnl_primitive_desc_t made = nullptr;
    if (library.find<decltype(dnnl_primitive_desc_create)>("dnnl_primitive_desc_create")(
            &made, &operation, attributes, engine, nullptr) == dnnl_success)
        description.reset(made);
    return description;
}

dnnl_memory_t make_memory(const OnednnLibrary& library, dnnl_engine_t engine,
                          const StridedMatrix& matrix) {
    const dnnl_memory_desc_t description = describe(library, matrix);
    dnnl_memory_t memory = nullptr;
    const auto status = library.find<decltype(dnnl_memory_create)>("dnnl_memory_create")(
        &memory, &description, engine, DNNL_MEMORY_NONE);
    RINGSHARD_CHECK(status == dnnl_success, "oneDNN answers {}", status);
    return memory;
}

}  // namespace ringshard::ops
