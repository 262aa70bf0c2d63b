/* optimizer_states.c - where each tensor has its states in the block that the optimizer keeps (engine/state_bytes.h
 * says how many bytes they are). Checkpoints have the block as it is. */

#include "distill/update/update.h"
#include "engine/state_bytes.h"

#define PER_BLOCK 32768 /* weights that one thread changes at once; a multiple of VC_CODED_BLOCK */

/* The next part of the block; NULL: the optimizer has no such states. */
static void *take(char **at, uint64_t bytes)
{
    void *block = bytes != 0 ? *at : NULL;

    *at += bytes;
    return block;
}

/* States begin as zeros. Of a momentum there is one array, of Adam two; codes have a factor for each block
 * beside them. */
void vc_optimizer_place(struct vc_learner *l)
{
    char *at = l->optimizer.block;

    memset(l->optimizer.block, 0, (size_t)l->report->state_bytes);
    for (size_t k = 0; k < l->net.weights->n; k++) {
        struct vc_weight_state *s = &l->optimizer.states[k];
        struct vc_state_bytes bytes = vc_weights_state(l->net.weights, k, l->options->optimizer.kind);

        if (!l->net.weights->items[k].trained) {
            continue;
        }
        s->m = bytes.n > 0 ? take(&at, bytes.elements) : NULL;
        s->m_factors = bytes.n > 0 ? take(&at, bytes.factors) : NULL;
        s->v = bytes.n > 1 ? take(&at, bytes.elements) : NULL;
        s->v_factors = bytes.n > 1 ? take(&at, bytes.factors) : NULL;
    }
    if (l->optimizer.maps != NULL) {
        vc_dynamic_maps_make(l->optimizer.maps);
    }
}

/* ---- blocks ---- */

/* Room for all blocks, a few more than there will be. */
uint64_t vc_optimizer_cut_bytes(const struct vc_learner *l)
{
    uint64_t n = 0;

    for (size_t k = 0; k < l->net.weights->n; k++) {
        n += l->net.weights->items[k].trained ? l->net.weights->items[k].n / PER_BLOCK + 1 : 0;
    }
    return n * sizeof *l->optimizer.blocks;
}

/* Blocks of PER_BLOCK weights, tensor by tensor: the same for every number of threads, so sums over blocks
 * are the same, too. */
void vc_optimizer_cut(struct vc_learner *l)
{
    l->optimizer.n_blocks = 0;
    for (size_t k = 0; k < l->net.weights->n; k++) {
        const struct vc_weight *item = &l->net.weights->items[k];

        for (size_t first = 0; item->trained && first < item->n; first += PER_BLOCK) {
            size_t rest = (size_t)item->n - first;

            l->optimizer.blocks[l->optimizer.n_blocks++] =
                (struct vc_update_block){.weight = k, .first = first, .n = rest < PER_BLOCK ? rest : PER_BLOCK};
        }
    }
}
