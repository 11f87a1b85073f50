/*
 * A first pass finds the members of the head and the growing member. A second one over the elements of that finds the
 * ends of the last ones; so a body of a million elements does not cost as many digests. Then all text is hashed once,
 * from place to place. Nothing recurses, and no pass allocates except for the state of the hash.
 */
#include "api/anchors.h"

#include <assert.h>
#include <string.h>

#include "api/json_cursor.h"
#include "base/bytes.h"
#include "base/hash.h"

/*
 * The order of these names is that of the digest. "thinking" and "output_config" are not here: they may hold an effort,
 * but also a budget or a schema, which change from turn to turn while the prompt does not. Nor are "tool_choice" and
 * "suffix", which change the beginning of few prompts.
 */
static const char *const head_names[] = {
    /* what all tokens depend on, or what the server puts before the client's text */
    "cache_salt", "lora", "previous_response_id", "raw", "template", "context",
    /* words and values that a template may write into its first lines */
    "chat_template_kwargs", "enable_thinking", "think", "reasoning", "reasoning_effort",
    /* text */
    "system", "instructions", "tools", "functions", "input_extra"
};
/* The first one that is there counts. The prompt of /infill begins with "input_prefix" and goes on with "prompt". */
static const char *const growing_names[] = { "messages", "input", "input_prefix", "prompt" };

enum {
    HEADS = sizeof(head_names) / sizeof(head_names[0]),
    GROWING = sizeof(growing_names) / sizeof(growing_names[0]),
    WAITING_BYTES = 1024,
};

/* An end of the head, strides, ends of elements, and an end of the prompt that is none of them. */
static_assert(1 + HTH_ANCHOR_STRIDES + HTH_ANCHOR_ENDS + 1 <= HTH_ANCHORS_MAX, "there is room for all anchors");

/* ---- the members ---- */

typedef struct value {
    const char *begin, *end; /* NULL: absent */
} value;

typedef struct members {
    value heads[HEADS], growing[GROWING];
} members;

/* The place of key among names, [n], or else n. A body may have a million members, so a look at one byte helps. */
static size_t find_name(const char *const *names, size_t n, const char *key)
{
    size_t i = 0;

    while (i < n && (*key != *names[i] || strcmp(key, names[i]) != 0))
        i++;
    return i;
}

/* Find the place of a member's value. NULL for other members, and for all but the first of equal ones. */
static value *find_place(members *all, const char *key)
{
    const size_t i = find_name(growing_names, GROWING, key), k = find_name(head_names, HEADS, key);
    value *place = i < GROWING ? &all->growing[i] : k < HEADS ? &all->heads[k] : NULL;

    return place && !place->begin ? place : NULL;
}

static bool find_member(hth_cursor *text, const char *key, void *user_data)
{
    const char *begin = text->at;
    value *place = find_place(user_data, key);

    if (!hth_cursor_skip_value(text))
        return false;
    if (place)
        *place = (value){ .begin = begin, .end = text->at };
    return true;
}

static bool is_null(const value *v)
{
    return v->end - v->begin == 4 && memcmp(v->begin, "null", 4) == 0;
}

/* Can a text grow in it? */
static bool is_growing(const value *v)
{
    return v->begin && (*v->begin == '"' || *v->begin == '[' || *v->begin == '{');
}

/* ---- the ends of elements ---- */

typedef struct ends {
    const char *at[HTH_ANCHOR_ENDS]; /* a ring */
    size_t n;                        /* of all that there were */
    const char *last;                /* of all elements, numbers among them; NULL: there is none */
} ends;

static bool find_end(hth_cursor *text, void *user_data)
{
    ends *all = user_data;
    const bool has_anchor = text->at < text->end && (*text->at == '"' || *text->at == '[' || *text->at == '{');

    if (!hth_cursor_skip_value(text))
        return false;
    all->last = text->at;
    if (has_anchor)
        all->at[all->n++ % HTH_ANCHOR_ENDS] = text->at;
    return true;
}

/* ---- the digests ---- */

typedef struct taker {
    hth_sha256 *sha;
    size_t n_bytes;   /* of values so far */
    size_t stride;    /* bytes between two of them */
    size_t stride_at; /* n_bytes at the next one; SIZE_MAX: there is none */
    hth_anchor *out;
    size_t n_out;
    size_t n_waiting;
    char waiting[WAITING_BYTES]; /* for the hash, which is slow at a few bytes at a time */
} taker;

static void flush(taker *t)
{
    hth_sha256_update(t->sha, t->waiting, t->n_waiting);
    t->n_waiting = 0;
}

static void hash(taker *t, const char *bytes, size_t n)
{
    if (n > WAITING_BYTES - t->n_waiting)
        flush(t);
    if (n > WAITING_BYTES) {
        hth_sha256_update(t->sha, bytes, n);
    } else {
        memcpy(t->waiting + t->n_waiting, bytes, n);
        t->n_waiting += n;
    }
}

/* Take an anchor here, if there is none yet. */
static void put_anchor(taker *t)
{
    uint8_t sha256[HTH_SHA256_BYTES];
    uint64_t digest;

    if (t->n_out > 0 && t->out[t->n_out - 1].n_bytes == t->n_bytes)
        return;
    assert(t->n_out < HTH_ANCHORS_MAX);
    flush(t);
    hth_sha256_peek(t->sha, sha256);
    digest = hth_get_u64(sha256);
    t->out[t->n_out++] = (hth_anchor){ .digest = digest ? digest : 1, .n_bytes = (uint32_t)t->n_bytes };
}

/* Add text of a value. */
static void put_text(taker *t, const char *bytes, size_t n)
{
    while (n >= t->stride_at - t->n_bytes) {
        const size_t n_before = t->stride_at - t->n_bytes;

        hash(t, bytes, n_before);
        bytes += n_before;
        n -= n_before;
        t->n_bytes = t->stride_at;
        t->stride_at += t->stride;
        put_anchor(t);
    }
    hash(t, bytes, n);
    t->n_bytes += n;
}

/* Add text without the white space that is not within strings. The text begins and ends outside of them. */
static void put_values(taker *t, const char *begin, const char *end)
{
    hth_cursor text = { .at = begin, .end = end };

    while (text.at < end) {
        const char *run;

        hth_cursor_skip_space(&text);
        run = text.at;
        while (text.at < end && !hth_cursor_is_space(*text.at))
            if (*text.at++ == '"' && !hth_cursor_skip_string(&text))
                text.at = end; /* not reached: the strings of values that were found end */
        put_text(t, run, (size_t)(text.at - run));
    }
}

static void put_name(taker *t, const char *name)
{
    hash(t, name, strlen(name));
    hash(t, ":", 1);
}

static void put_scope(taker *t, const void *scope, size_t n_scope)
{
    uint8_t length[8];

    hth_put_u64(length, n_scope);
    hth_sha256_update(t->sha, length, sizeof(length));
    if (n_scope > 0)
        hth_sha256_update(t->sha, scope, n_scope);
}

static void put_head(taker *t, const members *all)
{
    for (size_t i = 0; i < HEADS; i++) {
        const value *head = &all->heads[i];

        if (!head->begin || is_null(head))
            continue;
        put_name(t, head_names[i]);
        put_values(t, head->begin, head->end);
        hash(t, ",", 1);
    }
    if (t->n_bytes > 0)
        put_anchor(t);
}

/* An array up to the end of its last element, with anchors at the ends. */
static void put_array(taker *t, const value *array, const ends *all)
{
    const char *at = array->begin;

    for (size_t i = all->n > HTH_ANCHOR_ENDS ? all->n - HTH_ANCHOR_ENDS : 0; i < all->n; i++) {
        const char *end = all->at[i % HTH_ANCHOR_ENDS];

        put_values(t, at, end);
        put_anchor(t);
        at = end;
    }
    put_values(t, at, all->last);
    put_anchor(t);
}

/* The last anchor is the end of the prompt. A member without any text adds none. */
static void put_growing(taker *t, const char *name, const value *growing, const ends *all)
{
    const size_t n = (size_t)(growing->end - growing->begin);
    const bool is_array = *growing->begin == '[', is_string = *growing->begin == '"';

    if (is_array ? !all->last : is_string && n == 2)
        return;
    put_name(t, name);
    t->stride_at = t->n_bytes + t->stride;
    if (is_array) {
        put_array(t, growing, all);
    } else if (is_string) {
        put_text(t, growing->begin, n - 1); /* a longer prompt has more text in place of the quote */
        put_anchor(t);
    } else {
        put_values(t, growing->begin, growing->end);
        put_anchor(t);
    }
}

/* The distance of strides in a body of n bytes. */
static size_t stride_of(size_t n)
{
    size_t stride = HTH_ANCHOR_STRIDE_BYTES_MIN;

    while (n / stride > HTH_ANCHOR_STRIDES)
        stride *= 2;
    return stride;
}

size_t hth_api_anchors(const void *scope, size_t n_scope, const char *body, size_t n, hth_anchor out[HTH_ANCHORS_MAX])
{
    members all = { .heads = { { .begin = NULL } } };
    ends elements = { .n = 0 };
    taker t = { .stride = stride_of(n), .stride_at = SIZE_MAX, .out = out }; /* the head has no strides */
    hth_cursor text;
    size_t i = 0;

    if (n > HTH_ANCHOR_BODY_BYTES_MAX || !hth_cursor_read_body(body, n, find_member, &all))
        return 0;
    while (i < GROWING && !is_growing(&all.growing[i]))
        i++;
    if (i == GROWING)
        return 0;
    text = (hth_cursor){ .at = all.growing[i].begin, .end = all.growing[i].end };
    if (hth_cursor_take(&text, '[') && !hth_cursor_read_elements(&text, find_end, &elements))
        return 0;
    t.sha = hth_sha256_new();
    if (!t.sha)
        return 0;
    put_scope(&t, scope, n_scope);
    put_head(&t, &all);
    put_growing(&t, growing_names[i], &all.growing[i], &elements);
    hth_sha256_free(t.sha);
    return t.n_out;
}
