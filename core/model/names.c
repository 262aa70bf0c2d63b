/* names.c - see names.h. */
#include "core/model/names.h"

#include <string.h>

#include "core/base/glob.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static bool matches(const char *const *globs, size_t n, const char *name)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (vc_glob_match(globs[i], name)) {
            return true;
        }
    }
    return false;
}

bool vc_name_is_module_weight(const char *name, size_t *n_path)
{
    size_t n = strlen(name);

    *n_path = n > 7 ? n - 7 : 0;
    return strcmp(name, "weight") == 0 || (n > 7 && strcmp(name + n - 7, ".weight") == 0);
}

bool vc_name_is_embedding(const char *name)
{
    static const char *const globs[] = {"*embed*", "*Embed*", "wte.*",         "*.wte.*",
                                        "wpe.*",   "*.wpe.*", "shared.weight", "*.shared.weight"};

    return matches(globs, N_OF(globs), name);
}

bool vc_name_is_embedding_table(const char *name)
{
    static const char *const globs[] = {
        "*embed_tokens.weight", "*embeddings.weight", "*embedding.weight", "*embed_positions.weight",
        "embed.weight",         "*.embed.weight",     "wte.weight",        "*.wte.weight",
        "wpe.weight",           "*.wpe.weight",       "shared.weight",     "*.shared.weight"};

    return matches(globs, N_OF(globs), name);
}

bool vc_name_is_head(const char *name)
{
    static const char *const globs[] = {"lm_head.*",     "*.lm_head.*",       "embed_out.*",
                                        "output.weight", "head.weight",       "*.head.weight",
                                        "score.weight",  "classifier.weight", "*.classifier.weight"};

    return matches(globs, N_OF(globs), name);
}

bool vc_name_is_quantized_part(const char *name)
{
    static const char *const globs[] = {"*weight_packed",
                                        "*weight_scale",
                                        "*weight_scale_inv",
                                        "*weight_scale_2",
                                        "*weight_shape",
                                        "*weight_global_scale",
                                        "*weight_zero_point",
                                        "*weight_g_idx",
                                        "*input_scale",
                                        "*input_global_scale",
                                        "*input_zero_point",
                                        "*output_scale",
                                        "*output_zero_point",
                                        "*.SCB",
                                        "*.weight_format",
                                        "*.weight.absmax",
                                        "*.weight.quant_map",
                                        "*.weight.nested_*",
                                        "*.weight.quant_state.*",
                                        "*.qweight",
                                        "*.qzeros",
                                        "*.scales",
                                        "*.g_idx"};

    return matches(globs, N_OF(globs), name);
}
