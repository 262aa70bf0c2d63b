/* torch_files.c - see torch_files.h. */
#include "torch_files.h"

struct vc_model *open_saved(struct vc_ctx *ctx, const char *name, const char *key)
{
    struct vc_open_options options = support_open();
    struct vc_model *model = NULL;

    options.key = key;
    if (vc_model_open(ctx, in_folder(name), &options, &model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return model;
}

/* ---- files ---- */

void entry(struct bytes *b, const char *key, const char *storage, const char *number, int64_t numel, const char *size,
           const char *stride)
{
    pk_string(b, key);
    pk_tensor(b, storage, number, numel, 0, size, stride);
}

/* {"w": f32 (8, 64), "b": i64 (3,)} */
static void plain_dict(struct bytes *b)
{
    pk_raw(b, "}(");
    entry(b, "w", "FloatStorage", "0", 512, "8,64", "64,1");
    entry(b, "b", "LongStorage", "1", 3, "3", "1");
    pk_raw(b, "u");
}

const size_t plain_sizes[] = {2048, 24};

struct bytes plain_pickle(void)
{
    struct bytes b = {NULL, 0, 0};

    pk_start(&b);
    plain_dict(&b);
    pk_raw(&b, ".");
    return b;
}

/* A training checkpoint: the model with a tied tensor, an optimizer, and what scripts save beside them. */
struct bytes training_pickle(void)
{
    struct bytes b = {NULL, 0, 0};

    pk_start(&b);
    pk_raw(&b, "}(");
    pk_string(&b, "epoch");
    pk_int(&b, 7);
    pk_string(&b, "model_state_dict");
    pk_global(&b, "collections", "OrderedDict");
    pk_raw(&b, ")R(");
    entry(&b, "w", "FloatStorage", "0", 512, "8,64", "64,1");
    entry(&b, "tied", "FloatStorage", "0", 512, "8,64", "64,1");
    entry(&b, "b", "LongStorage", "1", 3, "3", "1");
    pk_raw(&b, "u}(");
    pk_string(&b, "_metadata");
    pk_raw(&b, "}(");
    pk_string(&b, "version");
    pk_int(&b, 2);
    pk_raw(&b, "uub");
    pk_string(&b, "optimizer");
    pk_raw(&b, "}(");
    pk_string(&b, "state");
    pk_raw(&b, "}(K\x05}(");
    entry(&b, "exp_avg", "FloatStorage", "2", 512, "8,64", "64,1");
    pk_raw(&b, "uu");
    pk_string(&b, "lr");
    bytes_add(&b, "G\x3f\xb9\x99\x99\x99\x99\x99\x9au", 10);
    pk_string(&b, "args");
    pk_global(&b, "argparse", "Namespace");
    pk_raw(&b, ")\x81}(");
    pk_string(&b, "name");
    pk_string(&b, "x");
    pk_raw(&b, "ub");
    pk_string(&b, "rng");
    pk_tensor(&b, "ByteStorage", "3", 5, 0, "5", "1");
    pk_raw(&b, "u.");
    return b;
}

const size_t training_sizes[] = {2048, 24, 2048, 5};

void save_training(const char *name)
{
    struct bytes pickle = training_pickle();
    struct bytes b = torch_archive(&pickle, "little", training_sizes, 4, NULL);

    (void)save(name, &b);
    bytes_release(&b);
    bytes_release(&pickle);
}
