/* dialect.c - see dialect.h. Knows no row. */
#include "core/model/dialect.h"

bool vc_dialect_takes(const struct vc_dialect *dialect, const char *scheme)
{
    const char *const *name = dialect->schemes;

    while (name != NULL && *name != NULL && strcmp(*name, scheme) != 0) {
        name++;
    }
    return name == NULL || *name != NULL;
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

enum vc_status vc_dialect_check(struct vc_ctx *ctx, const struct vc_dialect *dialect,
                                const struct vc_dialect_request *request)
{
    if (dialect == NULL) {
        return VC_OK;
    }
    VC_REFUSE_IF(!vc_dialect_takes(dialect, request->scheme), ctx, VC_E_ARGUMENT,
                 "the layout %s has no place for codes of %s%s%s", dialect->name, request->scheme,
                 dialect->instead != NULL ? "; " : "", or_empty(dialect->instead));
    VC_REFUSE_IF(request->double_quant && !dialect->coded_scales, ctx, VC_E_ARGUMENT,
                 "the layout %s has no place for scales that are codes (%s), which %s bitsandbytes has", dialect->name,
                 vc_option(ctx, "double_quant"), vc_option(ctx, "layout"));
    return dialect->check == NULL ? VC_OK : dialect->check(ctx, request);
}

const char *vc_dialect_reason(const struct vc_dialect *dialect, const struct vc_dialect_request *request,
                              const struct vc_dialect_tensor *tensor)
{
    return dialect == NULL || dialect->reason == NULL ? NULL : dialect->reason(request, tensor);
}

enum vc_dtype vc_dialect_part_type(const struct vc_dialect *dialect, const struct vc_dialect_request *request,
                                   const struct vc_dialect_tensor *tensor, enum vc_part_role role, enum vc_dtype usual)
{
    return dialect == NULL || dialect->part_type == NULL ? usual : dialect->part_type(request, tensor, role, usual);
}

bool vc_dialect_keeps_type(const struct vc_dialect *dialect, const struct vc_dialect_tensor *tensor)
{
    return dialect != NULL && dialect->keeps_type != NULL && dialect->keeps_type(tensor);
}

struct vc_layout vc_dialect_layout(const struct vc_dialect *dialect, const struct vc_loader *loader)
{
    return (struct vc_layout){.name = dialect->name,
                              .loader = or_empty(loader->program),
                              .tried = or_empty(loader->tried),
                              .needs = or_empty(loader->needs)};
}

/* The row that has the parts of this one. */
static const struct vc_dialect *parts_of(const struct vc_dialect *dialect)
{
    return dialect->same_parts_as != NULL ? dialect->same_parts_as : dialect;
}

const struct vc_dialect *vc_dialect_common(const struct vc_dialect *a, const struct vc_dialect *b)
{
    if (a == b || a == NULL || b == NULL) {
        return a == b ? a : NULL;
    }
    return parts_of(a) == parts_of(b) ? parts_of(a) : NULL;
}
