#!/bin/sh
# collect-deps.sh - fetches the Debian packages that run.sh needs on a machine that has none of them and no package
# registry, and unpacks them into a folder that can be carried there:
#
#     tests/gpu/collect-deps.sh DIR        here, once
#     tests/gpu/run.sh --deps DIR          there
#
# Needs apt-get and dpkg-deb, no root. The libraries are those of this system: the other one must not be much older.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: collect-deps.sh DIR" >&2
    exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
packages=$folder/packages
mkdir -p "$packages"

# The headers, and whichever libraries they belong to. The last two make things faster and may be missing.
(
    cd "$packages"
    for name in zlib1g-dev zlib1g libjansson-dev libjansson4 libcmocka-dev libcmocka0; do
        apt-get download "$name"
    done
    for name in libdeflate-dev libdeflate0 libisal-dev libisal2 nettle-dev libnettle8; do
        apt-get download "$name" || echo "collect-deps: no package $name, going on without" >&2
    done
)
for package in "$packages"/*.deb; do
    dpkg-deb -x "$package" "$folder"
done
rm -r "$packages"

# Links like /lib/... point out of the folder: make them relative to their own folder, where the file is too.
find "$folder" -type l | while read -r link; do
    target=$(readlink "$link")
    case $target in
    /*)
        name=$(basename "$target")
        real=$(find "$folder" -name "$name" ! -type l | head -n 1)
        if [ -n "$real" ]; then
            ln -sfn "$(realpath --relative-to="$(dirname "$link")" "$real")" "$link"
        fi
        ;;
    esac
done
echo "collected in $folder: $(du -sh "$folder" | cut -f1)"
