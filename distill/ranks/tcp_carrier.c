/* tcp_carrier.c - see tcp_carrier.h. */
#include "distill/ranks/tcp_carrier.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC      0x31736b6e61726376u /* "vcranks1" on machines of one byte order */
#define SLICE_MS   50                  /* between two looks at whether the wait is given up */
#define HELLO_TIME 5.0                 /* seconds for what has connected to say who it is */
#define GUESTS     32                  /* connections at a time that have not said who they are */
#define SILENCE    60                  /* seconds without a sign of the other machine until its connection is lost */
#define MOST       ((size_t)1 << 30)   /* bytes of one call */

struct tcp {
    struct vc_ctx *ctx;
    unsigned rank, size;
    int *fds;             /* by rank; -1: none */
    struct pollfd *polls; /* by rank */
    size_t *sent, *received;
};

struct hello {
    uint64_t magic, token;
    uint32_t rank, size, port, unused;
};

/* Where a rank listens: what rank 0 tells the others. */
struct place {
    uint32_t family; /* 4 or 6 */
    uint32_t port;
    uint8_t address[16];
};

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

/* What has connected, and has not said yet who it is. */
struct guest {
    int fd; /* -1: none */
    size_t done;
    double until;
    struct hello hello;
    union any_address from;
};

/* The ranks on their way to each other. */
struct opening {
    struct vc_ctx *ctx;
    const struct vc_tcp_where *where;
    struct tcp *tcp;
    double until;
    struct place *places;
};

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void shut(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

static void set_up(int fd)
{
    const int on = 1;

    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT) && defined(TCP_USER_TIMEOUT)
    /* a machine that has lost its power sends no end of the connection */
    const int idle = SILENCE / 2, between = SILENCE / 6, count = 3;
    const unsigned silence = SILENCE * 1000u;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof silence);
#endif
}

static bool cancelled(struct vc_ctx *ctx)
{
    return atomic_load_explicit(&ctx->shared->cancelled, memory_order_relaxed) != 0;
}

/* ---- waiting for one connection, with a time ---- */

/* VC_E_IO: the time is over. */
static enum vc_status wait_fd(struct vc_ctx *ctx, int fd, short events, double until)
{
    struct pollfd one = {.fd = fd, .events = events};

    while (poll(&one, 1, SLICE_MS) <= 0) {
        if (cancelled(ctx)) {
            return vc_fail(ctx, VC_E_CANCELLED, "interrupted while the ranks find each other");
        }
        if (now() > until) {
            return VC_E_IO;
        }
    }
    return VC_OK;
}

/* All n bytes, out or in; VC_E_IO: the time is over, or the other side has closed. */
static enum vc_status transfer(struct vc_ctx *ctx, int fd, bool out, void *at, size_t n, double until)
{
    size_t done = 0;
    enum vc_status status = VC_OK;

    while (status == VC_OK && done < n) {
        ssize_t k =
            out ? send(fd, (char *)at + done, n - done, MSG_NOSIGNAL) : recv(fd, (char *)at + done, n - done, 0);

        if (k > 0) {
            done += (size_t)k;
        } else if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
            status = wait_fd(ctx, fd, out ? POLLOUT : POLLIN, until);
        } else {
            status = VC_E_IO;
        }
    }
    return status;
}

/* ---- listening and connecting ---- */

static int listen_at(const union any_address *at, socklen_t n, unsigned size)
{
    const int on = 1, off = 0;
    int fd = socket(at->any.sa_family, SOCK_STREAM, 0);
    int cause;

    if (fd < 0) {
        return -1;
    }
    set_up(fd);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at->any.sa_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(fd, &at->any, n) == 0 && listen(fd, (int)size + 16) == 0) {
        return fd;
    }
    cause = errno;
    shut(&fd);
    errno = cause;
    return -1;
}

/* On all addresses of this machine. */
static int listen_wide(unsigned port, unsigned size)
{
    union any_address v4 = {.v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}};
    union any_address v6 = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    int fd;

    v4.v4.sin_addr.s_addr = htonl(INADDR_ANY);
    v6.v6.sin6_addr = in6addr_any;
    fd = listen_at(&v6, sizeof v6.v6, size);
    return fd >= 0 || errno == EADDRINUSE ? fd : listen_at(&v4, sizeof v4.v4, size);
}

static bool is_local(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0;
}

/* VC_E_IO: nobody answers there yet. */
static enum vc_status connect_to(struct opening *o, const union any_address *at, socklen_t n, int *out)
{
    union any_address here, there;
    socklen_t n_here = sizeof here, n_there = sizeof there, n_cause = sizeof(int);
    int cause = 0;
    int fd = socket(at->any.sa_family, SOCK_STREAM, 0);
    enum vc_status status = fd >= 0 ? VC_OK : VC_E_IO;

    *out = -1;
    VC_TRY(status);
    set_up(fd);
    if (connect(fd, &at->any, n) != 0) {
        double until = now() + HELLO_TIME;

        VC_TRY(errno == EINPROGRESS || errno == EINTR ? VC_OK : VC_E_IO);
        VC_TRY(wait_fd(o->ctx, fd, POLLOUT, until < o->until ? until : o->until));
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &n_cause) != 0 || cause != 0 ||
        getsockname(fd, &here.any, &n_here) != 0 || getpeername(fd, &there.any, &n_there) != 0) {
        VC_TRY(VC_E_IO);
    }
    /* a port of this machine that nobody listens on may connect to itself */
    VC_TRY(n_here == n_there && memcmp(&here, &there, n_here) == 0 ? VC_E_IO : VC_OK);
    *out = fd;
    fd = -1;
out:
    shut(&fd);
    return status;
}

static enum vc_status find_host(struct opening *o, struct addrinfo **list)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char port[16];
    int cause;

    (void)snprintf(port, sizeof port, "%u", o->where->port);
    cause = getaddrinfo(o->where->host, port, &hints, list);
    return cause == 0 ? VC_OK
                      : vc_fail(o->ctx, VC_E_DEVICE, "the address of rank 0, %s, is not known: %s", o->where->host,
                                gai_strerror(cause));
}

static enum vc_status listen_first(struct opening *o, int *out)
{
    struct addrinfo *list = NULL;
    enum vc_status status = VC_OK;

    *out = -1;
    if (is_local(o->where->host)) {
        VC_TRY(find_host(o, &list));
        for (const struct addrinfo *a = list; a != NULL && *out < 0; a = a->ai_next) {
            union any_address at;

            memcpy(&at, a->ai_addr, a->ai_addrlen);
            *out = listen_at(&at, a->ai_addrlen, o->where->size);
        }
    } else {
        *out = listen_wide(o->where->port, o->where->size);
    }
    if (*out < 0) {
        int cause = errno;

        status = vc_fail(o->ctx, VC_E_DEVICE, "rank 0 cannot listen on port %u: %s", o->where->port,
                         cause == EADDRINUSE ? "another program has it" : strerror(cause));
    }
out:
    if (list != NULL) {
        freeaddrinfo(list);
    }
    return status;
}

/* Rank 0 may have been started later than this one. */
static enum vc_status connect_first(struct opening *o)
{
    const struct timespec nap = {0, SLICE_MS * 1000000};
    struct addrinfo *list = NULL;
    enum vc_status status;

    VC_TRY(find_host(o, &list));
    do {
        status = VC_E_IO;
        for (const struct addrinfo *a = list; a != NULL && status == VC_E_IO; a = a->ai_next) {
            union any_address at;

            memcpy(&at, a->ai_addr, a->ai_addrlen);
            status = connect_to(o, &at, a->ai_addrlen, &o->tcp->fds[0]);
        }
        if (status == VC_E_IO) {
            (void)nanosleep(&nap, NULL);
        }
    } while (status == VC_E_IO && now() < o->until && !cancelled(o->ctx));
    if (status == VC_E_IO) {
        status = cancelled(o->ctx) ? vc_fail(o->ctx, VC_E_CANCELLED, "interrupted while the ranks find each other")
                                   : vc_fail(o->ctx, VC_E_DEVICE, "rank 0 does not answer at %s, port %u",
                                             o->where->host, o->where->port);
    }
out:
    if (list != NULL) {
        freeaddrinfo(list);
    }
    return status;
}

/* ---- who is where ---- */

static struct hello own_hello(const struct opening *o, unsigned port)
{
    return (struct hello){
        .magic = MAGIC, .token = o->where->token, .rank = o->where->rank, .size = o->where->size, .port = port};
}

static struct place place_of(const union any_address *at, unsigned port)
{
    struct place place = {.family = 6, .port = port};

    if (at->any.sa_family == AF_INET) {
        place.family = 4;
        memcpy(place.address, &at->v4.sin_addr, 4);
    } else if (IN6_IS_ADDR_V4MAPPED(&at->v6.sin6_addr)) {
        place.family = 4;
        memcpy(place.address, (const uint8_t *)&at->v6.sin6_addr + 12, 4);
    } else {
        memcpy(place.address, &at->v6.sin6_addr, 16);
    }
    return place;
}

static socklen_t address_of(const struct place *place, union any_address *at)
{
    memset(at, 0, sizeof *at);
    if (place->family == 4) {
        at->v4.sin_family = AF_INET;
        at->v4.sin_port = htons((uint16_t)place->port);
        memcpy(&at->v4.sin_addr, place->address, 4);
        return sizeof at->v4;
    }
    at->v6.sin6_family = AF_INET6;
    at->v6.sin6_port = htons((uint16_t)place->port);
    memcpy(&at->v6.sin6_addr, place->address, 16);
    return sizeof at->v6;
}

/* Rank 0 has seen it come from this address of its own machine: others reach it where they reach rank 0. */
static bool is_loopback(const struct place *place)
{
    return place->family == 4 ? place->address[0] == 127
                              : memcmp(place->address, &in6addr_loopback, sizeof in6addr_loopback) == 0;
}

/* ---- guests: their hellos come side by side, so that one that says nothing keeps nobody waiting ---- */

/* Takes in what has connected, as long as there is a place. */
static void let_in(struct guest *guests, int listener)
{
    for (unsigned k = 0; k < GUESTS; k++) {
        struct guest *g = &guests[k];
        socklen_t n = sizeof g->from;

        if (g->fd >= 0) {
            continue;
        }
        g->fd = accept(listener, &g->from.any, &n);
        if (g->fd < 0) {
            return; /* nobody, or it has gone again */
        }
        set_up(g->fd);
        g->done = 0;
        g->until = now() + HELLO_TIME;
    }
}

/* Until somebody connects or says something, or a look at the time is due. Who connects waits where all places are
 * taken. */
static void wait_guests(const struct guest *guests, int listener)
{
    struct pollfd polls[GUESTS + 1] = {{.fd = -1, .events = POLLIN}};

    for (unsigned k = 0; k < GUESTS; k++) {
        polls[k + 1] = (struct pollfd){.fd = guests[k].fd, .events = POLLIN};
        polls[0].fd = guests[k].fd < 0 ? listener : polls[0].fd;
    }
    (void)poll(polls, GUESTS + 1, SLICE_MS);
}

/* True once the hello is whole. Who has gone, is too late or is not of this job is sent away. */
static bool has_said(struct guest *g, uint64_t token)
{
    while (g->fd >= 0 && g->done < sizeof g->hello) {
        ssize_t k = recv(g->fd, (char *)&g->hello + g->done, sizeof g->hello - g->done, 0);

        if (k > 0) {
            g->done += (size_t)k;
        } else if (k < 0 && errno == EINTR) {
            continue;
        } else if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && now() <= g->until) {
            return false;
        } else {
            shut(&g->fd);
        }
    }
    if (g->fd >= 0 && (g->hello.magic != MAGIC || g->hello.token != token)) {
        shut(&g->fd);
    }
    return g->fd >= 0;
}

/* A guest of this job becomes a rank. */
static enum vc_status take_rank(struct opening *o, struct guest *g, unsigned lowest)
{
    const struct vc_tcp_where *w = o->where;
    const struct hello *hello = &g->hello;

    if (hello->size != w->size) {
        return vc_fail(o->ctx, VC_E_DEVICE, "rank %u was told of %u ranks, rank %u of %u", hello->rank, hello->size,
                       w->rank, w->size);
    }
    if (hello->rank < lowest || hello->rank >= w->size || o->tcp->fds[hello->rank] >= 0) {
        return vc_fail(o->ctx, VC_E_DEVICE, "two processes are rank %u of %u", hello->rank, hello->size);
    }
    o->places[hello->rank] = place_of(&g->from, hello->port);
    o->tcp->fds[hello->rank] = g->fd;
    g->fd = -1;
    return VC_OK;
}

/* The ranks from `lowest` up, as they come. */
static enum vc_status accept_ranks(struct opening *o, int listener, unsigned lowest)
{
    const struct vc_tcp_where *w = o->where;
    struct guest guests[GUESTS];
    unsigned here = 0;
    enum vc_status status = VC_OK;

    for (unsigned k = 0; k < GUESTS; k++) {
        guests[k].fd = -1;
    }
    while (here < w->size - lowest) {
        if (cancelled(o->ctx)) {
            VC_TRY(vc_fail(o->ctx, VC_E_CANCELLED, "interrupted while the ranks find each other"));
        }
        if (now() > o->until) {
            VC_TRY(vc_fail(o->ctx, VC_E_DEVICE, "rank %u: %u of %u ranks did not come within %g seconds", w->rank,
                           w->size - lowest - here, w->size, w->patience));
        }
        wait_guests(guests, listener);
        let_in(guests, listener);
        for (unsigned k = 0; k < GUESTS; k++) {
            if (guests[k].fd >= 0 && has_said(&guests[k], w->token)) {
                VC_TRY(take_rank(o, &guests[k], lowest));
                here++;
            }
        }
    }
out:
    for (unsigned k = 0; k < GUESTS; k++) {
        shut(&guests[k].fd);
    }
    return status;
}

/* A failure to send is seen at the first exchange. */
static enum vc_status open_first(struct opening *o)
{
    struct hello hello = own_hello(o, o->where->port);
    int listener = -1;
    enum vc_status status;

    VC_TRY(listen_first(o, &listener));
    VC_TRY(accept_ranks(o, listener, 1));
    for (unsigned k = 1; k < o->where->size; k++) {
        int fd = o->tcp->fds[k];

        status = transfer(o->ctx, fd, true, &hello, sizeof hello, o->until);
        if (status == VC_OK) {
            status = transfer(o->ctx, fd, true, o->places, o->where->size * sizeof *o->places, o->until);
        }
        VC_TRY(status == VC_E_IO ? vc_fail(o->ctx, VC_E_DEVICE, "rank %u has gone before the work began", k) : status);
    }
out:
    shut(&listener);
    return status;
}

/* This rank's own port, on the addresses that rank 0 listens on. */
static enum vc_status listen_behind(struct opening *o, int *listener, unsigned *port)
{
    union any_address at;
    socklen_t n = sizeof at;

    if (!is_local(o->where->host)) {
        *listener = listen_wide(0, o->where->size);
    } else if (getsockname(o->tcp->fds[0], &at.any, &n) == 0) {
        *(at.any.sa_family == AF_INET ? &at.v4.sin_port : &at.v6.sin6_port) = 0;
        *listener = listen_at(&at, n, o->where->size);
    }
    n = sizeof at;
    if (*listener < 0 || getsockname(*listener, &at.any, &n) != 0) {
        return vc_fail(o->ctx, VC_E_DEVICE, "rank %u cannot listen: %s", o->where->rank, strerror(errno));
    }
    *port = ntohs(at.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
    return VC_OK;
}

static enum vc_status open_other(struct opening *o)
{
    const struct vc_tcp_where *w = o->where;
    union any_address first;
    socklen_t n = sizeof first;
    struct hello hello, theirs;
    unsigned port = 0;
    int listener = -1;
    enum vc_status status;

    VC_TRY(connect_first(o));
    VC_TRY(listen_behind(o, &listener, &port));
    hello = own_hello(o, port);
    status = transfer(o->ctx, o->tcp->fds[0], true, &hello, sizeof hello, o->until);
    if (status == VC_OK) {
        status = transfer(o->ctx, o->tcp->fds[0], false, &theirs, sizeof theirs, o->until);
    }
    if (status == VC_OK && (theirs.magic != MAGIC || theirs.token != w->token || theirs.size != w->size)) {
        status = VC_E_IO;
    }
    if (status == VC_OK) {
        status = transfer(o->ctx, o->tcp->fds[0], false, o->places, w->size * sizeof *o->places, o->until);
    }
    if (status == VC_E_IO || getpeername(o->tcp->fds[0], &first.any, &n) != 0) {
        VC_TRY(
            vc_fail(o->ctx, VC_E_DEVICE, "what answers at %s, port %u, is not rank 0 of this job", w->host, w->port));
    }
    VC_TRY(status);
    for (unsigned k = 1; k < w->rank; k++) {
        struct place place = is_loopback(&o->places[k]) ? place_of(&first, o->places[k].port) : o->places[k];
        union any_address at;

        n = address_of(&place, &at);
        status = connect_to(o, &at, n, &o->tcp->fds[k]);
        if (status == VC_OK) {
            status = transfer(o->ctx, o->tcp->fds[k], true, &hello, sizeof hello, o->until);
        }
        VC_TRY(status == VC_E_IO ? vc_fail(o->ctx, VC_E_DEVICE, "rank %u does not reach rank %u", w->rank, k) : status);
    }
    VC_TRY(accept_ranks(o, listener, w->rank + 1));
out:
    shut(&listener);
    return status;
}

static void tcp_close(void *handle, bool whole)
{
    struct tcp *t = handle;

    (void)whole;
    for (unsigned k = 0; t->fds != NULL && k < t->size; k++) {
        shut(&t->fds[k]);
    }
    vc_free(t->ctx, t->fds);
    vc_free(t->ctx, t->polls);
    vc_free(t->ctx, t->sent);
    vc_free(t->ctx, t->received);
    vc_free(t->ctx, t);
}

enum vc_status vc_tcp_open(struct vc_ctx *ctx, const struct vc_tcp_where *where, void **handle)
{
    struct opening o = {.ctx = ctx, .where = where, .until = now() + where->patience};
    struct tcp *t = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *t);
    enum vc_status status = VC_OK;

    *handle = NULL;
    VC_TRY_ALLOC(t);
    *t = (struct tcp){.ctx = ctx, .rank = where->rank, .size = where->size};
    t->fds = vc_calloc_array(ctx, VC_TAG_MISC, where->size, sizeof *t->fds);
    VC_TRY_ALLOC(t->fds);
    for (unsigned k = 0; k < where->size; k++) {
        t->fds[k] = -1;
    }
    t->polls = vc_calloc_array(ctx, VC_TAG_MISC, where->size, sizeof *t->polls);
    VC_TRY_ALLOC(t->polls);
    t->sent = vc_calloc_array(ctx, VC_TAG_MISC, where->size, sizeof *t->sent);
    VC_TRY_ALLOC(t->sent);
    t->received = vc_calloc_array(ctx, VC_TAG_MISC, where->size, sizeof *t->received);
    VC_TRY_ALLOC(t->received);
    o.places = vc_calloc_array(ctx, VC_TAG_MISC, where->size, sizeof *o.places);
    VC_TRY_ALLOC(o.places);
    o.tcp = t;
    VC_TRY(where->rank == 0 ? open_first(&o) : open_other(&o));
    *handle = t;
    t = NULL;
out:
    vc_free(ctx, o.places);
    if (t != NULL) {
        tcp_close(t, false);
    }
    return status;
}

/* ---- an exchange ---- */

/* As much of a piece as goes at once; false: the other side has gone, and errno is why, or 0. */
static bool move_piece(int fd, bool out, const struct vc_piece *piece, size_t *done)
{
    while (*done < piece->bytes) {
        size_t n = piece->bytes - *done < MOST ? piece->bytes - *done : MOST;
        char *at = (char *)piece->at + *done;
        ssize_t k = out ? send(fd, at, n, MSG_NOSIGNAL) : recv(fd, at, n, 0);

        if (k > 0) {
            *done += (size_t)k;
        } else if (k < 0 && errno == EINTR) {
            continue;
        } else {
            errno = k == 0 ? 0 : errno;
            return k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        }
    }
    return true;
}

static bool tcp_exchange(void *handle, const struct vc_piece *out, const struct vc_piece *in, vc_carrier_stop_fn *stop,
                         void *user, char why[VC_CARRIER_WHY])
{
    struct tcp *t = handle;

    memset(t->sent, 0, t->size * sizeof *t->sent);
    memset(t->received, 0, t->size * sizeof *t->received);
    for (;;) {
        bool more = false;

        for (unsigned k = 0; k < t->size; k++) {
            t->polls[k] = (struct pollfd){.fd = -1};
            if (k == t->rank) {
                continue;
            }
            if (!move_piece(t->fds[k], true, &out[k], &t->sent[k]) ||
                !move_piece(t->fds[k], false, &in[k], &t->received[k])) {
                bool closed = errno == 0 || errno == ECONNRESET || errno == EPIPE;

                (void)snprintf(why, VC_CARRIER_WHY,
                               closed ? "rank %u has closed the connection" : "rank %u cannot be reached any more", k);
                return false;
            }
            t->polls[k].events =
                (short)((t->sent[k] < out[k].bytes ? POLLOUT : 0) | (t->received[k] < in[k].bytes ? POLLIN : 0));
            if (t->polls[k].events != 0) {
                t->polls[k].fd = t->fds[k];
                more = true;
            }
        }
        if (!more) {
            return true;
        }
        if (stop(user)) {
            (void)snprintf(why, VC_CARRIER_WHY, "the wait was given up");
            return false;
        }
        (void)poll(t->polls, t->size, SLICE_MS);
    }
}

const struct vc_carrier vc_tcp_carrier = {.abi = VC_CARRIER_ABI,
                                          .struct_size = sizeof vc_tcp_carrier,
                                          .name = "TCP",
                                          .exchange = tcp_exchange,
                                          .close = tcp_close};
