/* temporary.c - see temporary.h.
 *
 * Removing a folder with readdir() would allocate memory, which a signal handler must not do: entries are read with the
 * system call that readdir() is made of, into a buffer on the stack.
 *
 *     .vcompress-3f8a01c25b7d9e44
 *                \______/\______/
 *                digest  random, hexadecimal
 *                of the output's name and the kind: a later run of the same output finds what a killed one left
 *
 * The table has room for VC_TEMPORARIES names that may exist at a time. A handler that ends the process removes all of
 * them; it may interrupt any line here, so a slot goes FREE -> CHANGING -> USED, and only USED ones are looked at. */
#define _GNU_SOURCE /* syscall */
#include "formats/io/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "formats/io/outfile.h"

#define VC_TEMPORARIES     1024 /* at a time in the process */
#define VC_TEMPORARY_BYTES 32
#define VC_TREE_MAX_DEPTH  32 /* of folders that are removed */
#define VC_NAME_BEGIN      ".vcompress-"
#define VC_NAME_DIGITS     8 /* of the digest, and of the rest */

/* An entry as getdents64 gives it: inode (8 bytes), offset (8), length of the entry (2), type (1), name, NUL. */
#define VC_ENTRY_LENGTH_AT 16
#define VC_ENTRY_NAME_AT   19

enum { VC_SLOT_FREE, VC_SLOT_CHANGING, VC_SLOT_USED };

static struct {
    atomic_int state; /* USED: something of that name may exist */
    atomic_int kind;
    int folder;
    char name[VC_TEMPORARY_BYTES];
} temporaries[VC_TEMPORARIES];

/* The older output that has stepped aside may be the only one: its digest is another. FNV-1a, 32 bits. */
static uint32_t digest(const char *output, enum vc_temporary_kind kind)
{
    uint32_t h = kind == VC_TEMPORARY_ASIDE ? 0x811c9dc5U : 0x01000193U;

    for (; *output != '\0'; output++) {
        h = (h ^ (unsigned char)*output) * 16777619U;
    }
    return h ^ (h >> 15);
}

/* Whether a run for that output could have made the name. */
bool vc_temporary_is(const char *name, enum vc_temporary_kind kind, const char *output)
{
    char begin[VC_TEMPORARY_BYTES];
    size_t n = (size_t)snprintf(begin, sizeof begin, VC_NAME_BEGIN "%08" PRIx32, digest(output, kind));

    return strncmp(name, begin, n) == 0 && strlen(name) == n + VC_NAME_DIGITS &&
           strspn(name + n, "0123456789abcdef") == VC_NAME_DIGITS;
}

/* False: somebody has removed the file before it was locked (no link is left). A file system without locks counts as
 * held. */
bool vc_temporary_hold(int fd)
{
    struct stat st;

    while (flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR) {
            return true;
        }
    }
    return fstat(fd, &st) != 0 || st.st_nlink != 0;
}

/* Finds a free slot without a lock: a signal handler may read the table at any moment. -1 with errno EMFILE: the table
 * is full. The name need not be secret, only new: nanoseconds, process and a serial number are mixed, and the caller
 * tries again where it exists. */
int vc_temporary_take(int folder, enum vc_temporary_kind kind, const char *output)
{
    static atomic_uint serial;
    struct timespec t;
    int i;

    for (i = 0; i < VC_TEMPORARIES; i++) {
        int expected = VC_SLOT_FREE;
        if (atomic_compare_exchange_strong(&temporaries[i].state, &expected, VC_SLOT_CHANGING)) {
            break;
        }
    }
    if (i == VC_TEMPORARIES) {
        errno = EMFILE;
        return -1;
    }
    (void)clock_gettime(CLOCK_REALTIME, &t);
    temporaries[i].folder = folder;
    atomic_store(&temporaries[i].kind, (int)kind);
    uint32_t random = (uint32_t)t.tv_nsec * 2654435761u ^ (uint32_t)t.tv_sec;
    random ^= (uint32_t)getpid() * 2246822519u + atomic_fetch_add(&serial, 1) * 3266489917u;
    (void)snprintf(temporaries[i].name, VC_TEMPORARY_BYTES, VC_NAME_BEGIN "%08" PRIx32 "%08" PRIx32,
                   digest(output, kind), random);
    atomic_store(&temporaries[i].state, VC_SLOT_USED);
    return i;
}

const char *vc_temporary_name(int slot)
{
    return temporaries[slot].name;
}

void vc_temporary_set_kind(int slot, enum vc_temporary_kind kind)
{
    atomic_store(&temporaries[slot].kind, (int)kind);
}

void vc_temporary_forget(int slot)
{
    atomic_store(&temporaries[slot].state, VC_SLOT_FREE);
}

/* ---- removing ---- */

static bool remove_tree(int parent, const char *name, unsigned depth);

/* One walk over the entries of a folder; false when none of them could be removed. Removing entries may make the walk
 * miss some, so the caller walks until nothing more happens. */
static bool remove_entries(int fd, unsigned depth)
{
    uint64_t buffer[256]; /* aligned as the entries are */
    const char *entries = (const char *)buffer;
    bool removed = false;
    long n;

    while ((n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        uint16_t length;
        long at;

        for (at = 0; at < n; at += length) {
            const char *name = entries + at + VC_ENTRY_NAME_AT;

            memcpy(&length, entries + at + VC_ENTRY_LENGTH_AT, sizeof length);
            if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
                removed = unlinkat(fd, name, 0) == 0 || (depth < VC_TREE_MAX_DEPTH && remove_tree(fd, name, depth + 1))
                              ? true
                              : removed;
            }
        }
    }
    return removed;
}

/* True when the folder is gone. Links in it are removed, not followed. */
static bool remove_tree(int parent, const char *name, unsigned depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0) {
        while (remove_entries(fd, depth)) {
            (void)lseek(fd, 0, SEEK_SET);
        }
        (void)close(fd);
    }
    return unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

void vc_temporary_remove_tree(int parent, const char *name)
{
    (void)remove_tree(parent, name, 0);
}

/* Slots that are being filled or emptied at this moment belong to nothing that is there. */
void vc_outfile_remove_temporaries(void)
{
    int saved = errno;

    for (size_t i = 0; i < VC_TEMPORARIES; i++) {
        if (atomic_load(&temporaries[i].state) != VC_SLOT_USED) {
            continue;
        }
        switch ((enum vc_temporary_kind)atomic_load(&temporaries[i].kind)) {
        case VC_TEMPORARY_FILE:
            (void)unlinkat(temporaries[i].folder, temporaries[i].name, 0);
            break;
        case VC_TEMPORARY_EMPTY:
        case VC_TEMPORARY_ASIDE:
            (void)unlinkat(temporaries[i].folder, temporaries[i].name, AT_REMOVEDIR);
            break;
        case VC_TEMPORARY_TREE:
            (void)remove_tree(temporaries[i].folder, temporaries[i].name, 0);
            break;
        }
    }
    errno = saved;
}

void vc_job_remove_temporaries(void)
{
    vc_outfile_remove_temporaries();
}
