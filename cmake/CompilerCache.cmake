# ccache where there is one. The sloppiness is what ccache asks for with precompiled headers.
find_program(RINGSHARD_CCACHE ccache)
if(RINGSHARD_CCACHE)
    set(RINGSHARD_LAUNCHER ${CMAKE_COMMAND} -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        ${RINGSHARD_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${RINGSHARD_LAUNCHER})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${RINGSHARD_LAUNCHER})
endif()
