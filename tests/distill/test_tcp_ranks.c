/* test_tcp_ranks.c - ranks that find each other by TCP, each a thread of the test with a socket of this machine: what
 * they exchange, who is sent away, what does not begin, a rank that goes. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "distill/ranks/tcp_carrier.h"
#include "support.h"

#define MOST_RANKS 4
#define LONG       300000 /* more numbers than a socket holds */

struct call {
    struct vc_tcp_where where;
    struct vc_ctx *ctx;
    void *handle;
    enum vc_status status;
    char text[VC_MESSAGE_BYTES];
    bool dies;      /* behind the first exchange */
    bool exchanged; /* what it had to */
    char why[VC_CARRIER_WHY];
    uint32_t (*in)[LONG];
    uint32_t *out;
};

static bool never(void *user)
{
    (void)user;
    return false;
}

/* A port that nobody has. */
static unsigned free_port(const char *host, int *held)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0 && inet_pton(AF_INET, host, &at.sin_addr) == 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    if (held != NULL) {
        assert_int_equal(listen(fd, 1), 0);
        *held = fd;
    } else {
        (void)close(fd);
    }
    return ntohs(at.sin_port);
}

/* Rank r sends rank k the numbers r * 1000 + k, ...; more to higher ranks, none to itself, and none from 1 to 0. */
static size_t n_numbers(unsigned from, unsigned to)
{
    return from == 1 && to == 0 ? 0 : to > from ? LONG : 3;
}

static bool exchange(struct call *c)
{
    struct vc_piece out[MOST_RANKS], in[MOST_RANKS];
    unsigned rank = c->where.rank;
    bool right = true;

    for (unsigned k = 0; k < LONG; k++) {
        c->out[k] = rank * 1000000 + k;
    }
    memset(c->in, 0, MOST_RANKS * sizeof *c->in);
    for (unsigned k = 0; k < c->where.size; k++) {
        out[k] = (struct vc_piece){c->out, n_numbers(rank, k) * sizeof *c->out};
        in[k] = (struct vc_piece){c->in[k], n_numbers(k, rank) * sizeof *c->out};
    }
    if (!vc_tcp_carrier.exchange(c->handle, out, in, never, NULL, c->why)) {
        return false;
    }
    for (unsigned k = 0; k < c->where.size; k++) {
        for (size_t i = 0; k != rank && i < n_numbers(k, rank); i++) {
            right = right && c->in[k][i] == k * 1000000 + i;
        }
    }
    return right;
}

static void *rank_thread(void *argument)
{
    struct call *c = argument;
    bool whole = true;

    c->status = vc_tcp_open(c->ctx, &c->where, &c->handle);
    if (c->status != VC_OK) {
        (void)snprintf(c->text, sizeof c->text, "%s", vc_ctx_message(c->ctx));
        return NULL;
    }
    for (unsigned k = 0; whole && k < (c->dies ? 1 : 3); k++) {
        whole = exchange(c);
    }
    c->exchanged = whole;
    vc_tcp_carrier.close(c->handle, whole);
    return NULL;
}

static void begin_rank(struct call *c)
{
    c->ctx = test_ctx();
    c->in = calloc(MOST_RANKS, sizeof *c->in);
    c->out = calloc(LONG, sizeof *c->out);
    assert_true(c->in != NULL && c->out != NULL);
}

static void end_rank(struct call *c)
{
    vc_ctx_free(c->ctx);
    free(c->in);
    free(c->out);
}

static void run_ranks(struct call *calls, unsigned n)
{
    pthread_t ids[MOST_RANKS];

    for (unsigned k = 0; k < n; k++) {
        begin_rank(&calls[k]);
        assert_int_equal(pthread_create(&ids[k], NULL, rank_thread, &calls[k]), 0);
    }
    for (unsigned k = 0; k < n; k++) {
        (void)pthread_join(ids[k], NULL);
        end_rank(&calls[k]);
    }
}

static void set_calls(struct call *calls, const char *host, unsigned size, double patience)
{
    unsigned port = free_port("127.0.0.1", NULL);

    memset(calls, 0, MOST_RANKS * sizeof *calls);
    for (unsigned k = 0; k < MOST_RANKS; k++) {
        calls[k].where = (struct vc_tcp_where){
            .host = host, .port = port, .rank = k, .size = size, .token = 17, .patience = patience};
    }
}

/* Also by a name, and on all addresses of the machine, as with a host that is none of the three names. */
static void test_exchange(void **unused)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "127.0.0.2"};
    struct call calls[MOST_RANKS];

    (void)unused;
    for (unsigned size = 2; size <= MOST_RANKS; size++) {
        set_calls(calls, hosts[size - 2], size, 30);
        run_ranks(calls, size);
        for (unsigned k = 0; k < size; k++) {
            assert_string_equal(calls[k].text, "");
            assert_int_equal(calls[k].status, VC_OK);
            assert_true(calls[k].exchanged);
        }
    }
}

/* The others hear that it has gone, and end. */
static void test_death(void **unused)
{
    struct call calls[MOST_RANKS];

    (void)unused;
    set_calls(calls, "127.0.0.1", 3, 30);
    calls[1].dies = true;
    run_ranks(calls, 3);
    assert_true(calls[1].exchanged);
    for (unsigned k = 0; k < 3; k += 2) {
        assert_int_equal(calls[k].status, VC_OK);
        assert_false(calls[k].exchanged);
        assert_non_null(strstr(calls[k].why, "has closed the connection"));
    }
}

/* A process of another job is sent away, and the ranks find each other all the same. */
static void test_stranger(void **unused)
{
    struct call calls[MOST_RANKS];

    (void)unused;
    set_calls(calls, "127.0.0.1", 2, 30);
    calls[2].where.rank = 1;
    calls[2].where.token = 18;
    calls[2].where.patience = 1;
    run_ranks(calls, 3);
    assert_int_equal(calls[0].status, VC_OK);
    assert_int_equal(calls[1].status, VC_OK);
    assert_true(calls[0].exchanged && calls[1].exchanged);
    assert_int_equal(calls[2].status, VC_E_DEVICE);
}

/* Connected to that port of this machine, once somebody listens there. */
static int knock(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const struct timespec nap = {0, 1000000};

    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &at.sin_addr), 1);
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        assert_true(fd >= 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
            return fd;
        }
        (void)close(fd);
        (void)nanosleep(&nap, NULL);
    }
}

#define SILENT 12

/* Strangers who come before a rank and say nothing, too little or something else: each alone would have had five
 * seconds, and the ranks have 30. They are sent away. */
static void test_silent(void **unused)
{
    struct call calls[MOST_RANKS];
    pthread_t ids[2];
    int fds[SILENT];
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char byte;

    (void)unused;
    set_calls(calls, "127.0.0.1", 2, 30);
    for (unsigned k = 0; k < 2; k++) {
        begin_rank(&calls[k]);
    }
    assert_int_equal(pthread_create(&ids[0], NULL, rank_thread, &calls[0]), 0);
    for (unsigned k = 0; k < SILENT; k++) {
        fds[k] = knock(calls[0].where.port);
    }
    assert_int_equal(send(fds[1], "vc", 2, MSG_NOSIGNAL), 2);
    assert_int_equal(send(fds[2], request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    (void)close(fds[3]);
    fds[3] = -1;
    assert_int_equal(pthread_create(&ids[1], NULL, rank_thread, &calls[1]), 0);
    for (unsigned k = 0; k < 2; k++) {
        (void)pthread_join(ids[k], NULL);
        assert_string_equal(calls[k].text, "");
        assert_int_equal(calls[k].status, VC_OK);
        assert_true(calls[k].exchanged);
        end_rank(&calls[k]);
    }
    for (unsigned k = 0; k < SILENT; k++) {
        if (fds[k] >= 0) {
            assert_true(recv(fds[k], &byte, 1, 0) <= 0);
            (void)close(fds[k]);
        }
    }
}

static void test_refusals(void **unused)
{
    struct call calls[MOST_RANKS];
    int held = -1;

    (void)unused;
    set_calls(calls, "127.0.0.1", 2, 10); /* two sizes */
    calls[1].where.size = 3;
    run_ranks(calls, 2);
    assert_int_equal(calls[0].status, VC_E_DEVICE);
    assert_string_equal(calls[0].text, "rank 1 was told of 3 ranks, rank 0 of 2");
    assert_int_equal(calls[1].status, VC_E_DEVICE);
    assert_non_null(strstr(calls[1].text, "is not rank 0 of this job"));

    set_calls(calls, "127.0.0.1", 3, 10); /* one number twice */
    calls[2].where.rank = 1;
    run_ranks(calls, 3);
    assert_int_equal(calls[0].status, VC_E_DEVICE);
    assert_string_equal(calls[0].text, "two processes are rank 1 of 3");

    set_calls(calls, "127.0.0.1", 2, 0.2); /* nobody comes; nobody is there */
    run_ranks(calls, 1);
    assert_int_equal(calls[0].status, VC_E_DEVICE);
    assert_string_equal(calls[0].text, "rank 0: 1 of 2 ranks did not come within 0.2 seconds");
    run_ranks(calls + 1, 1);
    assert_int_equal(calls[1].status, VC_E_DEVICE);
    assert_non_null(strstr(calls[1].text, "rank 0 does not answer at 127.0.0.1, port "));

    set_calls(calls, "127.0.0.1", 2, 0.2);
    calls[0].where.port = free_port("127.0.0.1", &held);
    run_ranks(calls, 1);
    (void)close(held);
    assert_int_equal(calls[0].status, VC_E_DEVICE);
    assert_non_null(strstr(calls[0].text, ": another program has it"));
}

/* Ctrl-C while the others are awaited. */
static void *interrupt(void *ctx)
{
    const struct timespec nap = {0, 100000000};

    (void)nanosleep(&nap, NULL);
    vc_ctx_cancel(ctx);
    return NULL;
}

static void test_interrupted(void **unused)
{
    struct call calls[MOST_RANKS];
    struct vc_ctx *ctx = test_ctx();
    void *handle = NULL;
    pthread_t id;

    (void)unused;
    set_calls(calls, "127.0.0.1", 2, 60);
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(pthread_create(&id, NULL, interrupt, ctx), 0);
        assert_int_equal(vc_tcp_open(ctx, &calls[k].where, &handle), VC_E_CANCELLED);
        assert_null(handle);
        (void)pthread_join(id, NULL);
    }
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange), cmocka_unit_test(test_death),    cmocka_unit_test(test_stranger),
        cmocka_unit_test(test_silent),   cmocka_unit_test(test_refusals), cmocka_unit_test(test_interrupted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
