/*
 * fetch.c - ask, judge, and take row after row
 *
 * The memory for a row grows with the bytes that came, not with those that were announced.
 */
#include "carrier/fetch.h"

#include <stdlib.h>

#include "base/os.h"
#include "carrier/link.h"
#include "carrier/pull_judge.h"
#include "carrier/wanted.h"

enum {
    NAMES_MAX = 64,          /* missing files that are looked for by name */
    FIRST_BYTES = 256 << 10, /* of the memory for a row; then it doubles */
};

typedef struct fetching {
    hth_tiers *tiers;
    const hth_fetch_order *order;
    const atomic_bool *stop;
    hth_fetched *out;
    uint64_t begin_ns, data_ns; /* data_ns 0: the manifest did not come yet */
    uint8_t *bytes;             /* [capacity], for a row */
    size_t capacity;
    hth_row_manifest manifest;
    bool needs_all; /* there are states, see pull_judge.h */
    hth_link link;
    hth_wanted wanted;
    bool is_slow; /* the judge gave up, or nobody waits */
} fetching;

static bool goes_on(void *user_data)
{
    fetching *f = user_data;
    const uint64_t now = hth_os_monotonic_ns();
    const hth_pull pull = {
        .compute_ns = f->order->compute_ns,
        .needs_all = f->needs_all,
        .bytes_total = f->manifest.n_bytes,
        .bytes_got = f->out->n_read,
        .passed_ns = now - f->begin_ns,
        .data_ns = f->data_ns ? now - f->data_ns : 0,
        .silent_ns = now > f->link.last_ns ? now - f->link.last_ns : 0,
    };

    if (atomic_load_explicit(f->stop, memory_order_relaxed))
        f->is_slow = true;
    else if (!f->is_slow && !hth_pull_goes_on(&pull))
        f->is_slow = f->out->gave_up = true;
    return !f->is_slow;
}

/* ---- the request ---- */

static void note_rows_here(fetching *f)
{
    static const hth_row_kind kinds[] = { HTH_ROW_BLOCK, HTH_ROW_STATE, HTH_ROW_LOGITS };
    unsigned n_names = NAMES_MAX;
    hth_row_meta meta;

    for (uint32_t i = 0; i < f->order->n; i++) {
        hth_row_wish *wish = &f->order->wishes[i];

        wish->kinds_there = 0;
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            const hth_row_id id = { .key = wish->key, .kind = kinds[k] };

            if (hth_tiers_look(f->tiers, &id, &meta, &n_names))
                wish->kinds_there |= (uint8_t)(1u << (unsigned)kinds[k]);
        }
        f->needs_all = f->needs_all || hth_row_wish_has(wish, HTH_ROW_STATE);
    }
}

static bool ask(fetching *f)
{
    const size_t n_bytes = HTH_ROW_REQUEST_BYTES + (size_t)f->order->n * HTH_ROW_WISH_BYTES;
    uint8_t *bytes = malloc(n_bytes), manifest[HTH_ROW_MANIFEST_BYTES];
    bool is_there;

    if (!bytes)
        return false;
    hth_row_request_write(f->order->n, bytes);
    for (uint32_t i = 0; i < f->order->n; i++)
        hth_row_wish_write(&f->order->wishes[i], bytes + HTH_ROW_REQUEST_BYTES + (size_t)i * HTH_ROW_WISH_BYTES);
    is_there = hth_link_write(&f->link, bytes, n_bytes) && hth_link_read(&f->link, manifest, sizeof(manifest)) &&
               hth_row_manifest_read(manifest, &f->manifest);
    free(bytes);
    f->data_ns = hth_os_monotonic_ns();
    return is_there;
}

/* ---- rows ---- */

/* Read a file of n bytes into f->bytes. */
static bool read_file(fetching *f, size_t n)
{
    for (size_t at = 0; at < n;) {
        const size_t wanted = at == 0 ? FIRST_BYTES : 2 * at;
        size_t n_piece;

        if (at == f->capacity) {
            uint8_t *grown = realloc(f->bytes, wanted);

            if (!grown)
                return false;
            f->bytes = grown;
            f->capacity = wanted;
        }
        n_piece = (n < f->capacity ? n : f->capacity) - at;
        if (n_piece > FIRST_BYTES)
            n_piece = FIRST_BYTES; /* so that the judge sees the progress */
        if (!hth_link_read(&f->link, f->bytes + at, n_piece))
            return false;
        at += n_piece;
        f->out->n_read += n_piece;
    }
    return true;
}

/* The tokens behind the known ones up to which all is there. */
static void note_reach(fetching *f, const hth_row_meta *meta)
{
    const uint64_t begin = f->wanted.begin, reached = begin + f->out->n_tokens;

    if (meta->id.kind == HTH_ROW_BLOCK && meta->first_position == reached)
        f->out->n_tokens += meta->n_tokens;
    else if (meta->id.kind == HTH_ROW_STATE && f->manifest.n_keys == 0) /* a model without blocks */
        f->out->n_tokens = (uint32_t)(meta->first_position - begin);
}

/* Blocks that are here already count, too. */
static void skip_blocks_here(fetching *f)
{
    uint32_t i = f->out->n_tokens / HTH_BLOCK_TOKENS;

    for (; i < f->order->n && hth_row_wish_has(&f->order->wishes[i], HTH_ROW_BLOCK); i++)
        f->out->n_tokens += HTH_BLOCK_TOKENS;
}

static hearth_status take_row(fetching *f, const hth_row_frame *frame, hearth_error *err)
{
    hearth_status status;
    hth_row_meta meta;

    if (frame->n_bytes > f->manifest.n_bytes - f->out->n_bytes || f->out->n_rows == f->manifest.n_rows)
        return hth_fail(err, HEARTH_CORRUPT, "it sends more than it said");
    f->needs_all = f->needs_all || frame->id.kind == HTH_ROW_STATE;
    if (!read_file(f, (size_t)frame->n_bytes))
        return hth_fail(err, HEARTH_IO, "the connection broke, or was too slow");
    status = hth_tiers_check(f->tiers, &frame->id, f->bytes, (size_t)frame->n_bytes, &meta, err);
    if (status != HEARTH_OK)
        return status;
    if (!hth_wanted_take(&f->wanted, &meta))
        return hth_fail(err, HEARTH_CORRUPT, "it sent a row that it was not asked for");
    status = hth_tiers_publish(f->tiers, &meta, f->bytes, err);
    f->link.last_ns = hth_os_monotonic_ns(); /* the other node is not to blame for our disk */
    if (status != HEARTH_OK)
        return status;
    f->out->n_rows++;
    f->out->n_bytes += frame->n_bytes;
    note_reach(f, &meta);
    skip_blocks_here(f);
    return HEARTH_OK;
}

static hearth_status take_rows(fetching *f, hearth_error *err)
{
    uint8_t head[HTH_ROW_HEAD_BYTES];
    hth_row_frame frame;
    hearth_status status;

    for (;;) {
        if (!hth_link_read(&f->link, head, sizeof(head)))
            return hth_fail(err, HEARTH_IO, "the connection broke, or was too slow");
        if (!hth_row_frame_read(head, &frame))
            return hth_fail(err, HEARTH_CORRUPT, "it does not keep to the protocol");
        if (frame.is_end)
            return HEARTH_OK;
        status = take_row(f, &frame, err);
        if (status != HEARTH_OK)
            return status;
    }
}

static hearth_status fetch(fetching *f, struct ssl_ctx_st *context, hearth_error *err)
{
    const hth_fetch_order *order = f->order;
    hearth_status status = hth_link_connect(&f->link, context, order->address, err);

    if (status != HEARTH_OK)
        return status;
    if (!ask(f))
        return hth_fail(err, HEARTH_IO, "it does not keep to the protocol, broke off, or was too slow");
    if (!hth_pull_is_worth_it(order->compute_ns, f->manifest.n_bytes, order->rate, order->rate_age_ns)) {
        f->is_slow = true;
        return HEARTH_OK;
    }
    skip_blocks_here(f);
    return take_rows(f, err);
}

void hth_fetch_rows(hth_tiers *tiers, struct ssl_ctx_st *context, const hth_fetch_order *order, const atomic_bool *stop,
                    const hth_log *log, hth_fetched *out)
{
    const uint64_t now = hth_os_monotonic_ns();
    fetching f = {
        .tiers = tiers,
        .order = order,
        .stop = stop,
        .out = out,
        .begin_ns = now,
        .link = { .fd = -1, .goes_on = goes_on, .user_data = &f, .last_ns = now },
        .wanted = { .wishes = order->wishes,
                    .n = order->n,
                    .begin = order->n_known / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS },
    };
    hearth_error err = { .message = "" };
    hearth_status status;

    *out = (hth_fetched){ .end = HTH_CARRIER_BROKEN };
    note_rows_here(&f);
    status = fetch(&f, context, &err);
    hth_link_close(&f.link);
    free(f.bytes);
    out->ns = hth_os_monotonic_ns() - f.begin_ns;
    out->data_ns = f.data_ns ? hth_os_monotonic_ns() - f.data_ns : 0;
    if (out->n_rows > 0)
        hth_tiers_maintain(tiers);
    if (f.is_slow || status == HEARTH_FULL)
        out->end = HTH_CARRIER_SLOW; /* computing is better than waiting for rows that have no room here */
    else if (status == HEARTH_OK)
        out->end = out->n_rows > 0 || out->n_tokens > 0 ? HTH_CARRIER_WELL : HTH_CARRIER_NOTHING;
    if (!f.is_slow && status != HEARTH_OK)
        hth_warn(log, "rows of the node at %s were not fetched: %s", order->address, err.message);
}
