/* plan_words.c - what a recipe is called, and its command lines: the passes that make the model smaller, and the
 * question that is answered with yes then. */
#include <stdlib.h>
#include <string.h>

#include "core/text/text.h"
#include "search/recipes/plan_inside.h"

/* The type as an option has it. */
static const char *type_word(enum vc_dtype type)
{
    return type == VC_DTYPE_F16 ? "fp16" : type == VC_DTYPE_I8 ? "int8" : vc_dtype_name(type);
}

/* One part of the sentence, with a comma before all but the first. */
static void add_part(struct vc_text *text, const char *word, const char *what)
{
    vc_text_add(text, "%s%s%s", text->n != 0 ? ", " : "", word, what);
}

static void add_number(struct vc_text *text, const char *what, uint64_t n)
{
    vc_text_add(text, "%s%s %llu", text->n != 0 ? ", " : "", what, (unsigned long long)n);
}

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

/* Only what differs from the question is told: "int4 weights, batch 4, context of 8192". */
static void describe(const struct vc_planning *p, const struct vc_choice *choice, struct vc_text *text)
{
    const struct vc_weights_form *form = choice->form;
    const struct vc_memory_options *m = &choice->memory;

    if (form->scheme != NULL) {
        add_part(text, form->kept ? form->scheme->what : form->scheme->name, form->kept ? "" : " weights");
        vc_text_add(text, "%s", place_of(form));
    }
    if (form->share != NULL) {
        vc_text_add(text, "%s%.0f %% of the neurons removed", text->n != 0 ? ", " : "",
                    strtod(form->share, NULL) * 100);
    }
    if (choice->experts) {
        add_number(text, "experts of", m->cpu_moe_layers);
        vc_text_add(text, " layers on the host");
    }
    if (choice->narrow_cache) {
        add_part(text, "keys and values ", type_word(m->cache));
    }
    if (choice->accumulate > 1) {
        vc_text_add(text, "%sbatch in %llu parts of %llu", text->n != 0 ? ", " : "",
                    (unsigned long long)choice->accumulate, (unsigned long long)choice->batch);
    } else if (choice->batch != p->batch) {
        add_number(text, "batch", choice->batch);
    }
    if (m->context_tokens != p->memory.context_tokens) {
        add_number(text, "context of", m->context_tokens);
    }
    if (choice->spread != VC_SPREAD_NONE) {
        static const char *const ways[] = {
            "", "ZeRO 1 over", "ZeRO 2 over", "ZeRO 3 over", "products divided between", "layers divided between"};

        add_number(text, ways[choice->spread], p->options.n_devices);
        vc_text_add(text, " devices");
    }
    if (m->recompute != p->memory.recompute) {
        add_part(text, "recomputation of ", m->recompute == VC_RECOMPUTE_LAYER ? "every layer" : "parts");
    }
    if (m->amp != p->memory.amp) {
        add_part(text, "autocast", "");
    }
    if (m->optimizer != p->memory.optimizer) {
        add_part(text, "8-bit Adam", "");
    }
    if (text->n == 0) {
        vc_text_add(text, "as it is");
    }
}

enum vc_status vc_plan_words(struct vc_planning *p, const struct vc_choice *choice, struct vc_recipe *recipe)
{
    const struct vc_weights_form *form = choice->form;
    struct vc_text text;

    vc_text_init(&text, p->ctx);
    describe(p, choice, &text);
    recipe->passes = form->passes;
    recipe->n_passes = form->passes[0] == NULL ? 0 : form->passes[1] == NULL ? 1 : 2;
    recipe->tag = form->tag;
    recipe->more_tensors = form->scheme != NULL && form->scheme->target != VC_TARGET_F16;
    recipe->format = form->kept && form->scheme->gguf != NULL ? "gguf" : NULL;
    recipe->ask = form->ask;
    return vc_text_take(&text, &p->out->arena, &recipe->what);
}
