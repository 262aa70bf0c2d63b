/* fuzz_config.c - any bytes as a config.json from which a graph is made. What can be built is looked at (fuzz_look.c),
 * and is the same when it is built again. Texts with numbers of 3 to 7 digits are left out: thousands of layers take
 * long and say nothing that 99 do not, and more than 10,000 are refused. */
#include <ctype.h>
#include <stddef.h>
#include <stdint.h>

#include "facade/graph_config.h"
#include "fuzz_target.h"

static bool is_slow(const uint8_t *data, size_t n)
{
    size_t n_digits = 0;

    for (size_t i = 0; i <= n; i++) {
        if (i < n && isdigit(data[i])) {
            n_digits++;
        } else if (n_digits >= 3 && n_digits <= 7) {
            return true;
        } else {
            n_digits = 0;
        }
    }
    return false;
}

static enum vc_status build(const char *path, struct vc_graph **graph)
{
    enum vc_status status = vc_graph_build_config(fuzz_ctx(), path, graph);

    fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED || status == VC_E_NOMEM,
                 vc_status_name(status), fuzz_ctx());
    fuzz_promise(status == VC_OK || vc_ctx_message(fuzz_ctx())[0] != '\0', "a sentence with every failure", fuzz_ctx());
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint64_t before = fuzz_in_use();
    struct vc_graph *graph = NULL;
    struct vc_graph *again = NULL;
    const char *path;

    if (is_slow(data, n)) {
        return 0;
    }
    path = fuzz_file(data, n);
    if (build(path, &graph) == VC_OK) {
        uint32_t n_nodes = vc_graph_node_count(graph);

        fuzz_promise(build(path, &again) == VC_OK && vc_graph_node_count(again) == n_nodes, "the same graph again",
                     fuzz_ctx());
        vc_graph_close(again);
        fuzz_look(graph, NULL);
    }
    vc_graph_close(graph);
    fuzz_promise(fuzz_in_use() == before, "all memory is given back", fuzz_ctx());
    return 0;
}
