# debs.sh - read with "." by release.sh: packages of Debian from what CMake installed, by the components of
# cmake/VcompressInstall.cmake. dpkg-shlibdeps finds what they depend on.
# shellcheck shell=sh
# shellcheck disable=SC2154

share() { # PACKAGE PATH...: moves paths below usr/ from the installed tree to a package
    package=$1
    shift
    for path in "$@"; do
        mkdir -p "$debs/$package/usr/$(dirname "$path")"
        mv "$tree/usr/$path" "$debs/$package/usr/$path"
    done
}

# shellcheck disable=SC2046
needs() { # FILE...: the packages of the libraries that these programs load; for arm64 the same as for amd64, which is made before
    if [ "$arch" != amd64 ]; then
        cat "$root/build/release/amd64/depends.$self"
        return
    fi
    mkdir -p "$debs/debian"
    printf 'Source: vcompress\n\nPackage: vcompress\nArchitecture: any\n' >"$debs/debian/control"
    (cd "$debs" && if ! dpkg-shlibdeps -O --warnings=0 -S"$debs/libvcompress0" -l"$debs/libvcompress0/usr/lib/$triplet" \
        -x"$self" $(printf -- '-e%s ' "$@") >"$work/shlibdeps" 2>"$work/shlibdeps.log"; then cat "$work/shlibdeps.log" >&2; exit 1; fi)
    sed 's/^shlibs:Depends=//' "$work/shlibdeps" | tee "$work/depends.$self"
}

deb() { # PACKAGE ARCHITECTURE SECTION "DEPENDS" "SYNOPSIS" "TEXT"
    dir=$debs/$1
    docs=$dir/usr/share/doc/$1
    mkdir -p "$docs" "$dir/DEBIAN"
    {
        printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: vcompress\n\nFiles: *\n'
        sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
        printf 'License: Expat\n'
        sed '1,/^Copyright/d; s/^$/./; s/^/ /' LICENSE | sed '1d'
        printf '\nFiles: examples/digits/images.npz\nCopyright: 1998 E. Alpaydin, C. Kaynak\nLicense: CC-BY-4.0\n'
        printf ' The data set "Optical Recognition of Handwritten Digits" of the UCI repository,\n under https://creativecommons.org/licenses/by/4.0/legalcode\n'
    } >"$docs/copyright"
    printf 'vcompress (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md in vcompress-doc.\n\n -- %s  %s\n' \
        "$version" "$maintainer" "$(date -Rud "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$docs/changelog.gz"
    find "$dir" -name '*.so*' -type f -exec chmod 644 {} +
    (cd "$dir" && find usr -type f | sort | xargs md5sum) >"$dir/DEBIAN/md5sums"
    {
        printf 'Package: %s\nSource: vcompress\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$1" "$version" "$2" "$maintainer"
        printf 'Installed-Size: %s\n' "$(find "$dir/usr" -type f -printf '%s\n' | awk '{ n += int(($1 + 1023) / 1024) } END { print n }')"
        if [ -n "$4" ]; then printf 'Depends: %s\n' "$4"; fi
        case $1 in vcompress) printf 'Suggests: vcompress-doc, vcompress-mpi\n' ;; esac
        printf 'Section: %s\nPriority: optional\nMulti-Arch: %s\nDescription: %s\n' "$3" \
            "$(case $1 in vcompress | vcompress-doc) echo foreign ;; *) echo same ;; esac)" "$5"
        printf '%s\n' "$6" | fold -s -w 78 | sed 's/ *$//; s/^/ /'
    } >"$dir/DEBIAN/control"
    find "$dir" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$dir" "$out/${1}_${version}_$2.deb" >/dev/null
}

make_debs() {
    maintainer="The vcompress authors <${DEBEMAIL:-vcompress@example.org}>"
    tree=$work/shared/root
    debs=$work/debs
    rm -rf "$debs"
    find "$tree/usr/bin" "$tree/usr/lib" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec "$strip" --strip-unneeded {} +
    rm -f "$tree/usr/share/doc/vcompress/LICENSE" # packages have copyright
    find "$tree/usr/share/man" -type f -exec gzip -9n {} +
    lib=lib/$triplet
    share libvcompress0 "$lib/libvcompress.so.0" "$lib/libvcompress.so.$version"
    share libvcompress-dev include/vcompress "$lib/libvcompress.so" "$lib/cmake" "$lib/pkgconfig"
    cp "$work/static/root/usr/$lib/libvcompress.a" "$debs/libvcompress-dev/usr/$lib/"
    "$strip" --strip-debug --enable-deterministic-archives "$debs/libvcompress-dev/usr/$lib/libvcompress.a"
    share vcompress-doc share/doc/vcompress
    for plugin in mpi cuda; do
        if [ -f "$tree/usr/$lib/vcompress/vcompress_$plugin.so" ]; then
            share "vcompress-$plugin" "$lib/vcompress/vcompress_$plugin.so"
        fi
    done
    share vcompress bin share/vcompress share/man share/bash-completion share/zsh/site-functions share/fish
    mkdir -p "$debs/vcompress/usr/share/zsh/vendor-completions"
    mv "$debs/vcompress/usr/share/zsh/site-functions/"* "$debs/vcompress/usr/share/zsh/vendor-completions/"
    rmdir "$debs/vcompress/usr/share/zsh/site-functions"

    mkdir -p "$debs/libvcompress0/DEBIAN" "$debs/debian"
    echo "libvcompress 0 libvcompress0 (>= $version)" | tee "$debs/libvcompress0/DEBIAN/shlibs" >"$debs/debian/shlibs.local"
    mkdir -p "$debs/libvcompress0/usr/share/lintian/overrides"
    printf '# vc_features() says which libdeflate it was built with\nlibvcompress0: embedded-library zlib *\n' \
        >"$debs/libvcompress0/usr/share/lintian/overrides/libvcompress0"
    echo "activate-noawait ldconfig" >"$debs/libvcompress0/DEBIAN/triggers"

    text="vcompress makes model checkpoints (safetensors, GGUF, ONNX, PyTorch, npz) smaller by quantizing, pruning and distilling, and reports the error of every tensor. It also says which GPU holds a model."
    self=libvcompress0
    depends=$(needs "$debs/libvcompress0/usr/$lib/libvcompress.so.$version")
    deb libvcompress0 "$arch" libs "$depends" \
        "library to quantize and prune model checkpoints" "$text"
    self=vcompress
    depends=$(needs "$debs/vcompress/usr/bin/vcompress")
    deb vcompress "$arch" utils "$depends" "makes model checkpoints smaller" "$text"
    deb libvcompress-dev "$arch" libdevel "libvcompress0 (= $version), zlib1g-dev, libjansson-dev, libdeflate-dev, libisal-dev, nettle-dev" \
        "development files of vcompress" "$text
This package has the headers, the library as an archive, and files for CMake and pkg-config."
    deb vcompress-doc all doc "" "documents and examples of vcompress" "$text
This package has the documents and examples, with a small trained network."
    for plugin in mpi cuda; do
        if [ -d "$debs/vcompress-$plugin" ]; then
            self=vcompress-$plugin
            depends=$(needs "$debs/vcompress-$plugin/usr/$lib/vcompress/vcompress_$plugin.so")
            deb "vcompress-$plugin" "$arch" utils "libvcompress0 (= $version), $depends" \
                "$(echo "$plugin" | tr "[:lower:]" "[:upper:]") plug-in of vcompress" "$text
This package has the plug-in for $(echo "$plugin" | tr "[:lower:]" "[:upper:]")."
        fi
    done
}
