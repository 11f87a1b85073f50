#include "history/history.h"

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

#define ALLOCATION_BYTES ((size_t)32) /* approximate overhead of an allocation */

typedef struct record record;
typedef struct space space;
typedef struct node node;

/* A node in the tree of a space. The text of a node is that of its parent followed by the edge. */
struct node {
    node *parent; /* NULL: the root */
    node *first;  /* child */
    node *next;   /* sibling */
    char *edge;   /* [n_edge] */
    size_t n_edge;
    record *record; /* NULL: no record ends here */
};

struct record {
    hth_history_digest digest; /* the key in `by_digest` */
    UT_hash_handle hh;
    space *space;
    node *node;
    record *below; /* NULL: it starts at the beginning of the text */
    unsigned n_above;
    hearth_token *tokens; /* [n_tokens], after the record below */
    size_t n_tokens;
    size_t n_tokens_all;
    size_t n_bytes_all; /* of text, from its beginning */
    size_t at_reply;    /* where the reply begins in that text */
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
    record *by_use; /* most recently used first */
    record *fresh;  /* not taken yet; a record comes after the one below it */
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

/* Free the nodes without records or children, from this one upwards. */
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

/* The records below count as used more recently, so that they outlive it. */
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

/* Descend along the text while whole edges match; *n_out: the number of bytes up to the result. */
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

/* A node with a copy of the edge, not yet in the tree; NULL without memory. */
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

/* Split the edge of a child by a new node after n_upper of its bytes; NULL without memory. */
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

/* The node for the text that follows a node, created if missing; NULL without memory, perhaps leaving an empty node. */
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
    enum { TOKENS_AT_ONCE = 256 };

    hth_sha256 *sha = hth_sha256_new();
    uint8_t digest[HTH_SHA256_BYTES], head[HTH_HISTORY_DIGEST_BYTES + 8], some[4 * TOKENS_AT_ONCE];

    if (!sha)
        return false;
    memcpy(head, of->below.bytes, HTH_HISTORY_DIGEST_BYTES);
    hth_put_u64(head + HTH_HISTORY_DIGEST_BYTES, of->n_bytes);
    hth_sha256_update(sha, head, sizeof(head));
    hth_sha256_update(sha, of->text, of->n_bytes);
    for (size_t i = 0; i < of->n_tokens;) {
        size_t n = 0;

        for (; n < TOKENS_AT_ONCE && i < of->n_tokens; n++, i++)
            hth_put_u32(some + 4 * n, (uint32_t)of->tokens[i]);
        hth_sha256_update(sha, some, 4 * n);
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

void hth_history_space_digest(const hth_history_space *name, hth_history_digest *out)
{
    uint8_t digest[HTH_SHA256_BYTES];

    hth_sha256_of(name->bytes, sizeof(name->bytes), digest);
    memcpy(out->bytes, digest, sizeof(out->bytes));
}

static space *find_or_add_space(hth_history *h, const hth_history_space *name)
{
    space *s = find_space(h, name);

    if (s)
        return s;
    s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->name = *name;
    hth_history_space_digest(name, &s->digest);
    HASH_ADD(hh, h->spaces, name, sizeof(s->name), s);
    if (!find_space(h, name)) {
        free(s);
        return NULL;
    }
    h->n_bytes += sizeof(*s) + ALLOCATION_BYTES;
    return s;
}

/* Are all tokens up to the end of the record the first of these? */
static bool begins_with(const record *r, const hearth_token *tokens, size_t n_tokens)
{
    if (r->n_tokens_all > n_tokens)
        return false;
    for (; r; r = r->below)
        if (memcmp(r->tokens, tokens + r->n_tokens_all - r->n_tokens, r->n_tokens * sizeof(*tokens)) != 0)
            return false;
    return true;
}

/*
 * Add a record, whose digest is known, after another one (NULL: at the beginning). Its node must have no record. The
 * result may be evicted later.
 */
static record *add_behind(hth_history *h, space *s, record *below, const hth_history_record *plain,
                          const hth_history_digest *digest)
{
    size_t n_bytes = plain->n_bytes, n_tokens = plain->n_tokens;
    record *made = calloc(1, sizeof(*made)), *other;
    hearth_token *copy = malloc(n_tokens * sizeof(*copy));
    node *n = NULL;

    if (made && copy) {
        HASH_FIND(hh, h->by_digest, digest, sizeof(*digest), other);
        n = other ? NULL : grow(h, below ? below->node : &s->root, plain->text, n_bytes);
    }
    if (!n || n->record) {
        free(made);
        free(copy);
        return NULL;
    }
    memcpy(copy, plain->tokens, n_tokens * sizeof(*copy));
    *made = (record){
        .digest = *digest,
        .space = s,
        .node = n,
        .below = below,
        .tokens = copy,
        .n_tokens = n_tokens,
        .n_tokens_all = n_tokens + (below ? below->n_tokens_all : 0),
        .n_bytes_all = n_bytes + (below ? below->n_bytes_all : 0),
    };
    made->at_reply = made->n_bytes_all - (plain->n_reply_bytes < made->n_bytes_all ? plain->n_reply_bytes : 0);
    HASH_ADD(hh, h->by_digest, digest, sizeof(made->digest), made);
    HASH_FIND(hh, h->by_digest, digest, sizeof(*digest), other);
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
 * The longest record that text and tokens begin with, except one of the whole text; NULL: none. n: the node that text
 * leads to.
 */
static record *find_below(const node *n, size_t n_bytes, const hearth_token *tokens, size_t n_tokens)
{
    for (; n; n = n->parent)
        if (n->record && n->record->n_bytes_all < n_bytes && begins_with(n->record, tokens, n_tokens))
            return n->record;
    return NULL;
}

/* A record to be added: the part of a text after the record below, with its digest. */
typedef struct addition {
    hth_history_record part;
    hth_history_digest digest;
    bool is_needed; /* false if the text is already known */
} addition;

/* Is the text known with tokens that should stay? `at` is the node that the whole text leads to. */
static bool is_kept(const record *at, const hearth_token *tokens, size_t n_tokens)
{
    return at->n_above > 0 || n_tokens > at->n_tokens_all || begins_with(at, tokens, n_tokens);
}

/*
 * The record that a text would get, without its digest; *below_out: the record it stands on. Counts a known text as
 * used. The addition is not needed if its part has no token of its own, or is too long.
 */
static addition plan(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                     const hearth_token *tokens, size_t n_tokens, record **below_out)
{
    space *s = find_space(h, name);
    addition a = { .part = { .space = *name, .text = text, .tokens = tokens }, .is_needed = true };
    record *below = NULL;
    size_t n_at;

    if (s) {
        node *n = descend(&s->root, text, n_bytes, &n_at);

        if (n_at == n_bytes && n->record && is_kept(n->record, tokens, n_tokens)) {
            use(h, n->record);
            a.is_needed = false;
        }
        below = find_below(n, n_bytes, tokens, n_tokens);
    }
    *below_out = below;
    if (below) {
        a.part.below = below->digest;
        a.part.text += below->n_bytes_all;
        a.part.tokens += below->n_tokens_all;
    } else {
        hth_history_space_digest(name, &a.part.below);
    }
    a.part.n_bytes = n_bytes - (size_t)(a.part.text - text);
    a.part.n_tokens = n_tokens - (size_t)(a.part.tokens - tokens);
    a.is_needed = a.is_needed && a.part.n_tokens > 0 && a.part.n_bytes <= HTH_HISTORY_SPAN_BYTES_MAX;
    return a;
}

/* Add the record of a plan that is still valid. */
static void carry_out(hth_history *h, const addition *a, record *below)
{
    space *s = find_or_add_space(h, &a->part.space);
    node *n;
    size_t n_at;
    record *made;

    if (!s)
        return;
    n = descend(below ? below->node : &s->root, a->part.text, a->part.n_bytes, &n_at);
    if (n_at == a->part.n_bytes && n->record) {
        remove_record(h, n->record); /* perhaps with its space */
        s = find_or_add_space(h, &a->part.space);
        if (!s)
            return;
    }
    made = add_behind(h, s, below, &a->part, &a->digest);
    if (made)
        link_new(h, made);
    else
        prune_space(h, s);
    evict(h);
}

/* The digest is computed without the lock. If the record below has changed by then, it is computed again. */
void hth_history_add(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                     size_t n_reply_bytes, const hearth_token *tokens, size_t n_tokens)
{
    enum { TRIES = 4 };

    record *below;
    addition a;

    assert(n_bytes >= 1);
    assert(n_tokens >= 1);
    if (!are_tokens(h, tokens, n_tokens))
        return;
    pthread_mutex_lock(&h->lock);
    a = plan(h, name, text, n_bytes, tokens, n_tokens, &below);
    a.part.n_reply_bytes = n_reply_bytes;
    pthread_mutex_unlock(&h->lock);
    for (int i = 0; i < TRIES && a.is_needed && hth_history_digest_of(&a.part, &a.digest); i++) {
        hth_history_digest digest = a.digest, on = a.part.below;

        pthread_mutex_lock(&h->lock);
        a = plan(h, name, text, n_bytes, tokens, n_tokens, &below);
        if (a.is_needed && memcmp(&a.part.below, &on, sizeof(on)) == 0) {
            a.digest = digest;
            a.part.n_reply_bytes = n_reply_bytes;
            carry_out(h, &a, below);
            a.is_needed = false;
        }
        pthread_mutex_unlock(&h->lock);
    }
}

/* ---- finding ---- */

static hearth_token *tokens_of(const record *r)
{
    hearth_token *tokens = malloc(r->n_tokens_all * sizeof(*tokens));

    for (; tokens && r; r = r->below)
        memcpy(tokens + r->n_tokens_all - r->n_tokens, r->tokens, r->n_tokens * sizeof(*tokens));
    return tokens;
}

static hth_history_turn *turns_of(const record *r, size_t *n_out)
{
    hth_history_turn *turns;
    size_t n = 0;

    for (const record *each = r; each; each = each->below)
        n++;
    turns = malloc(n * sizeof(*turns));
    *n_out = n;
    for (; turns && r; r = r->below)
        turns[--n] = (hth_history_turn){ .n_bytes = (uint32_t)r->n_bytes_all,
                                         .n_tokens = (uint32_t)r->n_tokens_all,
                                         .n_reply_bytes = (uint32_t)(r->n_bytes_all - r->at_reply) };
    return turns;
}

/* turns_out NULL: they are not wanted. */
static bool find(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                 hth_history_fits_fn fits, void *user_data, hth_history_found *out, hth_history_turn **turns_out,
                 size_t *n_turns_out)
{
    const node *n = NULL;
    hearth_token *tokens = NULL;
    hth_history_turn *turns = NULL;
    space *s;
    size_t n_at;

    *out = (hth_history_found){ .n_bytes = 0 };
    pthread_mutex_lock(&h->lock);
    s = find_space(h, name);
    if (s)
        n = descend(&s->root, text, n_bytes, &n_at);
    while (n && !(n->record && fits(n->record->n_bytes_all, user_data)))
        n = n->parent;
    if (n)
        tokens = tokens_of(n->record);
    if (tokens && turns_out)
        turns = turns_of(n->record, n_turns_out);
    if (turns_out && !turns) {
        free(tokens);
        tokens = NULL;
    }
    if (tokens) {
        use(h, n->record);
        *out = (hth_history_found){
            .n_bytes = n->record->n_bytes_all,
            .tokens = tokens,
            .n_tokens = n->record->n_tokens_all,
        };
    }
    pthread_mutex_unlock(&h->lock);
    if (turns_out)
        *turns_out = turns;
    return !n || tokens;
}

bool hth_history_find(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                      hth_history_fits_fn fits, void *user_data, hth_history_found *out)
{
    return find(h, name, text, n_bytes, fits, user_data, out, NULL, NULL);
}

bool hth_history_find_turns(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                            hth_history_fits_fn fits, void *user_data, hth_history_found *out,
                            hth_history_turn **turns_out, size_t *n_turns_out)
{
    *out = (hth_history_found){ .n_bytes = 0 };
    *turns_out = NULL;
    *n_turns_out = 0;
    return n_bytes > UINT32_MAX || find(h, name, text, n_bytes, fits, user_data, out, turns_out, n_turns_out);
}

/* Copy the last bytes of a record's text, n of them at most. */
static size_t copy_end(const record *r, char *bytes, size_t n)
{
    size_t n_text = r->n_bytes_all < n ? r->n_bytes_all : n, at = n_text;

    for (const node *place = r->node; at > 0; place = place->parent) {
        size_t n_here = place->n_edge < at ? place->n_edge : at;

        at -= n_here;
        memcpy(bytes + at, place->edge + place->n_edge - n_here, n_here);
    }
    return n_text;
}

/* The node after this one in the tree below top, or after its branch; NULL: none. */
static const node *next_node(const node *n, const node *top, bool passes_branch)
{
    if (!passes_branch && n->first)
        return n->first;
    while (n != top && !n->next)
        n = n->parent;
    return n == top ? NULL : n->next;
}

/*
 * The replies of records below top that begin in the first n_known bytes of the text. After a record whose reply begins
 * later, all others also begin later. There may be many branches of other conversations that begin like this one, so
 * only some are examined, the latest first.
 */
static size_t collect_replies(const node *top, size_t n_known, hth_history_reply out[HTH_HISTORY_REPLIES_MAX])
{
    enum { NODES_MAX = 64 };

    const node *n = top;
    size_t n_out = 0;

    for (int i = 0; i < NODES_MAX && n && n_out < HTH_HISTORY_REPLIES_MAX; i++) {
        const record *r = n->record;
        bool is_later = r && r->at_reply > n_known;

        if (r && !is_later && r->n_bytes_all > n_known && r->at_reply < r->n_bytes_all) {
            hth_history_reply *reply = &out[n_out];

            reply->at = r->at_reply;
            reply->last = r->tokens[r->n_tokens - 1];
            reply->n_bytes = r->n_bytes_all - r->at_reply;
            reply->bytes = malloc(reply->n_bytes);
            if (reply->bytes) {
                (void)copy_end(r, reply->bytes, reply->n_bytes);
                n_out++;
            }
        }
        n = next_node(n, top, is_later);
    }
    return n_out;
}

size_t hth_history_replies(hth_history *h, const hth_history_space *name, const char *text, size_t n_bytes,
                           hth_history_reply out[HTH_HISTORY_REPLIES_MAX])
{
    size_t n_at = 0, n_out = 0;
    space *s;

    pthread_mutex_lock(&h->lock);
    s = find_space(h, name);
    if (s) {
        const node *n = descend(&s->root, text, n_bytes, &n_at);
        const node *child = n_at < n_bytes ? child_of(n, text[n_at]) : NULL;

        if (child) {
            size_t n_room = child->n_edge < n_bytes - n_at ? child->n_edge : n_bytes - n_at;

            n_at += n_equal(child->edge, text + n_at, n_room);
        }
        if (n_at < n_bytes)
            n_out = collect_replies(child ? child : n, n_at, out);
    }
    pthread_mutex_unlock(&h->lock);
    return n_out;
}

/* ---- for files ---- */

static bool is_digest_of_space(const space *s, const hth_history_digest *digest)
{
    return memcmp(&s->digest, digest, sizeof(*digest)) == 0;
}

/* The record with a digest in a space; NULL: none. */
static record *find_record(hth_history *h, const hth_history_space *name, const hth_history_digest *digest)
{
    record *r;

    HASH_FIND(hh, h->by_digest, digest, sizeof(*digest), r);
    return r && memcmp(&r->space->name, name, sizeof(*name)) == 0 ? r : NULL;
}

bool hth_history_end_of(hth_history *h, const hth_history_space *name, const hth_history_digest *digest,
                        hth_history_end *out)
{
    hth_history_digest first;
    const record *r;

    hth_history_space_digest(name, &first);
    *out = (hth_history_end){ .last = -1 };
    if (memcmp(&first, digest, sizeof(first)) == 0)
        return true;
    pthread_mutex_lock(&h->lock);
    r = find_record(h, name, digest);
    if (r) {
        out->n_bytes = copy_end(r, out->bytes, sizeof(out->bytes));
        out->last = r->tokens[r->n_tokens - 1];
    }
    pthread_mutex_unlock(&h->lock);
    return r != NULL;
}

void hth_history_add_record(hth_history *h, const hth_history_record *from, const hth_history_digest *digest)
{
    record *below;
    space *s;

    if (from->n_bytes == 0 || from->n_tokens == 0 || !are_tokens(h, from->tokens, from->n_tokens))
        return;
    pthread_mutex_lock(&h->lock);
    below = find_record(h, &from->space, &from->below);
    s = find_or_add_space(h, &from->space);
    if (s && (below || is_digest_of_space(s, &from->below)))
        (void)add_behind(h, s, below, from, digest); /* otherwise it is known */
    if (s)
        prune_space(h, s);
    evict(h);
    pthread_mutex_unlock(&h->lock);
}

/* A copy of a record in one allocation; NULL without memory. */
static hth_history_record *copy_of(const record *r)
{
    size_t n_bytes = r->n_bytes_all - (r->below ? r->below->n_bytes_all : 0);
    size_t n_token_bytes = r->n_tokens * sizeof(*r->tokens);
    hth_history_record *copy = malloc(sizeof(*copy) + n_token_bytes + n_bytes);
    hearth_token *tokens;
    char *text;

    if (!copy)
        return NULL;
    tokens = (hearth_token *)(copy + 1);
    text = (char *)(tokens + r->n_tokens);
    memcpy(tokens, r->tokens, n_token_bytes);
    (void)copy_end(r, text, n_bytes);
    *copy = (hth_history_record){
        .space = r->space->name,
        .below = r->below ? r->below->digest : r->space->digest,
        .text = text,
        .n_bytes = n_bytes,
        .tokens = tokens,
        .n_tokens = r->n_tokens,
        .n_reply_bytes = r->n_bytes_all - r->at_reply,
    };
    return copy;
}

bool hth_history_take_new(hth_history *h, hth_history_record **out)
{
    record *r;

    pthread_mutex_lock(&h->lock);
    r = h->fresh;
    if (r) {
        *out = copy_of(r);
        unlink_new(h, r);
    }
    pthread_mutex_unlock(&h->lock);
    return r != NULL;
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
