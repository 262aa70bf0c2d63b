/* onnx_origin.c - whether a constant was computed of tensors as they are now. Exporters compute with weights while they write a
 * file and keep what comes out alone, so that a checkpoint that changed would go unnoticed:
 *
 *     onnx::Mul_12 [8]     w[8:], 1 + w, 1.702 w, exp(w), a b of two tensors, W + 2 B A, W gain / sqrt(variance + 1e-5)
 *
 * What is one of these, in the values of the checkpoint, has not changed. Called by onnx_repair.c for constants that no tensor is. */
#include <math.h>

#include <vcompress/quantize.h>

#include "graph/onnx/onnx_build.h"
#include "kernels/functions.h"

#define MOST_AXES   (VC_GRAPH_MAX_DIMS + 1)
#define MOST_LEFT   16   /* tensors without a place, of which each is tried with each; of more, those of one module */
#define MOST_APART  2e-6 /* of the largest element: what rounding of a formula in f32 makes */
#define PRODUCT_OFF 1e-5 /* of sums */
/* Elements that are looked at for all constants of a file, some seconds: what is not explained by then is refused as what cannot
 * be. A formula is tried in full where both ends of the constant fit. */
#define MOST_WORK ((uint64_t)1 << 30)

/* Elements, and the sizes of the axes that are longer than 1. */
struct table {
    float *at;
    size_t n;
    double most; /* of the elements of a tensor, but for their signs */
    unsigned n_axes;
    uint64_t sizes[MOST_AXES];
};

static double largest(const struct table *t)
{
    double most = 0;

    for (size_t k = 0; k < t->n; k++) {
        most = fabs((double)t->at[k]) > most ? fabs((double)t->at[k]) : most;
    }
    return most;
}

static bool is_near(double x, double y, double apart)
{
    return x == y || fabs(x - y) <= apart;
}

static bool is_uniform(const struct table *t)
{
    size_t k = 0;

    while (k < t->n && t->at[k] == t->at[0]) {
        k++;
    }
    return k == t->n;
}

/* ---- a table inside another ---- */

/* Axis d of c lies along axis[d] of r; MOST_AXES: c has the same again and again. */
struct fit {
    const struct table *c, *r;
    double scale, apart;
    uint64_t *work; /* elements that were looked at */
    unsigned axis[MOST_AXES];
    size_t step[MOST_AXES];
};

/* c begins at that element of r. The last element is looked at first: what begins with zeros begins in many places. */
static bool is_at(const struct fit *f, size_t from)
{
    for (unsigned d = 0; d < f->c->n_axes; d++) {
        if (f->axis[d] != MOST_AXES &&
            from / f->step[d] % f->r->sizes[f->axis[d]] + f->c->sizes[d] > f->r->sizes[f->axis[d]]) {
            return false;
        }
    }
    *f->work += 1;
    for (size_t k = 0; k < f->c->n; k++) {
        size_t at = from;
        size_t element = k == 0 ? f->c->n - 1 : k - 1;
        size_t left = element;

        *f->work += k == 0 ? 0 : 4;
        for (unsigned d = f->c->n_axes; d-- > 0; left /= (size_t)f->c->sizes[d]) {
            at += left % (size_t)f->c->sizes[d] * f->step[d];
        }
        double y = f->scale * (double)f->r->at[at];
        if ((double)f->c->at[element] != y && !(fabs((double)f->c->at[element] - y) <= f->apart)) {
            return false;
        }
    }
    return true;
}

/* The same for axes from d on, each along any axis of r that is not used yet, and all places of r. */
static bool is_inside(struct fit *f, unsigned d, unsigned used)
{
    size_t step = 1;
    bool found = false;

    if (d == f->c->n_axes) {
        size_t n = used == 0 ? 0 : f->c->n == f->r->n ? 1 : f->r->n;

        for (size_t from = 0; !found && from < n && *f->work <= MOST_WORK; from++) {
            found = is_at(f, from);
        }
        return found;
    }
    for (unsigned k = f->r->n_axes; k-- > 0 && !found; step *= (size_t)f->r->sizes[k]) {
        if ((used >> k & 1) == 0 && f->c->sizes[d] <= f->r->sizes[k]) {
            f->axis[d] = k;
            f->step[d] = step;
            found = is_inside(f, d + 1, used | 1u << k);
        }
    }
    f->axis[d] = MOST_AXES;
    f->step[d] = 0;
    return found || (f->c->n > f->r->n && is_inside(f, d + 1, used));
}

/* c is a part of r times scale, its axes in any order, or elements of it one behind the other. Of one number again and again, all
 * of r has to be it. */
static bool is_part(const struct table *c, const struct table *r, double scale, double apart, uint64_t *work)
{
    struct fit f = {.c = c, .r = r, .scale = scale, .apart = apart, .work = work};
    struct table flat[2] = {*c, *r};

    if (is_uniform(c) || r->n == 1) {
        return is_uniform(r) && (c->n == 1) == (r->n == 1) &&
               fabs((double)c->at[0] - scale * (double)r->at[0]) <= apart;
    }
    if (is_inside(&f, 0, 0)) {
        return true;
    }
    for (unsigned k = 0; k < 2; k++) {
        flat[k].n_axes = 1;
        flat[k].sizes[0] = flat[k].n;
    }
    f.c = &flat[0];
    f.r = &flat[1];
    return c->n_axes != r->n_axes && is_inside(&f, 0, 0);
}

/* A factor that somebody wrote: 2, 0.125, 1.702, 1/3, the root of 1/48. */
static bool is_round(double factor)
{
    const double of[] = {1000 * factor, 1 / factor, factor * factor, 1 / (factor * factor)};

    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        if (of[k] > 0.5 && of[k] < (k == 0 ? 1e4 : 1e3) && fabs(of[k] - nearbyint(of[k])) <= 2 * MOST_APART * of[k]) {
            return true;
        }
    }
    return false;
}

/* The same with 1, -1, or, of tensors as they are, any factor that is_round for a whole r. */
static bool is_multiple(const struct table *c, const struct table *r, bool exact, uint64_t *work)
{
    double most = largest(r);
    double factor = exact && c->n == r->n && most > 0 ? c->most / most : 1;
    double apart = exact ? 0 : MOST_APART * most;

    if (!(most < (double)INFINITY) || is_part(c, r, 1, apart, work) || is_part(c, r, -1, apart, work)) {
        return most < (double)INFINITY || is_part(c, r, 1, 0, work);
    }
    apart = MOST_APART * c->most;
    return factor != 1 && is_round(factor) &&
           (is_part(c, r, factor, apart, work) || is_part(c, r, -factor, apart, work));
}

/* ---- formulas ---- */

static double same(double x)
{
    return x;
}

static double one_plus(double x)
{
    return 1 + x;
}

static double one_minus(double x)
{
    return 1 - x;
}

static double softplus(double x)
{
    return vc_log_f64(1 + vc_exp_f64(x));
}

static double square(double x)
{
    return x * x;
}

static double reciprocal(double x)
{
    return 1 / x;
}

static double (*const functions[])(double) = {same,     one_plus, one_minus, vc_exp_f64, vc_tanh_f64, vc_sigmoid_f64,
                                              softplus, square,   fabs,      sqrt,       reciprocal,  vc_log_f64};

/* Elements `first`, `first` + `step` ... that are divided by one number. */
struct run {
    size_t first, length, step;
};

/* The run that element i is in. Form 1, 2: rows and columns of norm 1; 3: Softmax. */
static struct run run_of(const struct table *a, size_t form, size_t i)
{
    size_t rows = a->n_axes == 0 ? 1 : (size_t)a->sizes[0];
    size_t length = form == 3 && a->n_axes != 0 ? (size_t)a->sizes[a->n_axes - 1] : a->n / rows;

    if (form != 2) {
        return (struct run){i / length * length, length, 1};
    }
    return (struct run){i % length, rows, length}; /* step 1: all is one column */
}

static double divisor_of(const struct table *a, size_t form, const struct run *run)
{
    double sum = 0;

    for (size_t k = 0; k < run->length; k++) {
        double x = (double)a->at[run->first + k * run->step];
        sum += form == 3 ? vc_exp_f64(x) : x * x;
    }
    return form == 3 ? sum : sqrt(sum);
}

/* Form `k` of a: 0: a itself; 1, 2, 3: divided by run; then functions. */
#define N_FORMS (3 + sizeof functions / sizeof *functions)
static double form_at(const struct table *a, size_t k, size_t i, double divisor)
{
    double x = (double)a->at[i];

    if (k == 0 || k > 3) {
        return functions[k == 0 ? 0 : k - 3](x);
    }
    return (k == 3 ? vc_exp_f64(x) : x) / divisor;
}

static double form_alone(const struct table *a, size_t k, size_t i)
{
    struct run run = run_of(a, k, i);

    return form_at(a, k, i, k == 0 || k > 3 ? 1 : divisor_of(a, k, &run));
}

static void take_form(const struct table *a, size_t k, struct table *r)
{
    struct run run = k == 0 || k > 3 ? (struct run){0, 1, 1} : run_of(a, k, 0);

    for (size_t n = 0; n < a->n / run.length; n++) {
        size_t first = run.step == 1 ? n * run.length : n;
        double divisor = k == 0 || k > 3 ? 1 : divisor_of(a, k, &(struct run){first, run.length, run.step});

        for (size_t i = 0; i < run.length; i++) {
            r->at[first + i * run.step] = (float)form_at(a, k, first + i * run.step, divisor);
        }
    }
}

/* The five operators, of x and an element y. */
static double made_of(unsigned op, double x, double y)
{
    const double made[] = {x * y, x + y, x - y, x / y, y / x};

    return made[op];
}

/* The first and the last element of c are those of an equally long table, whatever the order of its axes: but for the sign, and
 * exact: but for a factor. */
static bool ends_fit(const struct table *c, double first, double last, bool exact)
{
    double apart = 4 * MOST_APART * c->most;
    double own = fabs((double)c->at[0]), end = fabs((double)c->at[c->n - 1]);

    first = fabs(first);
    last = fabs(last);
    return exact ? is_near(own * last, end * first, apart * fmax(first, last))
                 : is_near(own, first, apart) && is_near(end, last, apart);
}

/* c is a form of a, or of it and b, elements of which go to those of a by rows or columns; r: room for a. */
static bool is_of(const struct table *c, const struct table *a, const struct table *b, struct table *r, uint64_t *work)
{
    for (size_t k = 0; k < (b == NULL ? N_FORMS : 3) && *work <= MOST_WORK; k++) {
        double first = form_alone(a, k, 0), last = form_alone(a, k, a->n - 1);

        if (b == NULL && (c->n != a->n || ends_fit(c, first, last, k == 0))) {
            take_form(a, k, r);
            *work += 4 * a->n;
            if (is_multiple(c, r, k == 0, work)) {
                return true;
            }
        }
        for (unsigned op = 0; b != NULL && op < 10; op++) {
            if (!ends_fit(c, made_of(op / 2, first, (double)b->at[0]), made_of(op / 2, last, (double)b->at[b->n - 1]),
                          false)) {
                continue;
            }
            take_form(a, k, r);
            *work += 4 * a->n;
            for (size_t i = 0; i < a->n; i++) {
                double y = (double)b->at[op % 2 == 0 ? i % b->n : i / (a->n / b->n)];

                r->at[i] = (float)made_of(op / 2, (double)r->at[i], y);
            }
            if (is_multiple(c, r, false, work)) {
                return true;
            }
        }
    }
    return false;
}

/* Element [i, j] of the matrix, or of its transpose. */
static double element(const struct table *m, bool turned, size_t i, size_t j)
{
    return (double)m->at[turned ? j * (size_t)m->sizes[1] + i : i * (size_t)m->sizes[1] + j];
}

/* Factors of a product, each as it is or transposed, and a matrix (NULL: none) that it is added to. */
struct factors {
    const struct table *c, *add, *a, *b;
    bool ta, tb, tc, turned; /* of add: beside c */
};

/* The first and the last element of such a product fit, but for the factor. */
static bool product_ends_fit(const struct factors *f)
{
    const size_t rows = (size_t)f->c->sizes[f->tc], columns = (size_t)f->c->sizes[!f->tc];
    double sum[2] = {0, 0}, left[2];
    double apart = 1e-3 * f->c->most;

    for (unsigned e = 0; e < 2; e++) {
        size_t i = e * (rows - 1), j = e * (columns - 1);

        for (size_t l = 0; l < (size_t)f->a->sizes[!f->ta]; l++) {
            sum[e] += element(f->a, f->ta, i, l) * element(f->b, f->tb, l, j);
        }
        left[e] = element(f->c, f->tc, i, j) - (f->add == NULL ? 0 : element(f->add, f->tc != f->turned, i, j));
    }
    return f->add != NULL ? is_near(left[0] * sum[1], left[1] * sum[0], apart * fmax(fabs(sum[0]), fabs(sum[1])))
                          : is_near(left[0], sum[0], apart) && is_near(left[1], sum[1], apart);
}

/* y is the matrix, or with `turned` its transpose, times x. */
static void multiply(const struct table *m, bool turned, const double *x, double *y)
{
    size_t rows = (size_t)m->sizes[0];
    size_t columns = (size_t)m->sizes[1];

    memset(y, 0, (turned ? columns : rows) * sizeof *y);
    for (size_t k = 0; k < m->n; k++) {
        size_t i = turned ? k % columns : k / columns;

        y[i] += (double)m->at[k] * x[turned ? k / columns : k % columns];
    }
}

/* c is a product of a and b, or a matrix `add` and such a product times a factor that is_round, each as it is or transposed: both
 * do the same to a vector x. room: 4 vectors of n. */
static bool is_product(const struct table *c, const struct table *add, const struct table *a, const struct table *b,
                       double *room, size_t n, uint64_t *work)
{
    double *x = room, *z = room + n, *u = z + n, *y = u + n;

    for (unsigned k = 0; k < (add != NULL ? 16 : 8); k++) {
        unsigned ta = k & 1, tb = k >> 1 & 1, tc = k >> 2 & 1, turned = k >> 3; /* of add */
        double zy = 0, yy = 0, most = 0, off = 0;

        if (a->sizes[ta] != c->sizes[tc] || b->sizes[1 - tb] != c->sizes[1 - tc] || a->sizes[1 - ta] != b->sizes[tb] ||
            (add != NULL && (add->sizes[turned] != c->sizes[0] || add->sizes[1 - turned] != c->sizes[1]))) {
            continue;
        }
        *work += 4 * n;
        if (!product_ends_fit(&(struct factors){c, add, a, b, ta != 0, tb != 0, tc != 0, turned != 0})) {
            continue;
        }
        *work += a->n + b->n + 2 * c->n;
        size_t rows = (size_t)c->sizes[tc];
        for (size_t i = 0; i < n; i++) {
            x[i] = (double)(i * 40503 % 1009) / 500 - 1;
        }
        multiply(c, tc != 0, x, z);
        if (add != NULL) {
            multiply(add, tc != turned, x, y);
        }
        for (size_t i = 0; i < rows; i++) {
            most = fabs(z[i]) > most ? fabs(z[i]) : most;
            z[i] -= add != NULL ? y[i] : 0;
        }
        multiply(b, tb != 0, x, u);
        multiply(a, ta != 0, u, y);
        for (size_t i = 0; i < rows; i++) {
            zy += z[i] * y[i];
            yy += y[i] * y[i];
        }
        double factor = yy > 0 ? zy / yy : 0;
        factor = fabs(fabs(factor) - 1) < PRODUCT_OFF ? copysign(1, factor) : factor;
        for (size_t i = 0; i < rows; i++) {
            off = fabs(z[i] - factor * y[i]) > off ? fabs(z[i] - factor * y[i]) : off;
        }
        if (off <= PRODUCT_OFF * most && (add != NULL ? is_round(fabs(factor)) : factor == 1)) {
            return true;
        }
    }
    return false;
}

bool vc_onnx_are_beside(const char *name, const char *other)
{
    const char *leaf = strrchr(name, '.');

    return strncmp(name, other, leaf == NULL ? 0 : (size_t)(leaf - name) + 1) == 0;
}

/* ---- tensors of a model ---- */

/* A constant, and the tensors of a model that it may have been computed of, whose elements are read when they are needed. */
struct origin {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    uint64_t *used; /* by tensor: how many of its elements constants are, UINT64_MAX: all */
    size_t n_left;  /* tensors of which constants are nothing */
    uint64_t *work; /* elements that were looked at */
    struct table c, *tables;
    struct vc_arena arena;
};

/* VC_E_UNSUPPORTED, without a sentence: enough was looked at. */
static enum vc_status spend(const struct origin *o, uint64_t elements)
{
    *o->work += elements;
    return *o->work > MOST_WORK ? VC_E_UNSUPPORTED : VC_OK;
}

static enum vc_status set_table(struct origin *o, const struct vc_model *model, size_t index, bool read,
                                struct table *t)
{
    const struct vc_tensor *from = vc_model_tensor(model, index);

    t->n =
        vc_onnx_is_weight(from) && (o->used == NULL || o->used[index] != VC_ONNX_UNRELATED) ? (size_t)from->n_elems : 0;
    t->n_axes = vc_onnx_long_axes(from, t->sizes);
    if (!read || t->n == 0 || t->at != NULL) {
        return VC_OK;
    }
    VC_CALL(spend(o, 4 * (uint64_t)t->n));
    VC_CALL_ALLOC(t->at = vc_arena_alloc(o->ctx, &o->arena, t->n * sizeof *t->at));
    VC_CALL(vc_tensor_read_f32(o->ctx, model, index, t->at, t->n));
    t->most = largest(t);
    return VC_OK;
}

static enum vc_status read_elements(struct origin *o, size_t index)
{
    return index == VC_NO_TENSOR ? VC_OK : set_table(o, o->model, index, true, &o->tables[index]);
}

/* The constant was computed of that tensor. */
static void use(const struct origin *o, size_t index)
{
    if (index != VC_NO_TENSOR && o->used[index] != UINT64_MAX) {
        o->used[index] += o->c.n;
        o->used[index] = o->used[index] >= o->tables[index].n ? UINT64_MAX : o->used[index];
    }
}

/* A constant may be the tensor, or computed of it alone: what a weight is made of never is, and a variance is no weight. */
static bool is_alone(const struct origin *o, size_t index)
{
    const struct vc_tensor *t = vc_model_tensor(o->model, index);

    return o->tables[index].n != 0 && !vc_onnx_is_raw(t) && !vc_onnx_is_variance(t->name);
}

static enum vc_status try_elements(struct origin *o, size_t i, size_t j, bool *found)
{
    struct table r = o->tables[i];

    VC_CALL(read_elements(o, i));
    VC_CALL(read_elements(o, j));
    VC_SCOPED float *at = vc_alloc_array(o->ctx, VC_TAG_TILES, r.n, sizeof *at);
    VC_CALL_ALLOC(r.at = at);
    *found = is_of(&o->c, &o->tables[i], j == VC_NO_TENSOR ? NULL : &o->tables[j], &r, o->work);
    return *found ? VC_OK : spend(o, 0);
}

/* The product of i and j, alone or added to another matrix of the constant's sizes, which is used then. */
static enum vc_status try_product(struct origin *o, size_t i, size_t j, bool *found)
{
    const struct table *c = &o->c;
    size_t n = 0;

    for (unsigned d = 0; d < 2; d++) {
        n = vc_max_size(n, (size_t)vc_max_u64(c->sizes[d], vc_max_u64(o->tables[i].sizes[d], o->tables[j].sizes[d])));
    }
    VC_SCOPED double *room = vc_alloc_array(o->ctx, VC_TAG_TILES, n, 4 * sizeof *room);
    VC_CALL_ALLOC(room);
    VC_CALL(read_elements(o, i));
    VC_CALL(read_elements(o, j));
    *found = is_product(c, NULL, &o->tables[i], &o->tables[j], room, n, o->work);
    for (size_t k = 0; k < o->model->n_tensors && !*found; k++) {
        const struct table *add = &o->tables[k];

        if (o->used[k] == 0 && add->n == c->n && add->n_axes == 2) {
            VC_CALL(read_elements(o, k));
            *found = is_product(c, add, &o->tables[i], &o->tables[j], room, n, o->work);
            use(o, *found ? k : VC_NO_TENSOR);
        }
    }
    return VC_OK;
}

/* Runs of elements of several tensors, one behind the other: two weights side by side, gates in another order. Each element is
 * looked for behind the one before it, then everywhere. turned: the matrix c is, transposed, of such runs. */
static enum vc_status try_runs(struct origin *o, bool turned, bool *found)
{
    size_t columns = turned ? (size_t)o->c.sizes[1] : 1;
    size_t n_runs = 0;
    size_t in = VC_NO_TENSOR;
    size_t at = 0;
    VC_SCOPED size_t *next = NULL; /* by tensor: behind the last run in it */

    VC_CALL(VC_ZEROS(o->ctx, VC_TAG_TILES, next, o->model->n_tensors + 1));
    for (size_t k = 0; k < o->c.n; k++) {
        float x = o->c.at[turned ? k % (o->c.n / columns) * columns + k / (o->c.n / columns) : k];

        if (in != VC_NO_TENSOR && at < o->tables[in].n && o->tables[in].at[at] == x) {
            next[in] = ++at;
            continue;
        }
        in = VC_NO_TENSOR;
        for (size_t i = 0; i < o->model->n_tensors && in == VC_NO_TENSOR; i++) {
            if (o->used[i] == UINT64_MAX || !is_alone(o, i)) {
                continue;
            }
            VC_CALL(read_elements(o, i));
            VC_CALL(spend(o, o->tables[i].n - next[i]));
            for (at = next[i]; at < o->tables[i].n && o->tables[i].at[at] != x; at++) {
            }
            if (at < o->tables[i].n) {
                in = i;
                next[i] = ++at;
            }
        }
        if (in == VC_NO_TENSOR || ++n_runs > o->c.n / 2) {
            return VC_OK;
        }
    }
    *found = true;
    o->c.n = 0; /* what each tensor gave is not known: all that a run ended in is used */
    for (size_t i = 0; i < o->model->n_tensors; i++) {
        o->used[i] = next[i] != 0 ? UINT64_MAX : o->used[i];
    }
    return VC_OK;
}

static enum vc_status try_pairs(struct origin *o, bool *found)
{
    for (size_t i = 0; i < o->model->n_tensors && !*found; i++) {
        for (size_t j = 0; j < o->model->n_tensors && !*found; j++) {
            const struct table *a = &o->tables[i], *b = &o->tables[j];
            bool matrices = o->c.n_axes == 2 && a->n_axes == 2 && b->n_axes == 2;

            if (a->n == 0 || b->n == 0 || vc_onnx_is_variance(vc_model_tensor(o->model, i)->name) ||
                vc_onnx_is_variance(vc_model_tensor(o->model, j)->name) || (o->used[i] != 0 && o->used[j] != 0) ||
                (o->n_left > MOST_LEFT &&
                 !vc_onnx_are_beside(vc_model_tensor(o->model, i)->name, vc_model_tensor(o->model, j)->name))) {
                continue;
            }
            if (i != j && a->n == o->c.n && a->n % b->n == 0) { /* w - w and w / w say nothing of w */
                VC_CALL(try_elements(o, i, j, found));
            }
            if (matrices && !*found) {
                VC_CALL(try_product(o, i, j, found));
            }
            use(o, *found ? i : VC_NO_TENSOR);
            use(o, *found ? j : VC_NO_TENSOR);
        }
    }
    return VC_OK;
}

/* A batch normalization, and the weight or bias that it may be folded with. */
struct folded {
    const struct origin *o;
    size_t of[4]; /* running_var, running_mean, weight, bias; the last two may be VC_NO_TENSOR */
    size_t with;  /* VC_NO_TENSOR: a bias of 0, and a weight of 1 */
    size_t each;  /* elements of each channel */
};

/* Element e of the folded weight, or bias. */
static double folded_at(const struct folded *f, size_t e, double epsilon, bool bias)
{
    double p[4] = {1, 0, 1, 0};

    for (unsigned q = 0; q < 4; q++) {
        p[q] = f->of[q] == VC_NO_TENSOR ? p[q] : (double)f->o->tables[f->of[q]].at[e / f->each];
    }
    double x = f->with == VC_NO_TENSOR ? !bias : (double)f->o->tables[f->with].at[e];
    double s = p[2] / sqrt(p[0] + epsilon);
    return bias ? p[3] + (x - p[1]) * s : x * s;
}

/* The constant is that of the batch normalization whose variance is tensor v; i: folded.with. */
static enum vc_status try_norm(struct origin *o, size_t v, size_t i, bool *found)
{
    static const char *const leaves[] = {"running_var", "running_mean", "weight", "bias"};
    static const double epsilons[] = {1e-5, 1e-3, 1e-4, 1e-6, 1e-8, 1e-12};
    char name[400];
    bool bias = false;
    const char *stem = vc_model_tensor(o->model, v)->name;
    struct table r = o->tables[i == VC_NO_TENSOR ? v : i];
    struct folded f = {.o = o, .with = i, .each = r.n / o->tables[v].n};

    for (unsigned k = 0; k < 4; k++) {
        (void)snprintf(name, sizeof name, "%.*s%s", (int)(strlen(stem) - strlen(leaves[0])), stem, leaves[k]);
        f.of[k] = vc_model_find(o->model, name);
        VC_RETURN_IF(k < 2 && f.of[k] == VC_NO_TENSOR, VC_OK);
        VC_CALL(read_elements(o, f.of[k]));
        VC_RETURN_IF(f.of[k] != VC_NO_TENSOR && o->tables[f.of[k]].n != o->tables[v].n, VC_OK);
    }
    VC_CALL(read_elements(o, i));
    VC_SCOPED float *at = vc_alloc_array(o->ctx, VC_TAG_TILES, r.n, sizeof *at);
    VC_CALL_ALLOC(r.at = at);
    for (unsigned k = 0; k < 2 * sizeof epsilons / sizeof *epsilons && !*found; k++) {
        double epsilon = epsilons[k / 2];

        bias = k % 2 != 0;
        if (!ends_fit(&o->c, folded_at(&f, 0, epsilon, bias), folded_at(&f, r.n - 1, epsilon, bias), false)) {
            continue;
        }
        VC_CALL(spend(o, 4 * (uint64_t)r.n));
        for (size_t e = 0; e < r.n; e++) {
            r.at[e] = (float)folded_at(&f, e, epsilon, bias);
        }
        *found = is_part(&o->c, &r, 1, 2 * MOST_APART * largest(&r), o->work);
    }
    use(o, *found ? i : VC_NO_TENSOR);
    for (unsigned k = 0; k < 4 && *found; k++) { /* the variance stands for the weight, which may have kept its name */
        bool takes = bias ? k != 0 : k % 2 == 0;

        use(o, takes ? f.of[k] : VC_NO_TENSOR);
    }
    return VC_OK;
}

static enum vc_status try_norms(struct origin *o, bool *found)
{
    for (size_t v = 0; v < o->model->n_tensors && !*found; v++) {
        const char *leaf = strstr(vc_model_tensor(o->model, v)->name, "running_var");
        bool norm = leaf != NULL && leaf[11] == '\0' && o->tables[v].n != 0 && o->c.n % o->tables[v].n == 0;

        for (size_t i = 0; i <= o->model->n_tensors && norm && !*found; i++) {
            size_t index = i == 0 ? VC_NO_TENSOR : i - 1;

            if (o->c.n == o->tables[i == 0 ? v : index].n) {
                VC_CALL(try_norm(o, v, index, found));
            }
        }
    }
    return VC_OK;
}

static enum vc_status find_origin(struct origin *o, bool *found)
{
    for (size_t i = 0; i < o->model->n_tensors; i++) {
        VC_CALL(set_table(o, o->model, i, false, &o->tables[i]));
        o->n_left += o->used[i] == 0 && o->tables[i].n != 0;
    }
    for (size_t i = 0; i < o->model->n_tensors && !*found; i++) {
        if (is_alone(o, i) && (o->tables[i].n >= o->c.n || o->c.n % o->tables[i].n == 0)) {
            VC_CALL(try_elements(o, i, VC_NO_TENSOR, found));
            use(o, *found ? i : VC_NO_TENSOR);
        }
    }
    if (!*found && o->c.n > 1 && is_uniform(&o->c)) { /* zeros come of any tensor beside zeros */
        return VC_OK;
    }
    if (!*found) {
        VC_CALL(try_norms(o, found));
    }
    if (!*found) {
        VC_CALL(try_runs(o, false, found));
    }
    if (!*found && o->c.n_axes == 2) {
        VC_CALL(try_runs(o, true, found));
    }
    return *found ? VC_OK : try_pairs(o, found);
}

enum vc_status vc_onnx_find_origin(struct vc_onnx_build *b, size_t own, const struct vc_model *model, uint64_t *used,
                                   bool *found)
{
    struct origin o = {.ctx = b->ctx, .model = model, .used = used, .work = &b->origin_work};

    *found = false;
    o.tables = vc_arena_alloc(b->ctx, &o.arena, (model->n_tensors + 1) * sizeof *o.tables);
    enum vc_status status = o.tables == NULL ? b->ctx->status : VC_OK;
    if (status == VC_OK) {
        memset(o.tables, 0, (model->n_tensors + 1) * sizeof *o.tables);
        o.used = NULL;
        status = set_table(&o, b->source->model, own, true, &o.c);
        o.used = used;
    }
    if (status == VC_OK && o.c.n != 0) {
        status = find_origin(&o, found);
    }
    if (b->origin_work > MOST_WORK) {
        status = VC_OK;
        *found = false;
    }
    vc_arena_release(b->ctx, &o.arena);
    return status;
}
