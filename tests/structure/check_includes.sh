#!/bin/sh
# check_includes.sh ROOT - who includes whom. Fails on every edge that the table of docs/architecture.md does not have,
# on third-party headers outside their place, and on two source files of the same name.
set -eu
cd "$1"

# FILE TARGET for every include line of ours; TARGET is the text between the quotes or angle brackets.
list_edges() {
    find include core formats kernels passes prune quantize distill measure memory report tools examples -type f \
        \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort |
        xargs grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' |
        sed -nE 's|^([^:]*):[^<"]*([<"][^>"]+[>"]).*|\1 \2|p'
}

list_edges | awk '
    function folder(path) { sub(/\/.*/, "", path); return path }
    function bad(why) { printf "%s includes %s: %s\n", $1, $2, why; failed = 1 }

    # What the kernels may see of the library: types, status and memory, but no model, format, pass or engine.
    function kernels_may(t) {
        return t ~ /^kernels\// || t ~ /^vcompress\/(dtype|status|context|device)\.h$/ ||
               t ~ /^core\/base\/(tile|ctx|cpu|pool|checked|compiler)\.h$/
    }
    function is_pass(d) { return d ~ /^(passes|prune|quantize|distill|measure)$/ }

    {
        from = folder($1)
        dir = $1
        sub(/\/[^\/]*$/, "", dir)
        quoted = $2 ~ /^"/
        t = substr($2, 2, length($2) - 2)
        ours = quoted || t ~ /^vcompress\//
        if (t ~ /\.\.\//) { bad("paths start at the root of the tree or name a neighbour"); next }
        if (quoted && t ~ /^vcompress\//) { bad("public headers are included with <>"); next }
        if (t ~ /^(zlib|jansson|libdeflate)\.h$|^isa-l/ && from != "formats") { bad("only formats/ may"); next }
        if (t ~ /^nettle\// && from != "measure") { bad("only measure/ may"); next }
        if (t ~ /^(cuda|cublas|nvml|nvrtc|curand|cooperative_groups|device_launch)/ && $1 !~ /^kernels\/cuda\//) {
            bad("only kernels/cuda/ may")
            next
        }
        if (from == "include" && !ours && t !~ /^std(bool|def|int|io)\.h$/) { bad("the C standard is enough here") }
        if (!ours) { next }
        if (quoted && t !~ /\//) { t = dir "/" t } # a neighbour
        to = t ~ /^vcompress\// ? "include" : folder(t)
        if (from == "include") { ok = to == "include" }
        else if (from == "core") { ok = to ~ /^(include|core)$/ }
        else if (from == "formats") { ok = to ~ /^(include|core|formats)$/ }
        else if (from == "kernels") { ok = kernels_may(t) }
        else if (is_pass(from)) {
            ok = to ~ /^(include|core|passes)$/ || to == from || t ~ /^kernels\/(kernels|arith)\.h$/
        }
        else if (from == "report") { ok = to ~ /^(include|core|report)$/ }
        else if (from == "tools") { ok = to ~ /^(include|tools)$/ }
        else if (from == "examples") { ok = to == "include" }
        else { ok = 0 }
        if (!ok) { bad(from "/ may not") }
        edges++
    }
    END {
        if (edges < 50) { print "only " edges + 0 " include lines found: is this the root of the tree?"; failed = 1 }
        else if (!failed) { print edges " include lines of ours, all allowed" }
        exit failed
    }'

twins=$(find core formats kernels passes prune quantize distill measure memory report tools examples tests bench include -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cu' \) 2>/dev/null | sed 's|.*/||' | sort | uniq -d)
if [ -n "$twins" ]; then
    echo "file names that occur twice:" "$twins"
    exit 1
fi
