# Builds for 64-bit Arm on another machine, with the libraries that scripts/arm64 lays into .deps/arm64:
#   root   Debian's libraries for arm64      site   LibTorch and Arrow from their wheels for aarch64
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(arm64 ${CMAKE_CURRENT_LIST_DIR}/../.deps/arm64 REALPATH)
set(CMAKE_SYSROOT ${arm64}/root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(libraries ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

set(RINGSHARD_TORCH_DIR ${arm64}/site/torch CACHE PATH "")
set(RINGSHARD_ARROW_DIR ${arm64}/site/pyarrow CACHE PATH "")

# CMake asks the compilers of Open MPI and HDF5, which are those of this machine or programs for Arm, unless it is told all.
set(MPI_C_HEADER_DIR ${libraries}/openmpi/include CACHE PATH "")
set(MPI_C_COMPILER_INCLUDE_DIRS ${libraries}/openmpi/include CACHE STRING "")
set(MPI_C_LIB_NAMES mpi CACHE STRING "")
set(MPI_mpi_LIBRARY ${libraries}/openmpi/lib/libmpi.so CACHE FILEPATH "")
set(HDF5_C_INCLUDE_DIR ${CMAKE_SYSROOT}/usr/include/hdf5/openmpi CACHE PATH "")
set(HDF5_C_COMPILER_EXECUTABLE OFF CACHE FILEPATH "")
set(HDF5_hdf5_LIBRARY_RELEASE ${libraries}/hdf5/openmpi/libhdf5.so CACHE FILEPATH "")

# Programs of the build, and tests, run in an emulator of all instructions.
find_program(RINGSHARD_QEMU qemu-aarch64 REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR ${RINGSHARD_QEMU} -cpu max -L ${CMAKE_SYSROOT}
    -E "LD_LIBRARY_PATH=${arm64}/site/torch/lib:${arm64}/site/nvidia/cu13/lib")
