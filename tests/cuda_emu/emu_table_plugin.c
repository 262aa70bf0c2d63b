/* emu_table_plugin.c - the plug-in of the emulated card, with a table as one from another build could have it, or as no
 * build has it. The loader must take the former, call the CPU for what is not there, and refuse the latter.
 *
 * VC_EMU_TABLE says which, and is read whenever the loader asks:
 *   full        as it is
 *   short       an older list: the second half of the kernels is beyond the end of the table
 *   nulls       every second kernel is NULL
 *   long        a newer list: more kernels and more members than the library knows
 *   none        every kernel is NULL
 *   no-open     the function that opens a device is NULL
 *   abi:N  struct:N  table:N    these numbers instead of the right ones
 * What lies beyond the end of a table, or beyond what the library knows, ends the process when it is called. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device/backend.h"

#define N_MORE 4 /* kernels that only a newer list has */

VC_API const struct vc_backend *vc_backend_entry(void);

typedef void any_kernel(void);

static union {
    struct vc_kernels kernels;
    struct {
        const char *device;
        any_kernel *kernels[VC_KERNEL_ID_COUNT + N_MORE];
    } slots;
} table;

static struct {
    struct vc_backend known;
    any_kernel *more[2];
} backend;

static void must_not_be_called(void)
{
    fprintf(stderr, "emu_table_plugin: an entry that is not there was called\n");
    abort();
}

/* The number after PREFIX, or `otherwise`. */
static unsigned number_of(const char *kind, const char *prefix, unsigned otherwise)
{
    size_t n = strlen(prefix);

    return strncmp(kind, prefix, n) == 0 ? (unsigned)strtoul(kind + n, NULL, 10) : otherwise;
}

static void change_entries(const char *kind)
{
    for (unsigned i = 0; i < VC_KERNEL_ID_COUNT + N_MORE; i++) {
        if (i >= VC_KERNEL_ID_COUNT || (strcmp(kind, "short") == 0 && i >= VC_KERNEL_ID_COUNT / 2)) {
            table.slots.kernels[i] = must_not_be_called;
        } else if (strcmp(kind, "none") == 0 || (strcmp(kind, "nulls") == 0 && i % 2 == 1)) {
            table.slots.kernels[i] = NULL;
        }
    }
}

static void change_sizes(const char *kind)
{
    struct vc_backend *b = &backend.known;

    if (strcmp(kind, "short") == 0) {
        b->kernels_size = sizeof table.kernels - (VC_KERNEL_ID_COUNT - VC_KERNEL_ID_COUNT / 2) * sizeof(any_kernel *);
    } else if (strcmp(kind, "long") == 0) {
        b->kernels_size = sizeof table.slots;
        b->struct_size = sizeof backend;
    }
    b->abi = number_of(kind, "abi:", b->abi);
    b->struct_size = number_of(kind, "struct:", b->struct_size);
    b->kernels_size = number_of(kind, "table:", (unsigned)b->kernels_size);
}

const struct vc_backend *vc_backend_entry(void)
{
    const char *kind = getenv("VC_EMU_TABLE");
    vc_backend_entry_fn *entry;
    void *library = dlopen(EMU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library == NULL ? NULL : dlsym(library, VC_BACKEND_SYMBOL);

    if (symbol == NULL || kind == NULL) {
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof entry);
    backend.known = *entry();
    table.kernels = *backend.known.kernels;
    backend.known.kernels = &table.kernels;
    change_entries(kind);
    change_sizes(kind);
    if (strcmp(kind, "no-open") == 0) {
        backend.known.open = NULL;
    }
    return &backend.known;
}
