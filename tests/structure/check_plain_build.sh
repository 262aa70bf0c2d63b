#!/bin/sh
# check_plain_build.sh ROOT CC BUILD - the command that docs/library.md gives for a build without CMake and without any
# optional library does build the program, and the program works. BUILD has the objects of this build with CMake:
# sources that it compiles with the same definitions are not compiled again, and the others are not optimized.
set -eu
cd "$1"
cc=$2
build=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
version=$(sed -n 's/^project(vcompress VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

awk '/Without CMake:/ { found = 1; next } found && /^```/ { if (++fences == 2) { exit } next } fences == 1' docs/library.md |
    sed "s|^cc |\"$cc\" |; s| -O2 | -O0 |; s|-o vcompress\$|-o $dir/vcompress|" >"$dir/build.sh"
grep -q "^\"$cc\" .*" "$dir/build.sh"

# The words of the command: an object of the build at hand instead of a source that compiles alike. Not alike are sources that
# CMake gives definitions or instructions of their own.
own=$(grep -rlE --include='*.c' 'VC_HAVE_|VC_PLUGIN_' core arch facade formats graph passes prune merge quantize engine distill measure memory report search shrink tools)
sed 's/^"[^"]*" //; s/\\$//' "$dir/build.sh" | tr '\n' ' ' >"$dir/words"
n_alone=0
n_alike=0
eval "set -- $(cat "$dir/words")"
for word in "$@"; do
    shift
    case $word in
    *.c)
        case $word in
        kernels/* | *_avx2.c | *_avx512.c) object= ;;
        tools/*) object=$build/tools/CMakeFiles/vcompress_command.dir/${word#tools/}.o ;;
        *) object=$build/CMakeFiles/vcompress.dir/$word.o ;;
        esac
        case $own in *"$word"*) object= ;; esac
        if [ -f "$object" ]; then
            n_alike=$((n_alike + 1))
            word=$object
        else
            n_alone=$((n_alone + 1))
        fi
        ;;
    esac
    set -- "$@" "$word"
done
[ "$n_alike" -gt 400 ] || { echo "only $n_alike objects of the build are of the command's sources"; exit 1; }
"$cc" "$@"
echo "$n_alone sources compiled, $n_alike objects of the build"

"$dir/vcompress" --version | grep -qF "$version"
"$dir/vcompress" quantize --int8 -q examples/digits/digits.npz -o "$dir/small.npz"
test "$(wc -c <"$dir/small.npz")" -lt 200000
"$dir/vcompress" diff -q --tolerance 0.01 examples/digits/digits.npz "$dir/small.npz"
if "$dir/vcompress" verify --sha256 examples/digits/digits.npz 2>"$dir/err"; then exit 1; fi
grep -q 'this build has no SHA-256' "$dir/err"
echo "built and used without CMake"
