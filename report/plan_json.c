/* plan_json.c - recipes for making a model fit, as JSON: vcompress.plan/1 (plan-1.schema.json). */
#include <vcompress/plan.h>

#include "core/text/json_write.h"

static void write_parts(struct vc_json *json, const struct vc_memory_report *r)
{
    vc_json_begin(json, "components", '{', true);
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        vc_json_uint_if(json, vc_memory_kind_name(k), r->components[k].known != VC_KNOWN_NOT, r->components[k].bytes);
    }
    vc_json_end(json, '}');
}

static void write_texts(struct vc_json *json, const char *key, const char *const *texts, size_t n)
{
    vc_json_begin(json, key, '[', n == 0);
    for (size_t k = 0; k < n; k++) {
        vc_json_string(json, NULL, texts[k]);
    }
    vc_json_end(json, ']');
}

static void write_recipe(struct vc_json *json, const struct vc_recipe *recipe, const struct vc_recipe_lines *lines)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "what", recipe->what);
    vc_json_string(json, "verdict", vc_fit_word(&recipe->fit));
    vc_json_uint(json, "need_bytes", recipe->fit.need_bytes);
    vc_json_int(json, "headroom_bytes", recipe->fit.headroom_bytes);
    vc_json_real(json, "error", recipe->error);
    vc_json_string(json, "error_known", recipe->error == 0 ? "exact" : recipe->measured ? "measured" : "assumed");
    vc_json_real(json, "time", recipe->time);
    vc_json_line(json);
    vc_json_known(json, "batch", recipe->batch);
    vc_json_uint(json, "accumulate", recipe->accumulate);
    vc_json_uint(json, "context_tokens", recipe->memory->context_tokens);
    vc_json_real(json, "pruned", recipe->pruned);
    vc_json_bool(json, "does_less", recipe->does_less);
    vc_json_line(json);
    write_parts(json, recipe->report);
    vc_json_line(json);
    write_texts(json, "passes", recipe->passes, recipe->n_passes);
    vc_json_line(json);
    write_texts(json, "commands", lines == NULL ? NULL : lines->lines, lines == NULL ? 0 : lines->n);
    vc_json_end(json, '}');
}

enum vc_status vc_recipes_json(struct vc_ctx *ctx, const struct vc_recipes *recipes, const char *gpu, const char *path,
                               const struct vc_recipe_lines *lines, char **text)
{
    const struct vc_recipe *recipe = vc_recipe(recipes, 0);
    struct vc_text document;
    struct vc_json json;

    vc_json_open(&json, &document, ctx, '{', "vcompress.plan/1");
    vc_json_string(&json, "version", vc_version());
    vc_json_string(&json, "model", path);
    vc_json_string(&json, "gpu", gpu);
    vc_json_known(&json, "usable_bytes", recipe == NULL ? 0 : recipe->fit.usable_bytes);
    vc_json_string(&json, "unknown", recipe == NULL ? NULL : recipe->report->unknown);
    vc_json_uint_if(&json, "best", vc_recipes_best(recipes) != VC_NO_RECIPE, vc_recipes_best(recipes));
    vc_json_begin(&json, "recipes", '[', false);
    for (size_t k = 0; (recipe = vc_recipe(recipes, k)) != NULL; k++) {
        write_recipe(&json, recipe, lines == NULL ? NULL : &lines[k]);
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    vc_text_add(&document, "\n");
    return vc_json_finish(&json, text);
}
