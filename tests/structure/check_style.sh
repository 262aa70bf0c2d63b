#!/bin/sh
# check_style.sh ROOT - the text of the tree: no tabs, no blanks at the end of a line, a newline at the end of a file,
# ASCII in code, no path of somebody's machine, no link between documents that leads nowhere,
# a README in each room, no option of the command in a string of the library,
# no picture in a comment and no member that a formatter tore. No file name here has a blank in it.
set -eu
cd "$1"
LC_ALL=C
export LC_ALL

code=$(find CMakeLists.txt cmake core arch formats kernels graph passes prune merge quantize engine distill facade measure memory report search shrink tools examples tests bench \
    scripts include python quickstart check .ci -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \
    -o -name '*.sh' -o -name '*.py' -o -name '*.cmake' -o -name '*.in' -o -name CMakeLists.txt -o -name quickstart \
    -o -name check -o -path 'scripts/*' -o -path '.ci/*' \) ! -path '*/__pycache__/*' 2>/dev/null | sort)
rooms="core arch formats graph kernels passes quantize prune merge engine distill facade measure memory report search shrink tools"
# shellcheck disable=SC2086
text=$(find README.md INSTALL.md SECURITY.md CONTRIBUTING.md CHANGELOG.md docs examples python $rooms -type f -name '*.md' 2>/dev/null | sort)
tab=$(printf '\t')
n=$(printf '%s\n' "$code" | wc -l)
if [ "$n" -lt 50 ]; then
    echo "only $n files of code found: is this the root of the tree?"
    exit 1
fi

label() { # puts WHAT before every line of standard input
    sed "s|^|$1: |"
}

# The library's users have fields, not options: sentences say vc_option(ctx, "max_bytes"), and the command makes
# --max-bytes of it. Comments may speak of options. So may the recipe of a report ("quantize --int8 ..."), which is made
# in quantize/ of the flags of its schemes and of the text that stands beside "quantize" or is " --asymmetric", and in
# prune/prune_options.c.
options_in_strings() {
    # shellcheck disable=SC2086
    awk '
        FNR == 1 { comment = 0 }
        {
            line = $0
            text = ""
            while (line != "") {
                if (comment) {
                    end = index(line, "*/")
                    if (end == 0) { break }
                    comment = 0
                    line = substr(line, end + 2)
                } else {
                    start = index(line, "/*")
                    text = text (start == 0 ? line : substr(line, 1, start - 1))
                    if (start == 0) { break }
                    comment = 1
                    line = substr(line, start + 2)
                }
            }
            recipe = FILENAME ~ /^quantize\// && text ~ /(\.flag =|"quantize (%s )?--|" --(asymmetric|encoder llama|pure|rest %s|activations static|smooth %g|aim-sqnr %g|aim-bytes %llu|aim-(bpw|loss) %g|aim-)")/
            recipe = recipe || (FILENAME == "prune/prune_options.c" && text ~ /"(prune --mask --reconstruct"|prune --(mask|make-permanent)"|prune --(pattern|sparsity) %s| --scope (global|tensor)| --score "| --reconstruct"| --pattern )/)
            recipe = recipe || (FILENAME == "prune/depth.c" && text ~ /"prune --%s-layers %s --layers %s"/)
            recipe = recipe || (FILENAME == "prune/structured/structured_options.c" && text ~ /"(prune --(remove|structured %s)"| --scope global"| --reconstruct"|%s --score %s|%s --round-to )/)
            recipe = recipe || (FILENAME == "search/recipes/plan_forms.c" && text ~ /"(prune --structured %s|quantize --(int8|fp16) --rest (fp16|bf16)|quantize --gguf Q8_0|quantize %s( --layout %s)? --rest %s|--runtime (vllm|native))"/)
            if (!recipe && text ~ /"([^"\\]|\\.)*--[a-z]/) { print FILENAME ":" FNR ":" $0 }
        }' $(printf '%s\n' $code | grep -E '^(include|core|formats|kernels|passes|prune|merge|quantize|engine|distill|measure|memory|report|search/recipes)/.*\.(c|h|inc|cu)$')
}

# shellcheck disable=SC2013,SC2046,SC2086
findings=$(
    options_in_strings | label "option of the command"
    grep -n "$tab" $code | label "tab"
    grep -nE ' +$' $code $text | label "blank at the end of a line"
    # What the command prints and what tests feed it may hold other characters.
    grep -nP '[^\x00-\x7f]' $(printf '%s\n' $code | grep -vE '^(tools|tests)/') | label "not ASCII"
    grep -nE '(^|[^.[:alnum:]])/(work|farm|home|Users)/' $code $text | grep -v '^tests/structure/' |
        label "path of one machine"
    grep -LzP '\n\z' $code $text | label "no newline at the end"
    for file in $text; do
        for link in $(grep -oE '\]\([^)# ]+' "$file" | sed 's|^](||' | grep -vE '^(https?|mailto):'); do
            if [ ! -e "$(dirname "$file")/$link" ]; then
                echo "link that leads nowhere: $file: $link"
            fi
        done
    done
    # What a formatter tears. A picture in a comment is indented by some five blanks: wrapped lines leave a full line and the rest of it at
    # the margin. A member whose comment is too long becomes two lines, "bool" and "name; /* ... */": its comment belongs above it.
    awk -v limit=120 '
        FNR == 1 { before = -1; type = 0 }
        type && /^ +\**[a-z_]+(\[[A-Za-z_0-9]+\])*; \/\*/ { print "torn member: " FILENAME ":" FNR }
        { type = /^ +(const )?(struct |enum )?[a-z_0-9]+( ?\*)*$/; text = ""; indent = -1 }
        match($0, /^ *\*+ */) { text = substr($0, RLENGTH + 1); indent = RLENGTH - index($0, "*") }
        text == "" || text == "/" { before = -1; next }
        before >= 4 && before <= 8 && indent <= 1 { split(text, words, " "); if (full + 1 + length(words[1]) > limit) print "torn picture: " FILENAME ":" FNR }
        { before = indent; full = length($0) }' $(printf '%s\n' $code | grep -E '\.([ch]|inc|cuh?)$')
    # A folder of three or more sources is a room.
    for room in include/vcompress $(printf '%s\n' $code | grep -E "^($(echo $rooms | tr ' ' '|'))/.*\.(c|h|inc|cu)\$" | sed 's|/[^/]*$||' | sort | uniq -c | awk '$1 > 2 { print $2 }'); do
        if [ ! -s "$room/README.md" ]; then
            echo "no README.md: $room"
        fi
    done
) || true
if [ -n "$findings" ]; then
    printf '%s\n' "$findings"
    exit 1
fi
echo "$n files of code in good order"
