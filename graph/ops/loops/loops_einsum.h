/* loops_einsum.h - part of op_loops.h: sums of products by an equation.
 *
 * An odometer over all labels: those of the output outside, those that are summed inside. Each input keeps its
 * place by one step for each label; a letter twice in an input adds both steps and so walks the diagonal. */

/* How each label moves through the inputs. */
struct einsum_walk {
    unsigned n_labels;
    int64_t size[VC_EINSUM_LABELS], at[VC_EINSUM_LABELS]; /* by place in vc_einsum.order */
    size_t step[VC_EINSUM_INPUTS][VC_EINSUM_LABELS];
    size_t place[VC_EINSUM_INPUTS];
};

/* False, with the failure set, where sizes of a letter differ. */
static bool einsum_begin(struct vc_run *run, const struct vc_einsum *e, struct einsum_walk *w)
{
    unsigned of_label[VC_EINSUM_LABELS];

    *w = (struct einsum_walk){.n_labels = e->n_labels};
    for (unsigned k = 0; k < e->n_labels; k++) {
        of_label[e->order[k]] = k;
        w->size[k] = 1;
    }
    for (unsigned i = 0; i < e->n_inputs; i++) {
        size_t step = 1;

        for (unsigned d = e->n_dims[i]; d-- > 0;) {
            unsigned k = of_label[e->labels[i][d]];
            int64_t size = run->in[i]->shape[d];

            VC_LEAVE_WITH(size != 1 && w->size[k] != 1 && w->size[k] != size,
                          vc_run_fail(run, "sizes %lld and %lld of the same letter differ", (long long)w->size[k],
                                      (long long)size),
                          false);
            w->size[k] = size != 1 ? size : w->size[k];
            w->step[i][k] += size != 1 ? step : 0;
            step *= (size_t)size;
        }
    }
    return true;
}

/* The next combination of the labels from `first` to before `end`; false behind the last, which is the first again. */
static bool einsum_next(struct einsum_walk *w, unsigned n_inputs, unsigned first, unsigned end)
{
    for (unsigned k = end; k-- > first;) {
        w->at[k]++;
        for (unsigned i = 0; i < n_inputs; i++) {
            w->place[i] += w->step[i][k];
        }
        if (w->at[k] < w->size[k]) {
            return true;
        }
        for (unsigned i = 0; i < n_inputs; i++) {
            w->place[i] -= w->step[i][k] * (size_t)w->size[k];
        }
        w->at[k] = 0;
    }
    return false;
}

/* y[output's letters] = the sum over all other letters of the product of the inputs. */
RUN(einsum)
{
    unsigned n_dims[VC_EINSUM_INPUTS] = {0};
    struct vc_einsum e;
    struct einsum_walk w;
    bool empty = false;

    for (unsigned k = 0; k < run->n_in; k++) {
        n_dims[k] = run->in[k]->n_dims;
    }
    if (vc_einsum_parse(vc_node_string(run->node, "equation", ""), run->n_in, n_dims, &e) != NULL ||
        !einsum_begin(run, &e, &w)) {
        return;
    }
    for (unsigned k = e.n_out; k < e.n_labels; k++) {
        empty |= w.size[k] == 0;
    }
    REAL *out = vc_run_out(run, 0, true, w.size, e.n_out);
    for (size_t at = 0; out != NULL && at < run->out[0].n; at++, einsum_next(&w, e.n_inputs, 0, e.n_out)) {
        REAL sum = 0;

        do {
            REAL product = 1;

            for (unsigned i = 0; i < e.n_inputs && !empty; i++) {
                product *= ((const REAL *)run->in[i]->data)[w.place[i]];
            }
            sum += empty ? 0 : product;
        } while (einsum_next(&w, e.n_inputs, e.n_out, e.n_labels) && !empty);
        out[at] = sum;
    }
}
