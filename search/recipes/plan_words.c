/* plan_words.c - what a recipe is called, and its command lines: the passes that make the model smaller, and the
 * question that is answered with yes then. */

#include "core/text/text.h"
#include "search/recipes/plan_inside.h"

/* Who keeps codes that the usual loader decodes, or reads a file of GGUF's types: llama.cpp where it has such a model. */
static const char *place_of(const struct vc_weights_form *form)
{
    const struct vc_layout *layout = form->made != NULL ? form->made->layout : NULL;

    if (form->ask != NULL) {
        return form->program == VC_RUN_BY_VLLM ? " kept by vLLM" : " kept by a program of your own";
    }
    if (!form->kept || form->scheme->gguf == NULL) {
        return "";
    }
    return layout == NULL || strcmp(layout->loader, "llama.cpp") == 0 ? " in llama.cpp" : " in a GGUF file";
}

/* Only what differs from the question is told, with ", " before each part: ", int4 weights, batch 4, context of 8192". */
static void describe(const struct vc_planning *p, const struct vc_choice *choice, struct vc_text *text)
{
    static const char *const ways[] = {
        "", "ZeRO 1 over", "ZeRO 2 over", "ZeRO 3 over", "products divided between", "layers divided between"};
    const struct vc_weights_form *form = choice->form;
    const struct vc_memory_options *m = &choice->memory;

    if (form->scheme == NULL && form->ask != NULL) {
        vc_text_add(text, ", codes%s", place_of(form));
    } else if (form->scheme == NULL && form->type != p->memory.weights) {
        vc_text_add(text, ", loaded as %s", vc_search_half(form->type == VC_DTYPE_BF16)->name);
    } else if (form->scheme != NULL) {
        vc_text_add(text, ", %s%s%s", form->kept ? form->scheme->what : form->scheme->name,
                    form->kept ? "" : " weights", place_of(form));
    }
    if (form->share != NULL) {
        vc_text_add(text, ", %.0f %% of the neurons removed", strtod(form->share, NULL) * 100);
    }
    if (choice->experts) {
        vc_text_add(text, ", experts of %" PRIu64 " layers on the host", m->cpu_moe_layers);
    }
    if (choice->narrow_cache) {
        const char *type = vc_dtype_name(m->cache);

        vc_text_add(text, ", keys and values %s",
                    m->cache == VC_DTYPE_F16  ? "fp16"
                    : m->cache == VC_DTYPE_I8 ? "int8"
                                              : type);
    }
    if (choice->recipe.accumulate > 1) {
        vc_text_add(text, ", batch in %" PRIu64 " parts of %" PRIu64, choice->recipe.accumulate, choice->recipe.batch);
    } else if (choice->recipe.batch != p->batch) {
        vc_text_add(text, ", batch %" PRIu64, choice->recipe.batch);
    }
    if (m->context_tokens != p->memory.context_tokens) {
        vc_text_add(text, ", context of %" PRIu64, m->context_tokens);
    }
    if (choice->spread != VC_SPREAD_NONE) {
        vc_text_add(text, ", %s %" PRIu64 " devices", ways[choice->spread], p->options.n_devices);
    }
    if (m->recompute != p->memory.recompute) {
        vc_text_add(text, ", recomputation of %s", m->recompute == VC_RECOMPUTE_LAYER ? "every layer" : "parts");
    }
    vc_text_add(text, "%s%s", m->amp != p->memory.amp ? ", autocast" : "",
                m->optimizer != p->memory.optimizer ? ", 8-bit Adam" : "");
}

const char *vc_plan_words(struct vc_planning *p, const struct vc_choice *choice)
{
    VC_SCOPED_TEXT struct vc_text text;

    vc_text_init(&text, p->ctx);
    describe(p, choice, &text);
    if (text.status == VC_OK && text.n == 0) {
        vc_text_add(&text, ", as it is");
    }
    return text.status == VC_OK ? vc_arena_copy(p->ctx, &p->out->arena, text.data + 2, text.n - 2) : NULL;
}
