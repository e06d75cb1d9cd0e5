# cmake --install build/release --prefix PREFIX. The folder can be moved: what is ours is found relative to the program. LibTorch, Arrow
# and what the distribution or the cluster's modules gave stay where they were when it was built.
#
#   bin/trainer                 a link to
#   lib/ringshard/              the program and its engine beside it
#   share/ringshard/            slurm, configs, docs, scripts; RINGSHARD_ROOT for the batch scripts
#   share/modulefiles/          for lmod and environment-modules
#   share/man, share/bash-completion/
include(GNUInstallDirs)
set(ours ${CMAKE_INSTALL_LIBDIR}/ringshard)
set(shared ${CMAKE_INSTALL_DATADIR}/ringshard)

# CMake leaves out link folders inside the sources, where .deps is.
set_target_properties(trainer ringshard_engine PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON
    INSTALL_RPATH "$ORIGIN;$ORIGIN/..;${RINGSHARD_TORCH_DIR}/lib;${RINGSHARD_ARROW_DIR};${RINGSHARD_ARROW_DIR}/lib")
install(TARGETS trainer RUNTIME DESTINATION ${ours} COMPONENT program)
install(TARGETS ringshard_engine LIBRARY DESTINATION ${ours} COMPONENT program)

install(DIRECTORY slurm configs docs DESTINATION ${shared} USE_SOURCE_PERMISSIONS COMPONENT program)
install(PROGRAMS scripts/h5_to_safetensors.py DESTINATION ${shared}/scripts COMPONENT program)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${shared} COMPONENT program)
# The program itself writes both (src/CMakeLists.txt).
install(FILES ${PROJECT_BINARY_DIR}/share/man/man1/trainer.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/share/bash-completion/completions/trainer
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
configure_file(packaging/modulefile.in ${PROJECT_BINARY_DIR}/modulefile @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/modulefile DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/ringshard
    RENAME ${PROJECT_VERSION} COMPONENT program)

# Links, so that a name in PATH and the batch scripts lead to the one program.
file(RELATIVE_PATH from_bin /${CMAKE_INSTALL_BINDIR} /${ours}/trainer)
file(RELATIVE_PATH from_share /${shared} /${ours}/trainer)
install(CODE "
    set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
    file(MAKE_DIRECTORY \"\${prefix}/${CMAKE_INSTALL_BINDIR}\")
    file(CREATE_LINK ${from_bin} \"\${prefix}/${CMAKE_INSTALL_BINDIR}/trainer\" SYMBOLIC)
    file(CREATE_LINK ${from_share} \"\${prefix}/${shared}/trainer\" SYMBOLIC)" COMPONENT program)
