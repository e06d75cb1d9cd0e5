# oneDNN's matrix products, where the library is there: RINGSHARD_ONEDNN_MAJOR is its major version, or empty.
# It is loaded when the program runs (src/ops/onednn_matmul.cpp says why), so only its header is used here. Its CMake package is
# not: Debian's demands OpenCL.
option(RINGSHARD_ONEDNN "Use oneDNN for matrix products where it is installed" ON)
find_path(RINGSHARD_ONEDNN_INCLUDE oneapi/dnnl/dnnl_version.h)
set(RINGSHARD_ONEDNN_MAJOR "")
# Sanitizers and RTLD_DEEPBIND exclude one another.
if(RINGSHARD_ONEDNN AND RINGSHARD_ONEDNN_INCLUDE AND NOT RINGSHARD_SANITIZE)
    file(STRINGS ${RINGSHARD_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h major REGEX "define DNNL_VERSION_MAJOR ")
    string(REGEX MATCH "[0-9]+$" major "${major}")
    # Its threads must be OpenMP's, which are the program's.
    file(STRINGS ${RINGSHARD_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_config.h runtime REGEX "define DNNL_CPU_RUNTIME DNNL_RUNTIME_OMP")
    find_library(RINGSHARD_ONEDNN_FILE NAMES libdnnl.so.${major})
    if(major MATCHES "^[23]$" AND runtime AND RINGSHARD_ONEDNN_FILE)
        set(RINGSHARD_ONEDNN_MAJOR ${major})
    endif()
endif()
if(RINGSHARD_ONEDNN_MAJOR)
    set(RINGSHARD_ONEDNN_SOURCES ops/gemm_onednn.cpp)
    message(STATUS "oneDNN ${RINGSHARD_ONEDNN_MAJOR}: ${RINGSHARD_ONEDNN_FILE}")
else()
    set(RINGSHARD_ONEDNN_SOURCES ops/gemm_onednn_none.cpp)
    message(STATUS "oneDNN: none (libdnnl-dev), or this build leaves it out")
endif()
