# cmake --install BUILD --prefix FOLDER [--strip]: a folder that runs where it is put. It carries every shared library
# but the C library's, the embedded model and the configurations; in builds with CUDA and tests also the tests that
# scripts/gpu_check.sh runs on a GPU, and their data.
set(installed fathom)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models/tiny DESTINATION share/fathom/models)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs DESTINATION share/fathom)
if(FATHOM_CUDA AND FATHOM_TESTS)
  list(APPEND installed cuda_test ops_test device_test engine_model_test full_card_test golden_test tiny_test)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/data/golden ${CMAKE_BINARY_DIR}/data/tiny DESTINATION share/fathom/data)
  install(PROGRAMS ${CMAKE_SOURCE_DIR}/scripts/gpu_check.sh DESTINATION bin)
  foreach(bench cuda_bench gpu_kernel_bench)  # where they were built
    if(TARGET ${bench})
      install(PROGRAMS $<TARGET_FILE:${bench}> DESTINATION bin OPTIONAL)
      set_target_properties(${bench} PROPERTIES BUILD_RPATH "$ORIGIN/../lib")  # it is copied as built
      target_link_options(${bench} PRIVATE -Wl,--disable-new-dtags)
    endif()
  endforeach()
endif()
set_target_properties(${installed} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
foreach(program ${installed})  # a path of the old kind is also where the libraries' own libraries are looked for
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
endforeach()
install(TARGETS ${installed}
  RUNTIME_DEPENDENCIES
    PRE_EXCLUDE_REGEXES "^ld-linux" "^libc\\.so" "^libm\\.so" "^libpthread\\.so" "^libdl\\.so" "^librt\\.so"
  RUNTIME DESTINATION bin
  LIBRARY DESTINATION lib)
