# add_unit_test(name SOURCES a.cpp USES libraries)              one process
# add_mpi_test(name SOURCES a.cpp USES libraries RANKS 1 2 4)   one ctest per number of ranks; LONG_RANKS 8: one of the long suite
# add_gpu_test(name SOURCES a.cpp USES libraries)               one process that needs a GPU, and is skipped where there is none
# Labels of a test: its kind (unit, mpi, python, style), its folder under tests/, and what LABELS adds.
set(RINGSHARD_MPIEXEC_FLAGS --oversubscribe --bind-to none CACHE STRING "For mpiexec on small machines")

set(RINGSHARD_TEST_PATIENCE 1 CACHE STRING "Times longer than usual that a test may take: sanitizers make the program slow")
# patience(out seconds default)   what a test of that many seconds gets
function(patience out seconds default)
    if(NOT seconds)
        set(seconds ${default})
    endif()
    math(EXPR patient "${seconds} * ${RINGSHARD_TEST_PATIENCE}")
    set(${out} ${patient} PARENT_SCOPE)
endfunction()

# test_folder(out)   the folder of the current CMakeLists.txt: tests/shard is shard, and text/tests is text
function(test_folder out)
    cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
    if(folder STREQUAL tests)
        cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH above)
        cmake_path(GET above FILENAME folder)
    endif()
    set(${out} ${folder} PARENT_SCOPE)
endfunction()

# without_under(sanitizers test case)   a case of a test that cannot hold in a build that they slow down and fill
function(without_under sanitizers test case)
    if(RINGSHARD_SANITIZE MATCHES "${sanitizers}")
        set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT "BOOST_TEST_RUN_FILTERS=!${case}")
    endif()
endfunction()

# GCC 12 reports impossible bounds in Boost.Test's strings.
add_library(ringshard_test_flags INTERFACE)
target_compile_options(ringshard_test_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>)
# A test's own lines run once: optimising them takes longer.
target_compile_options(ringshard_test_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
target_link_libraries(ringshard_test_flags INTERFACE ringshard_flags Boost::unit_test_framework)

# What scripts/test builds with CUDA beside the trainer: the tests whose names have gpu. All others are the same without it.
add_custom_target(gpu_tests)
function(belongs_to_gpu_tests name)
    if(name MATCHES gpu)
        add_dependencies(gpu_tests ${name})
    endif()
endfunction()

# Compiled once for all tests.
add_library(ringshard_unit_main OBJECT ${RINGSHARD_ROOT}/tests/support/unit_main.cpp)
target_link_libraries(ringshard_unit_main PRIVATE ringshard_test_flags)

function(add_unit_test name)
    cmake_parse_arguments(T "" "TIMEOUT;MAIN" "SOURCES;USES;LABELS" ${ARGN})
    patience(T_TIMEOUT "${T_TIMEOUT}" 60)
    if(NOT T_MAIN)
        set(T_MAIN ringshard_unit_main)
    endif()
    add_executable(${name} ${T_SOURCES})
    target_link_libraries(${name} PRIVATE ${T_MAIN} ringshard_test_flags ${T_USES})
    target_include_directories(${name} PRIVATE ${RINGSHARD_ROOT}/tests/support)
    if("${T_USES}" MATCHES "ringshard_(ops|attention|test_model|model|optim|train)( |;|$)")
        target_sources(${name} PRIVATE ${RINGSHARD_ROOT}/tests/support/vector_math.cpp)
    endif()
    belongs_to_gpu_tests(${name})
    add_test(NAME ${name} COMMAND ${name})
    test_folder(folder)
    set_tests_properties(${name} PROPERTIES LABELS "unit;${folder};${T_LABELS}" TIMEOUT ${T_TIMEOUT} PROCESSORS 1
        ENVIRONMENT "PATIENCE=${RINGSHARD_TEST_PATIENCE}")
endfunction()

function(add_gpu_test name)
    if(NOT TARGET ringshard_gpu_main)
        add_library(ringshard_gpu_main OBJECT ${RINGSHARD_ROOT}/tests/support/gpu_main.cpp)
        target_link_libraries(ringshard_gpu_main PRIVATE ringshard_test_flags)
        use_aten(ringshard_gpu_main)
    endif()
    add_unit_test(${name} MAIN ringshard_gpu_main TIMEOUT 300 LABELS gpu ${ARGN})
    use_aten(${name})
    set_property(TEST ${name} PROPERTY SKIP_REGULAR_EXPRESSION "no GPU here\n*$")
endfunction()

function(add_mpi_test name)
    cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;USES;RANKS;LONG_RANKS;LABELS;ARGUMENTS" ${ARGN})
    patience(T_TIMEOUT "${T_TIMEOUT}" 300)
    if(NOT TARGET ringshard_mpi_main)  # the library of text, built alone, has no MPI
        add_library(ringshard_mpi_main OBJECT ${RINGSHARD_ROOT}/tests/support/mpi_main.cpp)
        target_link_libraries(ringshard_mpi_main PRIVATE ringshard_test_flags ringshard_comm_front)
    endif()
    add_executable(${name} ${T_SOURCES})
    target_link_libraries(${name} PRIVATE ringshard_mpi_main ringshard_test_flags ${T_USES} ringshard_comm)
    target_include_directories(${name} PRIVATE ${RINGSHARD_ROOT}/tests/support)
    belongs_to_gpu_tests(${name})
    test_folder(folder)
    foreach(ranks IN LISTS T_RANKS T_LONG_RANKS)
        add_test(NAME ${name}.np${ranks}
            COMMAND ${MPIEXEC_EXECUTABLE} ${RINGSHARD_MPIEXEC_FLAGS} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>
                ${T_ARGUMENTS})
        set_tests_properties(${name}.np${ranks} PROPERTIES
            LABELS "mpi;np${ranks};${folder};${T_LABELS}" TIMEOUT ${T_TIMEOUT} PROCESSORS ${ranks}
            ENVIRONMENT "OMP_NUM_THREADS=1;OMPI_MCA_mpi_yield_when_idle=1;OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
        if(ranks IN_LIST T_LONG_RANKS)
            set_property(TEST ${name}.np${ranks} APPEND PROPERTY LABELS long)
        endif()
    endforeach()
endfunction()
