# The repository, also where a part of it is the project.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH RINGSHARD_ROOT)

# ringshard_library(name SOURCES a.cpp ... USES other libraries ... [ATEN])
# A part of a module: a static library. Headers for others are in include/ringshard/<module>/, headers
# of its own beside its sources.
function(ringshard_library name)
    cmake_parse_arguments(L "ATEN" "" "SOURCES;USES" ${ARGN})
    add_library(ringshard_${name} STATIC ${L_SOURCES})
    target_include_directories(ringshard_${name} PUBLIC ${RINGSHARD_ROOT}/include)
    target_link_libraries(ringshard_${name} PRIVATE ringshard_flags PUBLIC ${L_USES})
    if(L_ATEN)
        use_aten(ringshard_${name})
    endif()
endfunction()
