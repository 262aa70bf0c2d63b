#!/bin/sh
# check_packages.sh [FOLDER] - installs what scripts/release.sh made (in FOLDER, build/release/out) as users do, each way in a bare Debian 12 and
# Debian 13 of its own, and uses it there on the shipped model: quantize, verify, fit, Python in memory, a program with the library.
# Prints the seconds from nothing to the first smaller model. Needs root, mmdebstrap and Debian's packages; SUITES="bookworm" does one, WAYS="deb tar" some ways.
# CONTAINER=1 also runs the steps of the Dockerfile, which builds the program (some minutes).
#
# The bare systems are folders (build/packages), entered by chroot; they are kept as archives for the next run.
# shellcheck disable=SC2016
set -eu
cd "$(dirname "$0")/.."
out=$(cd "${1:-build/release/out}" && pwd)
work=$PWD/build/packages
failed=0
mkdir -p "$work"
version=$(sed -n 's/^project(vcompress VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

bare() { # SUITE NAME: sets $root to a bare system with the model in /data and the release in /release
    if [ ! -s "$work/$1.tar" ] && ! mmdebstrap --variant=minbase --include=ca-certificates "$1" "$work/$1.tar" >"$work/$1.log" 2>&1; then
        tail -n 5 "$work/$1.log"
        echo "no bare $1 can be made here"
        exit 1
    fi
    root=$work/$1-$2
    rm -rf "$root"
    mkdir -p "$root"
    tar -xf "$work/$1.tar" -C "$root"
    cp /etc/resolv.conf "$root/etc/"
    mkdir -p "$root/data" "$root/release"
    cp examples/digits/digits.npz examples/digits/digits.layers.txt examples/digits/images.npz "$root/data/"
    cp "$out"/* "$root/release/"
    mkdir -p "$root/src/scripts"
    cp action.yml "$root/src/"
    cp scripts/action.sh "$root/src/scripts/"
}

container() { # SUITE: the steps of the Dockerfile, in two bare systems; the second one runs the program as nobody
    bare "$1" build
    git ls-files -co --exclude-standard | tar -cf - -T - | tar -xf - -C "$root/src"
    begin=$(date +%s)
    steps=$(sed -n 's/^RUN //p' Dockerfile)
    if inside "apt-get -qq update; cd /src; $steps"; then
        program=$root/$(sed -n 's/^COPY --from=build \/\([^ ]*\) .*/\1/p' Dockerfile)
        bare "$1" image
        cp "$program" "$root/usr/local/bin/vcompress"
        if chroot --userspec="$(sed -n 's/^USER //p' Dockerfile)" "$root" /usr/local/bin/vcompress quantize --int8 -q /data/digits.npz -o /tmp/small.npz >"$root.log" 2>&1; then
            printf '%-9s %-10s ok, %d s to the first result\n' "$1" container "$(($(date +%s) - begin))"
            rm -rf "$root" "$work/$1-build"
            return
        fi
    fi
    printf '%-9s %-10s FAILED\n' "$1" container
    tail -n 15 "$root.log"
    failed=1
}

inside() { # COMMAND: in the bare system, as root
    chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$1" >"$root.log" 2>&1
}

used='vcompress quantize --int8 -q -f /data/digits.npz -o /tmp/small.npz
test "$(wc -c </tmp/small.npz)" -lt 200000
vcompress verify /tmp/small.npz --against /data/digits.npz
vcompress fit --memory 1GiB --graph /data/digits.layers.txt /data/digits.npz
man=$(vcompress help --man | wc -l); test "$man" -gt 100'

way() { # SUITE NAME INSTALL USE: a line with the seconds, or what went wrong
    suite=$1 name=$2
    case " ${WAYS:-$2} " in *" $2 "*) ;; *) return ;; esac
    bare "$suite" "$name"
    begin=$(date +%s.%N)
    if inside "$3" && inside "vcompress quantize --int8 -q -f /data/digits.npz -o /tmp/small.npz"; then
        end=$(date +%s.%N)
        if inside "$used" && inside "$4"; then
            printf '%-9s %-10s ok, %.1f s to the first result\n' "$suite" "$name" "$(echo "$end $begin" | awk '{ print $1 - $2 }')"
            rm -rf "$root"
            return
        fi
    fi
    printf '%-9s %-10s FAILED\n' "$suite" "$name"
    tail -n 15 "$root.log"
    failed=1
}

# What was built for arm64, under qemu-user with the libraries of build/arm64-sysroot: code for arm64 alone, which writes what amd64 writes.
arm64='out=$1 root=$2 name=vcompress-$3-linux
mkdir -p "$root/deb" "$root/wheel"
tar -xzf "$out/$name-x86_64.tar.gz" -C "$root"
tar -xzf "$out/$name-aarch64.tar.gz" -C "$root"
python3 -m zipfile -e "$out"/vcompress_toolkit-*_aarch64.whl "$root/wheel"
chmod +x "$root/wheel/vcompress_toolkit-$3.data/scripts/vcompress"
for file in "$out"/*_arm64.deb; do dpkg-deb -x "$file" "$root/deb"; done
machines=$(find "$root/deb" "$root/wheel" "$root/$name-aarch64" -type f -exec readelf -h {} + 2>/dev/null | sed -n "s/^ *Machine: *//p" | sort -u)
test "$machines" = AArch64
"$root/$name-x86_64/bin/vcompress" quantize --int8 -q examples/digits/digits.npz -o "$root/host.npz"
for program in deb/usr/bin "$name-aarch64/bin" "wheel/vcompress_toolkit-$3.data/scripts"; do
    run="qemu-aarch64-static -L build/arm64-sysroot -E LD_LIBRARY_PATH=$root/deb/usr/lib/aarch64-linux-gnu $root/$program/vcompress"
    $run quantize --int8 -q -f examples/digits/digits.npz -o "$root/small.npz"
    cmp "$root/host.npz" "$root/small.npz"
    $run verify "$root/small.npz" --against examples/digits/digits.npz
    $run fit --memory 1GiB --graph examples/digits/digits.layers.txt examples/digits/digits.npz
done'

library='mkdir /tmp/embed && cp /usr/share/doc/vcompress/examples/embed/* /tmp/embed && cd /tmp/embed
cc in_memory.c $(pkg-config --cflags --libs vcompress) -o shared
cc in_memory.c $(pkg-config --cflags --libs --static vcompress | sed "s/-lvcompress/-l:libvcompress.a/") -o static
cmake -S . -B build && cmake --build build
for program in ./shared ./static build/in_memory; do
    $program npz </data/digits.npz >memory.npz
    cmp memory.npz /tmp/small.npz
done
ldd ./shared | grep -q libvcompress.so.0
if ldd ./static | grep libvcompress; then exit 1; fi
build/callbacks /data/digits.npz callbacks.npz && cmp callbacks.npz /tmp/small.npz'

python='cat >/tmp/t.py <<END
import array, vcompress
w = memoryview(array.array("f", [((7919 * i) % 1000 - 500) / 5000 for i in range(131072)])).cast("B").cast("f", (256, 512))
small = vcompress.compress({"w": w}, int8=True)
assert small.dtypes["w.int8"] == "I8" and small.report["totals"]["sqnr_db"] > 35
back = small.decompress()
assert back.dtypes == {"w": "F32"}
assert vcompress.verify("/tmp/small.npz", against="/data/digits.npz").ok
END
'
# Inputs as action.yml gives them to its step: outputs, the table in the summary, a missed gate that fails and one that does not.
action='export GITHUB_OUTPUT=/tmp/out GITHUB_STEP_SUMMARY=/tmp/summary INPUT=/data/digits.npz OUTPUT="/tmp/a b.npz" OPTIONS="--int8 --exclude '"'conv*'"'" MAX_BYTES= MUST_FIT=
MIN_SQNR=40 sh /src/scripts/action.sh
said() { sed -n "s/^$1=//p" /tmp/out | tail -n 1; }
test "$(said passed)" = true && test -z "$(said missed)" && report=$(said report) && summary=$(said summary) && grep -q "vcompress.report/1" "$report" && test -s "$summary" && test -s "/tmp/a b.npz" && rm "/tmp/a b.npz"
if MIN_SQNR=90 sh /src/scripts/action.sh; then exit 1; fi
MIN_SQNR=90 FAIL=false sh /src/scripts/action.sh
test "$(said passed)" = false && test "$(said gate)" = min_sqnr_db && said missed | grep -q "asks for 90.00 dB" && test ! -e "/tmp/a b.npz" && grep -q "missed" /tmp/summary
for name in $(sed -n "s/^        \\([A-Z_]*\\): \${{ inputs.*/\\1/p" /src/action.yml); do grep -q "\${\?$name\b" /src/scripts/action.sh; done'

# A document that was installed links to what is there.
links='cd /usr/share/doc/vcompress && for file in $(find . -name "*.md"); do for link in $(grep -oE "\]\([^)# ]+" "$file" | sed "s|^](||" | grep -vE "^(https?|mailto):"); do
test -e "$(dirname "$file")/$link" || { echo "$file: $link"; exit 1; }; done; done'

for suite in ${SUITES:-bookworm trixie}; do
    way "$suite" deb "apt-get -qq update && apt-get -qq -y install --no-install-recommends /release/libvcompress0_*_amd64.deb /release/vcompress_*_amd64.deb" \
        "test -s /usr/share/bash-completion/completions/vcompress && apt-get -qq -y remove vcompress libvcompress0 && test ! -e /usr/bin/vcompress"
    way "$suite" deb-dev "apt-get -qq update && apt-get -qq -y install --no-install-recommends g++ cmake make pkg-config /release/libvcompress*_amd64.deb /release/vcompress_*_amd64.deb /release/vcompress-doc_*.deb" \
        "$links
$library"
    # The MPI library of Debian 13 has another soname: its plug-in comes from a build there.
    [ "$suite" != bookworm ] || way "$suite" deb-mpi "apt-get -qq update && apt-get -qq -y install --no-install-recommends /release/libvcompress0_*_amd64.deb /release/vcompress_*_amd64.deb /release/vcompress-mpi_*.deb" \
        "test -s /usr/lib/x86_64-linux-gnu/vcompress/vcompress_mpi.so"
    way "$suite" tar "tar -xzf /release/vcompress-$version-linux-x86_64.tar.gz -C /opt && ln -s /opt/vcompress-$version-linux-x86_64/bin/vcompress /usr/bin/" \
        "mv /opt/vcompress-$version-linux-x86_64 /srv/moved && /srv/moved/bin/vcompress --version"
    way "$suite" wheel "apt-get -qq update && apt-get -qq -y install --no-install-recommends python3 python3-venv && python3 -m venv /venv &&
/venv/bin/pip install -q --no-index /release/vcompress_toolkit-*_x86_64.whl && ln -s /venv/bin/vcompress /usr/bin/" \
        "$python /venv/bin/python /tmp/t.py"
    way "$suite" action "tar -xzf /release/vcompress-$version-linux-x86_64.tar.gz -C /opt && ln -s /opt/vcompress-$version-linux-x86_64/bin/vcompress /usr/bin/" "$action"
    [ -z "${CONTAINER:-}" ] || container "$suite"
done
if [ ! -s "$out/vcompress-$version-linux-aarch64.tar.gz" ]; then
    echo "arm64: not made, not tried"
else
    root=$work/arm64
    rm -rf "$root"
    if sh -euc "$arm64" sh "$out" "$root" "$version" >"$root.log" 2>&1; then
        echo "arm64     deb, tar, program of the wheel: ok, emulated"
        rm -rf "$root"
    else
        echo "arm64     FAILED"
        tail -n 15 "$root.log"
        failed=1
    fi
fi
exit "$failed"
