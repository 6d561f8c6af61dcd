# The one list of warnings and the one list of sanitizer flags.
add_library(rankscope_warnings INTERFACE)
target_compile_options(rankscope_warnings INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wcast-align -Wunused -Woverloaded-virtual -Wnull-dereference
  -Wdouble-promotion -Wformat=2 -Wimplicit-fallthrough)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's flow analysis sees null pointers in the standard library's own code at -O2.
  target_compile_options(rankscope_warnings INTERFACE -Wno-null-dereference -Wno-error=maybe-uninitialized)
endif()

add_library(rankscope_sanitizers INTERFACE)
if(RANKSCOPE_SANITIZE)
  target_compile_options(rankscope_sanitizers INTERFACE
    -fsanitize=${RANKSCOPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    # GCC 12 takes the sanitizers' own checks for reads beyond a string.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-error=stringop-overread -Wno-error=stringop-overflow>)
  target_link_options(rankscope_sanitizers INTERFACE -fsanitize=${RANKSCOPE_SANITIZE})
endif()

if(RANKSCOPE_FUZZ)
  # Coverage and both sanitizers in everything that the fuzz targets reach; only they link libFuzzer's main.
  target_compile_options(rankscope_sanitizers INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(rankscope_sanitizers INTERFACE -fsanitize=address,undefined)
endif()
