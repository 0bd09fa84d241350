# A library of one folder of the arrow, with its unit tests beside it.
#   tranche_library(plan SOURCES make_plan.cpp … TESTS make_plan_test.cpp … LINKS tranche::config …)
# gives target tranche_plan (alias tranche::plan) and, when testing, tranche_plan_test with the ctest label LABEL.
include(GoogleTest)
set(TRANCHE_FAST_OPTIONS $<$<CONFIG:Release>:-O2>)

# Most of a source's compile time is its headers: three quarters of the sources here include the same dozen. Three sets,
# for a precompiled header fits only objects of the same flags: of the libraries (PIC, for size), of those compiled for
# speed, and of the tests. Never for `tidy`: there each batch must name what it uses by itself.
#
# Of nlohmann's header they have a copy in which the literal ""_json, which nothing here uses, is only declared: its body
# makes every object instantiate the whole parser, 0.4 s each.
function(tranche_precompile)
  file(WRITE ${PROJECT_BINARY_DIR}/empty.cpp "")
  find_path(NLOHMANN_INCLUDE nlohmann/json.hpp REQUIRED)
  file(READ ${NLOHMANN_INCLUDE}/nlohmann/json.hpp json)
  string(REGEX REPLACE "(operator \"\" _json\\([^)]*\\))[ \n]*{[^}]*}" "\\1;" json "${json}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled_json.hpp
    CONTENT "#pragma GCC system_header\n${json}" @ONLY)
  set(headers <algorithm> <array> <chrono> <cstdint> <cstdlib> <expected> <filesystem> <functional> <map> <memory> <mutex>
    <optional> <set> <span> <string> <string_view> <thread> <utility> <variant> <vector> <fmt/format.h>
    ${PROJECT_BINARY_DIR}/precompiled_json.hpp)
  foreach(set tranche_headers tranche_fast_headers)
    add_library(${set} STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/empty.cpp)
    target_link_libraries(${set} PRIVATE tranche_warnings)
    target_precompile_headers(${set} PRIVATE ${headers})
  endforeach()
  target_compile_options(tranche_fast_headers PRIVATE ${TRANCHE_FAST_OPTIONS})
  if(TRANCHE_TESTS)
    add_executable(tranche_test_headers ${PROJECT_BINARY_DIR}/empty.cpp)
    target_compile_options(tranche_test_headers PRIVATE ${TRANCHE_TEST_OPTIONS})
    target_link_libraries(tranche_test_headers PRIVATE tranche_warnings GTest::gmock GTest::gtest_main)
    target_precompile_headers(tranche_test_headers PRIVATE ${headers} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endfunction()

# For a library of the product's flags, or a program: that is made PIC as the libraries, not PIE, for the headers to fit.
function(tranche_precompiled target)
  if(TRANCHE_PRECOMPILE)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
    target_precompile_headers(${target} REUSE_FROM tranche_headers)
  endif()
endfunction()

# Sources of one target are compiled in batches: most of a source's compile time is its headers.
function(tranche_unity)  # target...
  if(TRANCHE_UNITY)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
endfunction()

function(tranche_library name)
  cmake_parse_arguments(A "" "LABEL" "SOURCES;TESTS;LINKS;PRIVATE_LINKS;TEST_LINKS" ${ARGN})
  list(TRANSFORM A_LINKS REPLACE "^tranche::" "tranche_")
  list(TRANSFORM A_PRIVATE_LINKS REPLACE "^tranche::" "tranche_")
  add_library(tranche_${name} STATIC ${A_SOURCES})
  add_library(tranche::${name} ALIAS tranche_${name})
  tranche_precompiled(tranche_${name})
  tranche_unity(tranche_${name})
  target_include_directories(tranche_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tranche_${name} PUBLIC ${A_LINKS} PRIVATE tranche_warnings ${A_PRIVATE_LINKS})
  if(A_TESTS AND TRANCHE_TESTS)
    tranche_test(tranche_${name}_test SOURCES ${A_TESTS} LINKS tranche::${name} ${A_TEST_LINKS} LABEL ${A_LABEL})
  endif()
endfunction()

# A library that computes, or stands in the way of an answer to kubelet: speed before size (docs/internals/decisions/0016).
function(tranche_fast name)
  target_compile_options(tranche_${name} PRIVATE ${TRANCHE_FAST_OPTIONS})
  get_target_property(headers tranche_${name} PRECOMPILE_HEADERS_REUSE_FROM)
  if(headers AND CMAKE_BUILD_TYPE STREQUAL "Release")
    set_target_properties(tranche_${name} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM tranche_fast_headers)
  endif()
endfunction()

#   tranche_test(target SOURCES … LINKS … [LABEL contract] [TIMEOUT seconds] [SHARDS number])
# One ctest entry per executable: starting a process per case costs more than the cases. Where the cases wait for real
# programs, SHARDS splits them into so many entries (target, target_2, …), which run side by side. Labels: unit (default),
# no-grpc is added by itself for targets that do not link gRPC, threads for those of TRANCHE_THREADED_TESTS.
# Test code is compiled once and runs for milliseconds: no optimiser. What it tests is compiled as it ships.
set(TRANCHE_TEST_OPTIONS $<$<CONFIG:Release>:-O0;-U_FORTIFY_SOURCE>)
function(tranche_test_program target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${target} PRIVATE ${TRANCHE_TEST_OPTIONS})
  if(TRANCHE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM tranche_test_headers)
  endif()
  target_link_libraries(${target} PRIVATE tranche_warnings)
endfunction()

# The tests in whose processes the product has more than one thread: what os/loop, os/log and os/worker offer to threads,
# and all that starts one (os/http, gpu/driver, mig/live, mps/relay, mps/endpoints, `tranche mps`). ThreadSanitizer runs
# these (target threaded_tests, label threads); it finds nothing in a process of one thread. A test that gets a thread
# belongs here.
set(TRANCHE_THREADED_TESTS
  tranche_os_files_test tranche_os_http_test tranche_os_log_test tranche_os_loop_test tranche_os_process_test
  tranche_os_socket_test tranche_os_worker_test
  tranche_gpu_driver_contract_test tranche_gpu_driver_watch_test tranche_mig_live_test
  tranche_mps_live_test tranche_mps_relay_test tranche_mps_endpoints_test tranche_mps_program_test
  kube_contract_test tranche_observe_pages_test)

# After all tests.
function(tranche_threaded_tests)
  foreach(target ${TRANCHE_THREADED_TESTS})
    if(NOT TARGET ${target})
      message(FATAL_ERROR "TRANCHE_THREADED_TESTS in cmake/tranche.cmake: there is no test ${target}")
    endif()
  endforeach()
  add_custom_target(threaded_tests DEPENDS ${TRANCHE_THREADED_TESTS})
endfunction()

# With TRANCHE_ONLY_PLAIN_TESTS, a folder's tests are neither built nor run under a sanitizer.
function(tranche_test target)
  cmake_parse_arguments(A "GRPC" "LABEL;TIMEOUT;SHARDS" "SOURCES;LINKS;ENV" ${ARGN})
  list(TRANSFORM A_LINKS REPLACE "^tranche::" "tranche_")
  add_executable(${target} ${A_SOURCES})
  tranche_unity(${target})
  tranche_test_program(${target})
  target_link_libraries(${target} PRIVATE ${A_LINKS} GTest::gmock GTest::gtest_main)
  if(TRANCHE_ONLY_PLAIN_TESTS AND TRANCHE_SANITIZE)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)  # of a sanitizer on a busy machine; none takes a minute otherwise
  endif()
  set(labels ${A_LABEL})
  if(NOT A_GRPC)
    list(APPEND labels no-grpc)
  endif()
  if(target IN_LIST TRANCHE_THREADED_TESTS)
    list(APPEND labels threads)
  endif()
  if(NOT A_SHARDS)
    set(A_SHARDS 1)
  endif()
  math(EXPR last "${A_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(name ${target})
    set(shards "")
    if(A_SHARDS GREATER 1)
      set(shards "GTEST_TOTAL_SHARDS=${A_SHARDS};GTEST_SHARD_INDEX=${shard};")
    endif()
    if(shard GREATER 0)
      math(EXPR number "${shard} + 1")
      set(name ${target}_${number})
    endif()
    add_test(NAME ${name} COMMAND ${target})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${A_TIMEOUT} ENVIRONMENT
      "TRANCHE_BUILD=${PROJECT_BINARY_DIR};TRANCHE_SOURCE=${PROJECT_SOURCE_DIR};${shards}${A_ENV}")
  endforeach()
endfunction()

#   tranche_fuzz(os LINKS tranche::os_log)   source: tests/fuzz/os_fuzz.cpp   corpus of each of its targets: tests/fuzz/corpus/<target>/
# One program has all targets; it is libFuzzer's, with a name for each target (fuzz_<target>), and built with TRANCHE_FUZZ.
function(tranche_fuzz name)
  cmake_parse_arguments(A "" "" "LINKS" ${ARGN})
  list(TRANSFORM A_LINKS REPLACE "^tranche::" "tranche_")
  set(source ${PROJECT_SOURCE_DIR}/tests/fuzz/${name}_fuzz.cpp)
  set_property(GLOBAL APPEND PROPERTY TRANCHE_FUZZ_SOURCES ${source})
  set_property(GLOBAL APPEND PROPERTY TRANCHE_FUZZ_LINKS ${A_LINKS})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(STRINGS ${source} targets REGEX "^FUZZ\\(")
  list(TRANSFORM targets REPLACE "^FUZZ\\(([a-z_]+)\\).*" "\\1")
  foreach(target ${targets})
    file(GLOB corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${target}/*)
    if(NOT corpus)
      message(FATAL_ERROR "the fuzz target ${target} has no inputs in tests/fuzz/corpus/${target}")
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TRANCHE_FUZZ_TARGETS ${targets})
endfunction()

# All of the above: the target fuzz_targets.
function(tranche_fuzz_targets)
  get_property(names GLOBAL PROPERTY TRANCHE_FUZZ_TARGETS)
  get_property(sources GLOBAL PROPERTY TRANCHE_FUZZ_SOURCES)
  get_property(links GLOBAL PROPERTY TRANCHE_FUZZ_LINKS)
  list(REMOVE_DUPLICATES links)
  add_executable(fuzzer ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzzer_main.cpp ${sources})
  tranche_test_program(fuzzer)
  target_link_libraries(fuzzer PRIVATE ${links})
  target_link_options(fuzzer PRIVATE -fsanitize=fuzzer)
  # libFuzzer needs its counters in the parsers and in the targets, not in the tests and stand-ins that are compiled in
  # the same build. These options are named one by one, because a precompiled header fits objects with and without
  # them, but not objects with and without -fsanitize=fuzzer-no-link.
  foreach(target fuzzer tranche_base ${links})
    if(target MATCHES "^tranche_" AND NOT target STREQUAL "tranche_proto" OR target STREQUAL "fuzzer")
      target_compile_options(${target} PRIVATE -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)
    endif()
  endforeach()
  set_target_properties(fuzzer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fuzz)
  foreach(name ${names})
    file(CREATE_LINK fuzzer ${PROJECT_BINARY_DIR}/tests/fuzz/fuzz_${name} SYMBOLIC)
  endforeach()
  add_custom_target(fuzz_targets DEPENDS fuzzer)
endfunction()
