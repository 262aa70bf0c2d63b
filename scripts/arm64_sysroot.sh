#!/bin/sh
# arm64_sysroot.sh [SUITE] - puts the libraries of arm64 that cmake/arm64.cmake builds with into build/arm64-sysroot: packages of
# Debian, unpacked and not installed, so that nothing runs and the host has no foreign architecture.
set -eu
cd "$(dirname "$0")/.."
. scripts/debian_packages.sh
need_packages mmdebstrap gcc-aarch64-linux-gnu 'qemu-user-static?'
rm -rf build/arm64-sysroot
mkdir -p build/arm64-sysroot
mmdebstrap --variant=extract --architectures=arm64 \
    --include=libc6-dev,zlib1g-dev,libjansson-dev,libdeflate-dev,libisal-dev,nettle-dev,libcmocka-dev "${1:-bookworm}" build/arm64-sysroot.tar
# Programs under qemu-user see these folders in place of the host's: none but those of libraries.
tar -xf build/arm64-sysroot.tar -C build/arm64-sysroot ./usr ./lib
rm build/arm64-sysroot.tar
# Links that begin at the root would lead to the host.
find build/arm64-sysroot -type l -lname '/*' | while IFS= read -r link; do
    ln -sfn "$PWD/build/arm64-sysroot$(readlink "$link")" "$link"
done
