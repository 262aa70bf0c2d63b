/* check_config.c - see check_config.h.
 *
 * Loaders make quantized modules by the targets and the ignore list of the "quantization_config", before they look at
 * the tensors. Which modules are linear layers is not known here: a weight of two dimensions that is no embedding is
 * taken for one, so what follows from that alone is a warning. Patterns that are more than literal text and `.*` are
 * not decided.
 *
 *     "quantization_config": {"quant_method": "compressed-tensors", "ignore": ["lm_head"],
 *                             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, ...}}}}
 *
 * check_modules chooses what is asked by "quant_method"; each_module calls one question for each module that could be
 * quantized. Findings go through vc_find, so a check never stops at the first fault; only failures of reading and of
 * memory are returned. */
#include "formats/huggingface/check_config.h"

#include "core/base/findings.h"
#include "core/model/names.h"
#include "core/text/glob.h"
#include "formats/huggingface/check_listed.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/hf_carry.h"
#include "formats/json/json_walk.h"

#define MAX_GLOBS  256 /* per list */
#define MAX_GROUPS 64

/* Names of modules, as a list of config.json has them. */
struct names {
    size_t n_exact, n_globs;
    const char **exact; /* sorted */
    const char *globs[MAX_GLOBS];
    bool linear;  /* the class of all linear layers */
    bool classes; /* other classes, or modules with names like them */
    bool unsure;  /* these, or something else that is not decided */
};

struct group {
    struct names targets;
    const json_t *weights, *inputs;
};

/* A module that has a weight. */
struct module {
    const struct vc_tensor *t;
    char *path;         /* "a.b", with room for any tail */
    size_t n_path;      /* bytes of it */
    bool quantized;     /* else plain floats of a linear layer, as far as one can tell */
    uint64_t rows, row; /* of the weight; 0: not known */
};

struct check {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    struct vc_arena arena;
    const json_t *config;
    struct names ignored;
    size_t n_groups; /* of groups that are looked at, at most MAX_GROUPS */
    struct group *groups;
    char *path; /* room for any name */
};

/* ---- lists of names ---- */

/* Turns a regular expression into a glob; *out is NULL where it is more than literal text and `.*`. The memory is the
 * arena's.
 *
 *     ^model\.layers\..*\.mlp$   model.layers.*.mlp      anchored at the end
 *     model\.layers              model.layers*           re.match of Python: the rest of the name is free
 *     (q|k)_proj                 NULL                    not decided
 *
 * A glob has at most twice the bytes of the expression, and a '*' behind it. */
static enum vc_status glob_of(struct check *c, const char *regex, const char **out)
{
    char *glob = vc_arena_alloc(c->ctx, &c->arena, 2 * strlen(regex) + 2);
    bool anchored = false;
    size_t n = 0;

    *out = NULL;
    VC_CALL_ALLOC(glob);
    for (regex += regex[0] == '^'; *regex != '\0'; regex++) {
        if (regex[0] == '$' && regex[1] == '\0') {
            anchored = true;
        } else if (regex[0] == '.' && regex[1] == '*') {
            glob[n++] = '*';
            regex++;
        } else if (regex[0] == '.' && strchr("+?{", regex[1]) == NULL) {
            glob[n++] = '?';
        } else if (regex[0] == '\\' && (regex[1] == '.' || regex[1] == '-' || regex[1] == '_')) {
            glob[n++] = *++regex;
        } else if (strchr("\\.^$*+?{}[]()|", regex[0]) != NULL ||
                   (regex[1] != '\0' && strchr("*+?{", regex[1]) != NULL)) {
            return VC_OK;
        } else {
            glob[n++] = regex[0];
        }
    }
    if (!anchored) {
        glob[n++] = '*';
    }
    glob[n] = '\0';
    *out = glob;
    return VC_OK;
}

/* Adds the globs of one regular expression, or notes that the list is unsure. Room for both globs is asked for
 * together. */
static enum vc_status add_regex(struct check *c, struct names *names, const char *regex)
{
    static const char maybe[] = "(.*\\.)?"; /* parts of the name, or none: two globs */
    bool two = strncmp(regex, maybe, sizeof maybe - 1) == 0;
    const char *globs[2] = {NULL, NULL};

    VC_CALL(glob_of(c, two ? regex + sizeof maybe - 1 : regex, &globs[0]));
    if (two && globs[0] != NULL) {
        VC_CALL_ALLOC(globs[1] = vc_arena_printf(c->ctx, &c->arena, "*.%s", globs[0]));
    }
    if (globs[0] == NULL || names->n_globs + 2 > MAX_GLOBS) {
        names->unsure = true;
        return VC_OK;
    }
    for (size_t i = 0; i < 2 && globs[i] != NULL; i++) {
        names->globs[names->n_globs++] = globs[i];
    }
    return VC_OK;
}

/* Reads a list of modules: exact names, regular expressions ("re:...") and classes. list may be NULL. A word of
 * capitals without a point, "LlamaDecoderLayer", is a class: which modules are of a class is known only by the loader,
 * so the list is unsure. It stays among the exact names, too, because a module may be called so. */
static enum vc_status read_names(struct check *c, const json_t *list, struct names *names)
{
    const json_t *value;
    size_t i;

    VC_CALL_ALLOC(names->exact = vc_arena_alloc(c->ctx, &c->arena, json_array_size(list) * sizeof *names->exact));
    json_array_foreach(list, i, value)
    {
        const char *name = json_string_value(value);

        if (name == NULL) {
            names->unsure = true;
        } else if (strncmp(name, "re:", 3) == 0) {
            VC_CALL(add_regex(c, names, name + 3));
        } else if (strcmp(name, "Linear") == 0) {
            names->linear = true;
        } else {
            if (name[0] >= 'A' && name[0] <= 'Z' && strchr(name, '.') == NULL) {
                names->classes = true;
                names->unsure = true;
            }
            names->exact[names->n_exact++] = name;
        }
    }
    if (names->n_exact > 1) {
        qsort(names->exact, names->n_exact, sizeof *names->exact, vc_compare_texts);
    }
    return VC_OK;
}

/* Whether the list names the module itself. That its class may be in the list is the caller's question. */
static bool has_name(const struct names *names, const char *path)
{
    size_t i = 0;

    if (names->n_exact != 0 && bsearch(&path, names->exact, names->n_exact, sizeof *names->exact, vc_compare_texts)) {
        return true;
    }
    while (i < names->n_globs && !vc_glob_match(names->globs[i], path)) {
        i++;
    }
    return i < names->n_globs;
}

/* compressed-tensors refuses members that it does not know; known: " a b ". */
static enum vc_status check_keys(const struct check *c, const json_t *object, const char *known)
{
    char word[64];
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        (void)snprintf(word, sizeof word, " %s ", key);
        if (strstr(known, word) == NULL) {
            VC_CALL(vc_find(c->ctx, VC_SEVERITY_ERROR, "config", VC_HF_CONFIG_NAME,
                            "a group has the member \"%s\", for which compressed-tensors refuses it", key));
        }
    }
    return VC_OK;
}

/* The members of a group, and group_size, which belongs to the strategies of groups. A member of another name is an
 * error of pydantic in compressed-tensors (its models forbid extra members). */
static enum vc_status check_members(const struct check *c, const json_t *group)
{
    const json_t *weights = json_object_get(group, "weights");
    const char *strategy = json_string_value(json_object_get(weights, "strategy"));
    bool sized = json_integer_value(json_object_get(weights, "group_size")) > 0;

    VC_CALL(check_keys(c, group, " targets weights input_activations output_activations format "));
    VC_CALL(check_keys(c, weights,
                       " num_bits type symmetric group_size strategy block_structure dynamic actorder "
                       "scale_dtype zp_dtype observer observer_kwargs "));
    return strategy == NULL || sized == (strstr(strategy, "group") != NULL)
               ? VC_OK
               : vc_find(c->ctx, VC_SEVERITY_ERROR, "config", VC_HF_CONFIG_NAME,
                         "a group has the strategy \"%s\" with%s a group_size, for which compressed-tensors refuses it",
                         strategy, sized ? "" : "out");
}

/* Reads "ignore" and "config_groups" into c->ignored and c->groups. */
static enum vc_status read_config(struct check *c)
{
    json_t *groups = json_object_get(c->config, "config_groups");
    const char *key;
    json_t *group;

    VC_CALL(read_names(c, json_object_get(c->config, "ignore"), &c->ignored));
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_NAMES, c->groups, MAX_GROUPS));
    json_object_foreach(groups, key, group)
    {
        VC_CALL(check_members(c, group));
        if (c->n_groups < MAX_GROUPS) {
            c->groups[c->n_groups].weights = json_object_get(group, "weights");
            c->groups[c->n_groups].inputs = json_object_get(group, "input_activations");
            VC_CALL(read_names(c, json_object_get(group, "targets"), &c->groups[c->n_groups++].targets));
        } else {
            c->ignored.unsure = true; /* another group may be about any module */
        }
    }
    return VC_OK;
}

/* The tensor <path of the module><tail>; NULL if there is none. m->path is put back to the module's path before it
 * returns. */
static const struct vc_tensor *part_of(const struct check *c, const struct module *m, const char *tail)
{
    memcpy(m->path + m->n_path, tail, strlen(tail) + 1);
    size_t index = vc_model_find(c->model, m->path);
    m->path[m->n_path] = '\0';
    return index == VC_NO_TENSOR ? NULL : &c->model->tensors[index];
}

/* Sets rows and row of packed codes from the values of weight_shape; of other weights they are known. weight_shape: i64
 * [2], rows and elements of a row before packing. */
static enum vc_status find_shape(const struct check *c, struct module *m)
{
    const struct vc_tensor *shape = part_of(c, m, ".weight_shape");
    unsigned char stated[16];
    enum vc_status status = VC_OK;

    if (shape != NULL && shape->dtype == VC_DTYPE_I64 && shape->n_elems == 2) {
        status = vc_source_read_any(c->ctx, c->model, (size_t)(shape - c->model->tensors), VC_FORM_VALUES, 0, stated,
                                    sizeof stated);
        VC_CALL(vc_collect(c->ctx, status, "data", shape->name));
        m->rows = status == VC_OK ? vc_le64(stated) : 0;
        m->row = status == VC_OK ? vc_le64(stated + 8) : 0;
        m->row = m->row <= INT64_MAX ? m->row : 0;
    }
    return VC_OK;
}

/* num_bits of the group against the words of packed codes, or the type of plain ones. A type of plain codes has its own
 * bits: i8 8, i4 4. Words of 32 bits: a row of 100 elements of 4 bits has 13. */
static enum vc_status check_bits(const struct check *c, const struct module *m, const json_t *weights)
{
    json_int_t bits = json_integer_value(json_object_get(weights, "num_bits"));
    uint64_t words = m->t->n_dims == 2 ? m->t->shape[1] : 0;

    if (json_is_integer(json_object_get(weights, "num_bits")) && (bits < 1 || bits > 8)) {
        return vc_find(c->ctx, VC_SEVERITY_ERROR, "config", m->t->name,
                       "is quantized, and " VC_HF_CONFIG_NAME " says %" JSON_INTEGER_FORMAT
                       " bits, which no layout of codes has",
                       bits);
    }
    if (bits < 1 || bits > 8 || m->t->n_dims != 2) {
        return VC_OK;
    }
    if (m->t->dtype != VC_DTYPE_I32) {
        const struct vc_dtype_info *facts = vc_dtype_facts(m->t->dtype);
        int own = (int)(8 * facts->block_bytes / facts->block_elems);

        return bits == own ? VC_OK
                           : vc_find(c->ctx, VC_SEVERITY_ERROR, "config", m->t->name,
                                     "has codes of %d bits; " VC_HF_CONFIG_NAME " says %d", own, (int)bits);
    }
    if (m->row == 0 || vc_packing_words_fit(m->row, (unsigned)bits, words)) {
        return VC_OK;
    }
    return vc_find(c->ctx, VC_SEVERITY_ERROR, "config", m->t->name,
                   "has %" PRIu64 " words for a row of %" PRIu64 ", which are not the %d bits that " VC_HF_CONFIG_NAME
                   " says",
                   words, m->row, (int)bits);
}

/* symmetric of the group against zero points that are there, or missing. */
static enum vc_status check_zero_point(const struct check *c, const struct module *m, const json_t *weights)
{
    const json_t *symmetric = json_object_get(weights, "symmetric");
    const struct vc_tensor *zero = part_of(c, m, ".weight_zero_point");

    if (json_is_true(symmetric) && zero != NULL) {
        return vc_find(c->ctx, VC_SEVERITY_ERROR, "zero-point", m->t->name,
                       "has '%s', but is symmetric by " VC_HF_CONFIG_NAME, zero->name);
    }
    if (json_is_false(symmetric) && zero == NULL) {
        return vc_find(c->ctx, VC_SEVERITY_ERROR, "companion", m->t->name,
                       "has no zero points, but is not symmetric by " VC_HF_CONFIG_NAME);
    }
    return VC_OK;
}

/* One scale for all inputs of the module is a tensor of its own, which loaders need. */
static enum vc_status check_inputs(const struct check *c, const struct module *m, const json_t *inputs)
{
    bool is_fixed = json_is_false(json_object_get(inputs, "dynamic")) && vc_json_says(inputs, "strategy", "tensor");

    return !is_fixed || part_of(c, m, ".input_scale") != NULL
               ? VC_OK
               : vc_find(c->ctx, VC_SEVERITY_ERROR, "companion", m->t->name,
                         "has no input_scale, but its inputs have a fixed scale by " VC_HF_CONFIG_NAME);
}

/* strategy and group_size of the group against the shape of the scales. */
static enum vc_status check_groups(const struct check *c, const struct module *m, const json_t *weights)
{
    json_int_t size = json_integer_value(json_object_get(weights, "group_size"));
    const struct vc_tensor *scale = part_of(c, m, ".weight_scale");

    if (size < 1 || m->row == 0 || scale == NULL || scale->n_dims != 2) {
        return VC_OK;
    }
    if (scale->shape[1] != vc_ceil_div_u64(m->row, (uint64_t)size)) {
        return vc_find(c->ctx, VC_SEVERITY_ERROR, "config", m->t->name,
                       "has %" PRIu64 " scales for a row of %" PRIu64 "; " VC_HF_CONFIG_NAME " says groups of %d",
                       scale->shape[1], m->row, (int)size);
    }
    if (m->row % (uint64_t)size != 0) {
        VC_CALL(vc_find(c->ctx, VC_SEVERITY_WARNING, "group", m->t->name,
                        "has rows of %" PRIu64 ", which groups of %d do not divide: vLLM refuses that", m->row,
                        (int)size));
    }
    return VC_OK;
}

/* A module that the group is about: all that it says of its weights. */
static enum vc_status check_said(const struct check *c, const struct module *m, const struct group *group)
{
    bool by_name = has_name(&group->targets, m->path);

    if (!m->quantized) {
        return vc_find(c->ctx, by_name ? VC_SEVERITY_ERROR : VC_SEVERITY_WARNING, "config", m->t->name,
                       "is plain %s, but " VC_HF_CONFIG_NAME " says that the module is quantized%s",
                       vc_dtype_name(m->t->dtype), by_name ? "" : ", if it is a linear layer");
    }
    VC_CALL(check_bits(c, m, group->weights));
    VC_CALL(check_zero_point(c, m, group->weights));
    VC_CALL(check_groups(c, m, group->weights));
    return check_inputs(c, m, group->inputs);
}

/* One module against ignore and the groups of compressed-tensors. compressed-tensors looks for a target by name before
 * one by class. "unsure" means that a list that could not be decided may speak of this module, so a finding about its
 * absence is left out. */
static enum vc_status check_compressed(const struct check *c, const struct module *m)
{
    const struct group *by_class = NULL;
    const struct group *by_name = NULL;
    bool unsure = c->ignored.unsure;

    if (has_name(&c->ignored, m->path)) {
        return m->quantized ? vc_find(c->ctx, VC_SEVERITY_ERROR, "config", m->t->name,
                                      "is quantized, but is to be ignored by " VC_HF_CONFIG_NAME)
                            : VC_OK;
    }
    for (size_t i = 0; i < c->n_groups; i++) {
        const struct group *group = &c->groups[i];

        if (by_name != NULL && has_name(&group->targets, m->path)) {
            return vc_find(c->ctx, VC_SEVERITY_ERROR, "config", m->t->name,
                           "is a target of two groups of " VC_HF_CONFIG_NAME ": loaders take the first that they find");
        }
        by_name = by_name == NULL && has_name(&group->targets, m->path) ? group : by_name;
        by_class = by_class == NULL && group->targets.linear ? group : by_class;
        unsure = unsure || group->targets.unsure;
    }
    if (by_name != NULL) {
        return check_said(c, m, by_name);
    }
    if (by_class != NULL && (m->quantized || !unsure)) {
        return check_said(c, m, by_class);
    }
    return m->quantized && !unsure ? vc_find(c->ctx, VC_SEVERITY_ERROR, "config", m->t->name,
                                             "is quantized, but no group of " VC_HF_CONFIG_NAME " has it as a target")
                                   : VC_OK;
}

/* vLLM joins some layers, and refuses them when only some are quantized: notes the first plain one beside a quantized
 * module. */
static enum vc_status check_joined(const struct check *c, const struct module *m)
{
    size_t n_base;
    const char *const *set = m->quantized ? vc_name_joined(m->path, m->n_path, &n_base) : NULL;
    const char *plain = NULL;

    for (; set != NULL && *set != NULL && plain == NULL; set++) {
        memcpy(m->path + n_base, *set, strlen(*set));
        memcpy(m->path + n_base + strlen(*set), ".weight", sizeof ".weight");
        size_t index = vc_model_find(c->model, m->path);
        plain = index != VC_NO_TENSOR && vc_dtype_is_float(c->model->tensors[index].dtype) &&
                        !vc_is_float8(c->model->tensors[index].dtype)
                    ? *set
                    : NULL;
    }
    memcpy(m->path, m->t->name, m->n_path);
    m->path[m->n_path] = '\0';
    return plain == NULL
               ? VC_OK
               : vc_find(c->ctx, VC_SEVERITY_WARNING, "joined", m->t->name,
                         "is quantized, but %s beside it is not: vLLM joins the two, and refuses that", plain);
}

/* The number that divides the scales of the tensor, as bits; false: its weights are no nvfp4. A read that fails counts
 * as false here, and is no failure of the check. */
static bool global_of(const struct check *c, size_t tensor, uint32_t *bits)
{
    const struct vc_quant *quant = tensor != VC_NO_TENSOR ? c->model->tensors[tensor].quant : NULL;
    size_t part = quant != NULL ? vc_quant_find(quant, VC_PART_GLOBAL_SCALE) : VC_NO_TENSOR;
    unsigned char bytes[4];

    if (part == VC_NO_TENSOR || vc_source_read_any(c->ctx, c->model, part, VC_FORM_VALUES, 0, bytes, 4) != VC_OK) {
        vc_clear_error(c->ctx);
        return false;
    }
    *bits = vc_le32(bytes);
    return true;
}

/* Layers that runtimes join (q, k and v; gate and up) keep one global scale of NVFP4: the others decode wrongly where
 * theirs differs. Compared as bits. */
static enum vc_status check_global(const struct check *c, const struct module *m)
{
    uint32_t own, other;
    size_t n_base;
    const char *const *set = vc_name_joined(m->path, m->n_path, &n_base);
    const char *differs = NULL;

    if (set == NULL || !global_of(c, (size_t)(m->t - c->model->tensors), &own)) {
        return VC_OK;
    }
    for (; *set != NULL && differs == NULL; set++) {
        memcpy(m->path + n_base, *set, strlen(*set));
        memcpy(m->path + n_base + strlen(*set), ".weight", sizeof ".weight");
        differs = global_of(c, vc_model_find(c->model, m->path), &other) && other != own ? *set : NULL;
    }
    memcpy(m->path, m->t->name, m->n_path);
    m->path[m->n_path] = '\0';
    return differs == NULL ? VC_OK
                           : vc_find(c->ctx, VC_SEVERITY_ERROR, "global-scale", m->t->name,
                                     "has another global scale than %s beside it: vLLM joins the two, keeps one, and "
                                     "decodes the other wrongly; nvfp4 made anew of the source gives them one",
                                     differs);
}

/* ---- bitsandbytes ---- */

/* One module against the list of those that bitsandbytes leaves alone. Words of the list are matched with the ends of
 * names (vc_listed_means). Without a list nothing is said of plain modules. */
static enum vc_status check_bnb(const struct check *c, const struct module *m)
{
    const json_t *skip = json_object_get(c->config, "llm_int8_skip_modules");
    const json_t *value;
    bool skipped = false;
    size_t i;

    json_array_foreach(skip, i, value)
    {
        skipped = skipped || (json_is_string(value) && vc_listed_means(json_string_value(value), m->path));
    }
    if (m->quantized && skipped) {
        return vc_find(c->ctx, VC_SEVERITY_ERROR, "config", m->t->name,
                       "is quantized, but is to be skipped by " VC_HF_CONFIG_NAME);
    }
    if (!m->quantized && !skipped && json_is_array(skip)) {
        return vc_find(c->ctx, VC_SEVERITY_WARNING, "config", m->t->name,
                       "is plain %s, but " VC_HF_CONFIG_NAME " does not skip it, if it is a linear layer",
                       vc_dtype_name(m->t->dtype));
    }
    return VC_OK;
}

/* What is in the list but is no module. Words that are part of a name, as this loader allows, are taken for one. */
static enum vc_status check_bnb_list(struct check *c)
{
    const json_t *skip = json_object_get(c->config, "llm_int8_skip_modules");
    const char **words = vc_arena_alloc(c->ctx, &c->arena, json_array_size(skip) * sizeof *words);
    const json_t *value;
    size_t n = 0;
    size_t i;

    VC_CALL_ALLOC(words);
    json_array_foreach(skip, i, value)
    {
        if (json_is_string(value)) {
            words[n++] = json_string_value(value);
        }
    }
    if (n > 1) {
        qsort(words, n, sizeof *words, vc_compare_texts);
    }
    return vc_check_listed(c->ctx, c->model, "llm_int8_skip_modules", VC_NAMES_ENDS, n, words);
}

/* ---- all modules ---- */

/* Whether the module has parts that loaders know. Scales of our own, w.scale, are none of them. */
static bool is_quantized(const struct check *c, const struct module *m)
{
    return vc_ends_in(m->t->name, ".weight_packed") || part_of(c, m, ".weight_shape") != NULL ||
           (m->t->dtype == VC_DTYPE_U4 && part_of(c, m, ".weight.absmax") != NULL) ||
           ((m->t->dtype == VC_DTYPE_I8 || m->t->dtype == VC_DTYPE_F4_E2M1 || vc_is_float8(m->t->dtype)) &&
            (part_of(c, m, ".weight_scale") != NULL || part_of(c, m, ".SCB") != NULL));
}

/* Fills *m from the weight of a module; false if the tensor is not the weight of a layer that could be quantized. A table with
 * a bias beside it is a layer with an unlucky name. m->path is c->path, which the next module overwrites. */
static bool module_of(const struct check *c, const struct vc_tensor *t, struct module *m)
{
    size_t n_path = 0;

    if (vc_ends_in(t->name, ".weight_packed")) {
        n_path = strlen(t->name) - strlen(".weight_packed");
    } else if (!vc_name_is_module_weight(t->name, &n_path) || t->n_dims != 2) {
        return false;
    }
    if (n_path == 0) {
        return false;
    }
    *m = (struct module){.t = t, .path = c->path, .n_path = n_path};
    memcpy(m->path, t->name, n_path);
    m->path[n_path] = '\0';
    m->quantized = is_quantized(c, m);
    if (t->dtype != VC_DTYPE_I32) {
        m->rows = t->shape[0];
        m->row = t->n_dims == 2 ? t->shape[1] : 0;
    }
    return m->quantized || (vc_dtype_is_float(t->dtype) && !vc_is_float8(t->dtype) &&
                            (!vc_name_is_embedding_table(t->name) || part_of(c, m, ".bias") != NULL));
}

typedef enum vc_status check_fn(const struct check *c, const struct module *m);

/* Calls fn for the weight of each module. Rows of packed codes are read only here, where row is not known from the
 * shape. */
static enum vc_status each_module(struct check *c, check_fn *fn)
{
    struct module m;

    for (size_t i = 0; i < c->model->n_tensors; i++) {
        if (module_of(c, &c->model->tensors[i], &m)) {
            if (m.row == 0) {
                VC_CALL(find_shape(c, &m));
            }
            VC_CALL(fn(c, &m));
        }
    }
    return VC_OK;
}

/* A file of ModelOpt's in the folder says how modules are quantized. */
static bool has_own_file(const struct vc_model *model)
{
    size_t i = 0;

    while (i < vc_infolder_carried_count(model->folder) &&
           strcmp(vc_infolder_carried(model->folder, i)->name, VC_HF_MODELOPT_NAME) != 0) {
        i++;
    }
    return i < vc_infolder_carried_count(model->folder);
}

/* There is no quantization_config, but this module is quantized: a loader would read its codes as weights. The first
 * one is noted. Codes that our own manifest describes have names of their own. */
static enum vc_status check_unsaid(const struct check *c, const struct module *m)
{
    bool described = (m->t->quant != NULL && c->model->dialect == &vc_dialect_plain) || has_own_file(c->model);

    return !m->quantized || described || vc_findings_has(c->ctx->findings, VC_HF_CONFIG_NAME)
               ? VC_OK
               : vc_find(c->ctx, VC_SEVERITY_ERROR, "config", VC_HF_CONFIG_NAME,
                         "has no quantization_config, but modules are quantized: %s is the first", m->path);
}

/* Names in the lists of compressed-tensors that are no modules. Where classes are among them, nothing is known. */
static enum vc_status check_lists(const struct check *c)
{
    if (!c->ignored.classes) {
        VC_CALL(vc_check_listed(c->ctx, c->model, "ignore", VC_NAMES_EXACT, c->ignored.n_exact, c->ignored.exact));
    }
    for (size_t i = 0; i < c->n_groups; i++) {
        const struct names *targets = &c->groups[i].targets;

        if (!targets->classes) {
            VC_CALL(vc_check_listed(c->ctx, c->model, "targets", VC_NAMES_EXACT, targets->n_exact, targets->exact));
        }
    }
    return VC_OK;
}

/* Weights of a quantized model that no reader knows, and zero points beside a loader that leaves them out. */
static enum vc_status check_tensors(const struct check *c)
{
    bool symmetric = vc_json_says(c->config, "quant_method", "gptq") && json_is_true(json_object_get(c->config, "sym"));
    size_t n_path;

    for (size_t i = 0; i < c->model->n_tensors; i++) {
        const struct vc_tensor *t = &c->model->tensors[i];

        if (symmetric && t->quant != NULL && !t->quant->symmetric) {
            VC_CALL(vc_find(c->ctx, VC_SEVERITY_ERROR, "zero-point", t->name,
                            "has zero points beside the middle, and \"sym\" of " VC_HF_CONFIG_NAME
                            " is true: vLLM leaves them out"));
        } else if (t->quant == NULL && t->n_dims == 2 && vc_is_float8(t->dtype) &&
                   vc_name_is_module_weight(t->name, &n_path)) {
            VC_CALL(vc_find(c->ctx, VC_SEVERITY_ERROR, "companion", t->name,
                            "has no scale beside it that fits, and the loader of " VC_HF_CONFIG_NAME " needs one"));
        }
    }
    return VC_OK;
}

/* What is asked, by method:
 *
 *     none, or null           codes that nobody describes; global scales
 *     bitsandbytes            each module against the skip list, then the list against the modules
 *     compressed-tensors      groups, layers that are joined, global scales, the lists
 *     fp8, modelopt           layers that are joined, global scales
 *     gptq, awq, others       tensors alone (check_tensors), global scales */
static enum vc_status check_modules(struct check *c)
{
    const json_t *stage = json_object_get(c->config, "quantization_status");

    if (c->config == NULL || json_is_null(c->config)) {
        VC_CALL(each_module(c, check_unsaid));
        return each_module(c, check_global);
    }
    VC_CALL(check_tensors(c));
    if (vc_json_says(c->config, "quant_method", "bitsandbytes") &&
        (json_is_true(json_object_get(c->config, "load_in_8bit")) ||
         json_is_true(json_object_get(c->config, "load_in_4bit")))) {
        VC_CALL(each_module(c, check_bnb));
        return check_bnb_list(c);
    }
    if (!vc_json_says(c->config, "quant_method", "compressed-tensors") || vc_json_says(c->config, "format", "dense") ||
        (stage != NULL && !vc_json_says(c->config, "quantization_status", "compressed"))) {
        /* Other methods have other parts; weights may be kept plain until they are compressed. */
        if (vc_json_says(c->config, "quant_method", "fp8") || vc_json_says(c->config, "quant_method", "modelopt")) {
            VC_CALL(each_module(c, check_joined));
        }
        return each_module(c, check_global);
    }
    VC_CALL(read_config(c));
    VC_CALL(each_module(c, check_compressed));
    VC_CALL(each_module(c, check_joined));
    VC_CALL(each_module(c, check_global));
    return check_lists(c);
}

enum vc_status vc_check_config(struct vc_ctx *ctx, const struct vc_model *model)
{
    struct check c = {.ctx = ctx, .model = model};
    VC_SCOPED_JSON struct hf_json json = {0};
    VC_SCOPED char *text = NULL;
    size_t n = 0;
    enum vc_status status;

    /* An unreadable config.json is a finding, no failure. c.path has room for any name and the longest tail,
     * ".weight_zero_point". */
    VC_TRY(vc_hf_config_read_beside(ctx, model->path, &text, &n));
    if (text == NULL) {
        return VC_OK;
    }
    status = vc_hf_json_load(ctx, text, n, false, &json);
    if (status != VC_OK) {
        VC_TRY(vc_collect(ctx, status, "config", VC_HF_CONFIG_NAME));
        goto out;
    }
    VC_TRY_ALLOC(c.path = vc_model_name_room(ctx, model, 32));
    c.config = json_object_get(json.root, "quantization_config");
    VC_TRY(check_modules(&c));
out:
    VC_FREE_ALL(ctx, c.path, c.groups);
    vc_arena_release(ctx, &c.arena);
    return status;
}
