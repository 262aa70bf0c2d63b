/* schemes.c - see schemes.h.
 *
 *     number    0     1      2 ..                        behind them
 *     row       int8  q8_0   rows of group_codes.c       f16 bf16 f8_e4m3 f8_e5m2 gguf
 *
 * The order is that in which sentences name the schemes and aims list their candidates. */
#include "quantize/schemes/schemes.h"

#include "core/model/code_schemes.h"
#include "passes/decode.h"

const struct vc_scheme_row *vc_scheme_row_at(size_t index)
{
    static const struct vc_scheme_row *const first[] = {&vc_scheme_int8, &vc_scheme_q8_0};
    static const struct vc_scheme_row *const last[] = {&vc_scheme_f16, &vc_scheme_bf16, &vc_scheme_f8_e4m3,
                                                       &vc_scheme_f8_e5m2, &vc_scheme_gguf};
    const size_t n_first = sizeof first / sizeof first[0];
    const size_t n_last = sizeof last / sizeof last[0];

    if (index < n_first) {
        return first[index];
    }
    index -= n_first;
    if (index < vc_scheme_n_groups) {
        return &vc_scheme_groups[index];
    }
    index -= vc_scheme_n_groups;
    return index < n_last ? last[index] : NULL;
}

/* Before a cast, what is beyond f32 may become FLT_MAX: that does not fit f16 and bf16 either, so the policy of the
 * cast still decides. */
enum vc_status vc_scheme_decode(struct vc_ctx *ctx, const struct vc_scheme_row *row, struct vc_item *item)
{
    if (vc_decode_is_f8(item->desc)) {
        return vc_decode_add_f8(ctx, item);
    }
    if (item->desc->quant == NULL && !vc_dtype_is_quantized(item->desc->dtype)) {
        return VC_OK;
    }
    return row->codes ? vc_decode_add(ctx, item, false) : vc_decode_add_codes(ctx, item, VC_OVERFLOW_SATURATE, false);
}

enum vc_status vc_scheme_add(struct vc_ctx *ctx, const struct vc_scheme_row *row, struct vc_item *item,
                             const struct vc_quantize_options *options)
{
    enum vc_dtype weights = vc_desc_weight_dtype(item->desc);
    enum vc_status status = vc_scheme_decode(ctx, row, item);

    return status == VC_OK ? row->add(ctx, item, options, weights) : status;
}

const struct vc_scheme_row *vc_scheme_of_target(enum vc_target target)
{
    const struct vc_scheme_row *row;

    for (size_t i = 0; (row = vc_scheme_row_at(i)) != NULL && row->target != target; i++) {
    }
    return row;
}

const struct vc_scheme_row *vc_scheme_of_flag(const char *word)
{
    const struct vc_scheme_row *row;

    for (size_t i = 0; (row = vc_scheme_row_at(i)) != NULL && strcmp(row->flag + strlen("--"), word) != 0; i++) {
    }
    return row;
}

const struct vc_scheme_row *vc_scheme_of_codes(const struct vc_desc *desc)
{
    enum vc_scheme scheme = desc->quant != NULL ? desc->quant->scheme : VC_SCHEME_NONE;
    const struct vc_scheme_row *row;
    size_t i = 0;

    while ((row = vc_scheme_row_at(i)) != NULL &&
           !(row->codes && row->scheme == scheme && row->result == desc->dtype)) {
        i++;
    }
    return row;
}

/* Schemes with groups by custom (int4: 128) have them unless the user gives a granularity. */
void vc_scheme_settle(struct vc_quantize_options *options)
{
    const struct vc_scheme_row *row = vc_scheme_of_target(options->target);

    uint64_t group = row != NULL ? vc_code_usual_group(vc_code_scheme(row->scheme)) : 0;

    if (group != 0 && !options->granularity_given && options->granularity == VC_GRANULARITY_CHANNEL) {
        options->granularity = VC_GRANULARITY_GROUP;
        options->group_size = group;
    }
}

/* For programs that list the schemes: rows that share a target count once, and GGUF's has an option with a word of its
 * own. */
bool vc_quantize_scheme_at(size_t index, struct vc_quantize_scheme *out)
{
    const struct vc_scheme_row *row;

    for (size_t i = 0; (row = vc_scheme_row_at(i)) != NULL; i++) {
        const char *space = strchr(row->flag, ' ');

        if (row->add != NULL && vc_scheme_of_target(row->target) == row && index-- == 0) {
            *out = (struct vc_quantize_scheme){.name = space != NULL ? space + 1 : row->flag + strlen("--"),
                                               .option = row->flag,
                                               .target = row->target,
                                               .scales = row->codes,
                                               .zero_points = row->codes && (!row->rows_only || row->zero_points),
                                               .axes = row->codes && !row->rows_only};
            return true;
        }
    }
    return false;
}

void vc_scheme_list(char *text, size_t n_bytes)
{
    const struct vc_scheme_row *row;
    const struct vc_scheme_row *last = NULL; /* the last that is the first one of its target */

    for (size_t i = 0; (row = vc_scheme_row_at(i)) != NULL; i++) {
        last = vc_scheme_of_target(row->target) == row ? row : last;
    }
    text[0] = '\0';
    for (size_t i = 0; (row = vc_scheme_row_at(i)) != NULL; i++) {
        if (vc_scheme_of_target(row->target) == row) {
            size_t at = strlen(text);

            (void)snprintf(text + at, n_bytes - at, "%s%s", i == 0 ? "" : row == last ? " or " : ", ", row->name);
        }
    }
}

/* A plan may have several outputs or several models in one; the sentence names the one that refuses. */
enum vc_status vc_scheme_check(struct vc_ctx *ctx, const struct vc_scheme_row *row,
                               const struct vc_quantize_options *options, const struct vc_plan *plan)
{
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < plan->n_targets && status == VC_OK; i++) {
        const struct vc_plan_target *target = &plan->targets[i];
        const struct vc_dialect_request request = vc_scheme_request(row, options, target->model);

        status = vc_dialect_check(ctx, target->dialect, &request);
        if (status != VC_OK && target->name != NULL) {
            status = vc_context(ctx, "%s", target->name);
        }
    }
    return status;
}

/* Of several rows for one target (int8 as codes, or as Q8_0 blocks) the one whose codes the dialect stores. The first
 * one has the codes that are usual. */
const struct vc_scheme_row *vc_scheme_choose(const struct vc_quantize_options *options,
                                             const struct vc_dialect *dialect)
{
    const struct vc_scheme_row *usual = vc_scheme_of_target(options->target);
    const struct vc_scheme_row *row;

    for (size_t i = 0; usual != NULL && (row = vc_scheme_row_at(i)) != NULL; i++) {
        const struct vc_dialect_request request = vc_scheme_request(row, options, NULL);

        if (row->target == options->target &&
            (!row->codes ||
             vc_dialect_part_type(dialect, &request, NULL, VC_PART_CODES, usual->result) == row->result)) {
            return row;
        }
    }
    return NULL;
}

const char *vc_scheme_candidate_name(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_scheme_row *row,
                                     const struct vc_quantize_options *options)
{
    if (!row->codes || row->own_granularity) {
        return vc_dtype_name(row->result);
    }
    return options->granularity == VC_GRANULARITY_GROUP
               ? vc_arena_printf(ctx, arena, "%s/group:%llu", row->name, (unsigned long long)options->group_size)
               : vc_arena_printf(ctx, arena, "%s/%s", row->name, vc_granularity_name(options->granularity));
}
