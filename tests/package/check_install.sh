#!/bin/sh
# check_install.sh BUILD SOURCE CMAKE CC [SANITIZERS] - installs the build into a temporary folder, moves that folder,
# and builds and runs other people's programs against it: C and C++ by find_package, C by pkg-config. What was not built,
# such as the CUDA plug-in behind ./quickstart, does not stop it; ./check has a build of that kind.
set -eu
build=$1
source=$2
cmake=$3
cc=$4
sanitizers=${5:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
model=$source/examples/digits/digits.npz
want="vcompress $(sed -n 's/^project(vcompress VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt"): 22 tensors"

expect() { # WHAT COMMAND... prints the line that is wanted
    what=$1
    shift
    got=$("$@")
    if [ "$got" != "$want" ]; then
        echo "$what printed '$got', not '$want'"
        exit 1
    fi
    echo "$what: ok"
}

"$cmake" --install "$build" --prefix "$dir/first" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
if grep -qs vcompress_cuda "$build/kernels/cuda/cmake_install.cmake" && [ ! -e "$build/lib/vcompress/vcompress_cuda.so" ]; then
    grep -q 'Not installed: the CUDA plug-in' "$dir/log" || { echo "the missing plug-in is not said"; cat "$dir/log"; exit 1; }
fi
mv "$dir/first" "$dir/root"
lib=$(dirname "$(find "$dir/root" -name 'libvcompress.*' -print | head -n 1)")
LD_LIBRARY_PATH=$lib
export LD_LIBRARY_PATH

"$dir/root/bin/vcompress" --version >/dev/null
for file in include/vcompress/vcompress.h share/doc/vcompress/LICENSE share/vcompress/report-1.schema.json \
    share/man/man1/vcompress.1 share/man/man1/vcompress-quantize.1 share/bash-completion/completions/vcompress share/zsh/site-functions/_vcompress \
    share/fish/vendor_completions.d/vcompress.fish; do
    if [ ! -s "$dir/root/$file" ]; then
        echo "not installed: $file"
        exit 1
    fi
done
if grep -rlI "$dir/first\|$source" "$dir/root"; then
    echo "these installed files name folders of the build machine"
    exit 1
fi

# A document that was installed links to what is there.
if ! (cd "$dir/root/share/doc/vcompress" && grep -roE --include='*.md' '\]\([^)# ]+' . | sed 's|:](|\t|' | grep -vE "$(printf '\t')(https?|mailto):" | sort -u |
    while IFS="$(printf '\t')" read -r file link; do
        [ -e "${file%/*}/$link" ] || { echo "$file links to $link, which is not installed"; exit 1; }
    done); then
    exit 1
fi
echo "links of documents: ok"

flags=""
if [ -n "$sanitizers" ]; then
    flags="-fsanitize=$sanitizers"
fi
if ! "$cmake" -S "$source/tests/package/consumer" -B "$dir/consumer" -DCMAKE_PREFIX_PATH="$dir/root" \
    -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" >"$dir/log" 2>&1 ||
    ! "$cmake" --build "$dir/consumer" >>"$dir/log" 2>&1; then
    cat "$dir/log"
    exit 1
fi
expect "find_package, C" "$dir/consumer/consumer_c" "$model"
expect "find_package, C++" "$dir/consumer/consumer_cpp" "$model"

# The examples of embedding: bytes in memory, functions of the program, formats that are one file.
if ! "$cmake" -S "$source/examples/embed" -B "$dir/embed" -DCMAKE_PREFIX_PATH="$dir/root" -DCMAKE_C_FLAGS="$flags -Wall -Wextra -Werror" \
    -DCMAKE_CXX_FLAGS="$flags -Wall -Wextra -Wpedantic -Wconversion -Wold-style-cast -Werror" >"$dir/log" 2>&1 || ! "$cmake" --build "$dir/embed" >>"$dir/log" 2>&1; then
    cat "$dir/log"
    exit 1
fi
for format in npz safetensors gguf onnx pt; do
    what=$format
    test $format != pt || what=torch
    "$dir/root/bin/vcompress" quantize --int8 -q -f "$model" -o "$dir/want.$format" 2>"$dir/want.err" || true
    "$dir/embed/in_memory" $what <"$model" >"$dir/got" 2>"$dir/got.err" || true
    if [ -s "$dir/want.$format" ]; then
        cmp "$dir/want.$format" "$dir/got" || { cat "$dir/got.err"; exit 1; }
    elif [ -s "$dir/got" ] || ! grep -q '^in_memory: ' "$dir/got.err"; then
        echo "$format: a file cannot be written, memory can"
        cat "$dir/want.err" "$dir/got.err"
        exit 1
    fi
done
"$dir/embed/callbacks" "$model" "$dir/callbacks.npz" | grep -q ': 176646 bytes$'
cmp "$dir/want.npz" "$dir/callbacks.npz"
if printf damaged | "$dir/embed/in_memory" npz >"$dir/got" 2>"$dir/got.err" || ! grep -q '^in_memory: <stdin>: ' "$dir/got.err"; then
    echo "a damaged model in memory is not refused by its name"
    exit 1
fi
echo "embedding: ok"

DESTDIR=$dir/stage "$cmake" --install "$build" --prefix /opt/all >"$dir/log" 2>&1
[ -n "$(find "$dir/stage/opt/all/bin" -type f)" ]
DESTDIR=$dir/stage "$cmake" -DBUILD="$build" -P "$source/cmake/VcompressUninstall.cmake"
if find "$dir/stage" ! -type d | grep . || find "$dir/stage" -name vcompress | grep .; then
    echo "uninstall left these"
    exit 1
fi
echo "uninstall: ok"

if command -v pkg-config >/dev/null 2>&1; then
    PKG_CONFIG_PATH=$lib/pkgconfig
    export PKG_CONFIG_PATH
    # shellcheck disable=SC2046,SC2086
    "$cc" $flags "$source/tests/package/consumer/consumer.c" $(pkg-config --cflags --libs vcompress) -o "$dir/consumer_pc"
    expect "pkg-config" "$dir/consumer_pc" "$model"
else
    echo "pkg-config: not found, not tried"
fi
