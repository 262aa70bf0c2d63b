#!/bin/sh
# check_headers.sh ROOT CC CXX - every public header compiles alone, twice in one file, as C11 and as C++17; so do the
# examples, which are copied into programs of both languages; every internal header compiles alone as C11. CXX may be
# empty: then the C++ half is not done and says so. docs/library.md lists the functions of vcompress.h's headers.
set -eu
root=$1
cc=$2
cxx=$3
cd "$root"
flags="-fsyntax-only -Iinclude -Wall -Wextra -Wno-unused-parameter -Wpedantic -Werror -D_POSIX_C_SOURCE=200809L"
n=0
failed=0
stable=$(mktemp)
trap 'rm -f "$stable" "$stable.headers" "$stable.docs"' EXIT

compile() { # COMPILER LANGUAGE STANDARD HEADER MORE...
    compiler=$1 language=$2 standard=$3 header=$4
    shift 4
    n=$((n + 1))
    # shellcheck disable=SC2086
    if ! printf '#include <%s>\n#include <%s>\nextern int nothing;\n' "$header" "$header" |
        "$compiler" -x "$language" -std="$standard" $flags "$@" -; then
        echo "$header does not compile alone as $standard"
        failed=1
    fi
}

for header in include/vcompress/*.h; do
    compile "$cc" c c11 "${header#include/}"
    if [ -n "$cxx" ]; then
        compile "$cxx" c++ c++17 "${header#include/}"
    fi
done
for example in $(find examples -name '*.c' | sort); do
    for standard in c11 c++17; do
        case $standard in c11) compiler=$cc language=c ;; *) compiler=$cxx language=c++ ;; esac
        [ -n "$compiler" ] || continue
        n=$((n + 1))
        # shellcheck disable=SC2086
        if ! "$compiler" -x "$language" -std="$standard" $flags "$example"; then
            echo "$example does not compile as $standard"
            failed=1
        fi
    done
done
# Without the templates of kernels/, graph/ops/, engine/ and distill/math/, which others include, and CUDA.
for header in $(find core arch formats kernels graph passes prune merge quantize engine distill facade measure memory report search shrink tools -name '*.h' ! -path 'kernels/*loop*' ! -path 'graph/ops/*loops*' \
    ! -path 'engine/loops/*' ! -path 'distill/math/loops/*' ! -path 'kernels/cuda/*' | sort); do
    compile "$cc" c c11 "$header" -I.
done
echo "$n compilations"
if [ -z "$cxx" ]; then
    echo "no C++ compiler: C++17 was not tried"
fi

# "VC_API void vc_job_free(...": vc_job_free
for header in $(sed -n 's/^#include <\(vcompress\/.*\)>/include\/\1/p' include/vcompress/vcompress.h); do
    sed -nE 's/^VC_API [^(]*[ *](vc_[a-z0-9_]+)\(.*/\1/p' "$header"
done | sort >"$stable.headers"
sed -n '/^## Stable functions/,/^## B/p' docs/library.md | grep -o '`vc_[a-z0-9_]*`' | tr -d '`' | sort >"$stable.docs"
[ "$(wc -l <"$stable.headers")" -gt 50 ] || failed=1
if ! diff "$stable.headers" "$stable.docs"; then
    echo "docs/library.md, Stable functions: < is in the headers of vcompress.h, > in the document"
    failed=1
fi
exit "$failed"
