# ccache where there is one. The sloppiness is what ccache asks for with precompiled headers; with relative paths, build folders
# side by side share what they compile.
find_program(RINGSHARD_CCACHE ccache)
if(RINGSHARD_CCACHE)
    set(RINGSHARD_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        ${RINGSHARD_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${RINGSHARD_LAUNCHER})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${RINGSHARD_LAUNCHER})
endif()
