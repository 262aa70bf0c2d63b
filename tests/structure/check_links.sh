#!/bin/sh
# check_links.sh ROOT OBJECTS NM - who calls whom, as the linker sees it. A room is a folder of at most two levels
# (core/base, graph/ops, memory); its loops/ and levels/ belong to it. Fails on
#   - a cycle: rooms that call each other. Says which symbols tie it, a line for each pair of rooms;
#   - a function or an object that a file of one room declares and another room defines, unless a public header
#     declares it: a reader of the header would not find what it promises.
# check_includes.sh reads what files include; a declaration in the wrong room goes past it, but not past this test.
# OBJECTS is a file with the path of one object of the library in every line.
set -eu
cd "$1"
objects=$2
nm=$3
if [ -z "$nm" ]; then
    echo "no nm"
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# FILE TYPE SYMBOL for every symbol that an object defines or wants.
tr '\n' '\0' <"$objects" | xargs -0 "$nm" -A -g -P -- | awk '
    { path = $1; sub(/:$/, "", path); sub(/(\[.*\])?$/, "", path); sub(/\.o(bj)?$/, "", path); sub(/^.*\/vcompress\.dir\/(\.\/)?/, "", path)
      print path, $3, $2 }' >"$work/symbols"

# FILE declares SYMBOL, for what stands outside of braces and ends in a semicolon.
find include core arch formats kernels graph passes prune merge quantize engine distill measure memory report search shrink facade -type f \
    \( -name '*.h' -o -name '*.c' -o -name '*.inc' \) 2>/dev/null | sort | xargs awk '
    function statement(text,    name) { # ends in a semicolon, without braces
        if (text ~ /(^|[^a-z_])(static|typedef)[ ]/) { return }
        if (match(text, /vc_[a-z0-9_]+\(/)) { name = substr(text, RSTART, RLENGTH - 1) }
        else if (text ~ /(^|[^a-z_])extern[ ]/ && match(text, /vc_[a-z0-9_]+(\[[^\]]*\])*[ ]*$/)) {
            name = substr(text, RSTART, RLENGTH)
            sub(/[ \[].*/, "", name)
        }
        else { return }
        print FILENAME, "declares", name
    }
    FNR == 1 { depth = 0; text = ""; comment = continued = braces = 0 }
    {
        line = $0
        while (1) { # comments
            if (comment) {
                if ((at = index(line, "*/")) == 0) { line = ""; break }
                line = substr(line, at + 2)
                comment = 0
            }
            if ((at = index(line, "/*")) == 0) { break }
            rest = substr(line, at + 2)
            if ((end = index(rest, "*/")) != 0) { line = substr(line, 1, at - 1) " " substr(rest, end + 2) }
            else { line = substr(line, 1, at - 1); comment = 1; break }
        }
        if (continued || line ~ /^[ ]*#/) { continued = line ~ /\\$/; next }
        sub(/\/\/.*/, "", line)
        gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
        gsub(/\047([^\047\\]|\\.)*\047/, "0", line)
        while (match(line, /[{};]/)) {
            mark = substr(line, RSTART, 1)
            if (depth == 0) { text = text " " substr(line, 1, RSTART - 1) }
            line = substr(line, RSTART + 1)
            if (mark == "{") { depth++; braces = 1 }
            else if (mark == "}") { depth--; if (depth == 0 && text ~ /\)[ ]*$/) { text = ""; braces = 0 } }
            else if (depth == 0) { if (!braces) { statement(text) } text = ""; braces = 0 }
        }
        if (depth == 0) { text = text " " line }
    }' >>"$work/symbols"

awk '
    function room(path,    n, part) {
        n = split(path, part, "/")
        return n <= 2 || part[2] ~ /^(loops|levels)$/ ? part[1] : part[1] "/" part[2]
    }
    # Tarjan: the rooms that can reach each other get the same number.
    function visit(a,    k, n, list, b) {
        number[a] = low[a] = ++numbers
        stack[++depth] = a
        on[a] = 1
        n = split(out_of[a], list, " ")
        for (k = 1; k <= n; k++) {
            b = list[k]
            if (!(b in number)) { visit(b); if (low[b] < low[a]) { low[a] = low[b] } }
            else if (on[b] && number[b] < low[a]) { low[a] = number[b] }
        }
        if (low[a] == number[a]) {
            cycles++
            do { b = stack[depth--]; on[b] = 0; cycle[b] = cycles; size[cycles]++ } while (b != a)
        }
    }
    $2 == "declares" { declared[++n_declared] = $1 " " $3; next }
    { rooms[room($1)] = 1 }
    $2 == "U" { wanted[++n_wanted] = $1 " " $3; next }
    $2 ~ /^[A-Z]$/ { place[$3] = $1; n_defined++ }
    END {
        if (n_defined < 500 || n_declared < 500 || n_wanted < 500) {
            print "only " n_defined + 0 " symbols, " n_wanted + 0 " uses and " n_declared + 0 " declarations found"
            exit 1
        }
        for (i = 1; i <= n_wanted; i++) {
            split(wanted[i], w, " ")
            if (!(w[2] in place)) { continue }
            a = room(w[1])
            b = room(place[w[2]])
            if (a == b) { continue }
            edge = a " " b
            if (!(edge in uses)) { out_of[a] = out_of[a] " " b; edges++ }
            if (!((edge, w[2]) in seen)) { uses[edge] = uses[edge] ", " w[2]; seen[edge, w[2]] = 1; from[edge] = w[1] }
        }
        for (a in rooms) { if (!(a in number)) { visit(a) } }
        for (edge in uses) {
            split(edge, w, " ")
            if (cycle[w[1]] == cycle[w[2]]) {
                printf "cycle of %d rooms: %s/ calls %s/: %s (in %s)\n", size[cycle[w[1]]], w[1], w[2], substr(uses[edge], 3), from[edge]
                failed = 1
            }
        }
        for (i = 1; i <= n_declared; i++) {
            split(declared[i], w, " ")
            if (!(w[2] in place) || w[1] ~ /^include\// || room(w[1]) == room(place[w[2]])) { continue }
            print w[1] " declares " w[2] ", which " place[w[2]] " defines: a room declares what it has"
            failed = 1
        }
        if (!failed) { print edges " edges between rooms, no cycle; " n_declared " declarations, all of what their room has" }
        exit failed
    }' "$work/symbols" >"$work/answer" && status=0 || status=$?
sort "$work/answer"
exit $status
