# CUDA toolkit and NCCL: installed ones, else NVIDIA's wheels beside the PyTorch wheel.
get_filename_component(site_packages ${RINGSHARD_TORCH_DIR}/.. ABSOLUTE)
set(nvidia_wheels ${site_packages}/nvidia)
if(NOT CMAKE_CUDA_COMPILER)
    find_program(installed_nvcc nvcc HINTS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
    set(CMAKE_CUDA_COMPILER ${installed_nvcc})
    if(NOT CMAKE_CUDA_COMPILER)
        set(CMAKE_CUDA_COMPILER ${nvidia_wheels}/cu13/bin/nvcc)
    endif()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # A100, H100 and H200, B200, RTX 50 and RTX PRO; later ones compile the PTX of 100 when they load it.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100 120-real CACHE STRING "GPU generations to compile for")
endif()
set(CMAKE_CUDA_STANDARD 17)
if(RINGSHARD_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${RINGSHARD_LAUNCHER})
endif()
enable_language(CUDA)

add_library(ringshard_cudart INTERFACE)
# NVTX comes with the wheel, and not with every toolkit.
target_include_directories(ringshard_cudart SYSTEM INTERFACE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} ${nvidia_wheels}/cu13/include)
find_library(cudart_library NAMES cudart libcudart.so.13 PATHS ${nvidia_wheels}/cu13/lib NO_DEFAULT_PATH REQUIRED)
target_link_libraries(ringshard_cudart INTERFACE ${cudart_library})

find_library(cublas_library NAMES cublas libcublas.so.13 PATHS ${nvidia_wheels}/cu13/lib NO_DEFAULT_PATH REQUIRED)
find_library(cublas_lt_library NAMES cublasLt libcublasLt.so.13 PATHS ${nvidia_wheels}/cu13/lib NO_DEFAULT_PATH REQUIRED)
add_library(ringshard_cublas INTERFACE)
target_link_libraries(ringshard_cublas INTERFACE ${cublas_library} ${cublas_lt_library} ringshard_cudart)

find_path(nccl_include nccl.h PATHS ${nvidia_wheels}/nccl/include NO_DEFAULT_PATH REQUIRED)
find_library(nccl_library NAMES nccl libnccl.so.2 PATHS ${nvidia_wheels}/nccl/lib NO_DEFAULT_PATH REQUIRED)
add_library(ringshard_nccl INTERFACE)
target_include_directories(ringshard_nccl SYSTEM INTERFACE ${nccl_include})
target_link_libraries(ringshard_nccl INTERFACE ${nccl_library} ringshard_cudart)

declare_torch_library(c10_cuda FILE libc10_cuda.so LINK "torch::c10;ringshard_cudart")
declare_torch_library(cuda FILE libtorch_cuda.so LINK "torch::c10_cuda;torch::cpu")
