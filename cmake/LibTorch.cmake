# LibTorch from a PyTorch wheel, without its CMake package, which demands a CUDA toolkit even for a
# CPU build. Declares torch::c10, torch::cpu and, for CUDA, torch::c10_cuda, torch::cuda.
set(RINGSHARD_TORCH_DIR "$ENV{RINGSHARD_TORCH_DIR}" CACHE PATH "Folder with include/ and lib/ of LibTorch")
if(NOT RINGSHARD_TORCH_DIR)
    file(GLOB wheels ${PROJECT_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages/torch)
    list(POP_FRONT wheels first_wheel)
    set(RINGSHARD_TORCH_DIR "${first_wheel}" CACHE PATH "Folder with include/ and lib/ of LibTorch" FORCE)
endif()
if(NOT EXISTS ${RINGSHARD_TORCH_DIR}/lib/libtorch_cpu.so)
    message(FATAL_ERROR "There is no LibTorch at '${RINGSHARD_TORCH_DIR}' (RINGSHARD_TORCH_DIR): run scripts/setup, or without root "
        "scripts/setup --wheels-only, which fetches LibTorch and Arrow into .deps; or give the folders of both wheels: "
        "-DRINGSHARD_TORCH_DIR=/path/to/site-packages/torch -DRINGSHARD_ARROW_DIR=/path/to/site-packages/pyarrow")
endif()

file(STRINGS ${RINGSHARD_TORCH_DIR}/include/torch/headeronly/version.h numbers REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX MATCHALL "[0-9]+" numbers "${numbers}")
list(JOIN numbers . RINGSHARD_TORCH_VERSION)
# The library that asks for all others which the engine needs of LibTorch and CUDA.
set(RINGSHARD_TORCH_LIBRARY libtorch_cpu.so)
if(RINGSHARD_CUDA)
    set(RINGSHARD_TORCH_LIBRARY libtorch_cuda.so)
endif()

function(declare_torch_library name)
    add_library(torch::${name} SHARED IMPORTED GLOBAL)
    cmake_parse_arguments(T "" "FILE" "LINK" ${ARGN})
    set_target_properties(torch::${name} PROPERTIES
        IMPORTED_LOCATION ${RINGSHARD_TORCH_DIR}/lib/${T_FILE}
        INTERFACE_INCLUDE_DIRECTORIES "${RINGSHARD_TORCH_DIR}/include;${RINGSHARD_TORCH_DIR}/include/torch/csrc/api/include"
        INTERFACE_LINK_LIBRARIES "${T_LINK}")
endfunction()

declare_torch_library(c10 FILE libc10.so)
declare_torch_library(cpu FILE libtorch_cpu.so LINK torch::c10)
# at::parallel_for is silently serial in files that are compiled without -fopenmp. The OpenMP library
# at run time is LibTorch's own: two of them in one process would each start their threads.
if(EXISTS ${RINGSHARD_TORCH_DIR}/lib/libgomp.so.1)
    set_property(TARGET torch::cpu PROPERTY INTERFACE_COMPILE_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
    set_property(TARGET torch::cpu APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${RINGSHARD_TORCH_DIR}/lib/libgomp.so.1)
else()
    set_property(TARGET torch::cpu APPEND PROPERTY INTERFACE_LINK_LIBRARIES OpenMP::OpenMP_CXX)
endif()

# The one precompiled header: ATen/ATen.h takes 6 seconds to read, and this makes it one. It serves one set of flags, and tests have others.
function(use_aten target)
    target_link_libraries(${target} PUBLIC torch::cpu)
    set(header ringshard_aten)
    set(flags ringshard_flags)
    get_target_property(linked ${target} LINK_LIBRARIES)
    if(ringshard_test_flags IN_LIST linked)
        set(header ringshard_aten_of_tests)
        set(flags ringshard_test_flags)
    endif()
    if(NOT TARGET ${header})
        file(WRITE ${PROJECT_BINARY_DIR}/aten.cpp "")
        add_library(${header} OBJECT ${PROJECT_BINARY_DIR}/aten.cpp)
        target_link_libraries(${header} PRIVATE ${flags} torch::cpu)
        target_precompile_headers(${header} PRIVATE <ATen/ATen.h> <ATen/Parallel.h>)
    endif()
    target_precompile_headers(${target} REUSE_FROM ${header})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)  # the header was compiled with -fPIC
        set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
        target_compile_options(${target} PRIVATE -fPIC)
    endif()
endfunction()

# The MKL inside LibTorch, where it has one with bf16: its exported functions are called directly.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES torch::cpu)
set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,--no-as-needed)
check_cxx_source_compiles("
    extern \"C\" void cblas_gemm_bf16bf16f32(int);
    int main() { return reinterpret_cast<long>(&cblas_gemm_bf16bf16f32) == 0; }" RINGSHARD_HAS_MKL_BF16)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(RINGSHARD_HAS_MKL_BF16)
    set(RINGSHARD_MKL_SOURCES ops/gemm_mkl.cpp)
else()
    set(RINGSHARD_MKL_SOURCES ops/gemm_mkl_none.cpp)
endif()
