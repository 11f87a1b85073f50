#include "http/host.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <event2/util.h>
#include <netdb.h>
#include <netinet/in.h>

#include "base/status.h"

enum {
    SLICE_MS = 5,  /* between two questions whether to go on */
    LAST_TURNS = 8 /* of the loop, for what a lookup leaves behind */
};

typedef struct finding {
    struct event_base *base;
    struct addrinfo *list;
    int result;
    bool has_ended;
} finding;

static void on_end(int result, struct addrinfo *list, void *user_data)
{
    finding *f = user_data;

    f->has_ended = true;
    f->result = result;
    f->list = list;
    (void)event_base_loopbreak(f->base); /* fails only without a loop */
}

static struct addrinfo hints_with(int flags)
{
    return (struct addrinfo){ .ai_flags = EVUTIL_AI_NUMERICSERV | flags,
                              .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_protocol = IPPROTO_TCP };
}

static int find(finding *f, struct evdns_base *dns, const char *host, const char *port,
                bool (*goes_on)(void *user_data), void *user_data)
{
    static const struct timeval slice = { .tv_usec = (suseconds_t)SLICE_MS * 1000 };
    const struct addrinfo hints = hints_with(0);

    (void)evdns_getaddrinfo(dns, host, port, &hints, on_end, f); /* NULL: it has ended */
    while (!f->has_ended) {
        if (!goes_on(user_data))
            return EVUTIL_EAI_CANCEL;
        if (event_base_loopexit(f->base, &slice) != 0 || event_base_dispatch(f->base) < 0)
            return EVUTIL_EAI_MEMORY;
    }
    return f->result;
}

hearth_status hth_host_allow_threads(hearth_error *err)
{
    return evthread_use_pthreads() == 0 ? HEARTH_OK : hth_fail(err, HEARTH_FAILED, "libevent has no threads");
}

hearth_status hth_host_find(const char *host, const char *port, const char *nameservers,
                            bool (*goes_on)(void *user_data), void *user_data, struct addrinfo **out, hearth_error *err)
{
    const struct addrinfo numeric = hints_with(EVUTIL_AI_NUMERICHOST);
    finding f = { .list = NULL };
    struct evdns_base *dns;
    int result = EVUTIL_EAI_MEMORY;

    if (evutil_getaddrinfo(host, port, &numeric, out) == 0)
        return HEARTH_OK; /* an address needs no files and no waiting */
    f.base = event_base_new();
    dns = f.base ? evdns_base_new(f.base, 0) : NULL;
    if (dns) {
        /* After one kind of addresses, the other is waited for: by default for seconds. */
        (void)evdns_base_set_option(dns, "getaddrinfo-allow-skew", "0.5");
#ifdef DNS_OPTIONS_ALL
        (void)evdns_base_resolv_conf_parse(dns, DNS_OPTIONS_ALL, nameservers ? nameservers : "/etc/resolv.conf");
#endif
        result = find(&f, dns, host, port, goes_on, user_data);
        evdns_base_free(dns, 1); /* what still runs ends with an error, in the turns below */
        for (int i = 0; i < LAST_TURNS; i++)
            (void)event_base_loop(f.base, EVLOOP_NONBLOCK);
    }
    if (f.base)
        event_base_free(f.base);
    if (result == 0) {
        *out = f.list;
        return HEARTH_OK;
    }
    hth_host_free(f.list);
    if (result == EVUTIL_EAI_CANCEL)
        return hth_fail(err, HEARTH_TIMED_OUT, "looking up '%s' takes too long", host);
    if (result == EVUTIL_EAI_MEMORY)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to look up '%s'", host);
    return hth_fail(err, HEARTH_NOT_FOUND, "the host '%s' is not found: %s", host, evutil_gai_strerror(result));
}

void hth_host_free(struct addrinfo *list)
{
    if (list)
        evutil_freeaddrinfo(list); /* libevent's, or the system's */
}
