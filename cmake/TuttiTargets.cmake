# Compile settings shared by every target, and the functions that declare targets.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(tutti_flags INTERFACE)
target_compile_options(tutti_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(tutti_flags INTERFACE -Wthread-safety)
else()
  # g++ 12 reports the inside of every std::optional<std::vector> that it cannot prove full. The sanitizers look for
  # the real ones.
  target_compile_options(tutti_flags INTERFACE -Wno-maybe-uninitialized)
endif()
target_include_directories(tutti_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})

if(TUTTI_SANITIZE)
  set(sanitize_flags -fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_compile_options(${sanitize_flags})
  add_link_options(${sanitize_flags})
endif()

find_program(LLD_PROGRAM ld.lld)
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

# tutti_library(core SOURCES a.cc b.cc DEPS tutti_graph PRIVATE_DEPS dnnl): one target per folder.
function(tutti_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(tutti_${name} STATIC ${arg_SOURCES})
  target_link_libraries(tutti_${name} PUBLIC tutti_flags ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
endfunction()

# tutti_test(core SOURCES a_test.cc DEPS tutti_core): one test program per folder.
function(tutti_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_test ${arg_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${arg_DEPS} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test)
endfunction()

# tutti_benchmark(runtime SOURCES executor_bench.cc DEPS tutti_runtime): one program per folder.
function(tutti_benchmark name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_bench ${arg_SOURCES})
  target_link_libraries(${name}_bench PRIVATE ${arg_DEPS} benchmark::benchmark benchmark::benchmark_main)
endfunction()
