/*
 * serve.c - files go from the disk into the connection, a piece at a time
 *
 * The bytes are not checked here: who gets them checks them as those of a stranger.
 */
#include "carrier/serve.h"

#include <stdlib.h>

#include "base/os.h"
#include "carrier/link.h"
#include "carrier/offer.h"

enum { PIECE_BYTES = 256 << 10 };
#define SECOND_NS UINT64_C(1000000000)
#define BEGIN_NS (5 * SECOND_NS)    /* until the first request is there */
#define SILENT_NS (10 * SECOND_NS)  /* without a byte; the other node may wait for its disk */
#define WHOLE_NS (1800 * SECOND_NS) /* of a connection */

typedef struct serving {
    hth_tiers *tiers;
    const atomic_bool *stop;
    hth_served *out;
    uint64_t begin_ns;
    bool has_begun; /* the first request is there */
    hth_link link;
    uint8_t piece[PIECE_BYTES];
} serving;

static bool goes_on(void *user_data)
{
    const serving *s = user_data;
    const uint64_t now = hth_os_monotonic_ns();

    return !atomic_load_explicit(s->stop, memory_order_relaxed) &&
           now - s->begin_ns < (s->has_begun ? WHOLE_NS : BEGIN_NS) && now - s->link.last_ns < SILENT_NS;
}

/* Read a request. False: none came, or none that a carrier writes. The caller frees *out. */
static bool read_request(serving *s, hth_row_wish **out, uint32_t *n_out)
{
    uint8_t head[HTH_ROW_REQUEST_BYTES], bytes[HTH_ROW_WISH_BYTES];

    if (!hth_link_read(&s->link, head, sizeof(head)) || !hth_row_request_read(head, n_out))
        return false;
    *out = malloc(*n_out * sizeof(**out));
    if (!*out)
        return false;
    for (uint32_t i = 0; i < *n_out; i++)
        if (!hth_link_read(&s->link, bytes, sizeof(bytes)) || !hth_row_wish_read(bytes, &(*out)[i]))
            return false;
    s->has_begun = true;
    return true;
}

/* The file, or nothing if it is gone. False: the connection ended, or the file did not give what was promised. */
static bool send_row(serving *s, const hth_row_meta *meta)
{
    const hth_fs *fs = hth_tiers_fs(s->tiers);
    hth_row_frame frame = { .id = meta->id };
    uint8_t head[HTH_ROW_HEAD_BYTES];
    size_t n_bytes, n_read = 0;
    bool is_sent;
    int fd;

    if (hth_tiers_open_file(s->tiers, &meta->id, &fd, &n_bytes, NULL) != HEARTH_OK)
        return true;
    if (n_bytes != meta->bytes) { /* the index was wrong about it, and so was the manifest */
        hth_fs_close(fs, fd);
        return true;
    }
    frame.n_bytes = n_bytes;
    hth_row_frame_write(&frame, head);
    is_sent = hth_link_write(&s->link, head, sizeof(head));
    for (size_t at = 0; is_sent && at < n_bytes; at += n_read) {
        const size_t n = n_bytes - at < PIECE_BYTES ? n_bytes - at : PIECE_BYTES;

        is_sent = hth_fs_read_full(fs, fd, s->piece, n, at, &n_read) == 0 && n_read == n &&
                  hth_link_write(&s->link, s->piece, n);
    }
    hth_fs_close(fs, fd);
    if (is_sent) {
        s->out->n_rows++;
        s->out->n_bytes += n_bytes;
        hth_tiers_touch(s->tiers, &meta->id, 1);
    }
    return is_sent;
}

static bool answer(serving *s, const hth_row_wish *wishes, uint32_t n_wishes)
{
    const hth_row_frame end = { .is_end = true };
    uint8_t manifest[HTH_ROW_MANIFEST_BYTES], head[HTH_ROW_HEAD_BYTES];
    hth_offer offer;
    bool is_sent = hth_offer_make(s->tiers, wishes, n_wishes, &offer);

    if (is_sent) {
        hth_row_manifest_write(&offer.manifest, manifest);
        is_sent = hth_link_write(&s->link, manifest, sizeof(manifest));
    }
    for (size_t i = 0; is_sent && i < offer.rows.n; i++)
        is_sent = send_row(s, &offer.rows.rows[i]);
    hth_offer_deinit(&offer);
    hth_row_frame_write(&end, head);
    return is_sent && hth_link_write(&s->link, head, sizeof(head));
}

void hth_serve(hth_tiers *tiers, struct ssl_ctx_st *context, int fd, const atomic_bool *stop, const hth_log *log,
               hth_served *out, atomic_bool *is_member)
{
    serving *s = calloc(1, sizeof(*s));
    hearth_error err = { .message = "" };
    hth_row_wish *wishes = NULL;
    uint32_t n_wishes = 0;
    bool goes = true;

    *out = (hth_served){ .n_rows = 0 };
    if (!s) {
        hth_link link = { .fd = fd };

        hth_link_close(&link);
        return;
    }
    *s = (serving){ .tiers = tiers,
                    .stop = stop,
                    .out = out,
                    .begin_ns = hth_os_monotonic_ns(),
                    .link = { .goes_on = goes_on, .user_data = s } };
    if (hth_link_accept(&s->link, context, fd, &err) != HEARTH_OK) {
        hth_info(log, "no rows for another node: %s", err.message);
        goes = false;
    }
    atomic_store(is_member, goes);
    while (goes) {
        goes = read_request(s, &wishes, &n_wishes) && answer(s, wishes, n_wishes);
        free(wishes);
        wishes = NULL;
    }
    hth_link_close(&s->link);
    if (out->n_rows > 0)
        hth_tiers_maintain(tiers);
    free(s);
}
