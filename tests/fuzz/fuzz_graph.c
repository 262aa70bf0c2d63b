/* fuzz_graph.c - any bytes as a graph: what begins with '<' or a letter as ONNX's textual form, the rest as an ONNX
 * file. What can be built is looked at (fuzz_look.c). */
#include <stddef.h>
#include <stdint.h>

#include "fuzz_target.h"
#include "graph/build.h"

#define MAX_BYTES ((size_t)1 << 20)

static void whole(const uint8_t *data, size_t n)
{
    bool is_text = n != 0 && (*data == '<' || (*data >= 'a' && *data <= 'z'));
    uint64_t before = fuzz_in_use();
    struct vc_model *model = NULL;
    struct vc_graph *graph = NULL;
    enum vc_status status;

    if (is_text) {
        status = vc_graph_parse_text(fuzz_ctx(), (const char *)data, n, NULL, &graph);
    } else {
        status = vc_model_open(fuzz_ctx(), fuzz_file(data, n), NULL, &model);
        status = status == VC_OK ? vc_graph_build(fuzz_ctx(), model, NULL, &graph) : status;
    }
    fuzz_promise(status != VC_E_INTERNAL, "no error of our own making", fuzz_ctx());
    if (status == VC_OK) {
        fuzz_look(graph, model);
    }
    vc_graph_close(graph);
    vc_model_close(model);
    fuzz_promise(fuzz_in_use() == before, "all memory is given back", fuzz_ctx());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t start[2] = {0x08, 0x08};

    if (n != 0 && (*data == '<' || (*data >= 'a' && *data <= 'z'))) {
        whole(data, n < MAX_BYTES ? n : MAX_BYTES);
    } else {
        fuzz_begin_with(start, sizeof start, 1, data, n, MAX_BYTES, whole);
    }
    return 0;
}
