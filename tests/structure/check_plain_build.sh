#!/bin/sh
# check_plain_build.sh ROOT CC - the command that docs/library.md gives for a build without CMake and without any optional
# library does build the program, and the program works. (Not optimized here, which takes a third of the time.)
set -eu
cd "$1"
cc=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
version=$(sed -n 's/^project(vcompress VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

awk '/Without CMake:/ { found = 1; next } found && /^```/ { if (++fences == 2) { exit } next } fences == 1' docs/library.md |
    sed "s|^cc |\"$cc\" |; s| -O2 | -O0 |; s|-o vcompress\$|-o $dir/vcompress|" >"$dir/build.sh"
grep -q "^\"$cc\" .*" "$dir/build.sh"
sh -eu "$dir/build.sh"

"$dir/vcompress" --version | grep -qF "$version"
"$dir/vcompress" quantize --int8 -q examples/digits/digits.npz -o "$dir/small.npz"
test "$(wc -c <"$dir/small.npz")" -lt 200000
"$dir/vcompress" diff -q --tolerance 0.01 examples/digits/digits.npz "$dir/small.npz"
if "$dir/vcompress" verify --sha256 examples/digits/digits.npz 2>"$dir/err"; then exit 1; fi
grep -q 'this build has no SHA-256' "$dir/err"
echo "built and used without CMake"
