# add_python_test(name FILE test.py [ORACLES] [TIMEOUT seconds] [PROCESSORS n] [COST seconds] [ALL_CASES seconds] [ARGUMENTS ...] [LABELS ...])
# A unittest file that runs ./trainer. ORACLES: it needs the packages of `scripts/setup --oracles`, and
# says that it was skipped where they are missing. scripts/test runs two more of them than there are cores, since a test waits half of its
# time: for starts, files, other ranks. PROCESSORS: 2 for what keeps several ranks busy, 3 for what looks at the clock besides.
# COST: seconds, of those that take longest; they begin first, so that none is left over at the end.
# ALL_CASES: the file has cases for the long suite alone; all_NAME is the test with all of them, of at most so many seconds.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(RINGSHARD_ORACLE_PYTHON ${RINGSHARD_ROOT}/.deps/venv/bin/python CACHE FILEPATH
    "Python with the packages that the comparing tests need")

function(add_python_test name)
    cmake_parse_arguments(T "ORACLES" "FILE;TIMEOUT;PROCESSORS;COST;ALL_CASES" "ARGUMENTS;LABELS" ${ARGN})
    patience(T_TIMEOUT "${T_TIMEOUT}" 300)
    if(NOT T_PROCESSORS)
        set(T_PROCESSORS 1)
    endif()
    set(python ${Python3_EXECUTABLE})
    if(T_ORACLES)
        set(python ${RINGSHARD_ORACLE_PYTHON})
    endif()
    test_folder(folder)
    set(trainer "")
    if(TARGET trainer)
        set(trainer "TRAINER=$<TARGET_FILE:trainer>;MPIEXEC=${MPIEXEC_EXECUTABLE};")
    endif()
    set(tests ${name})
    if(T_ALL_CASES)
        list(APPEND tests all_${name})
    endif()
    foreach(test IN LISTS tests)
        add_test(NAME ${test} COMMAND ${python} ${CMAKE_CURRENT_SOURCE_DIR}/${T_FILE} ${T_ARGUMENTS})
        set_tests_properties(${test} PROPERTIES LABELS "python;${folder};${T_LABELS}" TIMEOUT ${T_TIMEOUT}
            PROCESSORS ${T_PROCESSORS} SKIP_RETURN_CODE 77
            ENVIRONMENT "${trainer}PYTHONDONTWRITEBYTECODE=1;PATIENCE=${RINGSHARD_TEST_PATIENCE};OMP_NUM_THREADS=1")
    endforeach()
    if(T_COST)
        set_tests_properties(${name} PROPERTIES COST ${T_COST})
    endif()
    if(T_ALL_CASES)
        patience(timeout "${T_ALL_CASES}" 0)
        set_property(TEST all_${name} APPEND PROPERTY ENVIRONMENT ALL_CASES=1)
        set_property(TEST all_${name} APPEND PROPERTY LABELS long)
        set_tests_properties(all_${name} PROPERTIES TIMEOUT ${timeout})
    endif()
endfunction()
