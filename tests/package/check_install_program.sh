#!/bin/sh
# check_install_program.sh SOURCE CMAKE CC - builds the targets that ./quickstart builds and nothing else, then installs:
# the library, the program, its manual and completions are there; what was not built does not stop it.
set -eu
source=$1
cmake=$2
cc=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
targets=$(sed -n 's/.*--target \(.*\) >>.*/\1/p' "$source/quickstart")
[ -n "$targets" ] || { echo "quickstart names no targets"; exit 1; }

step() { # COMMAND...
    "$@" >"$dir/log" 2>&1 || { echo "failed: $*"; tail -n 30 "$dir/log"; exit 1; }
}
step "$cmake" -S "$source" -B "$dir/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug -DVCOMPRESS_TESTS=OFF
# shellcheck disable=SC2086
step "$cmake" --build "$dir/build" -j 2 --target $targets
step "$cmake" --install "$dir/build" --prefix "$dir/root"
if [ -f "$dir/build/kernels/cuda/cmake_install.cmake" ] && grep -q vcompress_cuda "$dir/build/kernels/cuda/cmake_install.cmake"; then
    grep -q 'Not installed: the CUDA plug-in' "$dir/log" || { echo "the missing plug-in is not said"; cat "$dir/log"; exit 1; }
fi
for file in bin/vcompress include/vcompress/vcompress.h share/man/man1/vcompress.1 \
    share/bash-completion/completions/vcompress share/zsh/site-functions/_vcompress \
    share/fish/vendor_completions.d/vcompress.fish share/vcompress/report-1.schema.json; do
    [ -s "$dir/root/$file" ] || { echo "not installed: $file"; exit 1; }
done
"$dir/root/bin/vcompress" --version >/dev/null
