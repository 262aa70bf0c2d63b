#!/bin/sh
# release.sh [--arch arm64] [FOLDER] - makes what a release consists of, for Debian 12 and later, in FOLDER (build/release/out):
#
#     vcompress_0.1.0_amd64.deb           the program, manual, completions, schemas
#     libvcompress0_, libvcompress-dev_   the library, shared; headers, the archive, find_package, pkg-config
#     vcompress-mpi_                      the plug-in for distill in several processes
#     vcompress-cuda_                     the plug-in for CUDA, where nvcc is (not arm64)
#     vcompress-doc_0.1.0_all.deb         documents and examples
#     vcompress-0.1.0-linux-x86_64.tar.gz a folder to put anywhere: its program needs glibc only
#     vcompress_toolkit-0.1.0-*.whl       for pip
#     vcompress-0.1.0.spdx.json           what is in them (SPDX 2.3)
#     SHA256SUMS
#
# The same bytes from the same commit on the same packages of Debian, in whatever folder: dates are that of the commit
# ($SOURCE_DATE_EPOCH where it is set). Nothing is fetched; --arch arm64 needs scripts/arm64_sysroot.sh before.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
arch=amd64
if [ "${1:-}" = --arch ]; then
    arch=$2
    shift 2
fi
work=$root/build/release/$arch
out=${1:-$root/build/release/out}
version=$(sed -n 's/^project(vcompress VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
jobs=${JOBS:-$(nproc)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC0
umask 022

case $arch in
amd64) triplet=x86_64-linux-gnu machine=x86_64 strip=strip toolchain="" ;;
arm64)
    triplet=aarch64-linux-gnu machine=aarch64 strip=aarch64-linux-gnu-strip
    toolchain="-DCMAKE_TOOLCHAIN_FILE=$root/cmake/arm64.cmake"
    ;;
*) echo "release.sh: --arch is amd64 or arm64, not $arch" >&2 && exit 2 ;;
esac
export DEB_BUILD_MAINT_OPTIONS=hardening=+all DEB_CFLAGS_MAINT_STRIP="-g -O2"
flags="$(dpkg-buildflags --get CPPFLAGS) $(dpkg-buildflags --get CFLAGS)"
links=$(dpkg-buildflags --get LDFLAGS)
generator="Unix Makefiles"
if command -v ninja >/dev/null; then generator=Ninja; fi

build() { # FOLDER CMAKE-OPTION...: what is built lies in $work/FOLDER, what is installed in $work/FOLDER/root;
    # with $only one plug-in, with $place below this folder
    folder=${place:-$work}/$1
    shift
    mkdir -p "$folder"
    echo "building $folder"
    # shellcheck disable=SC2086
    if ! cmake -G "$generator" -S . -B "$folder" $toolchain -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
        -DCMAKE_C_FLAGS="$flags" -DCMAKE_EXE_LINKER_FLAGS="$links" -DCMAKE_SHARED_LINKER_FLAGS="$links -Wl,--as-needed" \
        -DCMAKE_MODULE_LINKER_FLAGS="$links -Wl,--as-needed" -DVCOMPRESS_TESTS=OFF -DCMAKE_SKIP_INSTALL_RPATH=ON -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON "$@" >"$folder.log" 2>&1 ||
        ! cmake --build "$folder" -j "$jobs" ${only:+--target "vcompress_$only"} >>"$folder.log" 2>&1 || ! rm -rf "$folder/root" ||
        ! DESTDIR=$folder/root cmake --install "$folder" ${only:+--component "$only"} >>"$folder.log" 2>&1; then
        tail -n 30 "$folder.log" >&2
        exit 1
    fi
}
place='' only=''
mpi=ON
[ "$arch" = amd64 ] || mpi=OFF
cuda=OFF
if [ "$arch" = amd64 ] && command -v nvcc >/dev/null; then cuda=ON; fi
build shared -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_LIBDIR="lib/$triplet" -DVCOMPRESS_ISAL=ON -DVCOMPRESS_LIBDEFLATE=ON -DVCOMPRESS_NETTLE=ON \
    -DVCOMPRESS_MPI=$mpi -DVCOMPRESS_HTTP=OFF -DVCOMPRESS_CUDA=OFF
if [ "${VCOMPRESS_CUDA:-$cuda}" != OFF ]; then
    # nvcc makes names of the whole path of a source: the plug-in is built in a folder whose name is always the same.
    fixed=/tmp/vcompress-$version-cuda
    mkdir -m 700 "$fixed"
    trap 'rm -rf "$fixed"' EXIT
    tar --exclude=./build --exclude=./.git -cf - . | tar -xf - -C "$fixed"
    (cd "$fixed" && place=$fixed/build only=cuda && build cuda -DVCOMPRESS_CUDA=ON -DCMAKE_INSTALL_LIBDIR="lib/$triplet")
    cp -a "$fixed/build/cuda/root/." "$work/shared/root/"
fi
# Debian has no archive of ISA-L.
build static -DVCOMPRESS_STATIC_DEPENDENCIES=ON -DCMAKE_INSTALL_LIBDIR="lib/$triplet" -DVCOMPRESS_ISAL=OFF -DVCOMPRESS_LIBDEFLATE=ON \
    -DVCOMPRESS_NETTLE=ON -DVCOMPRESS_MPI=OFF -DVCOMPRESS_HTTP=OFF -DVCOMPRESS_CUDA=OFF

mkdir -p "$out"
rm -f "$out"/*_"$arch".deb "$out"/*"$machine".tar.gz "$out"/*"$machine".whl
. scripts/release/debs.sh
make_debs

# ---- the tar ----
name=vcompress-$version-linux-$machine
rm -rf "${work:?}/$name"
mkdir -p "$work/$name"
cp -a "$work/static/root/usr/bin" "$work/static/root/usr/share" "$work/$name/"
$strip "$work/$name/bin/vcompress"
cp LICENSE "$work/$name/"
in_order() { # FOLDER: the same dates and modes, whoever built it
    find "$1" -type d -exec chmod 755 {} +
    find "$1" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
}
in_order "$work/$name"
tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner -C "$work" -cf - "$name" | gzip -9n >"$out/$name.tar.gz"

# ---- the wheel ----
cmake --build "$work/static" -j "$jobs" --target vcompress_call >>"$work/static.log" 2>&1
python3 python/build_wheel.py "$work/static" "$out" "$machine"

python3 scripts/release/sbom.py "$version" "$out"
# shellcheck disable=SC2094
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS | sed 's|^\./||' | sort | xargs sha256sum >SHA256SUMS)
echo "oldest glibc: $(objdump -T "$work/static/root/usr/bin/vcompress" | sed -n 's/.*GLIBC_\([0-9.]*\)[) ].*/\1/p' | sort -uV | tail -n 1)"
(cd "$out" && ls -l)
