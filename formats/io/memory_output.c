/* memory_output.c - an output in memory: grows as it is written, and counts once it is complete.
 *
 * A vc_writer (vcompress/stream.h) for programs that want the output as bytes; the C library's memory, because it
 * outlives the context. Nothing of an output that failed can be had: vc_memory.bytes is NULL until commit. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/stream.h>

struct output {
    struct vc_memory public; /* first: what programs read */
    pthread_mutex_t lock;    /* of bytes, size and room while threads write */
    unsigned char *bytes;
    size_t size, room;
};

/* Room for n bytes; twice as much as before where nobody knew how many there will be. False: no memory, or more than a
 * quarter of the address space. */
static bool make_room(struct output *memory, uint64_t n)
{
    size_t room = memory->room * 2 > n ? memory->room * 2 : (size_t)n;
    unsigned char *bytes = memory->bytes;

    if (n > memory->room) {
        bytes = n > SIZE_MAX / 4 ? NULL : realloc(memory->bytes, room);
        memory->bytes = bytes != NULL ? bytes : memory->bytes;
        memory->room = bytes != NULL ? room : memory->room;
    }
    return n <= memory->room;
}

/* vc_writer.begin: one thread. A second output replaces the first. */
static bool begin(void *user, uint64_t size_bytes)
{
    struct output *memory = user;

    memory->size = 0;
    memory->public.bytes = NULL;
    memory->public.size_bytes = 0;
    return make_room(memory, size_bytes);
}

/* vc_writer.write: any thread, any order. size is where the last byte lies. */
static bool write_at(void *user, uint64_t offset, const void *data, size_t n)
{
    struct output *memory = user;

    (void)pthread_mutex_lock(&memory->lock);
    bool fits = offset <= UINT64_MAX - n && make_room(memory, offset + n);
    if (fits) {
        memcpy(memory->bytes + offset, data, n);
        memory->size = memory->size > offset + n ? memory->size : (size_t)offset + n;
    }
    (void)pthread_mutex_unlock(&memory->lock);
    return fits;
}

static bool commit(void *user)
{
    struct output *memory = user;

    memory->public.bytes = memory->bytes;
    memory->public.size_bytes = memory->size;
    return true;
}

struct vc_memory *vc_memory_create(void)
{
    struct output *memory = calloc(1, sizeof *memory);

    if (memory == NULL) {
        return NULL;
    }
    (void)pthread_mutex_init(&memory->lock, NULL);
    memory->public.writer = (struct vc_writer){begin, write_at, commit, memory};
    return &memory->public;
}

void vc_memory_free(struct vc_memory *public)
{
    struct output *memory = (struct output *)public;

    if (memory != NULL) {
        (void)pthread_mutex_destroy(&memory->lock);
        free(memory->bytes);
        free(memory);
    }
}
