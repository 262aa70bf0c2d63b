/* test_pipeline.c - a pipeline of several models: what belongs to which of them, each with the layout of its own
 * loader, outputs that are those of the single folders; what model_index.json may not say; damage; failing allocations.
 * tests/cli/cases/pipeline.test has the command's side, tests/judge/pipelines.py that of diffusers. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vcompress/depth.h>
#include <vcompress/verify.h>

#include "core/model/source.h"
#include "folder_builder.h"
#include "formats/formats.h"
#include "formats/io/outfile_internal.h"
#include "formats_test.h"
#include "tasks.h"

#define INDEX                                                                                            \
    "{\"_class_name\": \"StableDiffusionPipeline\", \"scheduler\": [\"diffusers\", \"DDIMScheduler\"], " \
    "\"unet\": [\"diffusers\", \"UNet2DConditionModel\"], \"text_encoder\": [\"transformers\", "         \
    "\"CLIPTextModel\"], \"safety_checker\": [null, null], \"requires_safety_checker\": false}"
#define UNET_FILE "diffusion_pytorch_model.safetensors"

static char pipe_folder[300];

static const char *in_pipe(const char *name)
{
    static char paths[4][600];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", pipe_folder, name);
    return path;
}

static void add_folder(const char *name)
{
    assert_int_equal(mkdir(in_pipe(name), 0777), 0);
}

static void add_text(const char *name, const char *text)
{
    folder_write(pipe_folder, name, text, strlen(text));
}

/* A file with the weight of a linear layer, [32, 32], and one of an embedding. */
static void add_weights(const char *name, float factor)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"embed.weight\":{\"dtype\":\"F32\",\"shape\":[4,32],\"data_offsets\":[0,512]},"
                                 "\"l.weight\":{\"dtype\":\"F32\",\"shape\":[32,32],\"data_offsets\":[512,4608]}}";
    float values[128 + 1024];
    struct bytes b = {NULL, 0, 0};
    size_t i;

    for (i = 0; i < 128 + 1024; i++) {
        values[i] = factor * (float)(i * 37 % 101) - 0.5F;
    }
    bytes_u64(&b, strlen(header));
    bytes_add(&b, header, strlen(header));
    bytes_add(&b, values, sizeof values);
    folder_write(pipe_folder, name, b.p, b.n);
    bytes_release(&b);
}

static int set_up(void **state)
{
    int failed = scratch_make(state);

    if (failed != 0) {
        return failed;
    }
    snprintf(pipe_folder, sizeof pipe_folder, "%s/pipe", scratch_folder());
    if (mkdir(pipe_folder, 0777) != 0) {
        return -1;
    }
    add_text("model_index.json", INDEX);
    add_folder("scheduler");
    add_text("scheduler/scheduler_config.json", "{}");
    add_folder("unet");
    add_text("unet/config.json", "{\"_class_name\": \"UNet2DConditionModel\"}");
    add_weights("unet/" UNET_FILE, 0.01F);
    add_folder("text_encoder");
    add_text("text_encoder/config.json", "{\"model_type\": \"llama\", \"torch_dtype\": \"float32\"}");
    add_weights("text_encoder/model.safetensors", 0.02F);
    return 0;
}

static const char *out_folder(const char *name)
{
    static char paths[4][600];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", scratch_folder(), name);
    return path;
}

/* ---- reading ---- */

static void test_open(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = must_open(ctx, pipe_folder);
    const struct vc_tensor *own;
    float value;

    (void)state;
    assert_string_equal(vc_model_facts(model)->format, "diffusers");
    assert_string_equal(vc_model_extension(model), "");
    assert_int_equal(vc_model_facts(model)->n_tensors, 4);
    assert_string_equal(vc_model_tensor(model, 1)->name, "text_encoder/l.weight");
    assert_string_equal(vc_model_tensor(model, 3)->name, "unet/l.weight");
    assert_int_equal(vc_model_find(model, "unet/embed.weight"), 2);
    assert_int_equal(vc_model_read(ctx, model, 3, 5, 1, &value, sizeof value), VC_OK);
    assert_true(value == 0.01F * (float)((128 + 5) * 37 % 101) - 0.5F);
    assert_int_equal(vc_model_facts(model)->n_parts, 2);
    assert_string_equal(vc_model_facts(model)->parts[1].name, "unet");
    assert_string_equal(vc_model_facts(model)->parts[1].what, "UNet2DConditionModel of diffusers");
    assert_ptr_equal(vc_model_of(model, 3, &own), model->components[1].model);
    assert_string_equal(own->name, "l.weight");
    assert_null(vc_model_component(model, 4));
    vc_model_close(model);
    assert_int_equal(walk_path(ctx, pipe_folder, NULL), VC_OK);
    test_ctx_done(ctx);
}

/* The run refuses the pipeline, or its opening does. */
static void expect_refused(const char *words)
{
    struct vc_ctx *ctx = test_ctx();

    assert_int_not_equal(walk_path(ctx, pipe_folder, NULL), VC_OK);
    if (strstr(vc_ctx_message(ctx), words) == NULL || strchr(vc_ctx_message(ctx), '\n') != NULL) {
        fail_msg("\"%s\": expected \"%s\"", vc_ctx_message(ctx), words);
    }
    test_ctx_done(ctx);
}

static void expect_index(const char *index, const char *words)
{
    add_text("model_index.json", index);
    expect_refused(words);
}

#define PART(name) "{\"" name "\": [\"diffusers\", \"M\"]}"

static void test_index(void **state)
{
    size_t n = 3000;
    char *deep = malloc(2 * n + 1);
    char *many = malloc((size_t)70 * 40 + 3);
    size_t at = 1;
    int i;

    (void)state;
    assert_non_null(deep);
    assert_non_null(many);
    expect_index("", "model_index.json");
    expect_index("{", "model_index.json: ");
    expect_index("[]", "model_index.json: ");
    expect_index(INDEX "x", "model_index.json: ");
    expect_index(PART("../pipe"), "'../pipe', which is no name of a folder");
    expect_index(PART(".."), "'..', which is no name of a folder");
    expect_index(PART("/tmp"), "'/tmp', which is no name of a folder");
    expect_index(PART(""), "'', which is no name of a folder");
    expect_index(PART("unet/x"), "'unet/x', which is no name of a folder");
    expect_index(PART("vae"), "vae: model_index.json names this part (M of diffusers), and there is no such folder");
    expect_index("{\"unet\": [\"diffusers\", \"M\"], \"unet\": [\"diffusers\", \"N\"]}", "model_index.json");
    expect_index("{\"unet\": \"diffusers\"}", "is a pipeline (model_index.json) of no models that can be read");
    memset(deep, '[', n);
    memset(deep + n, ']', n);
    deep[2 * n] = '\0';
    expect_index(deep, "model_index.json");
    strcpy(many, "{");
    for (i = 0; i < 70; i++) {
        at += (size_t)sprintf(many + at, "%s\"p%d\": [\"diffusers\", \"M\"]", i == 0 ? "" : ",", i);
    }
    strcpy(many + at, "}");
    expect_index(many, "more than 64 parts");
    free(many);
    free(deep);
}

/* More than a megabyte is no such file. */
static void test_large_index(void **state)
{
    size_t n = ((size_t)1 << 20) + 1;
    char *text = malloc(n);

    (void)state;
    assert_non_null(text);
    memset(text, ' ', n);
    memcpy(text, INDEX, sizeof INDEX - 1);
    folder_write(pipe_folder, "model_index.json", text, n);
    expect_refused("model_index.json: is too large: ");
    folder_write(pipe_folder, "model_index.json", text, n - 1);
    free(text);
    test_open(state);
}

/* Parts that are no folders of the pipeline, or no models that can be read. */
static void test_parts(void **state)
{
    (void)state;
    assert_int_equal(rename(in_pipe("unet"), out_folder("elsewhere")), 0);
    expect_refused("unet: model_index.json names this part (UNet2DConditionModel of diffusers), and there is no such");
    assert_int_equal(symlink(out_folder("elsewhere"), in_pipe("unet")), 0);
    expect_refused("unet: is a link, and has to be a folder of the pipeline");
    assert_int_equal(unlink(in_pipe("unet")), 0);
    add_text("unet", "a file");
    expect_refused("unet: is a file, and has to be a folder of the pipeline");
    assert_int_equal(unlink(in_pipe("unet")), 0);
    assert_int_equal(rename(out_folder("elsewhere"), in_pipe("unet")), 0);
    assert_int_equal(rename(in_pipe("unet/" UNET_FILE), out_folder("elsewhere")), 0);
    expect_refused("unet: has a config.json and no weights");
    add_text("unet/model.onnx", "x");
    expect_refused("unet: ");
    assert_int_equal(unlink(in_pipe("unet/model.onnx")), 0);
    add_text("unet/" UNET_FILE, "damaged");
    expect_refused("unet: ");
    assert_int_equal(rename(out_folder("elsewhere"), in_pipe("unet/" UNET_FILE)), 0);
    test_open(state);
}

/* verify names what it finds by the component. */
static void test_findings(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_verification *found = NULL;
    bool of_vae = false;
    bool of_unet = false;
    size_t i;

    (void)state;
    add_text("unet/" UNET_FILE, "damaged");
    add_text("model_index.json",
             "{\"unet\": [\"diffusers\", \"M\"], \"vae\": [\"diffusers\", \"N\"], \"text_encoder\": "
             "[\"transformers\", \"T\"]}");
    assert_int_equal(vc_verify(ctx, pipe_folder, NULL, &found), VC_OK);
    for (i = 0; i < found->n_findings; i++) {
        of_vae = of_vae || strcmp(found->findings[i].tensor, "vae") == 0;
        of_unet = of_unet || strncmp(found->findings[i].tensor, "unet", 4) == 0;
    }
    assert_true(of_vae);
    assert_true(of_unet);
    assert_int_equal(found->n_tensors, 2);
    vc_result_free(found);
    vc_ctx_free(ctx); /* keeps the kernels */
}

/* What is wrong with model_index.json, or with all of its parts, is a finding, and there are no tensors. */
static void test_damaged_index(void **state)
{
    static const struct {
        const char *index, *words;
    } cases[] = {
        {"{\"unet\": ", "model_index.json: is no valid JSON: line 1"},
        {"[]", "model_index.json: is no JSON object"},
        {"{\"../unet\": [\"diffusers\", \"M\"]}", "model_index.json: has a part '../unet'"},
        {"{\"vae\": [\"diffusers\", \"M\"]}", "model_index.json names this part (M of diffusers)"},
    };
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct vc_verification *found = NULL;

        add_text("model_index.json", cases[k].index);
        assert_int_equal(vc_verify(ctx, pipe_folder, NULL, &found), VC_OK);
        assert_int_equal(found->n_errors, 1);
        assert_non_null(strstr(found->findings[0].sentence, cases[k].words));
        assert_int_equal(found->n_tensors, 0);
        assert_string_equal(found->format, "diffusers");
        vc_result_free(found);
    }
    vc_ctx_free(ctx);
}

/* ---- writing ---- */

/* The files of a component are those that its own folder gives. */
static void expect_like_alone(struct vc_ctx *ctx, struct task task, const char *component, const char *file)
{
    char from[600];
    char path[600];

    snprintf(from, sizeof from, "%s/%s", pipe_folder, component);
    must_run(ctx, from, out_folder("alone"), task);
    snprintf(path, sizeof path, "%s/%s/%s", out_folder("out"), component, file);
    snprintf(from, sizeof from, "%s/%s", out_folder("alone"), file);
    expect_same(path, from);
    snprintf(path, sizeof path, "%s/%s/config.json", out_folder("out"), component);
    snprintf(from, sizeof from, "%s/config.json", out_folder("alone"));
    expect_same(path, from);
    remove_path(out_folder("alone"));
}

/* A job without an output: everything is computed, nothing is written. */
static void test_no_output(void **state)
{
    struct vc_write_options write = support_write(NULL);
    struct vc_quantize_options quantize = support_quantize();
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = must_open(ctx, pipe_folder);
    struct vc_job *job = NULL;

    (void)state;
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &quantize), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    assert_true(vc_job_report(job)->totals.file_after < vc_job_report(job)->totals.file_before);
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
    assert_int_equal(count_files(), 1);
}

static void test_cast(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    must_run(ctx, pipe_folder, out_folder("out"), task_fp16());
    expect_like_alone(ctx, task_fp16(), "unet", UNET_FILE);
    expect_like_alone(ctx, task_fp16(), "text_encoder", "model.safetensors");
    expect_same(out_folder("out/model_index.json"), in_pipe("model_index.json"));
    expect_same(out_folder("out/scheduler/scheduler_config.json"), in_pipe("scheduler/scheduler_config.json"));
    must_run(ctx, pipe_folder, out_folder("out"), task_fp16()); /* replaces what an earlier run wrote */
    vc_ctx_free(ctx);                                           /* keeps the kernels */
}

/* The component whose loader takes no int8 keeps its weights, and the report says so. */
static void test_int8(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;

    (void)state;
    must_run(ctx, pipe_folder, out_folder("out"), task_int8());
    assert_non_null(strstr(last_report.note, "unet: no int8 (its config.json is that of a diffusers model"));
    expect_like_alone(ctx, task_int8(), "text_encoder", "model.safetensors");
    expect_same(out_folder("out/unet/config.json"), in_pipe("unet/config.json"));
    assert_true(holds(out_folder("out/text_encoder/config.json"), "compressed-tensors"));
    model = must_open(ctx, out_folder("out"));
    assert_non_null(vc_model_tensor(model, vc_model_find(model, "text_encoder/l.weight"))->quant);
    assert_null(vc_model_tensor(model, vc_model_find(model, "unet/l.weight"))->quant);
    assert_string_equal(vc_model_layout(model)->name, "compressed-tensors");
    assert_string_equal(vc_model_layout(model)->loader, "diffusers");
    vc_model_close(model);
    must_run(ctx, out_folder("out"), out_folder("back"), task_back());
    model = must_open(ctx, out_folder("back"));
    assert_int_equal(vc_model_facts(model)->n_tensors, 4);
    assert_null(vc_model_layout(model));
    vc_model_close(model);
    vc_ctx_free(ctx); /* keeps the kernels */
}

/* Two that are refused for one reason are named together; layers of a pipeline do not go. */
static enum vc_status drop_first(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_depth_options depth;

    vc_depth_defaults(&depth);
    depth.drop = "0";
    return vc_job_add_depth(ctx, job, &depth);
}

static void test_same_reason(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task shorter = task_copy();

    (void)state;
    shorter.add = drop_first;
    add_text("model_index.json",
             "{\"_class_name\": \"StableDiffusionPipeline\", \"unet\": [\"diffusers\", \"UNet2DConditionModel\"], "
             "\"text_encoder\": [\"transformers\", \"CLIPTextModel\"], \"vae\": [\"diffusers\", \"AutoencoderKL\"], "
             "\"text_encoder_2\": [\"transformers\", \"CLIPTextModel\"]}");
    add_folder("vae");
    add_text("vae/config.json", "{\"_class_name\": \"AutoencoderKL\"}");
    add_weights("vae/" UNET_FILE, 0.03F);
    add_folder("text_encoder_2");
    add_text("text_encoder_2/config.json", "{\"model_type\": \"llama\", \"torch_dtype\": \"float32\"}");
    add_weights("text_encoder_2/model.safetensors", 0.04F);
    must_run(ctx, pipe_folder, out_folder("out"), task_int8());
    assert_non_null(strstr(last_report.note, "unet, vae: no int8 (its config.json is that of a diffusers model"));
    assert_true(holds(out_folder("out/text_encoder/config.json"), "compressed-tensors"));
    assert_true(holds(out_folder("out/text_encoder_2/config.json"), "compressed-tensors"));
    remove_path(out_folder("out"));
    assert_int_not_equal(run_task(ctx, pipe_folder, out_folder("out"), &shorter), VC_OK);
    assert_false(exists(out_folder("out")));
    vc_ctx_free(ctx);
}

/* A layout that was asked for is that of all of them. */
static void test_plain(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_int8();
    struct vc_model *model;

    (void)state;
    task.write.layout = "plain";
    must_run(ctx, pipe_folder, out_folder("out"), task);
    model = must_open(ctx, out_folder("out"));
    assert_non_null(vc_model_tensor(model, vc_model_find(model, "unet/l.weight"))->quant);
    assert_string_equal(vc_model_layout(model)->name, "plain");
    assert_string_equal(vc_model_layout(model)->loader, "");
    vc_model_close(model);
    vc_ctx_free(ctx); /* keeps the kernels */
}

/* Where no loader takes int8, and what a pipeline cannot become. */
static void test_refused(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_copy();

    (void)state;
    must_refuse(ctx, pipe_folder, out_folder("out.npz"), task_copy(), "its output is a folder of them");
    must_refuse(ctx, pipe_folder, out_folder("out.safetensors"), task_copy(), "its output is a folder of them");
    task.write.format = "gguf";
    must_refuse(ctx, pipe_folder, out_folder("out"), task, "its output is a folder of them");
    task.write.format = "safetensors";
    must_run(ctx, pipe_folder, out_folder("out"), task);
    remove_path(out_folder("out"));
    task = task_copy();
    task.write.n_shards = 2;
    task.write.shard = 1;
    must_refuse(ctx, pipe_folder, out_folder("out"), task, "divides the files of one model");
    task = task_int8();
    task.quantize.granularity = VC_GRANULARITY_TENSOR;
    task.quantize.granularity_given = true;
    must_refuse(ctx, pipe_folder, out_folder("out"), task, "text_encoder: the layout compressed-tensors takes scales");
    must_refuse(ctx, pipe_folder, in_pipe("out"), task_copy(), "lies in the folder of the input");
    assert_int_equal(symlink("/etc/hostname", in_pipe("scheduler/more.json")), 0);
    must_refuse(ctx, pipe_folder, out_folder("out"), task_copy(), "scheduler/more.json: is a link that leads");
    assert_int_equal(unlink(in_pipe("scheduler/more.json")), 0);
    add_text("text_encoder/config.json", "{\"_class_name\": \"M\"}");
    must_refuse(ctx, pipe_folder, out_folder("out"), task_int8(), "diffusers loads codes on a GPU only");
    vc_ctx_free(ctx); /* keeps the kernels */
}

/* Names of new files are those that the loader of the component looks for, with its variant. */
static void test_names(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_copy();

    (void)state;
    assert_int_equal(rename(in_pipe("unet/" UNET_FILE), in_pipe("unet/diffusion_pytorch_model.fp16.safetensors")), 0);
    add_weights("unet/diffusion_pytorch_model.ema.safetensors", 1.0F);
    expect_refused("unet: is a folder with 2 safetensors files and no index");
    assert_int_equal(unlink(in_pipe("unet/diffusion_pytorch_model.ema.safetensors")), 0);
    task.write.max_shard_bytes = 1000;
    must_run(ctx, pipe_folder, out_folder("out"), task);
    assert_non_null(strstr(last_report.note, "pass variant=\"fp16\" to from_pretrained"));
    assert_true(exists(out_folder("out/unet/diffusion_pytorch_model.fp16-00002-of-00002.safetensors")));
    assert_true(exists(out_folder("out/unet/diffusion_pytorch_model.safetensors.index.fp16.json")));
    assert_true(exists(out_folder("out/text_encoder/model-00002-of-00002.safetensors")));
    assert_true(exists(out_folder("out/text_encoder/model.safetensors.index.json")));
    must_run(ctx, out_folder("out"), out_folder("again"), task_copy());
    assert_true(exists(out_folder("again/unet/diffusion_pytorch_model.safetensors.index.fp16.json")));
    assert_true(exists(out_folder("again/unet/diffusion_pytorch_model.fp16-00001-of-00002.safetensors")));
    remove_path(out_folder("again"));
    /* The file without a variant is the one that a loader takes when it is told nothing. */
    add_weights("unet/" UNET_FILE, 0.01F);
    must_run(ctx, pipe_folder, out_folder("again"), task_copy());
    assert_true(exists(out_folder("again/unet/" UNET_FILE)));
    assert_false(exists(out_folder("again/unet/diffusion_pytorch_model.fp16.safetensors")));
    assert_non_null(strstr(last_report.note, "unet: left behind: diffusion_pytorch_model.fp16.safetensors"));
    vc_ctx_free(ctx); /* keeps the kernels */
}

/* What lies in an older output and no run has written makes --force refuse. */
static void test_replaced(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    must_run(ctx, pipe_folder, out_folder("out"), task_copy());
    folder_write(out_folder("out"), "unet/notes.txt", "x", 1);
    must_refuse(ctx, pipe_folder, out_folder("out"), task_copy(), "holds unet/notes.txt, which no run");
    vc_ctx_free(ctx); /* keeps the kernels */
}

/* ---- damage ---- */

static void test_cuts_and_flips(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    char text[sizeof INDEX];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof INDEX - 1; i++) {
        enum vc_status status;

        folder_write(pipe_folder, "model_index.json", INDEX, i);
        status = walk_path(ctx, pipe_folder, NULL);
        assert_true(status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
        memcpy(text, INDEX, sizeof INDEX);
        text[i] ^= (char)(1 << i % 8);
        folder_write(pipe_folder, "model_index.json", text, sizeof INDEX - 1);
        status = walk_path(ctx, pipe_folder, NULL);
        assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
        assert_true((status == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'));
    }
    test_ctx_done(ctx);
}

/* Every call to the system fails once: each time a sentence, and no output of any kind. The last ones come when the new
 * folder is in its place already. */
static void test_failing_disk(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_int8();
    uint64_t n_calls = vc_outfile_call_count();
    unsigned n_failed = 0;
    uint64_t nth;

    (void)state;
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    must_run(ctx, pipe_folder, out_folder("out"), task);
    n_calls = vc_outfile_call_count() - n_calls;
    for (nth = 1; nth <= n_calls; nth++) {
        enum vc_status status;

        remove_path(out_folder("out"));
        vc_outfile_fail_at(nth);
        status = run_task(ctx, pipe_folder, out_folder("out"), &task);
        vc_outfile_fail_at(0);
        if (status == VC_OK) { /* there was another way */
            assert_int_equal(walk_path(ctx, out_folder("out"), NULL), VC_OK);
            continue;
        }
        assert_int_equal(status, VC_E_IO);
        assert_true(strchr(vc_ctx_message(ctx), '\n') == NULL);
        if (exists(out_folder("out"))) {
            assert_non_null(strstr(vc_ctx_message(ctx), "is complete, but"));
            assert_int_equal(walk_path(ctx, out_folder("out"), NULL), VC_OK);
        } else {
            assert_int_equal(count_files(), 1); /* the pipeline */
        }
        n_failed++;
    }
    assert_true(n_failed > 15);
    vc_ctx_free(ctx); /* keeps the kernels */
}

static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    fail_each_allocation(ctx, pipe_folder, out_folder("out"), task_int8(), 100);
    vc_ctx_free(ctx); /* keeps the kernels */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_open, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_index, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_large_index, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_parts, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_findings, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_damaged_index, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_no_output, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_cast, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_int8, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_same_reason, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_plain, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_refused, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_names, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_replaced, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_cuts_and_flips, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_failing_disk, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_allocations, set_up, scratch_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
