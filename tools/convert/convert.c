/* convert.c - from the command line to a finished conversion: what quantize, dequantize and convert share. Options of
 * selection and output, the output's name, then for every INPUT plan, run, report and gates. Decides nothing about
 * tensors: that is the library's work.
 *
 * The way of a run, with the functions of this file in order:
 *
 *     list_emitted, check_words, check_several, check_extensions     words alone, before a file is opened: exit 2
 *     app_open, read_baseline, targets_find                          the context, files beside the model
 *     check_names, inputs_make_folder                                several inputs: no two outputs of one name
 *     for every INPUT: convert_input
 *         vc_model_open, check_folder, make_name, check_promises     what depends on the model
 *         vc_job_create, what->add                                   the passes
 *         finish: plan, must-fit, run, digest, report, gates */
#include "tools/convert/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/each_input.h"
#include "tools/options/library_names.h"
#include "tools/show/documents.h"
#include "tools/show/print_report.h"

/* ---- options ---- */

/* --include and --exclude. The order in which both are given decides (the last match wins), so they share one list. */
static bool add_rule(void *group, const char *glob, bool include)
{
    struct convert_options *options = group;

    if (options->n_rules == MAX_RULES || glob[0] == '\0') {
        return false;
    }
    options->rules[options->n_rules++] = (struct vc_rule){.glob = glob, .include = include};
    return true;
}

static bool take_include(void *group, const char *value)
{
    return add_rule(group, value, true);
}

static bool take_exclude(void *group, const char *value)
{
    return add_rule(group, value, false);
}

/* --deflate without a value means auto. */
static bool take_deflate(void *group, const char *value)
{
    static const struct opt_word words[] = {
        {"auto", VC_DEFLATE_AUTO}, {"zlib", VC_DEFLATE_ZLIB}, {"isal", VC_DEFLATE_ISAL}, {NULL, 0}};
    int kind = VC_DEFLATE_AUTO;
    bool known = value == NULL || options_choice(words, value, &kind);

    ((struct convert_options *)group)->write.deflate = (enum vc_deflate)kind;
    return known;
}

/* --void-as has one value so far; the field takes it in any case, since a wrong value ends the run. */
static bool take_void_as(void *group, const char *value)
{
    ((struct convert_options *)group)->open.void_as = VC_DTYPE_BF16;
    return strcmp(value, "bf16") == 0;
}

/* --emit a.npz,b.npz. The names are cut later, by list_emitted, which needs the app to own the copies. */
static bool take_emit(void *group, const char *value)
{
    struct convert_options *options = group;

    if (options->n_lists == VC_MAX_OUTPUTS || value[0] == '\0') {
        return false;
    }
    options->lists[options->n_lists++] = value;
    return true;
}

/* "general.name=Tiny": the key is copied, since it ends in the middle of the argument. */
static bool take_metadata(void *group, const char *value)
{
    struct convert_options *options = group;
    struct vc_write_options *write = &options->write;
    const char *equals = strchr(value, '=');
    size_t n = equals != NULL ? (size_t)(equals - value) : 0;
    size_t at = write->n_metadata;

    if (n == 0 || n >= MAX_METADATA_KEY || at == MAX_METADATA) {
        return false;
    }
    memcpy(options->metadata_keys[at], value, n);
    options->metadata_keys[at][n] = '\0';
    options->metadata[at] = (struct vc_metadata_entry){options->metadata_keys[at], equals + 1};
    write->metadata = options->metadata;
    write->n_metadata++;
    return true;
}

/* --target-gpu: a device to report on. --must-fit is the same with a gate. */
static bool take_target(void *group, const char *value)
{
    struct targets *targets = &((struct convert_options *)group)->targets;

    if (targets->n == MAX_TARGETS) {
        return false;
    }
    targets->names[targets->n++] = value;
    return true;
}

/* --must-fit is a target like those of --target-gpu, of which the answer decides the exit status. */
static bool take_must(void *group, const char *value)
{
    struct targets *targets = &((struct convert_options *)group)->targets;

    if (!take_target(group, value)) {
        return false;
    }
    targets->must[targets->n - 1] = true;
    return true;
}

/* --force-foreign includes --force. */
static bool take_foreign(void *group, const char *value)
{
    struct vc_write_options *write = &((struct convert_options *)group)->write;

    write->force = true;
    write->force_foreign = 1;
    return true;
}

static bool take_strip(void *group, const char *value)
{
    ((struct convert_options *)group)->write.strip = 1;
    return true;
}

/* "0.02" or "2%". False for text that is no number, or that goes on behind it. The range is the caller's matter. */
static bool parse_share(const char *value, double *share)
{
    char *end;

    *share = strtod(value, &end);
    if (end != value && strcmp(end, "%") == 0) {
        *share /= 100.0;
        end++;
    }
    return end != value && *end == '\0';
}

/* Above 0, at most all. */
bool expected_share(const char *value, double *share)
{
    return parse_share(value, share) && *share > 0.0 && *share <= 1.0;
}

/* 0 is allowed: nothing may grow. */
bool growth_share(const char *value, double *share)
{
    return parse_share(value, share) && *share >= 0.0 && *share < 1e6;
}

static bool take_growth(void *group, const char *value)
{
    return growth_share(value, &((struct convert_options *)group)->write.max_growth);
}

/* --shard 2/8. Nine digits fit an unsigned; %n says where the text ended, so that "2/8x" is refused. */
static bool take_shard(void *group, const char *value)
{
    struct vc_write_options *write = &((struct convert_options *)group)->write;
    int end = 0;

    return sscanf(value, "%9u/%9u%n", &write->shard, &write->n_shards, &end) == 2 && value[end] == '\0' &&
           write->shard >= 1 && write->shard <= write->n_shards;
}

bool dropped_role(const char *value, int *role)
{
    static const struct opt_word words[] = {{"optimizer", VC_ROLE_OPTIMIZER}, {"other", VC_ROLE_OTHER}, {NULL, 0}};

    return options_choice(words, value, role);
}

/* --drop optimizer and --drop other, repeatable: both may be given. */
static bool take_drop(void *group, const char *value)
{
    int role = 0;
    bool known = dropped_role(value, &role);

    if (known) {
        ((struct convert_options *)group)->drop[role] = true;
    }
    return known;
}

static bool take_expected(void *group, const char *value)
{
    return expected_share(value, &((struct convert_options *)group)->write.expect_sparsity);
}

#define WRITE(member) OPT_FIELD(struct convert_options, write.member)

/* Which tensors a pass works on. */
/* clang-format off */
static const struct opt select_opts[] = {
    {.name = "include", .value = "GLOB", .kind = OPT_CALL, .call = take_include, .option = "include=true",
     .help = "work on tensors whose name matches, whatever the default rules say; the last match wins"},
    {.name = "exclude", .value = "GLOB", .kind = OPT_CALL, .call = take_exclude, .option = "include=false",
     .help = "keep tensors whose name matches; the last match wins"},
};

/* Where the output goes and what it may look like, then its gates, then what only some formats have. All commands that
 * write a converted model have this group. */
static const struct opt write_opts[] = {
    /* names */
    {.name = "output", .letter = 'o', .by_letter = true, .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, WRITE(path),
     .help = "output file, in the format of its extension or of --format, else in the input's format; name/ makes a "
             "GGUF model the folder that transformers loads; - is standard output (default: a name beside the input, "
             "such as model.int8.npz)"},
    {.name = "output-dir", .letter = 'd', .value = "DIR", .kind = OPT_TEXT, .field = offsetof(struct convert_options, folder),
     .conflicts = "output emit", .help = "write into this folder, under the default names of the outputs; a missing folder is created"},
    {.name = "format", .value = "", .more = format_name, .kind = OPT_WORD, WRITE(format),
     .help = "the format of the output, if its name has no extension of a format"},
    {.name = "emit", .value = "FILE,...", .file = FILE_WRITTEN, .file_list = true, .kind = OPT_CALL, .call = take_emit, .option = "emit",
     .help = "more outputs of the same run, each in the format of its extension; all are complete before the first gets "
             "its name"},
    /* what may be replaced */
    {.name = "force", .letter = 'f', .kind = OPT_BOOL, .set = 1, WRITE(force),
     .help = "replace an existing file, or a folder that vcompress wrote and that holds nothing else (never the input)"},
    {.name = "force-foreign", .kind = OPT_CALL, .call = take_foreign, .option = "force_foreign",
     .help = "--force, and replace a model's folder of another program, too, or of a version of vcompress without marks"},
    /* how it is written */
    {.name = "deflate", .value = "auto|zlib|isal", .optional = true, .kind = OPT_CALL, .call = take_deflate, .option = "deflate",
     .help = "compress the members; isal is several times faster, zlib gives the same bytes everywhere, auto takes "
             "isal if the result is as small (default: stored, readable in place)"},
    {.name = "strip", .kind = OPT_CALL, .call = take_strip, .option = "strip",
     .help = "ONNX: leave out what computes nothing: descriptions and metadata, such as the exporter's stack traces, and the "
             "class names that some programs read there"},
    {.name = "remote", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct convert_options, remote),
     .help = "INPUT may lie on another machine, hf:OWNER/NAME[@REVISION][/FILE] or https://...: it is read as the work goes on, and "
             "not kept (needs the plug-in vcompress_http.so; HF_ENDPOINT and HF_TOKEN as the hub's own tools have them)"},
    {.name = "metadata", .value = "KEY=VALUE", .kind = OPT_CALL, .call = take_metadata, .option = "metadata",
     .help = "GGUF, safetensors, ONNX: an entry of the output's metadata, in place of one with its key; repeatable. In GGUF VALUE may "
             "begin with its type, as u32:8192, f32:1e6, bool:true, str:text (else that of the entry there, or a text)"},
    /* what is told */
    {.name = "dry-run", .letter = 'n', .kind = OPT_BOOL, .set = 1, WRITE(dry_run),
     .help = "print the report, write nothing; sizes are exact"},
    {.name = "digest", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct convert_options, digest),
     .help = "print the SHA-256 of every written file, in the form of sha256sum"},
    /* gates, and the baseline that two of them compare with */
    {.name = "max-bytes", .value = "SIZE", .kind = OPT_SIZE, .gate = true, WRITE(max_bytes),
     .help = "gate: write nothing and exit 1 if an output is larger; SIZE in bytes, or with KiB, MiB, GiB"},
    {.name = "min-ratio", .value = "X", .kind = OPT_ABOVE_0, .gate = true, WRITE(min_ratio),
     .help = "gate: write nothing and exit 1 if an output is not X times smaller than the input"},
    {.name = "baseline", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, .gate = true, .field = offsetof(struct convert_options, baseline), .option = "baseline_bytes",
     .help = "gate: write nothing and exit 1 if the output is larger than that of an earlier run, whose report this is (--json=FILE)"},
    {.name = "max-growth", .value = "SHARE", .kind = OPT_CALL, .call = take_growth, .gate = true, .option = "max_growth",
     .wanted = "a share such as 0.02 or 2%",
     .needs = "baseline", .help = "by how much the output may be larger (default 0)"},
    /* GPUs: the question of fit about the output */
    {.name = "target-gpu", .value = "NAME", .kind = OPT_CALL, .call = take_target,
     .help = "report whether the model fits this GPU before and after (vcompress gpus lists names), for inference "
             "with batch 1 and 128 positions, or for the weights alone if the file has no graph; repeatable"},
    {.name = "must-fit", .value = "GPU", .kind = OPT_CALL, .gate = true, .call = take_must,
     .help = "gate: write nothing and exit 1 if the output does not fit this GPU, as --target-gpu reports, or if the "
             "answer is unknown, as without --weights-only of a file that has no graph; repeatable"},
    {.name = "weights-only", .kind = OPT_BOOL, .gate = true, .set = 1, .field = offsetof(struct convert_options, targets.weights_only),
     .needs = "target-gpu must-fit", .help = "ask about the weights alone"},
    {.name = "gpus-file", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, .field = offsetof(struct convert_options, targets.gpus_file),
     .needs = "target-gpu must-fit", .help = "more GPUs (see vcompress gpus --csv)"},
    /* files that are divided */
    {.name = "max-shard-size", .value = "SIZE", .kind = OPT_SIZE, WRITE(max_shard_bytes),
     .help = "safetensors, GGUF: write a folder of files with at most SIZE of tensors each (default: divided as the input)"},
    {.name = "shard", .value = "I/N", .kind = OPT_CALL, .call = take_shard, .option = "shard",
     .wanted = "I/N with I from 1 to N, such as 1/8",
     .help = "do the files of worker I of N only, into the same folder as the other workers; then, but for GGUF, vcompress "
             "index. With -o, safetensors files of other workers may be missing"},
    /* what a training checkpoint has beside its weights */
    {.name = "drop", .value = "optimizer|other", .kind = OPT_CALL, .call = take_drop, .option = "vc_job_drop",
     .help = "drop tensors of a training checkpoint that are not weights: the optimizer's state, or all other; "
             "repeatable"},
    /* how the input is to be read */
    {.name = "key", .value = "NAME", .kind = OPT_TEXT, OPT_FIELD(struct convert_options, open.key),
     .help = "PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)"},
    {.name = "void-as", .value = "bf16", .kind = OPT_CALL, .call = take_void_as, .option = "void_as",
     .help = "what NumPy's raw 2-byte elements (V2) mean"},
    /* folders that become a GGUF model, and the way back */
    {.name = "keep-names", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct convert_options, keep_names), .option = "as_gguf=false",
     .help = "GGUF of a folder: keep names and shapes of tensors, without metadata (default: the model that llama.cpp "
             "runs, made of config.json, tensors and tokenizer)"},
    {.name = "pre", .value = "NAME", .kind = OPT_TEXT, OPT_FIELD(struct convert_options, open.gguf_pre),
     .conflicts = "no-vocab", .help = "GGUF of a folder: tokenizer.ggml.pre, llama.cpp's name for how the tokenizer cuts texts, such as qwen2 "
             "(default: found by the regular expressions in tokenizer.json)"},
    {.name = "no-vocab", .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct convert_options, open.gguf_no_vocab),
     .help = "GGUF of a folder, and the way back: leave the vocabulary out; programs then give numbers of tokens"},
    {.name = "mmproj", .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct convert_options, open.gguf_mmproj),
     .conflicts = "pre no-vocab keep-names", .help = "GGUF of a folder: the vision tower, which llama.cpp loads beside the model for text"},
};

/* A gate for passes that change values: those that only prune or convert have no SQNR. */
static const struct opt values_opts[] = {
    {.name = "min-sqnr", .value = "DB", .kind = OPT_REAL, .gate = true, WRITE(min_sqnr_db),
     .help = "gate: write nothing and exit 1 when a changed tensor stays below this SQNR"},
    {.name = "max-sqnr-drop", .value = "DB", .kind = OPT_ABOVE_0, .gate = true, WRITE(max_sqnr_drop_db),
     .needs = "baseline", .help = "gate: write nothing and exit 1 if the SQNR over all changed tensors is lower than in the earlier run by more than DB"},
};

/* The graph that a gate on a device asks. */
static const struct opt target_graph_opts[] = {
    {.name = "graph", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, .field = offsetof(struct convert_options, targets.graph),
     .needs = "target-gpu must-fit", .conflicts = "weights-only", .help = "what the model computes, if its own file does not say it: a list of layers, ONNX's text, an ONNX file or a config.json"},
};

/* A gate for passes that make zeros. */
static const struct opt zeros_opts[] = {
    {.name = "expect-sparsity", .value = "SHARE", .kind = OPT_CALL, .gate = true, .call = take_expected, .option = "expect_sparsity",
     .wanted = "a share above 0 and at most 1, such as 0.5 or 50%",
     .conflicts = "structured remove", .help = "gate: write nothing and exit 1 when fewer of the pruned weights are zero in the output than pruning each "
             "tensor to this share makes"},
};
/* clang-format on */

const struct opt_group group_select = OPT_GROUP("Selection", select_opts);
const struct opt_group group_write = OPT_GROUP("Output", write_opts);
const struct opt_group group_write_values = OPT_GROUP("Output", values_opts);
const struct opt_group group_write_zeros = OPT_GROUP("Output", zeros_opts);
const struct opt_group group_write_graph = OPT_GROUP("Output", target_graph_opts);

/* Rows of the report are made when they are printed: a model of a million tensors has no list of them. */
void convert_defaults(struct convert_options *options)
{
    vc_open_defaults(&options->open);
    vc_write_defaults(&options->write);
    options->write.rows_on_request = true;
}

/* ---- names ---- */

/* "--emit a.npz,b.npz --emit c.gguf": the three names go to options->emit. Their text is copied to app->own_names,
 * since the arguments are borrowed. GO_ON or a status.
 *
 *     lists[0]        "a.npz,b.npz"                      from argv
 *     lists[1]        "c.gguf"
 *     app->own_names  a.npz\0b.npz\0c.gguf\0             one block, owned by app
 *     emit[]          ^      ^      ^                    what the library gets */
static int list_emitted(struct app *app, struct convert_options *options)
{
    struct vc_write_options *write = &options->write;
    size_t room = 0;

    for (size_t i = 0; i < options->n_lists; i++) {
        room += strlen(options->lists[i]) + 1;
    }
    app->own_names = malloc(room + 1);
    if (app->own_names == NULL) {
        return app_refuse(app, VC_E_NOMEM, "no memory for the names of the outputs");
    }
    char *at = app->own_names;
    write->emit = options->emit;
    for (size_t i = 0; i < options->n_lists; i++) {
        for (const char *name = options->lists[i], *end = name; end != NULL; name = end != NULL ? end + 1 : name) {
            size_t n = strcspn(name, ",");

            end = name[n] == ',' ? name + n : NULL;
            if (n == 0) {
                return app_usage(app, "--emit %s: one of its names is empty", options->lists[i]);
            }
            if (write->n_emit + (write->path != NULL) == VC_MAX_OUTPUTS) {
                return app_usage(app, "--emit: one run writes at most %d outputs", VC_MAX_OUTPUTS);
            }
            memcpy(at, name, n);
            at[n] = '\0';
            options->emit[write->n_emit++] = at;
            at += n + 1;
        }
    }
    return GO_ON;
}

/* Output number i: -o first, then --emit. NULL behind the last. */
static const char *output_name(const struct vc_write_options *write, size_t i)
{
    if (write->path != NULL && i-- == 0) {
        return write->path;
    }
    return i < write->n_emit ? write->emit[i] : NULL;
}

/* An output goes to standard output ("-o -"), so that the report has to go to standard error. */
static bool is_piped(const struct vc_write_options *write)
{
    const char *name;

    for (size_t i = 0; (name = output_name(write, i)) != NULL; i++) {
        if (strcmp(name, "-") == 0) {
            return true;
        }
    }
    return false;
}

/* A folder, or a file of several, goes into a folder, whose name has no extension. In "a.b/small" only the last part
 * counts: it has no point. What a remote name without the extension of a format is was not asked yet: a model of the
 * hub, or an index. */
static bool names_folder(const char *name, const char *input)
{
    const char *slash = strrchr(name, '/');
    bool divided = vc_remote_is(input) ? vc_format_of_name(input) == NULL : vc_path_is_divided(input);

    return strchr(slash != NULL ? slash : name, '.') == NULL && divided;
}

/* ".npy, .npz, ..." of the formats that can be written. Returns `list`. */
static const char *list_extensions(char *list, size_t room)
{
    const char *name;
    size_t n = 0;

    for (size_t i = 0; (name = vc_name_at(VC_NAMES_EXTENSIONS, i)) != NULL && n < room; i++) {
        n += (size_t)snprintf(list + n, room - n, "%s%s", i == 0 ? "" : ", ", name);
    }
    return list;
}

/* The way in which people say that an output is to be a folder: "small/". */
static bool ends_in_slash(const char *name)
{
    size_t n = strlen(name);

    return n != 0 && name[n - 1] == '/';
}

/* A command that goes by the names of its outputs needs them, with an extension that it knows; or --format. back: a
 * folder can be made of the input. GO_ON or a status. The names of folders have no extension; max_shard_bytes says that
 * the output is a folder anyway. */
static int check_extensions(struct app *app, const struct vc_write_options *write, bool back)
{
    const char *input = app->parsed.args[0];
    char known[160];
    const char *name;

    if (write->format != NULL) {
        return GO_ON;
    }
    list_extensions(known, sizeof(known));
    if (output_name(write, 0) == NULL) {
        return app_usage(app, "%s needs --format, or -o FILE, whose extension says the format: %s", app->command->name,
                         known);
    }
    for (size_t i = 0; (name = output_name(write, i)) != NULL; i++) {
        if (strcmp(name, "-") != 0 && vc_format_of_name(name) == NULL && write->max_shard_bytes == 0 &&
            !names_folder(name, input) && !(back && ends_in_slash(name))) {
            return app_usage(app,
                             "%s: %s takes the format from the extension, which must be one of %s; or give "
                             "--format",
                             name, app->command->name, known);
        }
    }
    return GO_ON;
}

/* ".txt" of "a.b/x.txt"; "" where the name has none. */
static const char *extension_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *point = strrchr(base, '.');

    return point != NULL && point != base ? point : "";
}

/* Asks about names that say another kind of file than the one that they get: "x.txt" from model.npz. Folders, names
 * without an extension, and with that of the input, say nothing else. This is about outputs of passes, which keep the
 * input's format: the name is not needed to know the format, and must not contradict it. GO_ON or a status. */
static int check_promises(struct app *app, const struct vc_write_options *write)
{
    const char *name;
    char known[160];

    if (write->format != NULL || write->max_shard_bytes != 0 || vc_path_is_divided(app->subject)) {
        return GO_ON;
    }
    for (size_t i = 0; (name = output_name(write, i)) != NULL; i++) {
        const char *extension = extension_of(name);

        if (extension[0] != '\0' && vc_format_of_name(name) == NULL &&
            strcmp(extension, extension_of(app->subject)) != 0) {
            return app_usage(app, "%s: '%s' is no extension of a format (%s); --format says which one is meant", name,
                             extension, list_extensions(known, sizeof(known)));
        }
    }
    return GO_ON;
}

/* NULL: the format is not known yet. */
static bool is_gguf(const char *format)
{
    return format != NULL && strcmp(format, "gguf") == 0;
}

/* Whether outputs are ONNX files: *all of them, *some of them. */
static void look_for_onnx(const struct vc_write_options *write, bool *all, bool *some)
{
    const char *name = output_name(write, 0);

    *some = write->format != NULL && strcmp(write->format, "onnx") == 0;
    *all = *some || (write->format == NULL && name != NULL);
    for (size_t i = 0; write->format == NULL && (name = output_name(write, i)) != NULL; i++) {
        const char *format = vc_format_of_name(name);
        bool is = format != NULL && strcmp(format, "onnx") == 0;

        *all = *all && is;
        *some = *some || is;
    }
}

/* Whether outputs are GGUF files: *all of them, *some of them. Outputs whose names say no format are GGUF where the
 * command makes GGUF by itself (quantize --gguf: what->gguf). */
static void look_for_gguf(const struct vc_write_options *write, const struct conversion *what, bool *all, bool *some)
{
    const char *name;

    *some = is_gguf(write->format) || (what->gguf && output_name(write, 0) == NULL);
    *all = *some;
    if (write->format != NULL) {
        return;
    }
    for (size_t i = 0; (name = output_name(write, i)) != NULL; i++) {
        const char *format = vc_format_of_name(name);
        bool is = format != NULL ? is_gguf(format) : what->gguf;

        *all = is && (i == 0 || *all);
        *some = *some || is;
    }
}

/* Whether outputs are folders of transformers, if the input is a GGUF model: all names end in a slash, and nothing says
 * that the folder is to hold GGUF files, as divided ones do. */
static bool are_folders(const struct app *app, const struct vc_write_options *write, const struct conversion *what)
{
    const char *name;
    bool all = output_name(write, 0) != NULL && !what->gguf && app->parsed.n_args == 1;

    all = all && (write->format != NULL ? strcmp(write->format, "safetensors") == 0
                                        : write->max_shard_bytes == 0 && !vc_path_is_divided(app->parsed.args[0]));
    for (size_t i = 0; all && (name = output_name(write, i)) != NULL; i++) {
        all = ends_in_slash(name);
    }
    return all;
}

/* A folder becomes one model, with the names of one format; and options about that want such a folder. The rules, with
 * the sentence's reason:
 *
 *     GGUF and other formats in one run    a folder's tensors get other names and shapes in a model for llama.cpp, and
 *                                          one run has one set of tensors; --keep-names avoids that
 *     --pre, --no-vocab, --mmproj          are about the tokenizer of a folder that becomes a GGUF model, or of the way
 *                                          back (as_folder, without --pre)
 *     --keep-names                         is about a folder that becomes a GGUF file
 *
 * made: the library presented a folder as a GGUF model (open.as_gguf), which its path and format show. GO_ON or a
 * status. */
static int check_folder(struct app *app, const struct convert_options *options, const struct conversion *what,
                        const struct vc_model *model)
{
    bool made = strcmp(vc_model_facts(model)->path, app->subject) == 0 && is_gguf(vc_model_facts(model)->format);
    bool folder = vc_path_is_divided(app->subject) && !is_gguf(vc_model_facts(model)->format);
    bool vocabulary = options->open.gguf_pre != NULL || options->open.gguf_no_vocab || options->open.gguf_mmproj;
    bool back = options->open.as_folder && is_gguf(vc_model_facts(model)->format) && options->open.gguf_no_vocab;
    bool all, some;

    if (options->open.as_folder && !is_gguf(vc_model_facts(model)->format) && what->tag[0] == '\0') {
        return check_extensions(app, &options->write, false);
    }
    look_for_onnx(&options->write, &all, &some);
    if (some && !all && folder) {
        return app_usage(
            app, "%s: ONNX files have other tensors than files of other formats: make them in runs of their own",
            app->subject);
    }
    look_for_gguf(&options->write, what, &all, &some);
    if (some && !all && !options->keep_names && folder) {
        return app_usage(
            app,
            "%s: GGUF files for llama.cpp have other tensors than files of other formats: make them in runs "
            "of their own, or keep the names of the folder with --keep-names",
            app->subject);
    }
    if ((vocabulary && !back && !(made && vc_path_is_divided(app->subject))) ||
        (options->keep_names && !(some && folder))) {
        const char *given = options->open.gguf_mmproj ? "mmproj" : "no-vocab";

        given = options->open.gguf_pre != NULL ? "pre" : given;
        return app_usage(app, "--%s is for GGUF files that are made of a folder with a config.json",
                         vocabulary ? given : "keep-names");
    }
    return GO_ON;
}

/* What only makes sense of outputs that have names; and several INPUTs have outputs of their own, whose names are made
 * from theirs. GO_ON or a status. */
static int check_several(struct app *app, const struct convert_options *options, const struct conversion *what)
{
    const struct vc_write_options *write = &options->write;

    if (options->digest && is_piped(write)) {
        return app_usage(app, "--digest: standard output cannot be read back");
    }
    if (options->digest && vc_name_at(VC_NAMES_DIGESTS, 0) == NULL) {
        return app_refuse(app, VC_E_UNSUPPORTED, "--digest: this build has no SHA-256");
    }
    if (app->parsed.n_args <= 1) {
        return GO_ON;
    }
    if (output_name(write, 0) != NULL) {
        return app_usage(app, "%s names one output, but there are %d inputs; --output-dir takes the outputs of all",
                         write->path != NULL ? "-o" : "--emit", app->parsed.n_args);
    }
    if (what->beside != NULL) {
        return app_usage(app, "--mask-out names one file, but there are %d inputs", app->parsed.n_args);
    }
    for (int i = 0; i < app->parsed.n_args; i++) {
        if (strcmp(app->parsed.args[i], "-") == 0) {
            return app_usage(app, "standard input is read alone, not as one of %d inputs", app->parsed.n_args);
        }
    }
    return GO_ON;
}

/* Refuses what is wrong whatever the input holds, before it is opened. Two things cannot share standard output: the
 * model and a JSON document, or the lines of --progress-fd. A model is not written to a terminal. GO_ON or a status;
 * note that the refusal of --json itself is printed as text (json.on = false). */
static int check_words(struct app *app, const struct vc_write_options *write)
{
    bool piped = is_piped(write);

    if (app->parsed.n_args == 0) {
        return app_usage(app, "%s needs an INPUT file; see vcompress %s --help", app->command->name,
                         app->command->name);
    }
    if (output_name(write, 0) == NULL && !write->dry_run && strcmp(app->parsed.args[0], "-") == 0) {
        return app_usage(app, "reading standard input needs a name for the output: -o FILE, or -o - for a pipe");
    }
    if (output_name(write, 0) == NULL && !write->dry_run && vc_remote_is(app->parsed.args[0])) {
        return app_usage(app, "an INPUT of another machine needs a name for the output: -o FILE or -o FOLDER");
    }
    int rc = app_check_gate(app, "min-sqnr", write->min_sqnr_db);
    if (rc == GO_ON) {
        rc = app_check_gate(app, "max-bytes", (double)write->max_bytes);
    }
    GO(rc);
    if (options_seen(&app->parsed, "max-shard-size") && write->max_shard_bytes == 0) {
        return app_usage(app,
                         "--max-shard-size: a file cannot have 0 bytes; without the option the output is divided like "
                         "the input");
    }
    if (piped && app->json.on && app->json.path == NULL) {
        app->json.on = false;
        return app_usage(app, "--json and -o - both want standard output; use --json=FILE");
    }
    if (piped && app->common.progress_fd == STDOUT_FILENO) {
        return app_usage(app, "--progress-fd 1 and -o - both want standard output");
    }
    if (piped && !write->dry_run && !write->force && isatty(1) == 1) {
        return app_usage(app, "-o -: not writing a model to the terminal; use a pipe, or --force");
    }
    if (piped && app->stdout_closed) {
        return app_refuse(app, VC_E_IO, "-o -: standard output is closed");
    }
    return GO_ON;
}

/* The name beside the input, or of that kind in --output-dir. *name is freed with vc_text_free. GO_ON or a status.
 * files_check_made refuses a made name that some option of this run already has for another file. */
static int make_name(struct app *app, const struct vc_model *model, const struct convert_options *options,
                     const struct conversion *what, char **name)
{
    const struct vc_write_options *write = &options->write;
    struct vc_name_options own;

    vc_name_defaults(&own);
    own.tag = what->tag;
    own.input = app->subject;
    own.more_tensors = what->more_tensors;
    own.folder = write->max_shard_bytes != 0;
    own.format = write->format;
    own.into = options->folder;
    enum vc_status status = vc_model_output_name(app->ctx, model, &own, name);
    return status == VC_OK ? files_check_made(app, *name) : app_fail(app, status);
}

/* Only PyTorch files have parts (vc_model_part_count). */
int check_key(struct app *app, const struct vc_model *model, const char *key)
{
    if (key == NULL || vc_model_facts(model)->n_parts != 0) {
        return GO_ON;
    }
    return app_usage(app, "--key works with PyTorch files only; %s is %s", vc_model_facts(model)->path,
                     vc_model_facts(model)->format);
}

/* ---- the run ---- */

/* For --diffable: forgets what differs between two runs of the same conversion. The figures of the conversion itself
 * stay: they are the same on every machine and with any number of threads. */
static void make_diffable(struct vc_report *report)
{
    report->seconds = 0;
    report->threads = 0;
    report->device = "";
    report->device_reason = "";
    report->expected_cpu_seconds = report->expected_card_seconds = 0;
    report->peak_pool_bytes = 0;
    report->peak_rss_bytes = 0;
}

/* Prints the report: the table, unless --quiet or JSON takes its place; the JSON document; the page; the memory. GO_ON
 * or a status. The report is a copy, so that the library's own stays as it is. With --quiet only the digests are
 * printed, and not even these where the document goes to standard output, which has them itself. */
static int show(struct app *app, struct vc_report report, const struct vc_model *model)
{
    int rc = GO_ON;

    signals_end_printing();
    if (app->common.diffable) {
        make_diffable(&report);
    }
    if (app->common.quiet && !(app->json.on && app->json.path == NULL)) {
        print_digests(&app->out, &report);
    }
    if (app_prints(app) && !print_report(app, &report)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the report");
    }
    rc = rc == GO_ON ? document_report(app, &report, model) : rc;
    app_print_memory(app);
    return rc;
}

/* --drop: the roles of tensors that are no weights are numbered without a gap, from the optimizer's state on. */
static enum vc_status drop_unwanted(struct app *app, const struct convert_options *options, struct vc_job *job)
{
    enum vc_status status = VC_OK;

    for (int role = VC_ROLE_OPTIMIZER; status == VC_OK && role <= VC_ROLE_OTHER; role++) {
        if (options->drop[role]) {
            status = vc_job_drop(app->ctx, job, (enum vc_role)role);
        }
    }
    return status;
}

/* At least one device has to be asked about before the run, since it may stop it. */
static bool must_fit(const struct targets *targets)
{
    size_t k = 0;

    while (k < targets->n && !targets->must[k]) {
        k++;
    }
    return k < targets->n;
}

/* Called once the passes are added: plans, runs (unless --dry-run), prints the report. The order of the steps decides
 * what exists when something fails:
 *
 *     plan            sizes are known; a gate that sizes decide stops here, with nothing written
 *     --must-fit      asks with the planned sizes, also before writing
 *     run             writes under temporary names; gates about values stop it before the final names
 *     --digest        reads the files back
 *     the report      printed in every case but a failure
 *     the gates       exit 1, after the report, which says by how much
 *
 * Targets are asked about a second time, now with what was really written. */
static int finish(struct app *app, struct convert_options *options, const struct vc_write_options *write,
                  const struct vc_model *model, struct vc_job *job)
{
    struct vc_report shown;
    bool missed = false;
    int rc = GO_ON;

    options->targets.missed[0] = '\0';
    progress_begin(app);
    enum vc_status status = drop_unwanted(app, options, job);
    if (status == VC_OK) {
        status = vc_job_plan(app->ctx, job, write);
    }
    if (status == VC_OK && must_fit(&options->targets)) {
        shown = *vc_job_report(job);
        rc = targets_ask(app, &options->targets, model, &shown);
        missed = rc == GO_ON && options->targets.missed[0] != '\0';
    }
    if (status == VC_OK && rc == GO_ON && !missed && !write->dry_run) {
        status = vc_job_run(app->ctx, job);
    }
    if (status == VC_OK && rc == GO_ON && !missed && options->digest && !write->dry_run) {
        app->written = true;
        status = vc_job_digest(app->ctx, job);
    }
    progress_end();
    if (status != VC_OK && status != VC_E_GATE) {
        return app_fail(app, status);
    }
    const struct vc_report *report = vc_job_report(job);
    app->written = report->written;
    shown = *report;
    rc = rc == GO_ON ? targets_ask(app, &options->targets, model, &shown) : rc;
    GO(rc == GO_ON ? show(app, shown, model) : rc);
    if (shown.gate_missed != NULL && shown.gate_missed[0] != '\0') {
        return app_gate(app, shown.gate_missed);
    }
    return status == VC_E_GATE ? app_gate(app, vc_ctx_message(app->ctx)) : EXIT_YES;
}

/* ---- the inputs ---- */

/* What every input is worked on with. */
struct work {
    struct convert_options *options;
    const struct conversion *what;
};

/* One open model: checks that need it, the output's name, the job, its pass. A call (call.h) may bring its own writer,
 * and standard input has no name to make one of. Returns the exit status. */
static int convert_model(struct app *app, const struct work *work, const struct vc_model *model)
{
    struct vc_write_options write = work->options->write;
    struct vc_job *job = NULL;
    int rc = check_key(app, model, work->options->open.key);

    rc = rc == GO_ON ? check_folder(app, work->options, work->what, model) : rc;
    write.writer = app->call != NULL ? app->call->writer : NULL;
    if (rc == GO_ON && output_name(&write, 0) == NULL && write.writer == NULL && strcmp(app->subject, "-") != 0) {
        rc = make_name(app, model, work->options, work->what, &app->own_output);
        app->output = app->own_output;
        write.path = app->own_output;
    }
    rc = rc == GO_ON ? check_promises(app, &write) : rc;
    GO(rc == GO_ON ? json_check(app) : rc);
    enum vc_status status = vc_job_create(app->ctx, model, &job);
    if (status == VC_OK && work->what->add != NULL) {
        status = work->what->add(app->ctx, job, model, work->what->user);
    }
    rc = status == VC_OK ? finish(app, work->options, &write, model, job) : app_fail(app, status);
    vc_job_free(job);
    return rc;
}

/* inputs_each calls this with app->subject set to the input. Names of the input before are forgotten. */
static int convert_input(struct app *app, void *user)
{
    const struct work *work = user;
    struct vc_model *model = NULL;

    vc_text_free(app->own_output);
    app->own_output = NULL;
    app->output = work->options->write.path;
    enum vc_status status = vc_model_open(app->ctx, app->subject, &work->options->open, &model);
    int rc = status == VC_OK ? convert_model(app, work, model) : app_fail(app, status);
    vc_model_close(model);
    return rc;
}

/* What each of several inputs will become; NULL for what cannot be opened, which is said in its turn. Two inputs of one
 * name in different folders would otherwise overwrite each other's output in --output-dir. */
static int list_names(struct app *app, const struct work *work, char **names)
{
    int rc = GO_ON;

    for (int i = 0; rc == GO_ON && i < app->parsed.n_args; i++) {
        struct vc_model *model = NULL;

        app->subject = app->parsed.args[i];
        if (vc_model_open(app->ctx, app->subject, &work->options->open, &model) == VC_OK) {
            rc = make_name(app, model, work->options, work->what, &names[i]);
        }
        vc_model_close(model);
    }
    app->subject = NULL;
    return rc == GO_ON ? inputs_check_names(app, names) : rc;
}

/* Makes the names of all outputs before the work on the first begins. Costs one more opening of every input, which
 * reads headers only. GO_ON or a status. */
static int check_names(struct app *app, const struct work *work)
{
    char **names = calloc((size_t)app->parsed.n_args, sizeof(*names));
    int rc = names != NULL ? list_names(app, work, names)
                           : app_refuse(app, VC_E_NOMEM, "not enough memory for %d inputs", app->parsed.n_args);

    for (int i = 0; names != NULL && i < app->parsed.n_args; i++) {
        vc_text_free(names[i]);
    }
    free(names);
    return rc;
}

/* The figures of --baseline, for the gates beside them. GO_ON or a status. A report without sizes, or without an SQNR
 * where --max-sqnr-drop asks for one, is refused: a gate that compares with nothing would always be met. */
static int read_baseline(struct app *app, struct convert_options *options)
{
    struct vc_write_options *write = &options->write;
    enum vc_status status;

    if (options->baseline == NULL) {
        return GO_ON;
    }
    status = vc_report_read_baseline(app->ctx, options->baseline, &write->baseline_bytes, &write->baseline_sqnr_db);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    if (write->baseline_bytes == 0) {
        return app_refuse(app, VC_E_FORMAT, "--baseline %s: does not say how large the output was", options->baseline);
    }
    if (write->max_sqnr_drop_db > 0 && isnan(write->baseline_sqnr_db)) {
        return app_refuse(app, VC_E_FORMAT, "--baseline %s: has no SQNR to compare with", options->baseline);
    }
    return GO_ON;
}

/* How the input is opened depends on the outputs' names (as_gguf, as_folder), so these are looked at first. */
int convert_run(struct app *app, struct convert_options *options, const struct conversion *what)
{
    struct work work = {.options = options, .what = what};
    bool made = false;
    bool some;
    int rc = list_emitted(app, options);

    look_for_gguf(&options->write, what, &options->open.as_gguf, &some);
    options->open.as_gguf = options->open.as_gguf && !options->keep_names;
    look_for_onnx(&options->write, &options->open.as_onnx, &some);
    options->open.onnx_rows =
        what->onnx_rows && (options->write.layout == NULL || strcmp(options->write.layout, "onnx-qdq") != 0);
    options->open.decoded = options->open.as_gguf && (what->decodes || what->requantizes);
    options->open.as_folder = are_folders(app, &options->write, what);
    options->open.pairs = what->pairs;
    options->open.headers = options->write.path; /* of workers (--shard) */
    options->open.shard = options->write.shard;
    options->open.n_shards = options->write.n_shards;
    options->open.reader = app->call != NULL ? app->call->reader : NULL;
    rc = rc == GO_ON ? check_words(app, &options->write) : rc;
    rc = rc == GO_ON ? check_several(app, options, what) : rc;
    if (rc == GO_ON && what->tag[0] == '\0') {
        rc = check_extensions(app, &options->write, options->open.as_folder);
    }
    GO(rc);
    if (is_piped(&options->write)) {
        app_report_to(app, stderr);
    }
    app->subject = app->parsed.args[0];
    app->output = options->write.path;
    rc = app_open(app);
    app->subject = NULL;
    if (rc == GO_ON && options->open.as_gguf && what->merge != NULL) {
        enum vc_status status = what->merge(app->ctx, what->merge_user, &options->open.merge);

        rc = status == VC_OK ? GO_ON : app_fail(app, status);
    }
    rc = rc == GO_ON ? read_baseline(app, options) : rc;
    rc = rc == GO_ON ? targets_find(app, &options->targets) : rc;
    if (rc == GO_ON && app->parsed.n_args > 1) {
        rc = check_names(app, &work);
        rc = rc == GO_ON ? json_check(app) : rc;
    }
    app->subject = NULL;
    if (rc == GO_ON && options->folder != NULL && !options->write.dry_run) {
        rc = inputs_make_folder(app, options->folder, &made);
    }
    rc = rc == GO_ON ? inputs_each(app, convert_input, &work) : rc;
    if (made) {
        (void)rmdir(options->folder); /* stays where something was written */
    }
    targets_close(&options->targets);
    return rc;
}
