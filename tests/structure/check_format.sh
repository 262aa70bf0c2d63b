#!/bin/sh
# check_format.sh ROOT CLANG_FORMAT - C and CUDA sources are as clang-format 14 leaves them (other versions differ in
# details). 77: there is no such clang-format, the test is skipped.
set -eu
cd "$1"
formatter=$2
case $("$formatter" --version 2>/dev/null) in
*"version 14."*) ;;
*)
    echo "clang-format 14 not found: skipped"
    exit 77
    ;;
esac
find core arch formats kernels graph passes prune merge quantize engine distill facade measure memory report search shrink tools examples tests bench include -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null |
    xargs -0 "$formatter" --dry-run --Werror --ferror-limit=5
