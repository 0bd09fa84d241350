# A library of one folder of the arrow, with its unit tests beside it.
#   tranche_library(plan SOURCES make_plan.cpp … TESTS make_plan_test.cpp … LINKS tranche::config …)
# gives target tranche_plan (alias tranche::plan) and, when testing, tranche_plan_test with the ctest label LABEL.
include(GoogleTest)

# Most of a source's compile time is its headers: three quarters of the sources here include the same dozen. Two sets,
# for a precompiled header fits only objects of the same flags: of the libraries (PIC, optimised) and of the tests.
# Never for `tidy`: there each source must name what it uses by itself.
function(tranche_precompile)
  file(WRITE ${PROJECT_BINARY_DIR}/empty.cpp "")
  set(headers <algorithm> <array> <chrono> <cstdint> <cstdlib> <expected> <filesystem> <functional> <map> <memory> <mutex>
    <optional> <set> <span> <string> <string_view> <thread> <utility> <variant> <vector> <fmt/format.h> <nlohmann/json.hpp>)
  add_library(tranche_headers STATIC ${PROJECT_BINARY_DIR}/empty.cpp)
  target_link_libraries(tranche_headers PRIVATE tranche_warnings)
  target_precompile_headers(tranche_headers PRIVATE ${headers})
  if(TRANCHE_TESTS)
    add_executable(tranche_test_headers ${PROJECT_BINARY_DIR}/empty.cpp)
    target_compile_options(tranche_test_headers PRIVATE ${TRANCHE_TEST_OPTIONS})
    target_link_libraries(tranche_test_headers PRIVATE tranche_warnings GTest::gmock GTest::gtest_main)
    target_precompile_headers(tranche_test_headers PRIVATE ${headers} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endfunction()

# For a library (PIC) of the product's flags.
function(tranche_precompiled target)
  if(TRANCHE_PRECOMPILE)
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
  target_compile_options(tranche_${name} PRIVATE $<$<CONFIG:Release>:-O2>)
endfunction()

#   tranche_test(target SOURCES … LINKS … [LABEL contract] [TIMEOUT seconds])
# One ctest entry per executable: starting a process per case costs more than the cases. Labels: unit (default),
# no-grpc is added by itself for targets that do not link gRPC, which is what TSan runs.
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

function(tranche_test target)
  cmake_parse_arguments(A "GRPC" "LABEL;TIMEOUT" "SOURCES;LINKS;ENV" ${ARGN})
  list(TRANSFORM A_LINKS REPLACE "^tranche::" "tranche_")
  add_executable(${target} ${A_SOURCES})
  tranche_unity(${target})
  tranche_test_program(${target})
  target_link_libraries(${target} PRIVATE ${A_LINKS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${target} COMMAND ${target})
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 180)  # of a sanitizer on a busy machine; none takes a minute otherwise
  endif()
  set(labels ${A_LABEL})
  if(NOT A_GRPC)
    list(APPEND labels no-grpc)
  endif()
  set_tests_properties(${target} PROPERTIES LABELS "${labels}" TIMEOUT ${A_TIMEOUT} ENVIRONMENT
    "TRANCHE_BUILD=${PROJECT_BINARY_DIR};TRANCHE_SOURCE=${PROJECT_SOURCE_DIR};${A_ENV}")
endfunction()

#   tranche_fuzz(slot_id SOURCES slot_id_fuzz.cpp LINKS tranche::plan)   corpus: tests/fuzz/corpus/<name>/
# With clang and TRANCHE_FUZZ a program of libFuzzer for each; otherwise one program, fuzz_replay, that replays each
# corpus, so that every build checks it.
function(tranche_fuzz name)
  cmake_parse_arguments(A "" "" "SOURCES;LINKS" ${ARGN})
  list(TRANSFORM A_LINKS REPLACE "^tranche::" "tranche_")
  if(TRANCHE_FUZZ)
    add_executable(fuzz_${name} ${A_SOURCES})
    target_link_libraries(fuzz_${name} PRIVATE tranche_warnings ${A_LINKS})
    target_include_directories(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    set_property(GLOBAL APPEND PROPERTY TRANCHE_FUZZ_TARGETS fuzz_${name})
  else()
    set_property(GLOBAL APPEND PROPERTY TRANCHE_FUZZ_TARGETS ${name})
    set_property(GLOBAL APPEND PROPERTY TRANCHE_FUZZ_LINKS ${A_LINKS})
    add_test(NAME fuzz_${name}_corpus COMMAND fuzz_replay ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    set_tests_properties(fuzz_${name}_corpus PROPERTIES LABELS "fuzz;no-grpc")
  endif()
endfunction()

# All of the above: the target fuzz_targets. Each <name>_fuzz.cpp is read with LLVMFuzzerTestOneInput as fuzz_<name>, in
# batches written here, because CMake's own batches have no name for each source.
function(tranche_fuzz_targets)
  get_property(names GLOBAL PROPERTY TRANCHE_FUZZ_TARGETS)
  if(TRANCHE_FUZZ)
    add_custom_target(fuzz_targets DEPENDS ${names})
    return()
  endif()
  set(size 1)
  if(TRANCHE_UNITY)
    set(size 16)
  endif()
  set(sources ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp ${PROJECT_BINARY_DIR}/tests/fuzz/replay_table.cpp)
  set(declared "")
  set(rows "")
  set(batch "")
  set(count 0)
  list(LENGTH names all)
  foreach(name ${names})
    string(APPEND declared "extern \"C\" int fuzz_${name}(const std::uint8_t* data, std::size_t size);\n")
    string(APPEND rows "    {\"${name}\", fuzz_${name}},\n")
    string(APPEND batch "#define LLVMFuzzerTestOneInput fuzz_${name}\n#include \"${PROJECT_SOURCE_DIR}/tests/fuzz/${name}_fuzz.cpp\"\n#undef LLVMFuzzerTestOneInput\n")
    math(EXPR count "${count} + 1")
    math(EXPR rest "${count} % ${size}")
    if(rest EQUAL 0 OR count EQUAL all)
      set(file ${PROJECT_BINARY_DIR}/tests/fuzz/replay_${count}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${batch}" @ONLY)
      list(APPEND sources ${file})
      set(batch "")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/tests/fuzz/replay_table.cpp @ONLY
    CONTENT "#include \"fuzz/replay_table.h\"\n${declared}const std::vector<FuzzTarget>& fuzz_targets() {\n  static const std::vector<FuzzTarget> all = {\n${rows}  };\n  return all;\n}\n")
  get_property(links GLOBAL PROPERTY TRANCHE_FUZZ_LINKS)
  list(REMOVE_DUPLICATES links)
  add_executable(fuzz_replay ${sources})
  tranche_test_program(fuzz_replay)
  target_link_libraries(fuzz_replay PRIVATE ${links})
  add_custom_target(fuzz_targets DEPENDS fuzz_replay)
endfunction()
