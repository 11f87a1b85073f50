/*
 * history.c - see history.h
 */
#include "cache/history.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Without memory for its table, an addition fails and leaves its item out. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "base/bytes.h"
#include "base/hash.h"

#define ALLOCATION_BYTES ((size_t)32) /* about the cost of an allocation besides its bytes */

typedef struct record record;
typedef struct space space;
typedef struct node node;

/* A place in the tree of a space. The text of a node is that of its parent with the edge behind it. */
struct node {
    node *parent; /* NULL: the root */
    node *first;  /* child */
    node *next;   /* sibling */
    char *edge;   /* [n_edge] */
    size_t n_edge;
    record *record; /* NULL: none ends here */
};

struct record {
    hth_history_digest digest; /* the key in `by_digest` */
    UT_hash_handle hh;
    space *space;
    node *node;
    record *below; /* NULL: it stands on the beginning */
    unsigned n_above;
    hearth_token *tokens; /* [n_tokens], behind the record below */
    size_t n_tokens;
    size_t n_tokens_all;
    size_t n_bytes_all; /* of text, from the beginning */
    bool is_new;
    record *prev, *next;         /* in `by_use` */
    record *prev_new, *next_new; /* in `fresh` */
};

struct space {
    hth_history_space name; /* the key in `spaces` */
    UT_hash_handle hh;
    hth_history_digest digest;
    node root;
};

struct hth_history {
    size_t bytes_max;
    uint32_t n_vocab;

    /* Guards everything below. Innermost. */
    pthread_mutex_t lock;
    space *spaces;
    record *by_digest;
    record *by_use; /* the latest use first */
    record *fresh;  /* not shown yet; a record behind the one below it */
    size_t n_bytes; /* in use */
    size_t n_records;
};

/* ---- memory ---- */

static size_t node_bytes(const node *n)
{
    return sizeof(*n) + n->n_edge + 2 * ALLOCATION_BYTES;
}

static size_t record_bytes(const record *r)
{
    return sizeof(*r) + r->n_tokens * sizeof(*r->tokens) + 2 * ALLOCATION_BYTES;
}

static void unlink_new(hth_history *h, record *r)
{
    if (r->is_new)
        DL_DELETE2(h->fresh, r, prev_new, next_new);
    r->is_new = false;
}

static void link_new(hth_history *h, record *r)
{
    DL_APPEND2(h->fresh, r, prev_new, next_new);
    r->is_new = true;
}

/* Free the nodes that lead nowhere, from this one upwards. */
static void prune_nodes(hth_history *h, node *n)
{
    while (n->parent && !n->record && !n->first) {
        node *parent = n->parent, **at = &parent->first;

        while (*at != n)
            at = &(*at)->next;
        *at = n->next;
        h->n_bytes -= node_bytes(n);
        free(n->edge);
        free(n);
        n = parent;
    }
}

/* Free a space without texts. */
static void prune_space(hth_history *h, space *s)
{
    if (s->root.first)
        return;
    HASH_DEL(h->spaces, s);
    h->n_bytes -= sizeof(*s) + ALLOCATION_BYTES;
    free(s);
}

static void remove_record(hth_history *h, record *r)
{
    node *n = r->node;
    space *s = r->space;

    assert(r->n_above == 0);
    unlink_new(h, r);
    HASH_DEL(h->by_digest, r);
    DL_DELETE(h->by_use, r);
    if (r->below)
        r->below->n_above--;
    n->record = NULL;
    h->n_bytes -= record_bytes(r);
    h->n_records--;
    free(r->tokens);
    free(r);
    prune_nodes(h, n);
    prune_space(h, s);
}

static void evict(hth_history *h)
{
    while (h->n_bytes > h->bytes_max && h->by_use)
        remove_record(h, h->by_use->prev); /* the last of the list */
}

/* The records below count as used later, so that they outlive it. */
static void use(hth_history *h, record *r)
{
    for (; r; r = r->below) {
        DL_DELETE(h->by_use, r);
        DL_PREPEND(h->by_use, r);
    }
}

hth_history *hth_history_new(size_t bytes_max, uint32_t n_vocab)
{
    hth_history *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->bytes_max = bytes_max;
    h->n_vocab = n_vocab;
    pthread_mutex_init(&h->lock, NULL);
    return h;
}

void hth_history_free(hth_history *h)
{
    if (!h)
        return;
    while (h->by_use)
        remove_record(h, h->by_use->prev);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

size_t hth_history_bytes(hth_history *h)
{
    size_t n;

    pthread_mutex_lock(&h->lock);
    n = h->n_bytes;
    pthread_mutex_unlock(&h->lock);
    return n;
}

size_t hth_history_count(hth_history *h)
{
    size_t n;

    pthread_mutex_lock(&h->lock);
    n = h->n_records;
    pthread_mutex_unlock(&h->lock);
    return n;
}

/* ---- the tree ---- */

static node *child_of(const node *n, char first)
{
    node *child = n->first;

    while (child && child->edge[0] != first)
        child = child->next;
    return child;
}

static size_t n_equal(const char *a, const char *b, size_t n)
{
    size_t i = 0;

    while (n - i >= 64 && memcmp(a + i, b + i, 64) == 0)
        i += 64;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

/* Go down along the text while whole edges agree; *n_out: the bytes that lead to the result. */
static node *descend(node *n, const char *text, size_t n_bytes, size_t *n_out)
{
    size_t at = 0;

    while (at < n_bytes) {
        node *child = child_of(n, text[at]);

        if (!child || child->n_edge > n_bytes - at || memcmp(child->edge, text + at, child->n_edge) != 0)
            break;
        at += child->n_edge;
        n = child;
    }
    *n_out = at;
    return n;
}

/* A node with a copy of the edge, without a place in the tree; NULL without memory. */
static node *node_new(const char *edge, size_t n_edge)
{
    node *n = calloc(1, sizeof(*n));
    char *copy = malloc(n_edge + 1); /* malloc(0) may return NULL */

    if (!n || !copy) {
        free(n);
        free(copy);
        return NULL;
    }
    memcpy(copy, edge, n_edge);
    n->edge = copy;
    n->n_edge = n_edge;
    return n;
}

static void put_child(hth_history *h, node *parent, node *child)
{
    child->parent = parent;
    child->next = parent->first;
    parent->first = child;
    h->n_bytes += node_bytes(child);
}

/* Put a node into the edge of a child, behind n_upper of its bytes; NULL without memory. */
static node *split(hth_history *h, node *child, size_t n_upper)
{
    node *upper = node_new(child->edge, n_upper), **at = &child->parent->first;
    char *lower = malloc(child->n_edge - n_upper);

    if (!upper || !lower) {
        if (upper)
            free(upper->edge);
        free(upper);
        free(lower);
        return NULL;
    }
    memcpy(lower, child->edge + n_upper, child->n_edge - n_upper);
    h->n_bytes -= node_bytes(child);
    while (*at != child)
        at = &(*at)->next;
    *at = child->next;
    free(child->edge);
    child->edge = lower;
    child->n_edge -= n_upper;
    put_child(h, child->parent, upper);
    put_child(h, upper, child);
    return upper;
}

/* The node of the text behind a node, made if it is missing; NULL without memory, perhaps with an empty node. */
static node *grow(hth_history *h, node *from, const char *text, size_t n_bytes)
{
    size_t at;
    node *n = descend(from, text, n_bytes, &at), *child;

    if (at == n_bytes)
        return n;
    child = child_of(n, text[at]);
    if (child) {
        size_t n_room = child->n_edge < n_bytes - at ? child->n_edge : n_bytes - at;
        size_t n_upper = n_equal(child->edge, text + at, n_room);

        n = split(h, child, n_upper);
        if (!n)
            return NULL;
        at += n_upper;
    }
    if (at == n_bytes)
        return n;
    child = node_new(text + at, n_bytes - at);
    if (child)
        put_child(h, n, child);
    return child;
}

/* ---- records ---- */

bool hth_history_digest_of(const hth_history_record *of, hth_history_digest *out)
{
    hth_sha256 *sha = hth_sha256_new();
    uint8_t digest[HTH_SHA256_BYTES], head[HTH_HISTORY_DIGEST_BYTES + 8], one[4];

    if (!sha)
        return false;
    memcpy(head, of->below.bytes, HTH_HISTORY_DIGEST_BYTES);
    hth_put_u64(head + HTH_HISTORY_DIGEST_BYTES, of->n_bytes);
    hth_sha256_update(sha, head, sizeof(head));
    hth_sha256_update(sha, of->text, of->n_bytes);
    for (size_t i = 0; i < of->n_tokens; i++) {
        hth_put_u32(one, (uint32_t)of->tokens[i]);
        hth_sha256_update(sha, one, sizeof(one));
    }
    hth_sha256_peek(sha, digest);
    hth_sha256_free(sha);
    memcpy(out->bytes, digest, sizeof(out->bytes));
    return true;
}

static space *find_space(hth_history *h, const hth_history_space *name)
{
    space *s;

    HASH_FIND(hh, h->spaces, name, sizeof(*name), s);
    return s;
}

static space *find_or_add_space(hth_history *h, const hth_history_space *name)
{
    space *s = find_space(h, name);
    uint8_t digest[HTH_SHA256_BYTES];

    if (s)
        return s;
    s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->name = *name;
    hth_sha256_of(name->bytes, sizeof(name->bytes), digest);
    memcpy(s->digest.bytes, digest, sizeof(s->digest.bytes));
    HASH_ADD(hh, h->spaces, name, sizeof(s->name), s);
    if (!find_space(h, name)) {
        free(s);
        return NULL;
    }
    h->n_bytes += sizeof(*s) + ALLOCATION_BYTES;
    return s;
}

/* Are the record's tokens, from the beginning, the first of these? */
static bool begins_with(const record *r, const hearth_token *tokens, size_t n_tokens)
{
    if (r->n_tokens_all > n_tokens)
        return false;
    for (; r; r = r->below)
        if (memcmp(r->tokens, tokens + r->n_tokens_all - r->n_tokens, r->n_tokens * sizeof(*tokens)) != 0)
            return false;
    return true;
}

/* Add a record behind another one (NULL: at the beginning). Its place is free. The result may be evicted later. */
static record *add_behind(hth_history *h, space *s, record *below, const char *text, size_t n_bytes,
                          const hearth_token *tokens, size_t n_tokens)
{
    const hth_history_record plain = {
        .below = below ? below->digest : s->digest,
        .text = text,
        .n_bytes = n_bytes,
        .tokens = tokens,
        .n_tokens = n_tokens,
    };
    hth_history_digest digest;
    record *made = calloc(1, sizeof(*made)), *other;
    hearth_token *copy = malloc(n_tokens * sizeof(*copy));
    node *n = NULL;

    if (made && copy && hth_history_digest_of(&plain, &digest)) {
        HASH_FIND(hh, h->by_digest, &digest, sizeof(digest), other);
        n = other ? NULL : grow(h, below ? below->node : &s->root, text, n_bytes);
    }
    if (!n || n->record) {
        free(made);
        free(copy);
        return NULL;
    }
    memcpy(copy, tokens, n_tokens * sizeof(*copy));
    *made = (record){
        .digest = digest,
        .space = s,
        .node = n,
        .below = below,
        .tokens = copy,
        .n_tokens = n_tokens,
        .n_tokens_all = n_tokens + (below ? below->n_tokens_all : 0),
        .n_bytes_all = n_bytes + (below ? below->n_bytes_all : 0),
    };
    HASH_ADD(hh, h->by_digest, digest, sizeof(made->digest), made);
    HASH_FIND(hh, h->by_digest, &digest, sizeof(digest), other);
    if (!other) {
        free(made);
        free(copy);
        prune_nodes(h, n);
        return NULL;
    }
    n->record = made;
    if (below)
        below->n_above++;
    DL_PREPEND(h->by_use, made);
    h->n_bytes += record_bytes(made);
    h->n_records++;
    use(h, made);
    return made;
}

static bool are_tokens(const hth_history *h, const hearth_token *tokens, size_t n_tokens)
{
    for (size_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= h->n_vocab)
            return false;
    return true;
}

/*
 * The longest record that text and tokens begin with, but for one of the whole text; NULL: none. n: where text leads.
 */
static record *find_below(const node *n, size_t n_bytes, const hearth_token *tokens, size_t n_tokens)
{
    for (; n; n = n->parent)
        if (n->record && n->record->n_bytes_all < n_bytes && begins_with(n->record, tokens, n_tokens))
            return n->record;
    return NULL;
}

static void add(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                const hearth_token *tokens, size_t n_tokens)
{
    space *s = find_or_add_space(h, name);
    size_t n_at, n_text = 0, n_below = 0;
    record *below, *made;
    node *n;

    if (!s)
        return;
    n = descend(&s->root, text, n_bytes, &n_at);
    if (n_at == n_bytes && n->record) {
        if (n->record->n_above > 0 || begins_with(n->record, tokens, n_tokens)) {
            use(h, n->record);
            return;
        }
        remove_record(h, n->record); /* perhaps with its space */
        s = find_or_add_space(h, name);
        if (!s)
            return;
        n = descend(&s->root, text, n_bytes, &n_at);
    }
    below = find_below(n, n_bytes, tokens, n_tokens);
    if (below) {
        n_text = below->n_bytes_all;
        n_below = below->n_tokens_all;
    }
    made = n_below < n_tokens && n_bytes - n_text <= HTH_HISTORY_SPAN_BYTES_MAX
             ? add_behind(h, s, below, text + n_text, n_bytes - n_text, tokens + n_below, n_tokens - n_below)
             : NULL;
    if (made)
        link_new(h, made);
    else
        prune_space(h, s);
    evict(h);
}

void hth_history_add(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                     const hearth_token *tokens, size_t n_tokens)
{
    assert(n_bytes >= 1);
    assert(n_tokens >= 1);
    if (!are_tokens(h, tokens, n_tokens))
        return;
    pthread_mutex_lock(&h->lock);
    add(h, name, text, n_bytes, tokens, n_tokens);
    pthread_mutex_unlock(&h->lock);
}

/* ---- finding ---- */

static hearth_token *tokens_of(const record *r)
{
    hearth_token *tokens = malloc(r->n_tokens_all * sizeof(*tokens));

    for (; tokens && r; r = r->below)
        memcpy(tokens + r->n_tokens_all - r->n_tokens, r->tokens, r->n_tokens * sizeof(*tokens));
    return tokens;
}

static bool find(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                 hth_history_fits_fn fits, void *user_data, hth_history_found *out)
{
    space *s = find_space(h, name);
    size_t n_at;
    const node *n = s ? descend(&s->root, text, n_bytes, &n_at) : NULL;
    hearth_token *tokens;

    while (n && !(n->record && fits(n->record->n_bytes_all, user_data)))
        n = n->parent;
    if (!n)
        return true;
    tokens = tokens_of(n->record);
    if (!tokens)
        return false;
    use(h, n->record);
    *out = (hth_history_found){
        .n_bytes = n->record->n_bytes_all,
        .tokens = tokens,
        .n_tokens = n->record->n_tokens_all,
    };
    return true;
}

bool hth_history_find(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                      hth_history_fits_fn fits, void *user_data, hth_history_found *out)
{
    bool ok;

    *out = (hth_history_found){ .n_bytes = 0 };
    pthread_mutex_lock(&h->lock);
    ok = find(h, name, text, n_bytes, fits, user_data, out);
    pthread_mutex_unlock(&h->lock);
    return ok;
}

/* ---- for files ---- */

static bool is_digest_of_space(const space *s, const hth_history_digest *digest)
{
    return memcmp(&s->digest, digest, sizeof(*digest)) == 0;
}

void hth_history_add_record(hth_history *h, const hth_history_record *from)
{
    record *below;
    space *s;

    if (from->n_bytes == 0 || from->n_tokens == 0 || !are_tokens(h, from->tokens, from->n_tokens))
        return;
    pthread_mutex_lock(&h->lock);
    HASH_FIND(hh, h->by_digest, &from->below, sizeof(from->below), below);
    s = find_or_add_space(h, &from->space);
    if (s && (below ? below->space == s : is_digest_of_space(s, &from->below)))
        (void)add_behind(h, s, below, from->text, from->n_bytes, from->tokens, from->n_tokens); /* else it is known */
    if (s)
        prune_space(h, s);
    evict(h);
    pthread_mutex_unlock(&h->lock);
}

/* The text of a record behind the record below, as a new array. */
static char *text_of(const record *r, size_t *n_out)
{
    size_t n_bytes = r->n_bytes_all - (r->below ? r->below->n_bytes_all : 0), at = n_bytes;
    char *text = malloc(n_bytes);

    for (const node *n = r->node; text && at > 0; n = n->parent) {
        at -= n->n_edge;
        memcpy(text + at, n->edge, n->n_edge);
    }
    *n_out = n_bytes;
    return text;
}

void hth_history_take_new(hth_history *h, hth_history_record_fn on_record, void *user_data)
{
    bool goes_on = true;

    pthread_mutex_lock(&h->lock);
    while (h->fresh && goes_on) {
        record *r = h->fresh;
        size_t n_bytes;
        char *text = text_of(r, &n_bytes);
        const hth_history_record shown = {
            .space = r->space->name,
            .below = r->below ? r->below->digest : r->space->digest,
            .text = text,
            .n_bytes = n_bytes,
            .tokens = r->tokens,
            .n_tokens = r->n_tokens,
        };

        goes_on = !text || on_record(&shown, user_data);
        free(text);
        if (goes_on)
            unlink_new(h, r);
    }
    pthread_mutex_unlock(&h->lock);
}

void hth_history_all_are_new(hth_history *h)
{
    record *r;

    pthread_mutex_lock(&h->lock);
    while (h->fresh)
        unlink_new(h, h->fresh);
    DL_FOREACH(h->by_use, r) /* a record comes before those that stand on it: its latest use is later */
    link_new(h, r);
    pthread_mutex_unlock(&h->lock);
}
