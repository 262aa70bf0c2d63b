/* torch_legacy.c - the head of a PyTorch file of before 1.6: five pickles, one after the other.
 *
 *     magic number | protocol version 1001 | dict about the system | the object | list of storage keys | storages
 *
 * Nothing tells how long they are, so a window from the start of the file grows until all five end inside it. */

#include "formats/torch/torch.h"

#define FIRST_WINDOW ((size_t)256 << 10)
#define N_PICKLES    5
#define VERSION      1001

static const unsigned char magic_long[10] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

/* The first three pickles are what they have to be, and the machine was little-endian. */
static enum vc_status check_heads(struct vc_ctx *ctx, const struct vc_pickle *pickles)
{
    const struct vc_pickle_node *magic = pickles[0].root;
    const struct vc_pickle_node *version = pickles[1].root;
    const struct vc_pickle_node *system = pickles[2].root;

    VC_REFUSE_IF(magic->kind != VC_PICKLE_LONG || magic->u.text.n != sizeof magic_long ||
                     memcmp(magic->u.text.p, magic_long, sizeof magic_long) != 0,
                 ctx, VC_E_FORMAT, "has not the magic number of a legacy PyTorch file");
    VC_REFUSE_IF(version->kind != VC_PICKLE_INT || version->u.integer != VERSION, ctx, VC_E_UNSUPPORTED,
                 "is a legacy PyTorch file of a version other than %d", VERSION);
    VC_REFUSE_IF(system->kind != VC_PICKLE_DICT || pickles[4].root->kind != VC_PICKLE_LIST, ctx, VC_E_FORMAT,
                 "is a damaged legacy PyTorch file: its third or fifth pickle is no %s",
                 system->kind != VC_PICKLE_DICT ? "dict" : "list");
    const struct vc_pickle_node *little = vc_torch_dict_get(system, "little_endian");
    VC_REFUSE_IF(little != NULL && (little->kind != VC_PICKLE_BOOL || little->u.integer == 0), ctx, VC_E_UNSUPPORTED,
                 "is a legacy PyTorch file of a big-endian machine; save it again with PyTorch 1.6 or newer");
    return VC_OK;
}

/* Parses the five pickles out of the window. *cut: the window is too short. On success *n_bytes is where they end. */
static enum vc_status parse_all(struct vc_ctx *ctx, const unsigned char *window, size_t n, struct vc_pickle *pickles,
                                size_t *n_bytes, bool *cut)
{
    size_t at = 0;
    enum vc_status status = VC_OK;

    memset(pickles, 0, N_PICKLES * sizeof *pickles);
    *cut = false;
    for (size_t i = 0; i < N_PICKLES; i++) {
        status = vc_pickle_parse(ctx, window + at, n - at, &pickles[i], cut);
        if (status != VC_OK) {
            status = vc_context(ctx, "legacy PyTorch file, pickle %zu of %d at byte %zu", i + 1, N_PICKLES, at);
            goto out;
        }
        at += pickles[i].n_bytes;
    }
    *n_bytes = at;
out:
    for (size_t i = 0; status != VC_OK && i < N_PICKLES; i++) {
        vc_pickle_release(ctx, &pickles[i]);
    }
    return status;
}

/* Most files have their pickles in the first 256 KiB. A window that is too short is read again four times as long. */
enum vc_status vc_torch_legacy_read(struct vc_ctx *ctx, struct torch *self, struct vc_pickle *keys, uint64_t *data)
{
    uint64_t most = vc_min_u64(self->file->size_bytes, VC_PICKLE_MAX_BYTES);
    size_t n = (size_t)vc_min_u64(most, FIRST_WINDOW);
    struct vc_pickle pickles[N_PICKLES];
    size_t n_bytes = 0;
    bool cut = true;
    enum vc_status status = VC_OK;

    memset(pickles, 0, sizeof pickles);
    for (;;) {
        vc_free(ctx, self->text);
        VC_TRY_ALLOC(self->text = vc_alloc(ctx, VC_TAG_NAMES, n));
        VC_TRY(vc_infile_read(ctx, self->file, 0, self->text, n));
        vc_clear_error(ctx);
        status = parse_all(ctx, self->text, n, pickles, &n_bytes, &cut);
        if (status == VC_OK || !cut || n == most) {
            break;
        }
        n = (size_t)vc_min_u64(most, 4 * (uint64_t)n);
    }
    VC_TRY(status);
    VC_TRY(check_heads(ctx, pickles));
    self->pickle = pickles[3];
    *keys = pickles[4];
    *data = n_bytes;
    memset(&pickles[3], 0, 2 * sizeof pickles[3]);
out:
    for (n = 0; n < N_PICKLES; n++) {
        vc_pickle_release(ctx, &pickles[n]);
    }
    return status;
}
