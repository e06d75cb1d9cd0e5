# Flags that every target of ours gets: warnings, code generation, and sanitizers if asked for.
add_library(ringshard_flags INTERFACE)
# GCC 12 warns of overlapping and endless copies and comparisons inside its own std::string and std::vector (its bugs 105651, 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(ringshard_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>)
endif()
target_compile_options(ringshard_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Wcast-align;-Woverloaded-virtual>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${RINGSHARD_WERROR}>>:-Werror>)
# In a large unit, names in unnamed namespaces of other files would count as shadowed, and as seen by other units.
if(CMAKE_UNITY_BUILD)
    target_compile_options(ringshard_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>
        $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()

target_compile_options(ringshard_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${RINGSHARD_WERROR}>>:--Werror=all-warnings>)

# Row kernels use the widest vectors that a processor has (base/simd.hpp). Elsewhere than on x86-64 char may be unsigned.
set(processor_flag -fsigned-char)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(processor_flag -mprefer-vector-width=512)
endif()
# No mathematics sets errno or traps.
target_compile_options(ringshard_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:${processor_flag};-fno-math-errno;-fno-trapping-math>)

set(RINGSHARD_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them")
if(RINGSHARD_SANITIZE)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${RINGSHARD_SANITIZE}>
        $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer> $<$<COMPILE_LANGUAGE:CXX>:-O1>)
    add_link_options(-fsanitize=${RINGSHARD_SANITIZE})
    if(RINGSHARD_SANITIZE MATCHES "undefined")
        add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
    endif()
endif()
