# Arrow and Parquet from the pyarrow wheel: headers and libraries are inside.
set(RINGSHARD_ARROW_DIR "" CACHE PATH "Folder with include/ and the libraries of Arrow and Parquet")
if(NOT RINGSHARD_ARROW_DIR)
    file(GLOB wheels ${PROJECT_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages/pyarrow)
    list(POP_FRONT wheels first_wheel)
    set(RINGSHARD_ARROW_DIR "${first_wheel}" CACHE PATH "Folder with include/ and the libraries of Arrow and Parquet" FORCE)
endif()
foreach(name arrow parquet)
    file(GLOB libraries ${RINGSHARD_ARROW_DIR}/lib${name}.so* ${RINGSHARD_ARROW_DIR}/lib/lib${name}.so
        ${RINGSHARD_ARROW_DIR}/lib64/lib${name}.so)
    list(POP_FRONT libraries library)
    if(NOT library)
        message(FATAL_ERROR "There is no lib${name} at '${RINGSHARD_ARROW_DIR}' (RINGSHARD_ARROW_DIR): run scripts/setup, or without root "
            "scripts/setup --wheels-only, which fetches LibTorch and Arrow into .deps; or give the folders of both wheels: "
            "-DRINGSHARD_TORCH_DIR=/path/to/site-packages/torch -DRINGSHARD_ARROW_DIR=/path/to/site-packages/pyarrow")
    endif()
    add_library(arrow::${name} SHARED IMPORTED GLOBAL)
    set_target_properties(arrow::${name} PROPERTIES IMPORTED_LOCATION ${library}
        INTERFACE_INCLUDE_DIRECTORIES ${RINGSHARD_ARROW_DIR}/include)
endforeach()
set_property(TARGET arrow::parquet PROPERTY INTERFACE_LINK_LIBRARIES arrow::arrow)
