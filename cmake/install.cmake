# cmake --install BUILD --prefix FOLDER [--strip]: a folder that runs where it is put. It carries every shared library
# but the C library's, and in builds with CUDA the GPU tests and their data for scripts/gpu_check.sh.
set(installed fathom)
if(FATHOM_CUDA AND FATHOM_TESTS)
  list(APPEND installed cuda_test golden_test tiny_test)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/data/golden ${CMAKE_BINARY_DIR}/data/tiny DESTINATION share/fathom/data)
endif()
set_target_properties(${installed} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
install(TARGETS ${installed}
  RUNTIME_DEPENDENCIES
    PRE_EXCLUDE_REGEXES "^ld-linux" "^libc\\.so" "^libm\\.so" "^libpthread\\.so" "^libdl\\.so" "^librt\\.so"
  RUNTIME DESTINATION bin
  LIBRARY DESTINATION lib)
install(PROGRAMS ${CMAKE_SOURCE_DIR}/scripts/gpu_check.sh DESTINATION bin)
