/* test_outfolder.c - a folder appears whole or not at all: every system call fails once, with and without an old
 * folder, with and without file systems that know unnamed files and exchanges. */
#include "formats_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/io/outfolder.h"
#include "formats/io/stale_outputs.h"
#include "formats/io/temporary.h"
#include "scratch.h"

/* What the file holds; "" where there is none. */
static const char *get(const char *name)
{
    static char text[64];
    FILE *f;

    memset(text, 0, sizeof text);
    f = fopen(in_folder(name), "rb");
    if (f != NULL) {
        (void)!fread(text, 1, sizeof text - 1, f);
        fclose(f);
    }
    return text;
}

static size_t count(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    size_t n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        n += entry->d_name[0] != '.' || strncmp(entry->d_name, ".vcompress-", 11) == 0;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return n;
}

static void clear(void)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf '%s'/* '%s'/.vcompress-*", scratch_folder(), scratch_folder());
    assert_int_equal(system(command), 0);
}

/* The file stays open until commit, or is kept. */
static enum vc_status write_file(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name, bool keep)
{
    struct vc_outfile *file;
    enum vc_status status;

    VC_TRY(vc_outfolder_add(ctx, folder, name, &file));
    VC_TRY(keep ? vc_outfile_begin(ctx, file) : vc_outfolder_begin(ctx, folder, file));
    VC_TRY(vc_outfile_write(ctx, file, 0, "new", 3));
    VC_TRY(keep ? vc_outfolder_keep(ctx, folder, file) : vc_outfile_sync(ctx, file));
out:
    return status;
}

/* vc_outfolder_note of the last folder; "": none. */
static char last_note[512];

static enum vc_status write_as(struct vc_ctx *ctx, const char *name, enum vc_outfolder_force force, bool shared)
{
    char path[256];
    struct vc_outfolder *folder = NULL;
    enum vc_status status;

    snprintf(path, sizeof path, "%s/%s", scratch_folder(), name);
    VC_TRY(vc_outfolder_create(ctx, path, force, shared, NULL, &folder));
    VC_TRY(vc_outfolder_expect(ctx, folder, "a.safetensors"));
    VC_TRY(vc_outfolder_expect(ctx, folder, "sub/b"));
    VC_TRY(vc_outfolder_expect(ctx, folder, "c"));
    VC_TRY(vc_outfolder_expect(ctx, folder, "sub/d"));
    vc_outfolder_sweep(folder);
    VC_TRY(write_file(ctx, folder, "a.safetensors", false));
    VC_TRY(write_file(ctx, folder, "sub/b", true));
    VC_TRY(write_file(ctx, folder, "c", true));
    VC_TRY(write_file(ctx, folder, "sub/d", false));
    VC_TRY(vc_outfolder_commit(ctx, folder));
out:
    snprintf(last_note, sizeof last_note, "%s",
             folder != NULL && vc_outfolder_note(folder) != NULL ? vc_outfolder_note(folder) : "");
    vc_outfolder_free(ctx, folder);
    return status;
}

static enum vc_status write_folder(struct vc_ctx *ctx, const char *name, enum vc_outfolder_force force)
{
    return write_as(ctx, name, force, false);
}

/* The folder "out" without a mark. */
static void make_unmarked(void)
{
    char path[256];

    snprintf(path, sizeof path, "%s/out", scratch_folder());
    assert_int_equal(mkdir(path, 0777), 0);
    (void)save_text("out/a.safetensors", "old");
    (void)save_text("out/config.json", "old");
}

static void make_mark(const char *files)
{
    char text[512];

    snprintf(text, sizeof text, "{\"schema\": \"vcompress.folder/1\", \"tool\": \"x\", \"files\": [\n%s\n]}\n", files);
    (void)save_text("out/.vcompress.json", text);
}

static void make_old(void)
{
    make_unmarked();
    make_mark("\"a.safetensors\",\n\"config.json\"");
}

static void check_whole(bool was_old, enum vc_status status)
{
    bool is_new = strcmp(get("out/c"), "new") == 0;
    bool is_old = strcmp(get("out/config.json"), "old") == 0;

    assert_false(is_new && is_old);
    if (status == VC_OK) {
        assert_true(is_new);
    }
    if (is_new) {
        assert_string_equal(get("out/a.safetensors"), "new");
        assert_string_equal(get("out/sub/b"), "new");
        assert_string_equal(get("out/sub/d"), "new");
    } else {
        assert_true(is_old == was_old);
        assert_int_equal(count(scratch_folder()), was_old ? 1 : 0);
    }
    /* Nothing else is there, but for an old folder that could not be removed, and then a note says so. */
    assert_int_equal(count(scratch_folder()), (is_new || was_old) + (last_note[0] != '\0'));
    if (last_note[0] != '\0') {
        assert_true(is_new && was_old);
        assert_non_null(strstr(last_note, "could be removed: the rest is "));
    }
}

static void try_all(bool old, bool plain)
{
    uint64_t n;
    bool failed = true;

    vc_outfile_no_unnamed(plain);
    for (n = 1; failed; n++) {
        struct vc_ctx *ctx = test_ctx();
        enum vc_status status;
        uint64_t calls = vc_outfile_call_count();

        clear();
        if (old) {
            make_old();
        }
        vc_outfile_fail_at(n);
        status = write_folder(ctx, "out", true);
        failed = vc_outfile_call_count() - calls >= n;
        vc_outfile_fail_at(0);
        if (status != VC_OK) {
            assert_true(vc_ctx_message(ctx)[0] != '\0');
        }
        check_whole(old, status);
        test_ctx_done(ctx);
    }
    assert_true(n > 10);
    vc_outfile_no_unnamed(false);
}

static void test_every_failure(void **state)
{
    (void)state;
    try_all(false, false);
    try_all(true, false);
    try_all(false, true);
    try_all(true, true);
    clear();
}

/* Workers share the folder: each file appears by itself, the old ones stay, and nothing hidden is left. */
static void try_all_shared(bool plain)
{
    static const char *const names[] = {"out/a.safetensors", "out/sub/b", "out/c", "out/sub/d"};
    char path[256];
    uint64_t n;
    bool failed = true;

    vc_outfile_no_unnamed(plain);
    for (n = 1; failed; n++) {
        struct vc_ctx *ctx = test_ctx();
        uint64_t calls = vc_outfile_call_count();
        enum vc_status status;

        clear();
        make_old();
        vc_outfile_fail_at(n);
        status = write_as(ctx, "out", true, true);
        failed = vc_outfile_call_count() - calls >= n;
        vc_outfile_fail_at(0);
        assert_true(status == VC_OK || vc_ctx_message(ctx)[0] != '\0');
        for (size_t i = 0; i < 4; i++) {
            const char *text = get(names[i]);

            assert_true(strcmp(text, "new") == 0 || (status != VC_OK && strcmp(text, i == 0 ? "old" : "") == 0));
        }
        assert_string_equal(get("out/config.json"), "old");
        snprintf(path, sizeof path, "%s/out", scratch_folder());
        assert_int_equal(count(path), 2 + (get("out/c")[0] != '\0') + (access(in_folder("out/sub"), F_OK) == 0));
        snprintf(path, sizeof path, "%s/out/sub", scratch_folder());
        assert_int_equal(count(path), (get("out/sub/b")[0] != '\0') + (get("out/sub/d")[0] != '\0'));
        test_ctx_done(ctx);
    }
    assert_true(n > 10);
    vc_outfile_no_unnamed(false);
}

static void test_every_failure_shared(void **state)
{
    (void)state;
    try_all_shared(false);
    try_all_shared(true);
    clear();
}

#define N_SMALL 300u

/* Hundreds of files that go along need no descriptor each. */
static void write_many(struct vc_ctx *ctx, bool shared)
{
    struct vc_outfolder *folder = NULL;
    char name[32];

    assert_int_equal(vc_outfolder_create(ctx, in_folder("out"), VC_OUTFOLDER_NEW, shared, NULL, &folder), VC_OK);
    assert_int_equal(write_file(ctx, folder, "a.safetensors", false), VC_OK);
    for (unsigned i = 0; i < N_SMALL; i++) {
        snprintf(name, sizeof name, "%s%u", i % 2 == 0 ? "sub/" : "", i);
        if (write_file(ctx, folder, name, true) != VC_OK) {
            fail_msg("%s", vc_ctx_message(ctx));
        }
    }
    assert_int_equal(count(in_folder("out/sub")), shared ? 1 : 0); /* hidden: nothing has its name yet */
    assert_int_equal(vc_outfolder_commit(ctx, folder), VC_OK);
    vc_outfolder_free(ctx, folder);
    assert_int_equal(count(in_folder("out")), N_SMALL / 2 + 2);
    assert_int_equal(count(in_folder("out/sub")), N_SMALL / 2);
    assert_int_equal(count(scratch_folder()), 1);
    clear();
}

#define N_LARGE 100

/* Nor do as many large ones, all of which are written at the same time. */
static void write_many_large(struct vc_ctx *ctx, bool shared)
{
    struct vc_outfolder *folder = NULL;
    struct vc_outfile *files[N_LARGE];
    char name[32];

    assert_int_equal(vc_outfolder_create(ctx, in_folder("out"), VC_OUTFOLDER_NEW, shared, NULL, &folder), VC_OK);
    for (unsigned i = 0; i < N_LARGE; i++) {
        snprintf(name, sizeof name, "%u", i);
        assert_int_equal(vc_outfolder_add(ctx, folder, name, &files[i]), VC_OK);
    }
    for (unsigned i = 0; i < N_LARGE; i++) {
        if (vc_outfolder_begin(ctx, folder, files[i]) != VC_OK) {
            fail_msg("%s", vc_ctx_message(ctx));
        }
    }
    for (unsigned at = 0; at < 3; at++) { /* a byte of each in turn */
        for (unsigned i = 0; i < N_LARGE; i++) {
            assert_int_equal(vc_outfile_write(ctx, files[i], 2 - at, &"wen"[at], 1), VC_OK);
        }
    }
    for (unsigned i = 0; i < N_LARGE; i++) {
        assert_int_equal(vc_outfile_sync(ctx, files[i]), VC_OK);
    }
    assert_string_equal(get("out/0"), "");
    assert_string_equal(get("out/99"), "");
    assert_int_equal(vc_outfolder_commit(ctx, folder), VC_OK);
    vc_outfolder_free(ctx, folder);
    assert_int_equal(count(in_folder("out")), N_LARGE);
    for (unsigned i = 0; i < N_LARGE; i++) {
        snprintf(name, sizeof name, "out/%u", i);
        assert_string_equal(get(name), "new");
    }
    assert_int_equal(count(scratch_folder()), 1);
    clear();
}

static void test_few_descriptors(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct rlimit old, low;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 24;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int plain = 0; plain < 2; plain++) {
        vc_outfile_no_unnamed(plain != 0);
        write_many(ctx, false);
        write_many(ctx, true);
        write_many_large(ctx, false);
        write_many_large(ctx, true);
    }
    vc_outfile_no_unnamed(false);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    test_ctx_done(ctx);
}

/* Half of the descriptors are taken, so what is written rests. */
struct taken {
    struct rlimit old;
    int fds[20];
};

static void take_descriptors(struct taken *taken)
{
    struct rlimit low;

    for (size_t i = 0; i < 20; i++) {
        taken->fds[i] = dup(0);
        assert_true(taken->fds[i] >= 0);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &taken->old), 0);
    low = taken->old;
    low.rlim_cur = 40;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static void give_descriptors(const struct taken *taken)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &taken->old), 0);
    for (size_t i = 0; i < 20; i++) {
        (void)close(taken->fds[i]);
    }
}

/* Each call fails once. */
static void test_every_failure_resting(void **state)
{
    struct taken taken;

    (void)state;
    take_descriptors(&taken);
    try_all(false, false);
    try_all(true, true);
    try_all_shared(false);
    give_descriptors(&taken);
    clear();
}

/* What a handler does that ends the process while files are kept: nothing is left, and what is not ours stays. */
static void test_signal_removes_kept_files(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct vc_outfolder *folder = NULL;

        if (shared != 0) {
            make_old();
        }
        assert_int_equal(vc_outfolder_create(ctx, in_folder("out"), VC_OUTFOLDER_OWN, shared != 0, NULL, &folder),
                         VC_OK);
        assert_int_equal(write_file(ctx, folder, "sub/deep/b", true), VC_OK);
        assert_int_equal(write_file(ctx, folder, "c", true), VC_OK);
        assert_int_equal(count(scratch_folder()), 1);
        vc_outfile_remove_temporaries();
        assert_int_equal(count(scratch_folder()), shared);
        assert_string_equal(get("out/config.json"), shared != 0 ? "old" : "");
        assert_int_equal(count(in_folder("out/sub/deep")), 0);
        vc_outfolder_free(ctx, folder);
        clear();
    }
    test_ctx_done(ctx);
}

static void refused(struct vc_ctx *ctx, const char *name, enum vc_outfolder_force force, const char *needle)
{
    if (write_folder(ctx, name, force) != VC_E_ARGUMENT) {
        fail_msg("%s: \"%s\" in place of \"%s\"", name, vc_ctx_message(ctx), needle);
    }
    if (strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\"", name, vc_ctx_message(ctx), needle);
    }
}

static void test_places(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    char path[256];

    (void)state;
    make_old();
    refused(ctx, "out", false, "only with force");
    refused(ctx, "out/.", true, "no name");
    refused(ctx, "out/..", true, "no name");
    refused(ctx, "out/config.json", true, "is a file");
    snprintf(path, sizeof path, "%s/link", scratch_folder());
    assert_int_equal(symlink("out", path), 0);
    refused(ctx, "link", true, "is a link");
    assert_int_equal(write_folder(ctx, "gone/out", true), VC_E_IO);
    snprintf(path, sizeof path, "%s/out/.git", scratch_folder());
    assert_int_equal(mkdir(path, 0777), 0);
    refused(ctx, "out", true, "Git");
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/out/a.safetensors", scratch_folder());
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(in_folder("out/.vcompress.json")), 0);
    refused(ctx, "out", true, "without safetensors");
    assert_string_equal(get("out/config.json"), "old");
    assert_int_equal(write_folder(ctx, "fresh///", false), VC_OK);
    assert_string_equal(get("fresh/sub/b"), "new");
    clear();
    test_ctx_done(ctx);
}

/* Puts a file into out/, and perhaps a folder before it. */
static void put(const char *name)
{
    char path[256];
    char *slash;

    snprintf(path, sizeof path, "%s/out/%s", scratch_folder(), name);
    for (slash = strchr(path + strlen(scratch_folder()) + 5, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0777);
        *slash = '/';
    }
    snprintf(path, sizeof path, "out/%s", name);
    (void)save_text(path, "foreign");
}

/* With these files in it beside those of make_unmarked the folder is not replaced, or is where `needle` is NULL. */
static void with_old(struct vc_ctx *ctx, const char *const *names, const char *needle)
{
    size_t i;

    make_unmarked();
    for (i = 0; names[i] != NULL; i++) {
        put(names[i]);
    }
    if (needle == NULL) {
        if (write_folder(ctx, "out", VC_OUTFOLDER_FOREIGN) != VC_OK) {
            fail_msg("%s: %s", names[0], vc_ctx_message(ctx));
        }
        assert_string_equal(get("out/c"), "new");
        assert_string_equal(get("out/config.json"), "");
        assert_int_equal(count(scratch_folder()), 1);
    } else {
        refused(ctx, "out", VC_OUTFOLDER_FOREIGN, needle);
        assert_string_equal(get("out/config.json"), "old");
        for (i = 0; names[i] != NULL; i++) {
            char path[256];

            snprintf(path, sizeof path, "out/%s", names[i]);
            assert_string_equal(get(path), "foreign");
        }
    }
    assert_string_equal(last_note, "");
    clear();
}

#define OLD(needle, ...) with_old(ctx, (const char *const[]){__VA_ARGS__, NULL}, needle)

/* Without a mark only what an earlier run can have written goes. */
static void test_foreign(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    OLD(NULL, "sub/b", "c", "tokenizer.json", "vocab.txt", "LICENSE.txt");
    OLD(NULL, "a-00001-of-00002.safetensors", "a-00002-of-00002.safetensors", "a.safetensors.index.json");
    OLD("holds notes.txt, which no run for this output has written; force replaces an older output only", "notes.txt");
    OLD("holds sub/x, which no run", "sub/x");
    OLD("holds sub/b.safetensors, which no run", "sub/b.safetensors", "sub/tokenizer.json");
    OLD("holds other/, which no run", "other/a.safetensors");
    OLD("holds b.safetensors, which no run", "b.safetensors");
    OLD("holds a.gguf, which no run", "a.gguf");
    OLD("holds .gitattributes, which no run", ".gitattributes");
    OLD("a-00001-of-00002.safetensors, a-00001-of-00003.safetensors", "a-00001-of-00002.safetensors",
        "a-00001-of-00003.safetensors");
    OLD(" and 2 more, which no run", "1", "2", "3", "4", "other/5");
    test_ctx_done(ctx);
}

/* None of the files in the old folder is called as those of this run are: one pattern may go. */
static void test_other_pattern(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    char path[256];

    (void)state;
    snprintf(path, sizeof path, "%s/out", scratch_folder());
    assert_int_equal(mkdir(path, 0777), 0);
    put("model-00001-of-00002.safetensors");
    put("model-00002-of-00002.safetensors");
    put("model.safetensors.index.json");
    put("config.json");
    assert_int_equal(write_folder(ctx, "out", VC_OUTFOLDER_FOREIGN), VC_OK);
    clear();
    assert_int_equal(mkdir(path, 0777), 0);
    put("model-00001-of-00002.safetensors");
    put("lora.safetensors");
    refused(ctx, "out", VC_OUTFOLDER_FOREIGN, "holds lora.safetensors, model-00001-of-00002.safetensors, which no run");
    clear();
    assert_int_equal(mkdir(path, 0777), 0);
    put("m.gguf");
    assert_int_equal(symlink("m.gguf", in_folder("out/config.json")), 0);
    refused(ctx, "out", VC_OUTFOLDER_FOREIGN, "holds config.json (a link), which no run");
    clear();
    test_ctx_done(ctx);
}

/* Whose folder it is: the mark says so, or the metadata of a version without marks, or force_foreign. */
static void test_marks(void **state)
{
    static const char older[] = "\x40\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\",\"vcompress.json\":\"{\"}}";
    struct vc_ctx *ctx = test_ctx();
    FILE *file;

    (void)state;
    make_unmarked();
    refused(ctx, "out", VC_OUTFOLDER_OWN, "was not written by vcompress");
    assert_non_null(strstr(vc_ctx_message(ctx), "force_foreign"));
    assert_int_equal(write_as(ctx, "out", VC_OUTFOLDER_OWN, true), VC_E_ARGUMENT); /* a worker replaces files there */
    (void)save_text("out/.vcompress.json", "{\"schema\": \"theirs/1\"}\n");
    refused(ctx, "out", VC_OUTFOLDER_OWN, "was not written by vcompress");
    assert_string_equal(get("out/config.json"), "old");
    clear();
    make_old();
    put("tokenizer.json"); /* the user's: another program's file is no file of ours by its name */
    refused(ctx, "out", VC_OUTFOLDER_FOREIGN, "holds tokenizer.json, which no run");
    make_mark("\"a.safetensors\",\n\"config.json\",\n\"sub/b\",\n\"tokenizer.json\"");
    put("sub/b");
    assert_int_equal(write_folder(ctx, "out", VC_OUTFOLDER_OWN), VC_OK);
    assert_string_equal(get("out/tokenizer.json"), "");
    put("sub/x");
    refused(ctx, "out", VC_OUTFOLDER_OWN, "holds sub/x, which no run");
    clear();
    make_unmarked();
    file = fopen(in_folder("out/a.safetensors"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(older, 1, sizeof older, file), sizeof older);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(write_folder(ctx, "out", VC_OUTFOLDER_OWN), VC_OK);
    clear();
    /* workers: the first marks the folder with the names of all, one with other names adds them */
    assert_int_equal(write_as(ctx, "out", VC_OUTFOLDER_NEW, true), VC_OK);
    assert_int_equal(write_folder(ctx, "out", VC_OUTFOLDER_OWN), VC_OK);
    make_mark("\"other.safetensors\"");
    put("other.safetensors");
    assert_int_equal(write_as(ctx, "out", VC_OUTFOLDER_OWN, true), VC_OK);
    assert_int_equal(write_folder(ctx, "out", VC_OUTFOLDER_OWN), VC_OK);
    assert_string_equal(get("out/other.safetensors"), "");
    clear();
    test_ctx_done(ctx);
}

/* What a run for `output` that was killed has left: a folder with these files. Returns its name. */
static const char *leave_folder(const char *in, const char *output, enum vc_temporary_kind kind,
                                const char *const *names)
{
    static char path[512];
    int fd = open(in, O_RDONLY | O_DIRECTORY);
    int slot = vc_temporary_take(fd, kind, output);
    char file[600];
    size_t i;

    assert_true(fd >= 0 && slot >= 0);
    snprintf(path, sizeof path, "%s/%s", in, vc_temporary_name(slot));
    assert_true(vc_temporary_is(vc_temporary_name(slot), kind, output));
    vc_temporary_forget(slot);
    close(fd);
    assert_int_equal(mkdir(path, 0777), 0);
    for (i = 0; names[i] != NULL; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        (void)save_text(file, "left");
    }
    return path;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A later run removes what is of a run for the same output that is over, and nothing else. */
static void test_stale_outputs(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    const char *left;
    char out[300];
    int fd;

    (void)state;
    snprintf(out, sizeof out, "%s/out", scratch_folder());
    (void)leave_folder(scratch_folder(), "out", VC_TEMPORARY_TREE,
                       NAMES("c", "config.json", "a-00001-of-00002.safetensors"));
    (void)leave_folder(scratch_folder(), "out", VC_TEMPORARY_EMPTY, NAMES("a.safetensors"));
    assert_int_equal(write_folder(ctx, "out", true), VC_OK);
    assert_int_equal(count(scratch_folder()), 1);
    assert_string_equal(last_note, "");
    /* somebody has put a file into it */
    left = leave_folder(scratch_folder(), "out", VC_TEMPORARY_TREE, NAMES("c", "mine"));
    assert_int_equal(write_folder(ctx, "out", true), VC_OK);
    if (strstr(last_note, left) == NULL) {
        fail_msg("\"%s\" does not name %s", last_note, left);
    }
    assert_int_equal(count(scratch_folder()), 2);
    clear();
    /* of another output, or held by a run that goes on */
    (void)leave_folder(scratch_folder(), "other", VC_TEMPORARY_TREE, NAMES("c"));
    fd = open(leave_folder(scratch_folder(), "out", VC_TEMPORARY_TREE, NAMES("c")), O_RDONLY | O_DIRECTORY);
    assert_true(vc_temporary_hold(fd));
    assert_int_equal(write_folder(ctx, "out", true), VC_OK);
    assert_int_equal(count(scratch_folder()), 3);
    close(fd);
    assert_int_equal(write_folder(ctx, "out", true), VC_OK);
    assert_int_equal(count(scratch_folder()), 2);
    clear();
    /* an older output that had stepped aside: it goes only where another is */
    left = leave_folder(scratch_folder(), "out", VC_TEMPORARY_ASIDE, NAMES("a.safetensors", "c"));
    assert_int_equal(write_folder(ctx, "out", false), VC_OK);
    assert_non_null(strstr(last_note, "a run was killed while it replaced an older output"));
    assert_non_null(strstr(last_note, left));
    assert_int_equal(count(scratch_folder()), 2);
    assert_int_equal(write_folder(ctx, "out", true), VC_OK);
    assert_string_equal(last_note, "");
    assert_int_equal(count(scratch_folder()), 1);
    /* in a folder that workers share */
    (void)leave_folder(out, "out", VC_TEMPORARY_TREE, NAMES("0", "1"));
    assert_int_equal(count(out), 4);
    assert_int_equal(write_as(ctx, "out", true, true), VC_OK);
    assert_int_equal(count(out), 3);
    (void)leave_folder(out, "out", VC_TEMPORARY_TREE, NAMES("0", "mine"));
    assert_int_equal(write_as(ctx, "out", true, true), VC_OK);
    assert_int_equal(count(out), 4);
    clear();
    test_ctx_done(ctx);
}

/* What another worker does as it begins: it removes folders that nobody holds yet. */
struct sweeper {
    int folder;
    atomic_bool over;
    size_t n_removed;
};

static void remove_empty(void *user, const char *name, bool aside)
{
    struct sweeper *sweeper = user;

    (void)aside;
    sweeper->n_removed += unlinkat(sweeper->folder, name, AT_REMOVEDIR) == 0;
}

static void *sweep(void *user)
{
    struct sweeper *sweeper = user;

    while (!atomic_load(&sweeper->over)) {
        vc_stale_outputs_sweep(sweeper->folder, "out", remove_empty, sweeper);
    }
    return NULL;
}

/* A worker whose new folder another one takes away makes another folder. Files that rest need one at once, and nothing
 * is synced, so that there are many tries: without the second folder about one in a thousand failed. */
static void test_workers(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct sweeper sweeper = {.n_removed = 0};
    struct taken taken;
    pthread_t thread;
    int n;

    (void)state;
    assert_int_equal(write_as(ctx, "out", true, true), VC_OK);
    sweeper.folder = open(in_folder("out"), O_RDONLY | O_DIRECTORY);
    assert_true(sweeper.folder >= 0);
    take_descriptors(&taken);
    assert_int_equal(pthread_create(&thread, NULL, sweep, &sweeper), 0);
    for (n = 0; n < 8000; n++) {
        struct vc_outfolder *folder = NULL;
        struct vc_outfile *file = NULL;

        assert_int_equal(vc_outfolder_create(ctx, in_folder("out"), VC_OUTFOLDER_OWN, true, NULL, &folder), VC_OK);
        assert_int_equal(vc_outfolder_add(ctx, folder, "c", &file), VC_OK);
        if (vc_outfolder_begin(ctx, folder, file) != VC_OK) {
            fail_msg("worker %d: %s", n, vc_ctx_message(ctx));
        }
        vc_outfolder_free(ctx, folder);
    }
    atomic_store(&sweeper.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    give_descriptors(&taken);
    print_message("%zu of %d new folders taken\n", sweeper.n_removed, n);
    close(sweeper.folder);
    clear();
    test_ctx_done(ctx);
}

/* A file of a run that was killed, and one that is held. */
static void test_remaining_files(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_outfile *file = NULL;
    int folder = open(scratch_folder(), O_RDONLY | O_DIRECTORY);
    int slots[2];
    int fds[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        slots[i] = vc_temporary_take(folder, VC_TEMPORARY_FILE, "x.npz");
        fds[i] = openat(folder, vc_temporary_name(slots[i]), O_CREAT | O_RDWR, 0600);
        assert_true(fds[i] >= 0);
    }
    assert_true(vc_temporary_hold(fds[1]));
    assert_int_equal(vc_outfile_create(ctx, in_folder("y.npz"), true, NULL, &file), VC_OK);
    assert_int_equal(vc_outfile_begin(ctx, file), VC_OK);
    assert_int_equal(count(scratch_folder()), 2);
    vc_outfile_free(ctx, file);
    assert_int_equal(vc_outfile_create(ctx, in_folder("x.npz"), true, NULL, &file), VC_OK);
    assert_int_equal(vc_outfile_begin(ctx, file), VC_OK);
    assert_int_equal(count(scratch_folder()), 1);
    assert_int_equal(faccessat(folder, vc_temporary_name(slots[1]), F_OK, 0), 0);
    vc_outfile_free(ctx, file);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        vc_temporary_forget(slots[i]);
    }
    close(folder);
    clear();
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_failure),
        cmocka_unit_test(test_every_failure_shared),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test(test_every_failure_resting),
        cmocka_unit_test(test_signal_removes_kept_files),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_other_pattern),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_stale_outputs),
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_remaining_files),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
