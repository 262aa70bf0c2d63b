#!/bin/sh
# can_fail.sh PROGRAM - compare.sh finds nothing between a program and itself, and notices programs that do one thing
# differently: a byte of a file, a figure of a report, a sentence, an exit status, a file too many.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

if ! "$here/compare.sh" -k "$dir/first" "$program" "$program" quick >"$dir/log"; then
    echo "a program differs from itself:"
    cat "$dir/log"
    failed=1
fi

# Another program: the real one, but for six things.
cat >"$dir/other" <<END
#!/bin/sh
"$program" "\$@"
rc=\$?
case \$1 in
    quantize)
        [ -f report.json ] || [ ! -f o.npz ] || printf x | dd of=o.npz bs=1 seek=200 conv=notrunc 2>/dev/null
        [ ! -f report.json ] || sed -i 's/"kept": [0-9]*/"kept": 99/' report.json
        [ \$rc -ne 3 ] || rc=4
        ;;
    verify) [ \$rc -eq 0 ] || echo 'and more' >&2 ;;
    dequantize) rm -f source.npz ;;
    inspect) : >stray ;;
esac
exit \$rc
END
chmod +x "$dir/other"
cat >"$dir/all" <<'END'
# the six of them
quick: *: o.npz: bytes differ from 200 on
quick: *: report.json: totals.kept is 99, was *
quick: *: exit status 4, was 3
quick: *: on stderr: says 'and more', said nothing
quick: *: source.npz: is missing
quick: *: stray: was not there before
END
for pattern in 'o.npz: bytes differ from 200 on' 'totals.kept is 99, was ' 'exit status 4, was 3' "says 'and more'" \
    'source.npz: is missing' 'stray: was not there before'; do
    printf '%s\n' "$pattern" >>"$dir/patterns"
done
if "$here/compare.sh" -i "$dir/first" "$program" "$dir/other" quick >"$dir/log"; then
    echo 'another program is not noticed'
    failed=1
fi
while IFS= read -r pattern; do
    grep -qF "$pattern" "$dir/log" || { echo "not in the list: $pattern"; cat "$dir/log"; failed=1; }
done <"$dir/patterns"

# Differences that are wanted do not count; others still do.
if ! "$here/compare.sh" -i "$dir/first" -e "$dir/all" "$program" "$dir/other" quick >"$dir/log"; then
    echo 'wanted differences count:'
    cat "$dir/log"
    failed=1
fi
grep -v 'exit status' "$dir/all" >"$dir/some"
if "$here/compare.sh" -i "$dir/first" -e "$dir/some" "$program" "$dir/other" quick >"$dir/log"; then
    echo 'wanted differences hide another'
    failed=1
fi
exit "$failed"
