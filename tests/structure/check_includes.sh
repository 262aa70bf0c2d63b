#!/bin/sh
# check_includes.sh ROOT - who includes whom. Fails on every edge that the tables of docs/architecture.md do not have,
# between folders and between the rooms of core/ and formats/, on third-party headers outside their place, and on two source files of the same name.
set -eu
cd "$1"

# FILE TARGET for every include line of ours; TARGET is the text between the quotes or angle brackets.
list_edges() {
    find include core arch formats kernels graph passes prune merge quantize engine distill facade measure memory report search shrink tools examples -type f \
        \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort |
        xargs grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' |
        sed -nE 's|^([^:]*):[^<"]*([<"][^>"]+[>"]).*|\1 \2|p'
}

list_edges | awk -v sq="'" '
    function folder(path) { sub(/\/.*/, "", path); return path }
    function bad(why) { printf "%s includes %s: %s\n", $1, $2, why; failed = 1 }

    # What the kernels may see of the library: types, status and memory, but no model, format, pass or engine.
    function kernels_may(t) {
        return t ~ /^kernels\// || t ~ /^vcompress\/(dtype|status|context|device)\.h$/ ||
               t ~ /^core\/(values\/(tile|grids)|base\/(ctx|cpu|pool|checked|compiler|plugin))\.h$/
    }
    # What of the kernels passes and the engine may call.
    function passes_may(t) {
        return t ~ /^kernels\/(kernels|rates|arith|grid_codes|functions|philox|train_args|train_codes|train_device|train_windows)\.h$|^kernels\/(unary(_math|_recurrent)?|block_types)\.inc$/
    }
    # Headers say that they are experimental in their first comment.
    function is_experimental(path,    line, found) {
        if (path in experimental) { return experimental[path] }
        found = path == "include/vcompress/experimental.h"
        while (!found && (getline line < path) > 0) { found = line ~ /Experimental: see experimental\.h/ }
        close(path)
        return experimental[path] = found
    }
    function is_pass(d) { return d ~ /^(passes|prune|merge|quantize|distill|measure)$/ }

    # The room of a file of core/ or formats/: "npz" of formats/npz/npy.c; "" of what lies beside the rooms.
    function room(path) {
        if (path !~ /^[^\/]+\/[^\/]+\//) { return "" }
        sub(/^[^\/]+\//, "", path)
        sub(/\/.*/, "", path)
        return path
    }
    # Why a file of formats/ may not include another one of formats/, t; "" where it may.
    function formats_may_not(from, t,    a, b) {
        a = room(from)
        b = room(t)
        if (a == b) { return "" }
        if (a == "") { # formats.c and the like: the one header that a room has for the table of formats
            if (b ~ /^(io|zip|json|dialects|huggingface)$/ || t == "formats/" b "/" b ".h") { return "" }
            return "is inside a room; the one header for the table of formats is formats/" b "/" b ".h"
        }
        if (a == "io") { return "formats/io may not include formats/" (b == "" ? "*.h" : b) ": all rooms stand on io" }
        if (a ~ /^(zip|json)$/ && b != "io") { return "formats/" a " may not include formats/" (b == "" ? "*.h" : b) ": it stands on io alone" }
        if (b == "") { return t == "formats/formats.h" ? "" : "formats/" a " may include formats/formats.h of these" }
        if (b ~ /^(io|zip|json|dialects)$/) { return "" }
        if (b == "huggingface") {
            if (a ~ /^(safetensors|gguf_folder)$/ || (a == "tokenizer" && t ~ /\/config\//)) { return "" }
            return "formats/" a " may not include formats/huggingface: it is what lies around safetensors files"
        }
        if (a == "gguf_folder" && t == "formats/gguf/gguf.h") { return "" }
        if (b == "tokenizer" && a ~ /^(tokens|gguf_folder)$/) { return "" }
        return "formats/" a " may not include formats/" b ": a format does not include another format" sq "s headers"
    }
    # base <- ops <- builder <- the rooms that build graphs, which do not know each other, and couple/
    function graph_may_not(from, t,    a, b) {
        a = room(from)
        b = room(t)
        if (a == b || b == "base") { return "" }
        if (a == "base") { return "graph/base/ may not include graph/" b ": operators and builders stand on it" }
        if (a == "ops") { return "graph/ops/ may not include graph/" b ": builders and what walks graphs stand on it" }
        if (b == "ops" || (b == "" && a != "builder") || (b == "builder" && a != "couple")) { return "" }
        if (a == "") {
            if (from ~ /^graph\/(build|text_file)\.c$/) { return "" }
            return "only graph/build.c and graph/text_file.c know the rooms that build graphs"
        }
        if (a == "couple") { return "graph/couple/ may not include graph/" b ": it stands on the finished graph" }
        return "graph/" a " may not include graph/" b ": builders do not know each other"
    }
    # math, ranks <- data <- *.h <- loss, update <- run
    function distill_may_not(from, t,    a, b) {
        a = room(from)
        b = room(t)
        if (a == b) { return "" }
        if (a ~ /^(ranks|math)$/) { return "distill/" a "/ may not include what stands on it" }
        if (b == "run" || (b ~ /^(loss|update)$/ && a != "run") || (b == "" && a == "data")) {
            return "distill/" a " may not include distill/" b ": math and ranks, then data, loss and update, run"
        }
        return ""
    }
    # base <- values, text <- model <- chain <- run <- job
    function core_may_not(from, t,    a, b, core_order) {
        core_order = "base values text model chain run job"
        a = room(from)
        b = room(t)
        if (a == "values" && b == "text") { return "core/values may not include core/text" }
        if (index(core_order, a) < index(core_order, b)) {
            return "core/" a " may not include core/" b ": base, then values and text, model, chain, run and job"
        }
        return ""
    }

    # options <- tools/*.h <- model <- show <- convert <- commands
    function tools_may_not(from, t,    a, b, order) {
        order = "options here model show convert commands"
        a = room(from)
        b = room(t)
        if (a == "") { a = "here" }
        if (b == "") { b = "here" }
        if (from == "tools/main.c" || index(order, a) >= index(order, b)) { return "" }
        return "tools/" (a == "here" ? "*" : a) " may not include tools/" (b == "here" ? "*.h" : b) ": options, tools/*.h, model, show, convert and commands"
    }

    {
        from = folder($1)
        dir = $1
        sub(/\/[^\/]*$/, "", dir)
        quoted = $2 ~ /^"/
        t = substr($2, 2, length($2) - 2)
        ours = quoted || t ~ /^vcompress\//
        if (t ~ /\.\.\//) { bad("paths start at the root of the tree or name a neighbour"); next }
        if (quoted && t ~ /^vcompress\//) { bad("public headers are included with <>"); next }
        if (t ~ /^jansson\.h$/ && from ~ /^(arch|graph|memory|report)$/) { next }
        if (t ~ /^(zlib|jansson|libdeflate)\.h$|^isa-l/ && from != "formats") { bad("only formats/ may"); next }
        if (t ~ /^nettle\// && from != "passes") { bad("only passes/ may"); next }
        if (t ~ /^(cuda|cublas|nvml|nvrtc|curand|cooperative_groups|device_launch)/ && $1 !~ /^kernels\/cuda\//) {
            bad("only kernels/cuda/ may")
            next
        }
        if (t ~ /^curl\// && $1 !~ /^formats\/remote\/http\//) { bad("only formats/remote/http/ may"); next }
        if (t == "mpi.h" && $1 !~ /^distill\/ranks\/mpi\//) { bad("only distill/ranks/mpi/ may"); next }
        if (from == "include" && !ours && t !~ /^std(bool|def|int|io)\.h$/) { bad("the C standard is enough here") }
        if (!ours) { next }
        if (quoted && t !~ /\//) { t = dir "/" t } # a neighbour
        to = t ~ /^vcompress\// ? "include" : folder(t)
        if (from == "include") {
            ok = to == "include"
            if ($1 != "include/vcompress/experimental.h" && is_experimental("include/" t) && !is_experimental($1)) { bad("a stable header may not include an experimental one") }
        }
        else if (from == "core") { ok = to ~ /^(include|core)$/ || (t == "kernels/functions.h" && room($1) == "job") }
        else if (from == "arch") { ok = to ~ /^(include|core|arch)$/ || t == "kernels/functions.h" }
        else if (from == "formats") { ok = to ~ /^(include|core|arch|formats)$/ || (t == "kernels/functions.h" && $1 ~ /^formats\/gguf_folder\//) }
        else if (from == "kernels") { ok = kernels_may(t) }
        else if (is_pass(from)) {
            ok = to ~ /^(include|core|passes)$/ || to == from || passes_may(t) ||
                 (from ~ /^(prune|distill|measure)$/ && to == "graph") || (from ~ /^(distill|measure)$/ && to == "engine") ||
                 (from ~ /^(distill|measure)$/ && t == "facade/all_candidates.h") || (from == "quantize" && t ~ /^(arch\/arch_pictures|search\/search_parts)\.h$/)
        }
        # The engine knows nothing of losses, optimizers, data and the training loop; random numbers are shared.
        else if (from == "engine") { ok = to ~ /^(include|core|graph|engine)$/ || passes_may(t) || t ~ /^passes\/(graph_params|random)\.h$/ }
        else if (from == "graph") { ok = to ~ /^(include|core|arch|graph)$/ || t ~ /^kernels\/(functions\.h|unary(_math|_recurrent)?\.inc)$/ }
        else if (from == "facade") { ok = to ~ /^(include|core|facade)$/ || t ~ /^(formats\/(formats|huggingface\/hf_program)|graph\/build|kernels\/kernels|merge\/merged_model|passes\/(comparer|decode_range|device_choice|sha256)|prune\/prune_candidates|quantize\/quantize_candidates)\.h$/ }
        else if (from == "memory") { ok = to ~ /^(include|core|arch|graph|engine|memory|search)$/ }
        else if (from == "search") { ok = to ~ /^(include|core)$/ || (to == "search" && (t !~ /^search\/recipes\// || dir == "search/recipes")) || (dir == "search/recipes" && to ~ /^(graph|memory)$/) }
        else if (from == "shrink") { ok = to ~ /^(include|core|search|shrink)$/ || t == "passes/sha256.h" }
        else if (from == "report") { ok = to ~ /^(include|core|report)$/ }
        else if (from == "tools") { ok = to ~ /^(include|tools)$/ }
        else if (from == "examples") { ok = to == "include" }
        else { ok = 0 }
        if (!ok) { bad(from "/ may not") }
        why = from == "formats" && to == "formats" ? formats_may_not($1, t) : ""
        if (from == "core" && to == "core") { why = core_may_not($1, t) }
        if (from == "tools" && to == "tools") { why = tools_may_not($1, t) }
        if (from == "graph" && to == "graph") { why = graph_may_not($1, t) }
        if (from == "distill" && to == "distill") { why = distill_may_not($1, t) }
        if (why != "") { bad(why) }
        edges++
    }
    END {
        if (edges < 50) { print "only " edges + 0 " include lines found: is this the root of the tree?"; failed = 1 }
        else if (!failed) { print edges " include lines of ours, all allowed" }
        exit failed
    }'

# Core knows no pass: outside of comments and sentences its code names none, but for what a report says was done to a tensor.
named=$(find core -name '*.[ch]' | sort | xargs awk '
    FNR == 1 { comment = 0 }
    {
        line = $0
        gsub(/"([^"\\]|\\.)*"/, "", line)
        while (comment || line ~ /\/\*/) {
            if (comment && line !~ /\*\//) { line = ""; break }
            if (comment) { sub(/.*\*\//, "", line); comment = 0; continue }
            rest = line
            sub(/\/\*.*/, "", line)
            sub(/^([^\/]|\/[^*])*\/\*/, "", rest)
            if (rest ~ /\*\//) { sub(/.*\*\//, "", rest); line = line rest } else { comment = 1; break }
        }
        gsub(/VC_ACTION_[A-Z]+/, "", line)
        if (tolower(line) ~ /prun|distil|quantize([^d]|$)|sensitiv/) { print FILENAME ":" FNR ": " $0 }
    }')
if [ -n "$named" ]; then
    echo "core/ knows no pass; what it needs of one goes through core/chain/pass.h:"
    echo "$named"
    exit 1
fi

twins=$(find core arch formats kernels graph passes prune merge quantize engine distill facade measure memory report search shrink tools examples tests bench include -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cu' \) 2>/dev/null | sed 's|.*/||' | sort | uniq -d)
if [ -n "$twins" ]; then
    echo "file names that occur twice:" "$twins"
    exit 1
fi
