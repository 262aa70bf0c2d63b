/* passes.c - see passes.h.
 *
 * A new pass is a row in its command's file and its name in pass_rows. */
#include "tools/convert/passes.h"

#include <stdlib.h>
#include <string.h>

/* In the order in which sentences name them. */
const struct pass_row *const pass_rows[] = {&pass_quantize,   &pass_prune, &pass_distill,
                                            &pass_dequantize, &pass_merge, NULL};

/* NULL: no pass has that name. */
const struct pass_row *pass_find(const char *name)
{
    for (size_t i = 0; pass_rows[i] != NULL; i++) {
        if (strcmp(pass_rows[i]->command->name, name) == 0) {
            return pass_rows[i];
        }
    }
    return NULL;
}

/* Zeros, the defaults of all commands that write, then those of the pass. */
void *pass_options_create(const struct pass_row *row)
{
    void *cli = calloc(1, row->size);

    if (cli != NULL) {
        convert_defaults(cli);
        row->begin(cli);
    }
    return cli;
}

/* The options themselves, and what `end` frees of them. */
void pass_options_free(const struct pass_row *row, void *cli)
{
    if (cli != NULL && row->end != NULL) {
        row->end(cli);
    }
    free(cli);
}

/* The structure is on the heap: its size is known by the row alone. */
int pass_run(struct app *app, const struct pass_row *row, int n_args, char **args)
{
    void *cli = pass_options_create(row);
    struct conversion what = {.add = row->add, .user = cli};

    if (cli == NULL) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory for the options");
    }
    int rc = app_parse(app, n_args, args, cli);
    rc = rc == GO_ON ? row->ready(app, cli, &what) : rc;
    rc = rc == GO_ON ? convert_run(app, cli, &what) : rc;
    pass_options_free(row, cli);
    return rc;
}
