#!/bin/sh
# check_plain_build.sh ROOT CC - the program builds with one compiler command and the libraries it cannot do without,
# and works: no CMake, no optional library.
set -eu
cd "$1"
cc=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
version=$(sed -n 's/^project(vcompress VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

"$cc" -std=c11 -O2 -ffp-contract=off -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 "-DVC_VERSION_STRING=\"$version\"" \
    -I. -Iinclude core/*.c formats/*.c kernels/*.c quantize/*.c measure/*.c tools/*.c \
    -lz -ljansson -lm -ldl -lpthread -o "$dir/vcompress"

"$dir/vcompress" --version | grep -qF "$version"
"$dir/vcompress" quantize --int8 -q examples/digits/digits.npz -o "$dir/small.npz"
test "$(wc -c <"$dir/small.npz")" -lt 200000
echo "built and used without CMake"
