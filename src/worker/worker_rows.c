/*
 * worker_rows.c - the fetches that run: which request waits for which number
 */
#include "worker/worker_rows.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/carrier_messages.h"

enum {
    FETCHES_MAX = 256,     /* at once; only requests that have a place in the scheduler begin one */
    MESSAGES_AT_ONCE = 64, /* then other work of the loop gets its turn */
};

typedef struct fetch {
    uint64_t request_id;
    uint32_t number;
} fetch;

struct hth_worker_rows {
    int socket;

    /* Guards the fields below. Innermost lock: no message is sent and no request found under it. */
    pthread_mutex_t lock;
    bool has_carrier;
    uint32_t last_number;
    size_t n;
    fetch fetches[FETCHES_MAX]; /* [n], those that run */

    uint8_t buffer[HTH_CARRIER_MESSAGE_BYTES_MAX]; /* event loop only */
};

hearth_status hth_worker_rows_new(int socket, hth_worker_rows **out, hearth_error *err)
{
    hth_worker_rows *rows = calloc(1, sizeof(*rows));

    if (!rows)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for messages to the carrier");
    rows->socket = socket;
    pthread_mutex_init(&rows->lock, NULL);
    *out = rows;
    return HEARTH_OK;
}

void hth_worker_rows_free(hth_worker_rows *rows)
{
    if (!rows)
        return;
    pthread_mutex_destroy(&rows->lock);
    free(rows);
}

/* Add a fetch. Its number; 0: there is no room, or no carrier. */
static uint32_t begin(hth_worker_rows *rows, uint64_t request_id)
{
    uint32_t number = 0;

    pthread_mutex_lock(&rows->lock);
    if (rows->has_carrier && rows->n < FETCHES_MAX) {
        rows->last_number += rows->last_number == UINT32_MAX ? 2 : 1; /* never 0 */
        number = rows->last_number;
        rows->fetches[rows->n++] = (fetch){ .request_id = request_id, .number = number };
    }
    pthread_mutex_unlock(&rows->lock);
    return number;
}

/* Remove the fetch with this number (0: any), of this request (0: any). False: there is none. */
static bool end(hth_worker_rows *rows, uint32_t number, uint64_t request_id, fetch *out)
{
    bool found = false;

    pthread_mutex_lock(&rows->lock);
    for (size_t i = 0; i < rows->n && !found; i++) {
        const fetch at = rows->fetches[i];

        found = (number == 0 || at.number == number) && (request_id == 0 || at.request_id == request_id);
        if (!found)
            continue;
        *out = at;
        rows->fetches[i] = rows->fetches[--rows->n];
    }
    pthread_mutex_unlock(&rows->lock);
    return found;
}

bool hth_worker_rows_fetch(hth_worker_rows *rows, const char *node, const hearth_missing *missing)
{
    hth_carrier_message message = {
        .kind = HTH_CARRIER_FETCH,
        .n_tokens = missing->n_known,
        .n_rows = missing->n_prompt - missing->n_known,
        .ns = missing->compute_ns,
        .keys = missing->keys,
        .n_keys = missing->n_keys,
    };
    fetch ended;

    if (missing->n_keys > HTH_CARRIER_KEYS_MAX || strlen(node) >= sizeof(message.name))
        return false;
    memcpy(message.name, node, strlen(node) + 1);
    message.number = begin(rows, missing->request_id); /* before the answer can come */
    if (message.number == 0)
        return false;
    if (hth_carrier_send(rows->socket, &message, -1))
        return true;
    (void)end(rows, message.number, 0, &ended); /* or the loop has, because the carrier is gone */
    return false;
}

void hth_worker_rows_drop(hth_worker_rows *rows, uint64_t request_id)
{
    fetch ended;

    while (rows && request_id != 0 && end(rows, 0, request_id, &ended)) {
        const hth_carrier_message message = { .kind = HTH_CARRIER_DROP, .number = ended.number };

        (void)hth_carrier_send(rows->socket, &message, -1); /* otherwise the rows come in vain */
    }
}

static void set_carrier(hth_worker_rows *rows, bool is_there)
{
    pthread_mutex_lock(&rows->lock);
    rows->has_carrier = is_there;
    pthread_mutex_unlock(&rows->lock);
}

/* There is no carrier: all fetches are over, and no more begin. */
static void lose_carrier(hth_worker_rows *rows, hearth_model *model)
{
    fetch ended;

    set_carrier(rows, false);
    while (end(rows, 0, 0, &ended))
        (void)hearth_rows_came(model, ended.request_id, NULL); /* not found: it has just ended */
}

static void hear(hth_worker_rows *rows, hearth_model *model, const hth_carrier_message *message)
{
    fetch ended;

    if (message->kind == HTH_CARRIER_HERE)
        set_carrier(rows, true);
    else if (message->kind == HTH_CARRIER_GONE)
        lose_carrier(rows, model);
    else if (message->kind == HTH_CARRIER_FETCHED && message->number > 0 && end(rows, message->number, 0, &ended))
        (void)hearth_rows_came(model, ended.request_id, NULL); /* likewise */
}

bool hth_worker_rows_take(hth_worker_rows *rows, hearth_model *model)
{
    hth_carrier_received received = HTH_CARRIER_GOT;
    hth_carrier_message message;
    int fd;

    for (unsigned i = 0; i < MESSAGES_AT_ONCE && received != HTH_CARRIER_NONE; i++) {
        received = hth_carrier_receive(rows->socket, rows->buffer, &message, &fd);
        if (fd >= 0)
            (void)close(fd); /* no message to a worker has one */
        if (received == HTH_CARRIER_CLOSED)
            break;
        if (received == HTH_CARRIER_GOT)
            hear(rows, model, &message);
    }
    if (received == HTH_CARRIER_CLOSED)
        lose_carrier(rows, model);
    return received != HTH_CARRIER_CLOSED;
}
