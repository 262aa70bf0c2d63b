/* folder_builder.c - see folder_builder.h. */
#include "folder_builder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void folder_write(const char *path, const char *name, const void *data, size_t n)
{
    char whole[1024];
    FILE *f;

    snprintf(whole, sizeof whole, "%s/%s", path, name);
    f = fopen(whole, "wb");
    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
        perror(whole);
        abort();
    }
}

static void write_shard(const char *path, const char *name, const char *header, const void *data, size_t n)
{
    struct bytes b = {NULL, 0, 0};

    bytes_u64(&b, strlen(header));
    bytes_add(&b, header, strlen(header));
    bytes_add(&b, data, n);
    folder_write(path, name, b.p, b.n);
    bytes_release(&b);
}

void folder_fill(const char *path)
{
    float values[64 + 2];
    unsigned char data[512];
    size_t i;

    for (i = 0; i < 66; i++) {
        values[i] = 0.25F * (float)i - 3.0F;
    }
    memcpy(data, values, 128);
    memcpy(data + 128, "\1\2\3\4\5\6", 6);
    memcpy(data + 134, values + 20, 8);
    write_shard(path, "a.safetensors",
                "{\"__metadata__\":{\"format\":\"pt\",\"n\":\"1\"},"
                "\"emb.weight\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[0,128]},"
                "\"w\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[128,134]},"
                "\"w.scale\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[134,142]}}",
                data, 142);
    memcpy(data, values + 32, 128);
    memcpy(data + 128, "\x81\x82\x83\x84\x85\x86\x87\x88", 8);
    memcpy(data + 136, values + 20, 8);
    memcpy(data + 144, "\2\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 16);
    write_shard(path, "b.safetensors",
                "{\"__metadata__\":{\"n\":\"2\",\"tied\":\"l.q.weight\","
                "\"vcompress.names\":\"{\\\"tied\\\":\\\"l.q.weight\\\"}\"},"
                "\"l.q.weight\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[0,128]},"
                "\"m.weight_packed\":{\"dtype\":\"I32\",\"shape\":[2,1],\"data_offsets\":[128,136]},"
                "\"m.weight_scale\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[136,144]},"
                "\"m.weight_shape\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[144,160]}}",
                data, 160);
}

void folder_make(char *path, size_t capacity)
{
    const char *parent = getenv("TMPDIR");

    snprintf(path, capacity, "%s/folder-XXXXXX", parent != NULL && parent[0] != '\0' ? parent : "/tmp");
    if (mkdtemp(path) == NULL) {
        perror(path);
        abort();
    }
    folder_fill(path);
}

void folder_remove(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder != NULL) {
        closedir(folder);
    }
    (void)rmdir(path);
}
