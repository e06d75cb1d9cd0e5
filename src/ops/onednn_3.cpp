#include "onednn_library.hpp"

// Names that differ in oneDNN 2.
namespace ringshard::ops {

namespace {

OnednnHandle<dnnl_memory_desc> describe(const OnednnLibrary& library, const StridedMatrix& matrix) {
    dnnl_memory_desc_t description = nullptr;
    const auto status = library.find<decltype(dnnl_memory_desc_create_with_strides)>(
        "dnnl_memory_desc_create_with_strides")(&description, 2, matrix.sizes.data(),
                                                type_of(matrix), matrix.strides.data());
    RINGSHARD_CHECK(status == dnnl_success, "oneDNN answers {}", status);
    return {description,
            library.find<decltype(dnnl_memory_desc_destroy)>("dnnl_memory_desc_destroy")};
}

}  // namespace

const char* onednn_file_name() { return "libdnnl.so.3"; }

OnednnHandle<dnnl_primitive_desc> describe_product(const OnednnLibrary& library,
                                                   dnnl_engine_t engine,
                                                   const OnednnProduct& product) {
    dnnl_post_ops_t post_ops = nullptr;
    library.find<decltype(dnnl_post_ops_create)>("dnnl_post_ops_create")(&post_ops);
    const OnednnHandle<dnnl_post_ops> owned_post_ops(
        post_ops, library.find<decltype(dnnl_post_ops_destroy)>("dnnl_post_ops_destroy"));
    if (product.accumulates)
        library.find<decltype(dnnl_post_ops_append_sum)>("dnnl_post_ops_append_sum")(
            post_ops, 1, 0, dnnl_data_type_undef);
    dnnl_primitive_attr_t attributes = nullptr;
    library.find<decltype(dnnl_primitive_attr_create)>("dnnl_primitive_attr_create")(&attributes);
    const OnednnHandle<dnnl_primitive_attr> owned_attributes(
        attributes,
        library.find<decltype(dnnl_primitive_attr_destroy)>("dnnl_primitive_attr_destroy"));
    library.find<decltype(dnnl_primitive_attr_set_post_ops)>("dnnl_primitive_attr_set_post_ops")(
        attributes, post_ops);

    OnednnHandle<dnnl_primitive_desc> description(
        nullptr,
        library.find<decltype(dnnl_primitive_desc_destroy)>("dnnl_primitive_desc_destroy"));
    const auto bias = describe(library, bias_of(product));
    dnnl_primitive_desc_t made = nullptr;
    if (library.find<decltype(dnnl_matmul_primitive_desc_create)>(
            "dnnl_matmul_primitive_desc_create")(
            &made, engine, describe(library, product.a).get(), describe(library, product.b).get(),
            product.has_bias ? bias.get() : nullptr, describe(library, product.c).get(),
            attributes) == dnnl_success)
        description.reset(made);
    return description;
}

dnnl_memory_t make_memory(const OnednnLibrary& library, dnnl_engine_t engine,
                          const StridedMatrix& matrix) {
    dnnl_memory_t memory = nullptr;
    const auto status = library.find<decltype(dnnl_memory_create)>("dnnl_memory_create")(
        &memory, describe(library, matrix).get(), engine, DNNL_MEMORY_NONE);
    RINGSHARD_CHECK(status == dnnl_success, "oneDNN answers {}", status);
    return memory;
}

}  // namespace ringshard::ops
