/* onnx_uses.c - what a tensor is, by who reads it: weights are factors of sums of products and tables of rows; what is
 * added, compared or multiplied element by element stays as it is.
 *
 *     w -> Transpose -> MatMul         a factor              mask -> Cast -> Add         a table
 *     a, b -> Concat -> Unsqueeze -> LSTM   factors          w -> MatMul, w -> Add       a table: the strictest reader
 *     v, g -> Mul -> Conv              v is a factor: a node of constants only computes another constant
 *
 * Readers say it (onnx_operators.c), then it goes against the direction of the graph, from outputs of nodes to their
 * inputs, into graphs inside nodes and functions, until nothing changes. Values that are computed of the model's inputs
 * take part, too: they lead from one graph into another. Called once all of a file is read. */

#include "formats/onnx/onnx.h"

#define MAX_ROUNDS \
    100 /* each goes over all nodes: as many as graphs lie in each other, unless nodes are out of order */

/* NULL: the input is left out. */
static struct onnx_symbol *symbol_of(struct onnx_reader *r, const struct onnx_read *read)
{
    return read->symbol != ONNX_NONE ? &r->self->symbols.list[read->symbol] : NULL;
}

/* Where no node has an input or output there are no reads: NULL, of which nothing is asked. */
static struct onnx_read *inputs_of(const struct onnx_reader *r, const struct onnx_reading *node)
{
    return r->all.reads != NULL ? &r->all.reads[node->first] : NULL;
}

/* Behind the inputs of the node in the list of reads. */
static struct onnx_read *outputs_of(const struct onnx_reader *r, const struct onnx_reading *node)
{
    return r->all.reads != NULL ? &r->all.reads[node->first + node->n_in] : NULL;
}

/* ---- names that stand for others ---- */

/* What is said of `to` is true of `from`: they are one value in two graphs. */
static enum vc_status bind(struct onnx_reader *r, size_t from, size_t to)
{
    struct onnx_uses *all = &r->all;

    if (from == ONNX_NONE || to == ONNX_NONE) {
        return VC_OK;
    }
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, all->bindings, all->bindings_capacity, all->n_bindings + 1));
    all->bindings[all->n_bindings++] = (struct onnx_binding){from, to};
    return VC_OK;
}

/* The node's input `shift` is the body's first one, and its outputs are the body's but for `skip` in front. */
static enum vc_status bind_body(struct onnx_reader *r, const struct onnx_reading *node, const struct onnx_body *body,
                                size_t shift, size_t skip)
{
    const struct onnx_read *in = inputs_of(r, node);
    const struct onnx_read *out = outputs_of(r, node);
    const size_t *bound = r->all.bound != NULL ? &r->all.bound[body->first] : NULL; /* no body has inputs or outputs */

    for (size_t k = 0; k < body->n_in && k + shift < node->n_in; k++) {
        VC_CALL(bind(r, in[k + shift].symbol, bound[k]));
    }
    for (size_t k = skip; k < body->n_out && k - skip < node->n_out; k++) {
        VC_CALL(bind(r, bound[body->n_in + k], out[k - skip].symbol));
    }
    return VC_OK;
}

/* Inputs and outputs of a node with those of each graph inside it. */
enum vc_status vc_onnx_bind_graphs(struct onnx_reader *r, const struct onnx_reading *node, size_t graphs)
{
    for (; graphs != ONNX_NONE; graphs = r->all.bodies[graphs].next) {
        const struct onnx_body *body = &r->all.bodies[graphs];
        bool loop = strcmp(node->op, "Loop") == 0;
        bool scan_8 = strcmp(node->op, "Scan") == 0 && node->n_in == body->n_in + 1; /* lengths come first there */

        VC_CALL(bind_body(r, node, body, scan_8, loop));
    }
    return VC_OK;
}

/* Functions by the hash of their names. */
static int compare_bodies(const void *a, const void *b)
{
    uint64_t x = ((const struct onnx_body *)a)->hash;
    uint64_t y = ((const struct onnx_body *)b)->hash;

    return x < y ? -1 : x > y;
}

/* Calls of functions. Those of one name with several overloads count as one. */
static enum vc_status bind_calls(struct onnx_reader *r)
{
    struct onnx_uses *all = &r->all;

    if (all->n_bodies > 1) {
        qsort(all->bodies, all->n_bodies, sizeof *all->bodies, compare_bodies);
    }
    for (size_t i = 0; i < all->n_nodes && all->n_bodies != 0; i++) {
        const struct onnx_reading *node = &all->nodes[i];
        const struct onnx_body key = {.hash = node->callee};
        const struct onnx_body *body = NULL;

        if (node->callee != 0) {
            body = bsearch(&key, all->bodies, all->n_bodies, sizeof key, compare_bodies);
        }
        while (body != NULL && body > all->bodies && body[-1].hash == key.hash) {
            body--;
        }
        for (; body != NULL && body < all->bodies + all->n_bodies && body->hash == key.hash; body++) {
            VC_CALL(bind_body(r, node, body, 0, 0));
            for (size_t k = 0; k < node->n_in; k++) {
                inputs_of(r, node)[k].letter = '=';
            }
        }
    }
    return VC_OK;
}

/* Every name becomes that of the graph that makes the value. */
static void settle_names(struct onnx_reader *r)
{
    const struct onnx_symbols *symbols = &r->self->symbols;

    for (size_t i = 0; i < r->all.n_reads; i++) {
        r->all.reads[i].symbol = vc_onnx_symbol_meant(symbols, r->all.reads[i].symbol);
    }
    for (size_t i = 0; i < r->all.n_bindings; i++) {
        r->all.bindings[i].from = vc_onnx_symbol_meant(symbols, r->all.bindings[i].from);
        r->all.bindings[i].to = vc_onnx_symbol_meant(symbols, r->all.bindings[i].to);
    }
}

/* ---- forwards: constants, and results of products ---- */

/* A letter of onnx_operators.c for an input that is multiplied. */
static bool is_factor(char letter)
{
    return (vc_onnx_letter_reads(letter) & (ONNX_READ_PRODUCT | ONNX_READ_FACTOR | ONNX_READ_CODES)) != 0;
}

/* Elements of a constant that sizes of an input choose or arrange are constants, too: gates of an LSTM, which PyTorch's
 * exporter cuts out of weight_ih_l0 at multiples of Shape (h0). Returns whether something is new. */
static bool find_constants(struct onnx_reader *r, const struct onnx_reading *node)
{
    const struct onnx_read *in = inputs_of(r, node);
    bool moves = node->n_in != 0 && in->letter == '>';
    bool constant = node->callee == 0 && !node->has_graph && (node->n_in != 0 || strcmp(node->op, "Constant") == 0);
    bool product = false;
    bool news = false;

    for (size_t k = 0; k < node->n_in; k++) {
        const struct onnx_symbol *s = symbol_of(r, &in[k]);

        constant = constant && (s == NULL || s->constant || (moves && in[k].letter == 'i'));
        product = product || is_factor(in[k].letter) || (in[k].letter == '>' && s != NULL && s->product);
    }
    for (size_t k = 0; k < node->n_out; k++) {
        struct onnx_symbol *s = symbol_of(r, &outputs_of(r, node)[k]);

        if (s != NULL && (s->constant != constant || s->product != (product && !constant))) {
            news = true;
            s->constant = constant;
            s->product = product && !constant;
        }
    }
    return news;
}

/* ---- forwards: normalizations that are written out ---- */

/* The one thing that all computed inputs of a node are, of one that only moves elements those that it moves; NONE: they
 * differ. */
static enum onnx_norm common_norm(struct onnx_reader *r, const struct onnx_reading *node)
{
    enum onnx_norm common = ONNX_NORM_NONE;
    bool moves = node->n_in != 0 && inputs_of(r, node)->letter == '>';
    bool any = false;

    for (size_t k = 0; k < node->n_in; k++) {
        const struct onnx_read *in = &inputs_of(r, node)[k];
        const struct onnx_symbol *s = moves && in->letter != '>' ? NULL : symbol_of(r, in);

        if (s != NULL && !s->constant && any && s->norm != common) {
            return ONNX_NORM_NONE;
        }
        common = s != NULL && !s->constant ? (enum onnx_norm)s->norm : common;
        any = any || (s != NULL && !s->constant);
    }
    return common;
}

/* x / root and x * (1 / root), where x is no such thing itself. */
static bool is_normalized(struct onnx_reader *r, const struct onnx_reading *node)
{
    const struct onnx_symbol *a = node->n_in == 2 ? symbol_of(r, &inputs_of(r, node)[0]) : NULL;
    const struct onnx_symbol *b = node->n_in == 2 ? symbol_of(r, &inputs_of(r, node)[1]) : NULL;

    return a != NULL && b != NULL && !a->constant && !b->constant &&
           ((b->norm == ONNX_NORM_ROOT && a->norm == ONNX_NORM_NONE && vc_is_one_of(node->op, "Div Mul")) ||
            (a->norm == ONNX_NORM_ROOT && b->norm == ONNX_NORM_NONE && strcmp(node->op, "Mul") == 0));
}

/* Where in a normalization the node stands, by what its inputs are: mean, root, or the normalized value. */
static enum onnx_norm norm_of(struct onnx_reader *r, const struct onnx_reading *node)
{
    enum onnx_norm common = common_norm(r, node);
    bool passes = node->n_in != 0 && inputs_of(r, node)->letter == '>';

    if (is_normalized(r, node) || (node->n_in > 1 && inputs_of(r, node)[1].letter == 'n')) {
        return ONNX_NORM_DONE;
    }
    if (strcmp(node->op, "ReduceMean") == 0) {
        return ONNX_NORM_MEAN;
    }
    if (strcmp(node->op, "ReduceL2") == 0 || (common == ONNX_NORM_MEAN && strcmp(node->op, "Sqrt") == 0) ||
        (common == ONNX_NORM_ROOT && vc_is_one_of(node->op, "Div Reciprocal"))) {
        return ONNX_NORM_ROOT;
    }
    return passes || (common == ONNX_NORM_DONE && strcmp(node->op, "Mul") == 0) ||
                   (common != ONNX_NORM_DONE && vc_is_one_of(node->op, "Add Sub Mul Max Clip"))
               ? common
               : ONNX_NORM_NONE;
}

/* Returns whether something is new. */
static bool find_norms(struct onnx_reader *r, const struct onnx_reading *node)
{
    enum onnx_norm norm = norm_of(r, node);
    bool news = false;

    for (size_t k = 0; k < node->n_out; k++) {
        struct onnx_symbol *s = symbol_of(r, &outputs_of(r, node)[k]);

        if (s != NULL && !s->constant && s->norm != norm) {
            s->norm = (unsigned char)norm;
            news = true;
        }
    }
    return news;
}

/* ---- backwards: what becomes of a value ---- */

/* What is said of one value. */
struct said {
    unsigned reads, axes, inputs;
    const char *reader;
};

/* Several readers: what any of them says. */
static void add_symbol(struct said *said, const struct onnx_symbol *s)
{
    said->reads |= s->reads;
    said->axes |= s->axes;
    said->inputs |= s->inputs;
    said->reader = (s->reads & ONNX_READ_TABLE) != 0 ? s->reader : said->reader;
}

/* What is said of the node's outputs. */
static struct said said_of_outputs(struct onnx_reader *r, const struct onnx_reading *node)
{
    struct said said = {.reader = NULL};

    for (size_t k = 0; k < node->n_out; k++) {
        const struct onnx_symbol *s = symbol_of(r, &outputs_of(r, node)[k]);

        if (s != NULL) {
            add_symbol(&said, s);
        }
    }
    return said;
}

/* A transposition of the last two axes. */
static unsigned swap_last_two(unsigned axes)
{
    unsigned rest = axes & ~(unsigned)(ONNX_AXIS_LAST | ONNX_AXIS_LAST_BUT_ONE);

    return rest | ((axes & ONNX_AXIS_LAST) != 0 ? ONNX_AXIS_LAST_BUT_ONE : 0U) |
           ((axes & ONNX_AXIS_LAST_BUT_ONE) != 0 ? ONNX_AXIS_LAST : 0U);
}

/* The axes of an output as those of the input, as far as they are known. */
static void turn(struct said *said, enum onnx_turn how)
{
    if (how == ONNX_TURN_OTHER) {
        said->axes = said->inputs = 0;
    } else if (how == ONNX_TURN_LAST_TWO) {
        said->axes = swap_last_two(said->axes);
        said->inputs = swap_last_two(said->inputs);
    }
}

/* The initializer that the input is; NULL: it is computed. */
static const struct onnx_tensor *tensor_of(struct onnx_reader *r, const struct onnx_read *read)
{
    const struct onnx_symbol *s = symbol_of(r, read);

    return s != NULL && s->tensor != ONNX_NONE ? &r->self->tensors[s->tensor] : NULL;
}

/* Of two constants that meet element by element, the one that has no more elements: scales, masks of weights. */
static bool is_lesser(struct onnx_reader *r, const struct onnx_reading *node, size_t k)
{
    const struct onnx_read *in = inputs_of(r, node);
    const struct onnx_tensor *own = node->n_in == 2 ? tensor_of(r, &in[k]) : NULL;
    const struct onnx_tensor *other = own != NULL ? tensor_of(r, &in[1 - k]) : NULL;

    return other != NULL && strchr("axe", in[k].letter) != NULL && own->n_elems <= other->n_elems;
}

/* The other value of a node with two. */
static const struct onnx_symbol *other_of(struct onnx_reader *r, const struct onnx_reading *node, size_t k)
{
    return node->n_in == 2 ? symbol_of(r, &inputs_of(r, node)[1 - k]) : NULL;
}

/* Rows of matrices that are factors themselves: the experts that tokens go to. */
static bool is_choice_of_factors(struct onnx_reader *r, const struct onnx_read *in, unsigned outputs)
{
    const struct onnx_tensor *tensor = tensor_of(r, in);

    return tensor != NULL && tensor->n_dims >= 3 && (outputs & (ONNX_READ_PRODUCT | ONNX_READ_FACTOR)) != 0;
}

/* A number for each channel, or one for all. */
static bool is_vector(const struct onnx_tensor *tensor)
{
    unsigned n_long = 0;

    for (unsigned d = 0; tensor != NULL && d < tensor->n_dims; d++) {
        n_long += tensor->dims[d] > 1;
    }
    return tensor != NULL && n_long <= 1;
}

/* What the node does with its input k, but for what is passed on. */
static unsigned reads_here(struct onnx_reader *r, const struct onnx_reading *node, size_t k, unsigned outputs)
{
    const struct onnx_read *in = &inputs_of(r, node)[k];
    const struct onnx_symbol *other = other_of(r, node, k);

    if ((in->letter == 'a' || in->letter == 'x') && other != NULL && other->norm == ONNX_NORM_DONE &&
        (tensor_of(r, in) == NULL || is_vector(tensor_of(r, in)))) {
        return ONNX_READ_NORM;
    }
    if (in->letter == 'a' && other != NULL && other->product && is_vector(tensor_of(r, in))) {
        return ONNX_READ_BIAS;
    }
    if (in->letter == 'x' && other != NULL && other->constant) {
        return ONNX_READ_TABLE;
    }
    if (in->letter == 'r' && is_choice_of_factors(r, in, outputs)) {
        return ONNX_READ_PRODUCT;
    }
    return vc_onnx_letter_reads(in->letter);
}

/* A node of constants only computes another constant, whose readers count; indices and scales are what they are. */
static bool passes_on(struct onnx_reader *r, const struct onnx_reading *node, size_t k)
{
    const struct onnx_symbol *out = node->n_out != 0 ? symbol_of(r, outputs_of(r, node)) : NULL;
    char letter = inputs_of(r, node)[k].letter;

    return letter == '>' ||
           (out != NULL && out->constant && strchr("fwraxe.", letter) != NULL && !is_lesser(r, node, k));
}

/* Adds to what is known of the value. Returns whether something is new. */
static bool say(struct onnx_symbol *s, const struct said *said)
{
    bool news = (said->reads & ~s->reads) != 0 || (said->axes & ~s->axes) != 0 || (said->inputs & ~s->inputs) != 0;

    s->reader = (said->reads & ONNX_READ_TABLE) != 0 && s->reader == NULL ? said->reader : s->reader;
    s->reads |= said->reads;
    s->axes |= said->axes;
    s->inputs |= said->inputs;
    return news;
}

/* Returns whether something new was said. */
static bool say_inputs(struct onnx_reader *r, const struct onnx_reading *node)
{
    const struct said outputs = said_of_outputs(r, node);
    bool news = false;

    for (size_t k = 0; k < node->n_in; k++) {
        const struct onnx_read *in = &inputs_of(r, node)[k];
        struct onnx_symbol *s = symbol_of(r, in);
        struct said said = {.axes = in->axes, .inputs = in->inputs, .reader = node->op};

        if (s != NULL && passes_on(r, node, k)) {
            said = outputs;
            turn(&said, in->letter == '>' ? node->turn : ONNX_TURN_OTHER);
        } else if (s != NULL) {
            said.reads = reads_here(r, node, k, outputs.reads);
        }
        news = (s != NULL && say(s, &said)) || news;
    }
    return news;
}

/* From the last binding to the first, as values flow against the graph. */
static bool say_bindings(struct onnx_reader *r)
{
    bool news = false;

    for (size_t i = r->all.n_bindings; i-- > 0;) {
        struct onnx_symbol *from = &r->self->symbols.list[r->all.bindings[i].from];
        struct said said = {.reader = NULL};

        add_symbol(&said, &r->self->symbols.list[r->all.bindings[i].to]);
        news = say(from, &said) || news;
    }
    return news;
}

/* Rounds until nothing is new: loops and functions lead back to nodes that were looked at already. */
static void say_all(struct onnx_reader *r)
{
    bool news = true;

    for (unsigned round = 0; news && round < MAX_ROUNDS; round++) {
        news = say_bindings(r);
        for (size_t i = r->all.n_nodes; i-- > 0;) {
            news = say_inputs(r, &r->all.nodes[i]) || news;
        }
    }
}

/* ---- angles ---- */

/* Cosines and sines of positions: two tables whose rows the same indices choose, for products with values of the model
 * element by element and for nothing else. */
static void find_angles(struct onnx_reader *r)
{
    for (size_t i = 0; i < r->all.n_nodes; i++) {
        const struct onnx_reading *node = &r->all.nodes[i];
        const struct onnx_read *in = inputs_of(r, node);
        struct onnx_symbol *index = node->n_in == 2 && in->letter == 'r' ? symbol_of(r, &in[1]) : NULL;
        struct onnx_symbol *table = index != NULL ? symbol_of(r, in) : NULL;

        if (table == NULL || said_of_outputs(r, node).reads != (ONNX_READ_TABLE | ONNX_READ_TURNS)) {
            continue;
        }
        if (index->turns == ONNX_NONE) {
            index->turns = in->symbol;
        }
        struct onnx_symbol *other = &r->self->symbols.list[index->turns];
        if (other != table) {
            table->reads |= ONNX_READ_TABLE;
            other->reads |= ONNX_READ_TABLE;
            table->reader = other->reader = "Mul";
        }
    }
}

/* First what is constant and what is normalized, forward; then who reads what, backward, twice: angles are found by
 * what is known in between. */
enum vc_status vc_onnx_settle_uses(struct onnx_reader *r)
{
    bool news = true;

    VC_CALL(bind_calls(r));
    settle_names(r);
    for (size_t i = 0; i < r->self->symbols.n; i++) {
        r->self->symbols.list[i].constant = r->self->symbols.list[i].tensor != ONNX_NONE;
    }
    for (unsigned round = 0; news && round < MAX_ROUNDS; round++) {
        news = false;
        for (size_t i = 0; i < r->all.n_nodes; i++) {
            news = find_constants(r, &r->all.nodes[i]) || news;
            news = find_norms(r, &r->all.nodes[i]) || news;
        }
    }
    say_all(r);
    find_angles(r);
    say_all(r);
    return VC_OK;
}

/* ---- tensors ---- */

/* The strictest first. */
static const struct {
    unsigned reads;
    enum vc_use use;
    const char *kept_as;
} uses[] = {{ONNX_READ_SCALE, VC_USE_SCALE, "part of an operator on codes"},
            {ONNX_READ_CODES, VC_USE_CODES, "part of an operator on codes"},
            {ONNX_READ_TABLE, VC_USE_TABLE, NULL},
            {ONNX_READ_INDEX, VC_USE_INDEX, "index or size"},
            {ONNX_READ_STATE, VC_USE_BIAS, "initial state"},
            {ONNX_READ_PEEPS, VC_USE_BIAS, "peephole weights"},
            {ONNX_READ_BIAS, VC_USE_BIAS, "bias"},
            {ONNX_READ_NORM, VC_USE_NORM, "normalization"},
            {ONNX_READ_ROWS, VC_USE_ROWS, NULL},
            {ONNX_READ_PRODUCT | ONNX_READ_FACTOR, VC_USE_PRODUCT, NULL}};

/* Every sum of products has one term: angles are positions times frequencies. */
static bool is_outer_product(const struct onnx_symbol *symbol, const struct vc_tensor *t)
{
    return (symbol->reads & (ONNX_READ_PRODUCT | ONNX_READ_FACTOR)) == ONNX_READ_FACTOR && t->n_dims >= 2 &&
           t->inputs != 0 && t->inputs != VC_NO_INPUTS && t->shape[t->inputs - 1] == 1;
}

/* The reason in reports: who reads the table. */
static enum vc_status name_table(struct onnx_reader *r, const struct onnx_symbol *symbol, struct vc_tensor *t)
{
    const char *reader = symbol->reader != NULL && *symbol->reader == '\0' ? "an operator" : symbol->reader;

    t->kept_as = reader == NULL ? "output of the graph"
                                : vc_arena_printf(r->ctx, &r->self->arena, "table that %s reads", reader);
    return t->kept_as == NULL ? VC_E_NOMEM : VC_OK;
}

/* The strictest of the uses, in the order of the rows. */
enum vc_status vc_onnx_take_use(struct onnx_reader *r, const struct onnx_symbol *symbol, struct vc_tensor *t)
{
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        if ((symbol->reads & uses[i].reads) != 0) {
            t->use = uses[i].use;
            t->kept_as = uses[i].kept_as;
            break;
        }
    }
    if (t->use == VC_USE_PRODUCT && is_outer_product(symbol, t)) {
        t->use = VC_USE_TABLE;
        t->kept_as = "factor of an outer product";
    } else if (t->use == VC_USE_TABLE) {
        return name_table(r, symbol, t);
    }
    return VC_OK;
}

void vc_onnx_uses_release(struct onnx_reader *r)
{
    VC_FREE_ALL(r->ctx, r->all.operators, r->all.reads, r->all.nodes, r->all.bindings, r->all.bodies, r->all.bound);
}
