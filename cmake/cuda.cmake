# The CUDA language, and libraries of kernels. Only builds with FATHOM_CUDA read this file.

set(FATHOM_CUDA_ARCHS "90a" CACHE STRING "GPU architectures, such as 80;89;90a; the last also as PTX with FATHOM_CUDA_PTX")
option(FATHOM_CUDA_PTX "Add portable code, so that newer GPUs run too" OFF)
find_program(FATHOM_NVCC nvcc PATHS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT FATHOM_NVCC)
  message(FATAL_ERROR "FATHOM_CUDA needs the CUDA toolkit: there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda; install it, or configure without FATHOM_CUDA")
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_COMPILER ${FATHOM_NVCC})
endif()
set(CMAKE_CUDA_ARCHITECTURES OFF)  # the flags below say it
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # older CMake does not know it for newer toolkits
find_package(CUDAToolkit REQUIRED)
if(CCACHE_PROGRAM)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

list(TRANSFORM FATHOM_CUDA_ARCHS PREPEND "sm_" OUTPUT_VARIABLE built_for)
if(FATHOM_CUDA_PTX)
  list(APPEND built_for "newer")
endif()
list(JOIN built_for ", " FATHOM_BUILT_FOR)

set(FATHOM_CUDA_FLAGS --expt-relaxed-constexpr -O3 -lineinfo)
foreach(arch ${FATHOM_CUDA_ARCHS})
  list(APPEND FATHOM_CUDA_FLAGS "SHELL:-gencode arch=compute_${arch},code=sm_${arch}")
endforeach()
if(FATHOM_CUDA_PTX)
  list(APPEND FATHOM_CUDA_FLAGS "SHELL:-gencode arch=compute_90,code=compute_90")
endif()
list(APPEND FATHOM_CUDA_FLAGS "SHELL:-Werror all-warnings")  # always: no other build compiles these files

# fathom_cuda_library(name [LINKS ...]): every *.cu and *.cc of this folder and those below it.
function(fathom_cuda_library name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cu ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${FATHOM_CUDA_FLAGS}>")
  target_link_libraries(${name} PUBLIC ${ARG_LINKS} CUDA::cudart_static)
endfunction()
