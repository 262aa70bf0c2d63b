/* scratch.c - see scratch.h. */
#define _GNU_SOURCE /* mkdtemp, dirfd, memmem */
#include "scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "support.h"

static char folder[PATH_MAX / 2];

/* Thousands of outputs are synced: in memory, where that has room for some tests at once and nobody wants another
 * place. */
static void prefer_memory(void)
{
    static const char memory[] = "/dev/shm";
    struct statvfs room;

    if (access(memory, W_OK) == 0 && statvfs(memory, &room) == 0 &&
        room.f_bavail >= ((uint64_t)1 << 30) / room.f_frsize) {
        (void)setenv("TMPDIR", memory, 0);
    }
}

int scratch_make(void **state)
{
    const char *parent;

    (void)state;
    prefer_memory();
    parent = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/vcompress-test-XXXXXX",
                   parent != NULL && parent[0] == '/' && strlen(parent) < 100 ? parent : "/tmp");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

int scratch_remove(void **state)
{
    (void)state;
    return rmdir(folder);
}

int scratch_clear(void **state)
{
    empty_folder();
    return scratch_remove(state);
}

const char *scratch_folder(void)
{
    return folder;
}

const char *in_folder(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned turn;
    char *path = paths[turn % 8];

    if (name[0] == '/') {
        return name;
    }
    turn++;
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

const char *save(const char *name, const struct bytes *b)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(b->n == 0 ? 0 : fwrite(b->p, 1, b->n, f), b->n);
    assert_int_equal(fclose(f), 0);
    return path;
}

const char *save_own(const char *name, struct bytes b)
{
    const char *path = save(name, &b);

    bytes_release(&b);
    return path;
}

const char *save_text(const char *name, const char *text)
{
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, text, strlen(text));
    return save_own(name, b);
}

struct bytes load(const char *name)
{
    struct bytes b = {NULL, 0, 0};
    unsigned char piece[4096];
    FILE *f = fopen(in_folder(name), "rb");
    size_t n;

    assert_non_null(f);
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) {
        bytes_add(&b, piece, n);
    }
    assert_int_equal(fclose(f), 0);
    return b;
}

void expect_same(const char *a, const char *b)
{
    struct bytes x = load(a);
    struct bytes y = load(b);

    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.p, y.p, x.n);
    bytes_release(&x);
    bytes_release(&y);
}

bool holds(const char *name, const char *text)
{
    struct bytes b = load(name);
    bool found = memmem(b.p, b.n, text, strlen(text)) != NULL;

    bytes_release(&b);
    return found;
}

bool exists(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

/* ---- what is in a folder ---- */

static bool is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static void empty(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *entry;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        if (is_entry(entry) && unlinkat(dirfd(d), entry->d_name, 0) != 0) {
            char below[1024];

            (void)snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
            empty(below);
            assert_int_equal(unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR), 0);
        }
    }
    closedir(d);
}

void empty_folder(void)
{
    empty(folder);
}

void remove_path(const char *name)
{
    const char *path = in_folder(name);

    if (unlink(path) != 0 && exists(path)) {
        empty(path);
        assert_int_equal(rmdir(path), 0);
    }
}

unsigned count_files(void)
{
    DIR *d = opendir(folder);
    struct dirent *entry;
    unsigned n = 0;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        n += is_entry(entry);
    }
    closedir(d);
    return n;
}
