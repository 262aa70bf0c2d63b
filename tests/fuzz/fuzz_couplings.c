/* fuzz_couplings.c - any bytes as a file of couplings of a small model. What is read lies in the model's axes, and its
 * print reads back to itself. */
#include <stdint.h>

#include <vcompress/couplings.h>
#include <vcompress/report.h>

#include "core/model/memory_model.h"
#include "fuzz_target.h"

#define MAX_BYTES ((size_t)1 << 16)

static struct vc_model *make_model(void)
{
    static const float nothing[1];
    static const uint64_t shapes[][3] = {{12, 8}, {12}, {48, 12}, {4, 12, 3}, {1}};
    static const struct vc_memory_tensor tensors[] = {
        {"a.weight", VC_DTYPE_F32, 2, shapes[0], nothing}, {"a.bias", VC_DTYPE_F32, 1, shapes[1], nothing},
        {"b", VC_DTYPE_F32, 2, shapes[2], nothing},        {"x:0", VC_DTYPE_F32, 3, shapes[3], nothing},
        {"y z", VC_DTYPE_F32, 1, shapes[1], nothing},      {"experts.0", VC_DTYPE_F32, 1, shapes[4], nothing}};
    struct vc_model *model = NULL;

    (void)vc_memory_model_create(fuzz_ctx(), tensors, sizeof tensors / sizeof *tensors, &model);
    return model;
}

static void check(const struct vc_couplings *couplings, const struct vc_model *model)
{
    for (size_t k = 0; k < vc_couplings_count(couplings); k++) {
        const struct vc_coupling *group = vc_coupling(couplings, k);

        fuzz_promise(group->n_members != 0 && group->n_units != 0, "a group has members and units", fuzz_ctx());
        for (size_t i = 0; i < group->n_members; i++) {
            const struct vc_coupling_member *m = &group->members[i];
            uint64_t size = m->whole ? 0 : vc_model_tensor(model, m->index)->shape[m->axis];

            fuzz_promise(m->whole ? m->unit < group->n_units
                                  : m->offset <= size && group->n_units <= (size - m->offset) / m->block / m->repeat,
                         "a member lies in its axis", fuzz_ctx());
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vc_model *model = make_model();
    struct vc_couplings *couplings = NULL;
    enum vc_status status;
    char *text = NULL;

    if (n > MAX_BYTES || model == NULL) {
        vc_model_close(model);
        return 0;
    }
    status = vc_couplings_read(fuzz_ctx(), fuzz_file(data, n), model, &couplings);
    fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_NOMEM, vc_status_name(status), fuzz_ctx());
    if (status == VC_OK) {
        struct vc_couplings *again = NULL;
        char *same = NULL;

        check(couplings, model);
        fuzz_promise(vc_couplings_print(fuzz_ctx(), couplings, &text) == VC_OK, "it is printed", fuzz_ctx());
        status = vc_couplings_read(fuzz_ctx(), fuzz_file((const uint8_t *)text, strlen(text)), model, &again);
        fuzz_promise(status == VC_OK, "it reads back", fuzz_ctx());
        fuzz_promise(vc_couplings_print(fuzz_ctx(), again, &same) == VC_OK, "it is printed again", fuzz_ctx());
        fuzz_promise(strcmp(text, same) == 0, "what is read is what was printed", fuzz_ctx());
        vc_text_free(same);
        vc_result_free(again);
    }
    vc_text_free(text);
    vc_result_free(couplings);
    vc_model_close(model);
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", fuzz_ctx());
    return 0;
}
