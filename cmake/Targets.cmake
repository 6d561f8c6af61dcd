# How targets are made. Every library, program and test of the project goes through one of these functions.

# Offline code: exceptions allowed (we throw none), Abseil and FlatBuffers welcome.
#   rankscope_library(NAME SRCS a.cc b.cc DEPS other)
function(rankscope_library NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(${NAME} STATIC ${ARG_SRCS})
  target_include_directories(${NAME} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${NAME} PUBLIC ${ARG_DEPS} rankscope_sanitizers PRIVATE rankscope_warnings)
endfunction()

# Code that ends in librankscope.so: no exceptions, no RTTI, hidden symbols, no unique symbols (they would pin or share
# state between copies). Two archives are made of the same sources: NAME, for the library, never sanitized; and
# NAME_for_tests, which carries the sanitizers of the preset.
#   rankscope_injected_library(NAME SRCS a.cc DEPS other)
function(rankscope_injected_library NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  foreach(VARIANT "" "_for_tests")
    if(VARIANT STREQUAL "_for_tests" AND NOT RANKSCOPE_SANITIZE)
      add_library(${NAME}_for_tests ALIAS ${NAME})
      continue()
    endif()
    add_library(${NAME}${VARIANT} STATIC ${ARG_SRCS})
    target_include_directories(${NAME}${VARIANT} PUBLIC ${CMAKE_SOURCE_DIR})
    target_compile_options(${NAME}${VARIANT} PRIVATE
      -O2 -fno-exceptions -fno-rtti -fvisibility=hidden -fvisibility-inlines-hidden -ftls-model=initial-exec
      -fno-semantic-interposition $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
    # The ring's structs are also read and written as words (plugin/slot_words.h), by whoever includes the headers.
    target_compile_options(${NAME}${VARIANT} PUBLIC -fno-strict-aliasing)
    target_compile_definitions(${NAME}${VARIANT} PRIVATE RANKSCOPE_VERSION="${PROJECT_VERSION}")
    foreach(DEP ${ARG_DEPS})
      target_link_libraries(${NAME}${VARIANT} PUBLIC ${DEP}${VARIANT})
    endforeach()
    target_link_libraries(${NAME}${VARIANT} PRIVATE rankscope_warnings)
    if(VARIANT STREQUAL "_for_tests")
      target_link_libraries(${NAME}${VARIANT} PUBLIC rankscope_sanitizers)
    endif()
  endforeach()
endfunction()

# A program.
function(rankscope_program NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SRCS})
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} rankscope_warnings rankscope_sanitizers)
endfunction()

# A GoogleTest program, one ctest entry per test case.
#   rankscope_test(NAME SRCS x_test.cc DEPS lib LABELS unit)
function(rankscope_test NAME)
  if(NOT RANKSCOPE_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${NAME} ${ARG_SRCS})
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main
    rankscope_warnings rankscope_sanitizers)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  include(GoogleTest)
  gtest_discover_tests(${NAME} DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

# A Google Benchmark program; benchmarks are built, and run by scripts/bench, not by ctest.
function(rankscope_benchmark NAME)
  if(NOT RANKSCOPE_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SRCS})
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${NAME} PRIVATE -O2)
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} benchmark::benchmark rankscope_warnings rankscope_sanitizers)
endfunction()
