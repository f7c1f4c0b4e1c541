# Build rules shared by every folder: one place for warnings, sanitizers, libraries and tests.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer -DFATHOM_POISON_ARENA=1")
# Optimising commands and tests is half of what a build with sanitizers takes; they only call what does the work.
set(FATHOM_OUTERMOST_OPTIONS "$<$<CONFIG:Sanitize>:-O0>")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wnon-virtual-dtor>")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wshadow=local;-Wno-psabi>")  # psabi: notes on vector types, all kernels are internal
endif()
if(FATHOM_WERROR)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
if(FATHOM_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${FATHOM_SANITIZE};-fno-sanitize-recover=all>")
  add_link_options(-fsanitize=${FATHOM_SANITIZE})
endif()

if(FATHOM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage of the libraries guides the fuzzer
endif()

# fathom_library(name [LINKS ...]): every *.cc of this folder but the tests; every *_test.cc becomes a test.
# What is linked here is what the folder may include (scripts/check_layers.py holds the same table).
function(fathom_library name)
  cmake_parse_arguments(ARG "" "" "LINKS;TEST_LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${name} PUBLIC ${ARG_LINKS})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${name} INTERFACE ${ARG_LINKS})
  endif()
  if(FATHOM_TESTS)
    foreach(test ${tests})
      fathom_test(${test} LINKS ${name} ${ARG_TEST_LINKS})
    endforeach()
  endif()
endfunction()

# fathom_test(file.cc LINKS ...): a GoogleTest program, run by ctest with the test data folder in its environment.
function(fathom_test file)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  get_filename_component(test ${file} NAME_WE)
  add_executable(${test} ${file})
  target_compile_options(${test} PRIVATE ${FATHOM_OUTERMOST_OPTIONS})
  target_include_directories(${test} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${test} PRIVATE ${ARG_LINKS} test_support GTest::gtest_main)
  add_test(NAME ${test} COMMAND ${test})
  fathom_test_environment(${test})
endfunction()

function(fathom_test_environment test)
  set(environment FATHOM_TEST_DATA=${CMAKE_BINARY_DIR}/data FATHOM_SOURCE_DIR=${CMAKE_SOURCE_DIR}
      FATHOM_BIN=${CMAKE_BINARY_DIR}/bin/fathom)
  if(FATHOM_SANITIZE)  # many times slower: tests may leave out their longest inputs, and say so
    list(APPEND environment FATHOM_TEST_SANITIZED=1)
  endif()
  set_tests_properties(${test} PROPERTIES TIMEOUT 2400 ENVIRONMENT "${environment}")
endfunction()

# Test data is kept compressed in the repository and unpacked once into the build folder.
function(fathom_extract_test_data)
  file(GLOB archives CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/data/*.tar.xz)
  foreach(archive ${archives})
    get_filename_component(name ${archive} NAME_WE)
    set(stamp ${CMAKE_BINARY_DIR}/data/${name}.stamp)
    if(NOT EXISTS ${stamp} OR ${archive} IS_NEWER_THAN ${stamp})
      file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${CMAKE_BINARY_DIR}/data/${name})
      file(TOUCH ${stamp})
    endif()
  endforeach()
endfunction()
