#include "store/store_reply.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#if HIREDIS_MAJOR < 1
typedef int list_length;
#else
typedef size_t list_length;
#endif

struct hth_store_reader {
    redisReader *reader;
    size_t n_parts; /* of the reply that is being read */
    size_t n_bytes; /* likewise */
};

/* ---- one reply ---- */

void hth_store_reply_free(const hth_store_reply *reply)
{
    if (!reply)
        return;
    for (size_t i = 0; reply->type == HTH_STORE_LIST && i < reply->n; i++)
        hth_store_reply_free(reply->parts[i]); /* NOLINT(misc-no-recursion): hiredis bounds the depth */
    free(reply->parts);
    free((void *)reply);
}

const hth_store_reply *hth_store_reply_at(const hth_store_reply *reply, size_t i)
{
    return reply && reply->type == HTH_STORE_LIST && i < reply->n ? reply->parts[i] : NULL;
}

const char *hth_store_reply_text(const hth_store_reply *reply)
{
    return reply && reply->type == HTH_STORE_TEXT ? reply->text : "";
}

int64_t hth_store_reply_integer(const hth_store_reply *reply)
{
    return reply && reply->type == HTH_STORE_INTEGER ? reply->integer : 0;
}

/* ---- what hiredis calls ---- */

/* Is there room for another part, with so many bytes? */
static bool count_part(hth_store_reader *reader, size_t n)
{
    if (reader->n_parts == HTH_STORE_REPLY_PARTS_MAX || n > HTH_STORE_REPLY_BYTES_MAX - reader->n_bytes)
        return false;
    reader->n_parts++;
    reader->n_bytes += n;
    return true;
}

/* Make a part with a copy of a text, and put it where it belongs. NULL: no memory, or beyond the bounds. */
static hth_store_reply *make(const redisReadTask *task, hth_store_type type, const char *text, size_t n)
{
    hth_store_reader *reader = task->privdata;
    hth_store_reply *reply, *list = task->parent ? task->parent->obj : NULL;

    if (!count_part(reader, sizeof(*reply) + n))
        return NULL;
    reply = malloc(sizeof(*reply) + n + 1);
    if (!reply)
        return NULL;
    *reply = (hth_store_reply){ .type = type, .text = (char *)(reply + 1), .n = n };
    if (n > 0)
        memcpy(reply + 1, text, n);
    ((char *)(reply + 1))[n] = '\0';
    if (list)
        list->parts[task->idx] = reply;
    return reply;
}

static void *make_text(const redisReadTask *task, char *text, size_t n)
{
    return make(task, task->type == REDIS_REPLY_ERROR ? HTH_STORE_ERROR : HTH_STORE_TEXT, text, n);
}

static void *make_list(const redisReadTask *task, list_length n)
{
    hth_store_reply *reply, **parts;

    if ((size_t)n > HTH_STORE_REPLY_PARTS_MAX) /* or negative */
        return NULL;
    parts = calloc((size_t)n + 1, sizeof(hth_store_reply *));
    reply = parts ? make(task, HTH_STORE_LIST, NULL, 0) : NULL;
    if (!reply) {
        free(parts);
        return NULL;
    }
    reply->parts = parts;
    reply->n = (size_t)n;
    return reply;
}

static void *make_integer(const redisReadTask *task, long long value)
{
    hth_store_reply *reply = make(task, HTH_STORE_INTEGER, NULL, 0);

    if (reply)
        reply->integer = value;
    return reply;
}

static void *make_nil(const redisReadTask *task)
{
    return make(task, HTH_STORE_NIL, NULL, 0);
}

#if HIREDIS_MAJOR >= 1
/* Types of RESP3, which nobody asked for. Without these functions, hiredis would take a number for a part. */
static void *refuse_double(const redisReadTask *task, double value, char *text, size_t n)
{
    (void)task;
    (void)value;
    (void)text;
    (void)n;
    return NULL;
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)task;
    (void)value;
    return NULL;
}
#endif

static void free_part(void *reply)
{
    hth_store_reply_free(reply);
}

/* ---- the reader ---- */

hth_store_reader *hth_store_reader_new(void)
{
    static redisReplyObjectFunctions functions = {
        .createString = make_text,
        .createArray = make_list,
        .createInteger = make_integer,
        .createNil = make_nil,
#if HIREDIS_MAJOR >= 1
        .createDouble = refuse_double,
        .createBool = refuse_bool,
#endif
        .freeObject = free_part
    };
    hth_store_reader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return NULL;
    reader->reader = redisReaderCreateWithFunctions(&functions);
    if (!reader->reader) {
        free(reader);
        return NULL;
    }
    reader->reader->privdata = reader;
    return reader;
}

void hth_store_reader_free(hth_store_reader *reader)
{
    if (!reader)
        return;
    redisReaderFree(reader->reader);
    free(reader);
}

hearth_status hth_store_reader_feed(hth_store_reader *reader, const void *bytes, size_t n, hearth_error *err)
{
    if (n > HTH_STORE_REPLY_BYTES_MAX - (reader->reader->len - reader->reader->pos))
        return hth_fail(err, HEARTH_CORRUPT, "a reply has more than %d bytes", HTH_STORE_REPLY_BYTES_MAX);
    if (redisReaderFeed(reader->reader, bytes, n) != 0)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a reply");
    return HEARTH_OK;
}

hearth_status hth_store_reader_next(hth_store_reader *reader, hth_store_reply **out, hearth_error *err)
{
    void *reply = NULL;

    *out = NULL;
    if (redisReaderGetReply(reader->reader, &reply) != 0)
        return reader->reader->err == REDIS_ERR_OOM
                 ? hth_fail(err, HEARTH_CORRUPT,
                            "a reply is too long, or has too many parts, or there is no memory for it")
                 : hth_fail(err, HEARTH_CORRUPT, "it does not speak the protocol of Redis (%s)",
                            reader->reader->errstr);
    if (reply)
        reader->n_parts = reader->n_bytes = 0;
    *out = reply;
    return HEARTH_OK;
}
