/* sink.c - the operations that a sink may lack. See sink.h. */
#include "core/run/sink.h"

size_t vc_sink_pack_bound(const struct vc_sink *sink, size_t n_bytes)
{
    return sink->ops->pack_bound == NULL ? 0 : sink->ops->pack_bound(sink, n_bytes);
}

enum vc_status vc_sink_pack(struct vc_ctx *ctx, struct vc_sink *sink, size_t out, uint64_t offset, const void *data,
                            size_t n_bytes, struct vc_packet *packet)
{
    packet->out = out;
    packet->offset = offset;
    packet->data = data;
    packet->n_bytes = n_bytes;
    packet->n_plain = n_bytes;
    return sink->ops->pack == NULL ? VC_OK : sink->ops->pack(ctx, sink, packet);
}

void vc_sink_interrupt(struct vc_sink *sink)
{
    if (sink->ops->interrupt != NULL) {
        sink->ops->interrupt(sink);
    }
}

const struct vc_sink *vc_sink_of_tensor(const struct vc_sink *sink, size_t tensor)
{
    return sink->ops->of_tensor == NULL ? sink : sink->ops->of_tensor(sink, tensor);
}

const struct vc_metadata_entry *vc_outs_metadata(const struct vc_out_list *outs, const char *key)
{
    for (size_t i = 0; i < outs->n_metadata; i++) {
        if (strcmp(outs->metadata[i].key, key) == 0) {
            return &outs->metadata[i];
        }
    }
    return NULL;
}
