# The sources that have streams of a GPU, on a model of streams (stream_model.hpp): with headers that stand in for those of CUDA, NCCL and
# LibTorch's CUDA part, and with tensors of the CPU.
set(streams ${CMAKE_CURRENT_LIST_DIR})
set(sources_with_streams ${PROJECT_SOURCE_DIR}/src/comm/make_communicator_nccl.cpp ${PROJECT_SOURCE_DIR}/src/comm/nccl_communicator.cpp
    ${PROJECT_SOURCE_DIR}/src/model/recorder_cuda.cpp ${PROJECT_SOURCE_DIR}/src/offload/side_stream_cuda.cpp)
set_source_files_properties(${sources_with_streams} PROPERTIES COMPILE_OPTIONS "-include;${streams}/gpu_is_the_cpu.hpp")
add_mpi_test(streams_test SOURCES ${streams}/streams_test.cpp ${streams}/stream_model.cpp ${streams}/observed_operations.cpp
    ${sources_with_streams} USES ringshard_test_model RANKS 2)
target_include_directories(streams_test BEFORE PRIVATE ${streams} ${streams}/stand_ins)
target_include_directories(streams_test PRIVATE ${PROJECT_SOURCE_DIR}/src/comm ${PROJECT_SOURCE_DIR}/src/ops)
set_target_properties(streams_test PROPERTIES UNITY_BUILD OFF)
use_aten(streams_test)
