/* net_mlp.c - the product with a gate of decoders, of a layer and of an expert: net_decoder.h.
 *
 * packed: gate and up are the upper and lower half of one matrix [2 * inner, hidden] (Phi-3), read as two
 * slices. */
#include "graph/families/net_decoder.h"

uint32_t vc_decoder_gate(struct vc_decoder *d, const char *module, uint32_t gate, uint32_t up)
{
    gate = vc_net_activation(d->net, gate, vc_net_print(d->net, "%s.act", module), d->act_key, d->act);
    return vc_net_op(d->net, "Mul", NULL, gate, up);
}

uint32_t vc_decoder_mlp(struct vc_decoder *d, uint32_t x, const char *module, const struct vc_decoder_mlp *mlp)
{
    struct vc_net *net = d->net;
    const char *gate_name = vc_net_print(net, "%s.%s", module, mlp->gate != NULL ? mlp->gate : mlp->up);
    const char *up_name = vc_net_print(net, "%s.%s", module, mlp->up);
    bool packed = mlp->packed != NULL;
    struct vc_net_part part = {.module = packed ? vc_net_print(net, "%s.%s", module, mlp->packed) : gate_name,
                               .value = gate_name,
                               .in = d->hidden,
                               .out = mlp->inner,
                               .all = packed ? 2 * mlp->inner : mlp->inner,
                               .bias = mlp->bias};
    uint32_t gate = vc_net_linear_part(net, x, &part);

    part.module = packed ? part.module : up_name;
    part.value = up_name;
    part.first = packed ? mlp->inner : 0;
    x = mlp->gate == NULL ? vc_net_activation(net, gate, vc_net_print(net, "%s.act", module), d->act_key, d->act)
                          : vc_decoder_gate(d, module, gate, vc_net_linear_part(net, x, &part));
    return vc_net_linear(net, x, vc_net_print(net, "%s.%s", module, mlp->down), mlp->inner, d->hidden, mlp->bias);
}
