# Compile settings shared by every target, and the functions that declare targets.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # What ccache must overlook to work with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

# Parsed once instead of in every file. Sources still include what they use: with the cache variable
# CMAKE_DISABLE_PRECOMPILE_HEADERS on, as in the preset clang, everything compiles without.
set(standard_headers
  <algorithm> <array> <atomic> <chrono> <functional> <map> <memory> <optional> <span> <string> <string_view>
  <unordered_map> <utility> <variant> <vector>)

add_library(tutti_flags INTERFACE)
# A project that has this one as a folder decides about warnings itself.
if(PROJECT_IS_TOP_LEVEL)
  target_compile_options(tutti_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(tutti_flags INTERFACE -Wthread-safety)
  else()
    # g++ 12 reports the inside of every std::optional<std::vector> that it cannot prove full. The sanitizers look for
    # the real ones.
    target_compile_options(tutti_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
target_include_directories(tutti_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})

if(TUTTI_SANITIZE)
  set(sanitize_flags -fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_compile_options(${sanitize_flags})
  add_link_options(${sanitize_flags})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND TUTTI_SANITIZE MATCHES "address")
    add_compile_definitions(__SANITIZE_ADDRESS__)  # as g++ says by itself
    # Not among the undefined for g++ either: Highway converts what is not a number, and heeds the result only elsewhere.
    add_compile_options(-fno-sanitize=float-cast-overflow)
  endif()
endif()

find_program(LLD_PROGRAM ld.lld)
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

# `target` uses the precompiled headers of `owner`, which must be compiled with the same options, or is the owner.
function(precompile target owner)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache needs it
  endif()
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# With TUTTI_UNITY sixteen sources of a target are compiled as one, which makes a clean build much shorter: most of it
# goes into the same templates over and over. With eight, tests took 1.4 times as long and kernels 1.15 times; with more,
# a compiler would need more than the 1.3 GB that it has now. So names in the anonymous namespaces of a folder must
# differ; each test has a namespace of its file's name. The preset clang compiles each source by itself and so proves that
# it includes what it uses. Sources that Highway includes once for each instruction set always stand alone.
function(compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TUTTI_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  if(TUTTI_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Members of classes from an anonymous namespace are wrong in headers, for which it takes the sources now.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    file(STRINGS ${source} per_target REGEX "foreach_target" LIMIT_COUNT 1)
    if(per_target)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# tutti_library(core SOURCES a.cc b.cc DEPS tutti_graph PRIVATE_DEPS dnnl): one target per folder.
function(tutti_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(tutti_${name} STATIC ${arg_SOURCES})
  target_link_libraries(tutti_${name} PUBLIC tutti_flags ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
  precompile(tutti_${name} tutti_core ${standard_headers})
  compile_together(tutti_${name})
endfunction()

# tutti_test(core SOURCES a_test.cc DEPS tutti_core): one test program per folder.
function(tutti_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_test ${arg_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${arg_DEPS} GTest::gtest GTest::gtest_main)
  target_compile_options(${name}_test PRIVATE -O0)  # they run once for each time they are compiled
  precompile(${name}_test core_test ${standard_headers} <gtest/gtest.h>)
  compile_together(${name}_test)
  add_test(NAME ${name} COMMAND ${name}_test)
endfunction()

# tutti_benchmark(runtime SOURCES executor_bench.cc DEPS tutti_runtime): one program per folder.
function(tutti_benchmark name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_bench ${arg_SOURCES})
  target_link_libraries(${name}_bench PRIVATE ${arg_DEPS} benchmark::benchmark benchmark::benchmark_main)
endfunction()
