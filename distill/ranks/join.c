/* join.c - the ranks that this process was started with: what the environment says, the plug-in of MPI, the processors
 * of each. See <vcompress/ranks.h>. */
#include <unistd.h>

#include <vcompress/device.h>

#include "core/base/cpu.h"
#include "core/base/plugin.h"
#include "distill/ranks/collectives.h"

#define PACKAGE "it is built with an MPI (Debian: libopenmpi-dev, openmpi-bin) and installed as component mpi"

static const struct vc_plugin_kind mpi_plugin = {"VCOMPRESS_MPI_PATH", VC_TRANSPORT_FILE, VC_TRANSPORT_SYMBOL, true};

/* ---- what the environment says ---- */

/* How launchers tell a process its number. SLURM_NTASKS is no sign: the script of a job has it, too, which runs once.
 */
static const struct launcher {
    const char *name, *size, *rank;
    bool mpi; /* it starts processes of MPI */
} launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", true},
    {"mpirun", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", true},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", true},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", true},
    {"torchrun", "WORLD_SIZE", "RANK", false},
};

/* A variable that is a number and nothing else. */
static bool read_count(const char *variable, unsigned *out)
{
    const char *text = getenv(variable);
    char end;

    return text != NULL && sscanf(text, "%6u%c", out, &end) == 1;
}

/* This launcher has started several processes, of which this is one. */
static bool started(const struct launcher *launcher, unsigned *rank, unsigned *size)
{
    return read_count(launcher->size, size) && read_count(launcher->rank, rank) && *size > 1;
}

/* The first that says there are several; NULL: none does. srun may have started torchrun, which started this. */
static const struct launcher *find_launcher(unsigned *rank, unsigned *size)
{
    const size_t n = sizeof launchers / sizeof *launchers;

    if (getenv("TORCHELASTIC_RUN_ID") != NULL && started(&launchers[n - 1], rank, size)) {
        return &launchers[n - 1];
    }
    for (size_t k = 0; k < n; k++) {
        if (started(&launchers[k], rank, size)) {
            return &launchers[k];
        }
    }
    return NULL;
}

/* What the environment says; nothing is opened. */
bool vc_ranks_launched(unsigned *rank, unsigned *size, const char **launcher)
{
    unsigned own_rank = 0;
    unsigned own_size = 1;
    const struct launcher *found = find_launcher(&own_rank, &own_size);

    if (rank != NULL) {
        *rank = found != NULL ? own_rank : 0;
    }
    if (size != NULL) {
        *size = found != NULL ? own_size : 1;
    }
    if (launcher != NULL) {
        *launcher = found != NULL ? found->name : NULL;
    }
    return found != NULL;
}

/* ---- the plug-in ---- */

/* Loads the plug-in from one place. Its version must be that of this library; else the outcome says so. */
static const struct vc_transport *try_place(const char *path, char outcome[VC_PLUGIN_OUTCOME])
{
    vc_transport_entry_fn *entry;
    void *symbol;
    void *library = vc_plugin_load(&mpi_plugin, path, &symbol, outcome);

    if (library == NULL) {
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof entry); /* POSIX: a function pointer fits into void *, ISO C has no cast for it */
    const struct vc_transport *transport = entry();
    if (transport == NULL || transport->abi != VC_TRANSPORT_ABI || transport->struct_size < sizeof *transport) {
        (void)snprintf(outcome, VC_PLUGIN_OUTCOME, "it was made for another version (ABI %u, this program needs %u)",
                       transport != NULL ? (unsigned)transport->abi : 0, VC_TRANSPORT_ABI);
        vc_plugin_unload(library);
        return NULL;
    }
    return transport;
}

/* The first place that works. The sentence of a failure lists all places and what was wrong there. */
static enum vc_status find_transport(struct vc_ctx *ctx, const struct vc_transport **transport)
{
    struct vc_plugin_search *s = vc_alloc(ctx, VC_TAG_MISC, sizeof *s);
    char tried[VC_MESSAGE_BYTES];
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(s);
    vc_plugin_list(&mpi_plugin, s);
    *transport = NULL;
    for (unsigned k = 0; k < s->n_places && *transport == NULL; k++) {
        *transport = try_place(s->places[k].path, s->places[k].outcome);
    }
    if (*transport == NULL) {
        vc_plugin_tried(&mpi_plugin, s, tried, sizeof tried);
        status =
            vc_fail(ctx, VC_E_DEVICE, "the plug-in " VC_TRANSPORT_FILE " could not be loaded: %s; " PACKAGE, tried);
    }
out:
    vc_free(ctx, s);
    return status;
}

/* For programs that say what they could do. */
enum vc_status vc_ranks_find(struct vc_ctx *ctx, const char **name)
{
    const struct vc_transport *transport = NULL;

    *name = NULL;
    vc_clear_error(ctx);
    VC_CALL(find_transport(ctx, &transport));
    *name = transport->name;
    return VC_OK;
}

/* ---- processors ---- */

/* FNV-1a. */
#define HASH_START 0xcbf29ce484222325u

static uint64_t add_hash(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return hash * 0x100000001b3u; /* the end of the text */
}

/* A number that a double holds. */
static double host_number(void)
{
    char host[256] = "";

    (void)gethostname(host, sizeof host - 1);
    return (double)(add_hash(HASH_START, host) >> 16);
}

/* Ranks of one machine that may use the same processors share them; a launcher may also have given each its own. */
static enum vc_status share_processors(struct vc_ctx *ctx, struct vc_ranks *ranks)
{
    double(*all)[VC_COLLECTIVE_NUMBERS] = vc_ranks_numbers(ranks);
    unsigned first;
    unsigned n = vc_cpu_allowed(&first);
    const double own[3] = {host_number(), first, n};
    unsigned sharing = 0;
    unsigned before = 0;

    VC_CALL(vc_ranks_all_gather(ctx, ranks, VC_OK, own, 3, all));
    for (unsigned k = 0; k < vc_ranks_size(ranks); k++) {
        sharing += memcmp(all[k], own, sizeof own) == 0;
        before += k < vc_ranks_rank(ranks) && all[k][0] == own[0];
    }
    n = vc_cpu_threads() / sharing;
    vc_ranks_set_machine(ranks, n != 0 ? n : 1, before);
    return VC_OK;
}

/* ---- joining ---- */

/* The transport is open; behind a failure it is closed. */
static enum vc_status join_over(struct vc_ctx *ctx, const struct vc_transport *transport, void *handle, unsigned rank,
                                unsigned size, struct vc_ranks **out)
{
    enum vc_status status = vc_ranks_create(ctx, transport, handle, rank, size, out);

    if (status != VC_OK) {
        transport->close(handle, false);
        return status;
    }
    status = share_processors(ctx, *out);
    if (status != VC_OK) {
        vc_ranks_leave(*out);
        *out = NULL;
    }
    return status;
}

/* The number of ranks that MPI knows must be that of the launcher: with the MPI of another make each
 * process would be alone, and all would train the same. */
static enum vc_status join_mpi(struct vc_ctx *ctx, const struct launcher *launcher, unsigned launched,
                               struct vc_ranks **out)
{
    const struct vc_transport *transport;
    char why[VC_TRANSPORT_WHY] = "unknown reason";
    void *handle = NULL;
    unsigned rank = 0;
    unsigned size = 1;

    VC_CALL(find_transport(ctx, &transport));
    VC_REFUSE_IF(!transport->open(&rank, &size, why, &handle), ctx, VC_E_DEVICE, "%s could not begin: %s",
                 transport->name, why);
    if (launcher != NULL && size != launched) {
        transport->close(handle, true);
        return vc_fail(ctx, VC_E_DEVICE,
                       "%s started %u processes, and %s knows of %u: it is not the one that " VC_TRANSPORT_FILE
                       " was built with%s",
                       launcher->name, launched, transport->name, size,
                       strcmp(launcher->name, "srun") == 0
                           ? ", or the option mpi of srun has to be pmix (Open MPI) or pmi2 (MPICH)"
                           : "");
    }
    if (size == 1 || size > VC_RANKS_MOST) {
        transport->close(handle, true);
        return size == 1 ? VC_OK : vc_fail(ctx, VC_E_ARGUMENT, "there are %u ranks; at most %u", size, VC_RANKS_MOST);
    }
    return join_over(ctx, transport, handle, rank, size, out);
}

/* torchrun tells its processes of no MPI, so each would train the same. */
static enum vc_status refuse_torchrun(struct vc_ctx *ctx, unsigned size)
{
    const char *option = vc_option(ctx, "ranks");

    return vc_fail(ctx, VC_E_DEVICE,
                   "this is one of %u processes that torchrun started, and ranks find each other by MPI: mpirun -n %u "
                   "vcompress distill ... (%s none: each trains by itself)",
                   size, size, option);
}

/* Without a launcher there is one process, unless MPI was asked for by name. */
enum vc_status vc_ranks_join(struct vc_ctx *ctx, enum vc_ranks_kind kind, struct vc_ranks **out)
{
    unsigned rank = 0;
    unsigned size = 1;
    const struct launcher *launcher = find_launcher(&rank, &size);
    const char *option = vc_option(ctx, "ranks");

    *out = NULL;
    vc_clear_error(ctx);
    VC_REFUSE_IF(kind > VC_RANKS_MPI, ctx, VC_E_ARGUMENT, "%s has no such value", option);
    if (kind == VC_RANKS_NONE || (kind == VC_RANKS_AUTO && launcher == NULL)) {
        return VC_OK;
    }
    VC_RETURN_IF(launcher != NULL && !launcher->mpi, refuse_torchrun(ctx, size));
    enum vc_status status = join_mpi(ctx, launcher, size, out);
    if (status == VC_E_DEVICE && kind == VC_RANKS_AUTO) {
        status = vc_context(ctx, "this is one of %u processes that %s started (%s none: each trains by itself)", size,
                            launcher->name, option);
    }
    return status;
}

/* ---- devices ---- */

/* The n-th rank of a machine takes its n-th device. Where a launcher shows each rank a single device, that
 * is it. */
enum vc_status vc_ranks_pick_device(struct vc_ctx *ctx, const struct vc_ranks *ranks)
{
    unsigned place = vc_ranks_place(ranks);
    struct vc_devices *devices = NULL;
    char name[32];
    enum vc_status status = VC_OK;

    vc_clear_error(ctx);
    if (strcmp(vc_ctx_device(ctx), "cuda") != 0 || place == 0) {
        return VC_OK;
    }
    VC_TRY(vc_devices_list(ctx, &devices));
    if (place < devices->n_devices) {
        (void)snprintf(name, sizeof name, "cuda:%u", place);
        VC_TRY(vc_ctx_set_device(ctx, name));
    } else if (devices->n_devices > 1 || (devices->n_devices == 1 && getenv("CUDA_VISIBLE_DEVICES") == NULL)) {
        status = vc_fail(ctx, VC_E_DEVICE,
                         "this is number %u of the ranks of its machine, which has %zu CUDA device%s: each rank needs "
                         "one of its own",
                         place + 1, devices->n_devices, devices->n_devices == 1 ? "" : "s");
    }
out:
    vc_result_free(devices);
    return status;
}
