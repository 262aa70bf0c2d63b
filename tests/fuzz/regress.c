/* regress.c - runs a fuzz target over files and folders given as arguments: an ordinary test, no libFuzzer needed.
 * Each input is also tried cut in half and with its middle byte changed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"

#define MAX_INPUT_BYTES ((size_t)1 << 20)

static unsigned long n_inputs;

static void run_bytes(const unsigned char *data, size_t n)
{
    unsigned char *copy = malloc(n + 1); /* exact size, so that a sanitizer sees a read beyond it */

    if (copy == NULL) {
        abort();
    }
    memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    (void)LLVMFuzzerTestOneInput(copy, n / 2);
    if (n > 0) {
        copy[n / 2] ^= 0xff;
        (void)LLVMFuzzerTestOneInput(copy, n);
    }
    free(copy);
    n_inputs++;
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    unsigned char *data = malloc(MAX_INPUT_BYTES);
    size_t n;

    if (f == NULL || data == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    n = fread(data, 1, MAX_INPUT_BYTES, f);
    fclose(f);
    run_bytes(data, n);
    free(data);
    return 0;
}

static int run_folder(DIR *folder, const char *path)
{
    struct dirent *entry;
    int failed = 0;

    while ((entry = readdir(folder)) != NULL) {
        char name[4096];

        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        failed |= run_file(name);
    }
    closedir(folder);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    int i;

    for (i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);

        failed |= folder != NULL ? run_folder(folder, argv[i]) : run_file(argv[i]);
    }
    vc_ctx_free(fuzz_ctx());
    printf("%lu inputs\n", n_inputs);
    return failed != 0 || n_inputs == 0;
}
