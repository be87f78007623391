# What every target of ours is compiled with: the interface library ns_flags.
add_library(ns_flags INTERFACE)
target_include_directories(ns_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(ns_flags INTERFACE _GNU_SOURCE NIGHTSHIFT_VERSION="${PROJECT_VERSION}")
target_compile_options(ns_flags INTERFACE
  -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
  -Wold-style-definition -Wvla -Wundef -Wformat=2 -Wwrite-strings -Wimplicit-fallthrough
  -fno-strict-aliasing -fno-common -fstack-protector-strong)
# gcc's, and clang does not know it: bounded messages are cut on purpose.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ns_flags INTERFACE -Wno-format-truncation)
endif()
if(NIGHTSHIFT_WERROR)
  target_compile_options(ns_flags INTERFACE -Werror)
endif()
if(NIGHTSHIFT_SANITIZE)
  target_compile_options(ns_flags INTERFACE
    -fsanitize=${NIGHTSHIFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(ns_flags INTERFACE -fsanitize=${NIGHTSHIFT_SANITIZE})
endif()
if(NIGHTSHIFT_FUZZ)
  target_compile_options(ns_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
