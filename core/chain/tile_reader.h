/* tile_reader.h - reads one item tile by tile, in order, through all of its steps, on the calling thread. For callers
 * that want the tiles themselves: vc_tensor_read_f32, statistics, and `diff`, which goes two models side by side. Jobs
 * use the executor, which does many tiles at once and hands them to a sink. */
#pragma once

#include "core/chain/reshape_stage.h"

struct vc_tile_reader {
    struct vc_item *item;
    struct vc_buffers *buffers;
    struct vc_source_reader reader;          /* without a stage */
    struct vc_reshape_stage stage;           /* of a chain that changes the shape */
    uint64_t n_rows, row_len, n_tiles, next; /* of the result */
    bool begun;

    /* Gets the bytes of every tile of the source, in order, before its steps (`diff` and `verify` compare or hash
     * them). Not called for a chain that changes the shape. The caller sets it after vc_tile_reader_open; NULL: not
     * called.
     */
    void (*see)(void *user, const void *data, size_t n_bytes);
    void *user;
};

/* Begins the steps and runs their scans, for each of which the tensor is read once; then goes to tile 0. `buffers` has
 * room for the item (vc_buffer_sizes_add) and stays the caller's. vc_tile_reader_close also after a failure. */
enum vc_status vc_tile_reader_open(struct vc_ctx *ctx, struct vc_item *item, struct vc_buffers *buffers,
                                   struct vc_tile_reader *reader);
/* The next tile of the result. *more is false, and nothing else is set, after the last one: the call that says so also
 * verifies the end of the source. result->data is valid until the next call. VC_E_CANCELLED when the call is cancelled.
 */
enum vc_status vc_tile_reader_next(struct vc_ctx *ctx, struct vc_tile_reader *reader, struct vc_tile *tile,
                                   struct vc_tile_result *result, bool *more);
/* The same for loops: false behind the last tile, and after a failure, which *status tells. */
bool vc_tile_reader_more(struct vc_ctx *ctx, struct vc_tile_reader *reader, struct vc_tile *tile,
                         struct vc_tile_result *result, enum vc_status *status);
/* Ends the steps and closes the source. Nothing happens to a reader that is zeros. */
void vc_tile_reader_close(struct vc_ctx *ctx, struct vc_tile_reader *reader);

/* The whole of what the steps make of the item: its values or codes (VC_PART_CODES), or one of the parts that they
 * make. n_bytes has to be its size; VC_E_ARGUMENT otherwise, and where there is no such part. */
enum vc_status vc_tile_reader_all(struct vc_ctx *ctx, struct vc_item *item, enum vc_part_role role, void *dst,
                                  size_t n_bytes);
