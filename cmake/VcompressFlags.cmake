# Compile flags of everything that is ours, as the interface target vcompress_flags.
# -ffp-contract=off is not an optimization choice: fused multiply-adds would change codes between machines.
# -Wno-unused-parameter: functions of a table take what the table gives, and not each needs all of that.
add_library(vcompress_flags INTERFACE)
target_compile_definitions(vcompress_flags INTERFACE _POSIX_C_SOURCE=200809L _FILE_OFFSET_BITS=64
  VC_VERSION_STRING="${PROJECT_VERSION}")
target_compile_options(vcompress_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-std=c11>
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -Wall -Wextra -Wno-unused-parameter -Wpedantic
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

# vcompress_loops("FLAGS" SOURCE...): sources of the library whose loops go through every element or byte, and what they are
# compiled with, -O2 for example. Debug builds compile all sources alike. VCOMPRESS_VECTORS is for loops that gain nothing by what
# -O3 does beyond vectors, and that compile up to eight times as long with it.
set(VCOMPRESS_VECTORS -O2 -ftree-vectorize)
include(CheckCCompilerFlag)
check_c_compiler_flag("-Werror -fvect-cost-model=dynamic" VCOMPRESS_HAS_VECT_COST_MODEL) # of gcc
if(VCOMPRESS_HAS_VECT_COST_MODEL)
  list(APPEND VCOMPRESS_VECTORS -fvect-cost-model=dynamic)
endif()
# Neither option changes a result: no code reads errno after a math function, or the floating-point exception flags.
list(APPEND VCOMPRESS_VECTORS -fno-math-errno -fno-trapping-math)
function(vcompress_loops flags)
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY vcompress APPEND PROPERTY COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:${flags}>")
endfunction()
# vcompress_level("FLAGS" SOURCE...): the instructions that sources of one level of the processor may use. Debug builds have -O1 here: at
# -O0 every vector of every inlined function has a place of its own in the stack, 700 KB of it, and threads have 512.
set(VCOMPRESS_AVX2 -mavx2 -mfma -mf16c -mbmi2)
set(VCOMPRESS_AVX512_FLAGS ${VCOMPRESS_AVX2} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprefer-vector-width=512)
function(vcompress_level flags)
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY vcompress APPEND PROPERTY COMPILE_OPTIONS "${flags}" "$<$<CONFIG:Debug>:-O1>")
endfunction()
# vcompress_cold_sources(): the sources of the library in which neither tests nor common jobs spend much time get
# VCOMPRESS_COLD_FLAGS, unless vcompress_loops gives them flags. With sanitizers, -O0 compiles such a file in a third of the time of
# -O1. tools/CMakeLists.txt and tests/CMakeLists.txt do the same for the command and for tests.
function(vcompress_cold_sources)
  get_target_property(sources vcompress SOURCES)
  set(cold core/chain/ core/job/ core/model/ distill/data/identity distill/data/network distill/data/rows distill/data/teacher_file
    distill/loss/match_names distill/run/ distill/trained distill/update/device_ distill/update/gradual distill/update/masks
    engine/plan_ facade/ formats/bin_folder formats/dialects/ formats/folder_index formats/formats formats/gguf formats/huggingface/
    formats/io/out formats/onnx/ formats/output_ formats/pipeline formats/safetensors/ formats/torch/ graph/ measure/graph_
    measure/inspect measure/output_ measure/sensitivity/ measure/verify/ memory/ merge/lora_modules merge/lora_names merge/merge_pass prune/depth prune/prune_ prune/structured/
    quantize/activations/ quantize/aim quantize/mixture quantize/quantize quantize/rest report/ search/ shrink/)
  list(JOIN cold "|/" cold)
  list(FILTER sources INCLUDE REGEX "/${cold}")
  list(FILTER sources EXCLUDE REGEX "/graph/ops/(loops_|window)|/packing_columns.c$") # convolutions; columns of bits
  foreach(source ${sources}) # in front: flags of vcompress_loops, which Debug builds do not have, win
    get_property(options SOURCE ${source} TARGET_DIRECTORY vcompress PROPERTY COMPILE_OPTIONS)
    set_property(SOURCE ${source} TARGET_DIRECTORY vcompress PROPERTY COMPILE_OPTIONS ${VCOMPRESS_COLD_FLAGS} ${options})
  endforeach()
endfunction()
