#!/bin/sh
# check_readme.sh VCOMPRESS EVALUATE SOURCE - the output of the quickstart in README.md is what the programs print, but
# for time, device, threads and memory.
set -eu
LC_ALL=C.UTF-8
export LC_ALL
vcompress=$1
evaluate=$2
source=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir build
ln -s "$source/examples" examples

general() {
    sed -E 's|^(wrote [^ ]*) in .*|\1|'
}

awk '/prints at the end/ { found = 1 } found && /^```/ { if (++fences == 2) { exit } next } fences == 1' \
    "$source/README.md" | general >wanted
grep '^[$] ' wanted >commands
if [ "$(wc -l <commands)" -ne 2 ]; then
    echo "README.md shows other commands than the two of quickstart"
    exit 1
fi
while IFS= read -r line; do
    words=${line#??}
    if ! grep -qxF "show $words" "$source/quickstart"; then
        echo "quickstart does not run: $words"
        exit 1
    fi
    printf '\n%s\n' "$line"
    # shellcheck disable=SC2086
    case $words in
    vcompress*) "$vcompress" ${words#* } ;;
    digits_evaluate*) "$evaluate" ${words#* } ;;
    esac
done <commands | sed 1d | general >got
diff wanted got
