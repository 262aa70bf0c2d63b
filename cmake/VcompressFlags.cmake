# Compile flags of everything that is ours, as the interface target vcompress_flags.
# -ffp-contract=off is not an optimization choice: fused multiply-adds would change codes between machines.
add_library(vcompress_flags INTERFACE)
target_compile_definitions(vcompress_flags INTERFACE _POSIX_C_SOURCE=200809L _FILE_OFFSET_BITS=64
  VC_VERSION_STRING="${PROJECT_VERSION}")
target_compile_options(vcompress_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-std=c11>
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -Wall -Wextra -Wpedantic
    -Wshadow -Wconversion -Wundef -Wvla -Wformat=2 -Wwrite-strings -Wcast-qual>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>)
if(VCOMPRESS_WERROR)
  target_compile_options(vcompress_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(VCOMPRESS_SANITIZE)
  target_compile_options(vcompress_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${VCOMPRESS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(vcompress_flags INTERFACE -fsanitize=${VCOMPRESS_SANITIZE})
endif()
