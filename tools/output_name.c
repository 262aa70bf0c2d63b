/* output_name.c - what an output is called when nobody says so. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <stdlib.h>
#include <string.h>

#include "tools/convert.h"

/* What a folder is called, or the one that an index lies in; "." and ".." by their real names. Allocated. */
static char *folder_name(const char *input)
{
    static const char index[] = ".index.json";
    const char *slash = strrchr(input, '/');
    size_t n = strlen(input);
    char *name;
    char *real;

    if (n >= sizeof(index) - 1 && strcmp(input + n - (sizeof(index) - 1), index) == 0) {
        n = slash != NULL ? (size_t)(slash - input) + 1 : 0;
    }
    while (n > 1 && input[n - 1] == '/') {
        n--;
    }
    name = malloc(n + 2);
    if (name == NULL) {
        return NULL;
    }
    snprintf(name, n + 2, "%.*s%s", (int)n, input, n == 0 ? "." : "");
    slash = strrchr(name, '/');
    slash = slash != NULL ? slash + 1 : name;
    if (strcmp(slash, ".") != 0 && strcmp(slash, "..") != 0) {
        return name;
    }
    real = realpath(name, NULL);
    free(name);
    return real;
}

size_t divided_stem(const char *path)
{
    static const char pattern[] = "-00000-of-00000.gguf";
    size_t n = strlen(path);
    size_t k = sizeof(pattern) - 1;
    bool same = n > k && path[n - k - 1] != '/';

    for (size_t i = 0; same && i < k; i++) {
        char c = path[n - k + i];

        same = pattern[i] == '0' ? c >= '0' && c <= '9' : c == pattern[i];
    }
    return same ? n - k : 0;
}

/* A file's name without its extension. Allocated. */
static char *file_stem(const char *input)
{
    const char *slash = strrchr(input, '/');
    const char *base = slash != NULL ? slash + 1 : input;
    const char *point = strrchr(base, '.');
    size_t divided = divided_stem(input);
    size_t n = divided != 0 ? divided : point != NULL && point != base ? (size_t)(point - input) : strlen(input);
    char *stem = malloc(n + 1);

    if (stem != NULL) {
        memcpy(stem, input, n);
        stem[n] = '\0';
    }
    return stem;
}

char *name_beside(const char *input, bool is_folder, const char *tag, const char *extension)
{
    char *stem = is_folder && divided_stem(input) == 0 ? folder_name(input) : file_stem(input);
    size_t n = stem != NULL ? strlen(stem) + strlen(tag) + strlen(extension) + 2 : 0;
    char *name = stem != NULL ? malloc(n) : NULL;

    if (name != NULL) {
        snprintf(name, n, "%s.%s%s", stem, tag, extension);
    }
    free(stem);
    return name;
}
