/*
 * ram_tier.c - hash tables and an LRU list over slabs
 *
 * Two tables find rows: by id, and by parent key (the children of a prefix, a list a key). All of it is guarded by one
 * lock that is held for pointer work only: slabs are filled, read, checksummed and written without it.
 *
 * Invariant: a row in the tables is in the LRU list; a row with pins == 0 is in the tables.
 */
#include "cache/ram_tier.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <utlist.h>

/* Without memory an addition fails, and the row stays out of the table, instead of ending the process. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "cache/arena.h"

/* uthash reads a key as raw bytes: no padding may be in it. */
typedef struct table_key {
    uint8_t key[HTH_KEY_BYTES];
    uint32_t kind;
} table_key;

typedef struct family family;

struct hth_ram_row {
    uint8_t *image; /* fixed from reserve to free */
    size_t bytes;
    hth_row_meta meta; /* fixed from insert to free */
    atomic_bool stored;

    /* Guarded by the tier's lock. */
    unsigned pins;
    bool visible;
    table_key id;
    UT_hash_handle hh;
    hth_ram_row *prev, *next; /* LRU, the most recently used last */
    family *parent;
    hth_ram_row *sibling_prev, *sibling_next;
};

/* The rows that have one parent key. */
struct family {
    hth_key key;
    hth_ram_row *children;
    UT_hash_handle hh;
};

struct hth_ram_tier {
    uint64_t bytes_max;
    hth_arena *arena;

    /* Guards the fields below and the rows' guarded fields. Held around the arena's lock, no other. */
    pthread_mutex_t lock;
    hth_ram_row *by_id;
    family *families;
    hth_ram_row *by_age;
    uint64_t rows;
    uint64_t bytes;
    uint64_t bytes_pinned; /* of slabs that somebody holds */
    uint64_t rows_evicted;
};

hearth_status hth_ram_tier_open(uint64_t bytes_max, bool warm, hth_ram_tier **out, hearth_error *err)
{
    hth_ram_tier *tier = calloc(1, sizeof(*tier));
    hearth_status status;

    if (!tier)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the RAM tier");
    status = hth_arena_open(bytes_max, warm, &tier->arena, err);
    if (status != HEARTH_OK) {
        free(tier);
        return status;
    }
    tier->bytes_max = bytes_max;
    pthread_mutex_init(&tier->lock, NULL);
    *out = tier;
    return HEARTH_OK;
}

static table_key table_key_of(const hth_row_id *id)
{
    table_key key;

    memset(&key, 0, sizeof(key));
    memcpy(key.key, id->key.bytes, HTH_KEY_BYTES);
    key.kind = (uint32_t)id->kind;
    return key;
}

static hth_ram_row *find_locked(hth_ram_tier *tier, const hth_row_id *id)
{
    table_key key = table_key_of(id);
    hth_ram_row *row = NULL;

    HASH_FIND(hh, tier->by_id, &key, sizeof(key), row);
    return row;
}

static void add_pin_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    if (row->pins++ == 0)
        tier->bytes_pinned += hth_arena_slab_bytes(row->bytes);
}

static void drop_pin_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    if (--row->pins == 0)
        tier->bytes_pinned -= hth_arena_slab_bytes(row->bytes);
}

static void hide_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    if (!row->visible)
        return;
    HASH_DELETE(hh, tier->by_id, row);
    DL_DELETE(tier->by_age, row);
    if (row->parent) {
        DL_DELETE2(row->parent->children, row, sibling_prev, sibling_next);
        if (!row->parent->children) {
            HASH_DELETE(hh, tier->families, row->parent);
            free(row->parent);
        }
        row->parent = NULL;
    }
    row->visible = false;
    tier->rows--;
}

static void free_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    assert(!row->visible);
    assert(row->pins == 0);
    tier->bytes -= hth_arena_slab_bytes(row->bytes);
    hth_arena_give(tier->arena, row->image, row->bytes);
    free(row);
}

void hth_ram_tier_close(hth_ram_tier *tier)
{
    hth_ram_row *row, *next;

    if (!tier)
        return;
    DL_FOREACH_SAFE(tier->by_age, row, next)
    {
        hide_locked(tier, row);
        free_locked(tier, row);
    }
    hth_arena_close(tier->arena);
    pthread_mutex_destroy(&tier->lock);
    free(tier);
}

/* Does another row begin where this one ends? Rows without tokens end a chain. */
static bool has_children_locked(const hth_ram_tier *tier, const hth_ram_row *row)
{
    family *own = NULL;

    if (row->meta.id.kind == HTH_ROW_LOGITS || row->meta.id.kind == HTH_ROW_STATE)
        return false;
    HASH_FIND(hh, tier->families, row->meta.id.key.bytes, HTH_KEY_BYTES, own);
    return own != NULL;
}

/*
 * Evict the least recently used row that nobody holds and nothing stands on: without its beginning the rest of a chain
 * is of no use. Where everything has children, the oldest goes. False when everything is held.
 */
static bool evict_one_locked(hth_ram_tier *tier)
{
    hth_ram_row *row, *oldest = NULL, *leaf = NULL;

    DL_FOREACH(tier->by_age, row)
    {
        if (row->pins > 0) /* NOLINT(clang-analyzer-unix.Malloc): it does not see that the freed row left the list */
            continue;
        if (!oldest)
            oldest = row;
        if (!has_children_locked(tier, row)) {
            leaf = row;
            break;
        }
    }
    if (!leaf)
        leaf = oldest;
    if (!leaf)
        return false;
    hide_locked(tier, leaf);
    free_locked(tier, leaf);
    tier->rows_evicted++;
    return true;
}

hth_ram_row *hth_ram_tier_reserve(hth_ram_tier *tier, size_t n_bytes)
{
    size_t slab_bytes = hth_arena_slab_bytes(n_bytes);
    hth_ram_row *row;

    if (slab_bytes > tier->bytes_max)
        return NULL;
    row = calloc(1, sizeof(*row));
    if (!row)
        return NULL;
    row->bytes = n_bytes;
    row->pins = 1;

    pthread_mutex_lock(&tier->lock);
    if (tier->bytes_pinned + slab_bytes > tier->bytes_max)
        goto out; /* nothing that may be evicted would make room */
    while (tier->bytes + slab_bytes > tier->bytes_max)
        if (!evict_one_locked(tier))
            goto out;
    /* Below the quota a slab may still be missing where free runs are too short: evict until one fits. */
    while (!(row->image = hth_arena_take(tier->arena, n_bytes)))
        if (!evict_one_locked(tier))
            goto out;
    tier->bytes += slab_bytes;
    tier->bytes_pinned += slab_bytes;
out:
    pthread_mutex_unlock(&tier->lock);
    if (!row->image) {
        free(row);
        return NULL;
    }
    return row;
}

uint8_t *hth_ram_row_image(hth_ram_row *row)
{
    return row->image;
}

size_t hth_ram_row_bytes(const hth_ram_row *row)
{
    return row->bytes;
}

const hth_row_meta *hth_ram_row_meta(const hth_ram_row *row)
{
    return &row->meta;
}

bool hth_ram_row_is_stored(const hth_ram_row *row)
{
    return atomic_load_explicit(&row->stored, memory_order_relaxed);
}

void hth_ram_row_set_stored(hth_ram_row *row, bool stored)
{
    atomic_store_explicit(&row->stored, stored, memory_order_relaxed);
}

/* Enter a row into its parent's family. Without memory for that, the row is found by its id all the same. */
static void join_family_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    family *parent = NULL;

    HASH_FIND(hh, tier->families, row->meta.parent.bytes, HTH_KEY_BYTES, parent);
    if (!parent) {
        parent = calloc(1, sizeof(*parent));
        if (!parent)
            return;
        parent->key = row->meta.parent;
        HASH_ADD(hh, tier->families, key, HTH_KEY_BYTES, parent);
        if (!parent->hh.tbl) { /* uthash had no memory */
            free(parent);
            return;
        }
    }
    DL_PREPEND2(parent->children, row, sibling_prev, sibling_next);
    row->parent = parent;
}

hth_ram_row *hth_ram_tier_insert(hth_ram_tier *tier, hth_ram_row *row, const hth_row_meta *meta)
{
    hth_ram_row *there;

    assert(!row->visible);
    assert(row->pins == 1);
    row->meta = *meta;
    row->id = table_key_of(&meta->id);

    pthread_mutex_lock(&tier->lock);
    there = find_locked(tier, &meta->id);
    if (there) {
        add_pin_locked(tier, there);
        drop_pin_locked(tier, row);
        free_locked(tier, row);
        row = there;
    } else {
        HASH_ADD(hh, tier->by_id, id, sizeof(row->id), row);
        if (row->hh.tbl) { /* else uthash had no memory: the row stays private and goes with its pin */
            DL_APPEND(tier->by_age, row);
            row->visible = true;
            tier->rows++;
            join_family_locked(tier, row);
        }
    }
    pthread_mutex_unlock(&tier->lock);
    return row;
}

bool hth_ram_tier_has(hth_ram_tier *tier, const hth_row_id *id)
{
    bool found;

    pthread_mutex_lock(&tier->lock);
    found = find_locked(tier, id) != NULL;
    pthread_mutex_unlock(&tier->lock);
    return found;
}

hth_ram_row *hth_ram_tier_pin(hth_ram_tier *tier, const hth_row_id *id)
{
    hth_ram_row *row;

    pthread_mutex_lock(&tier->lock);
    row = find_locked(tier, id);
    if (row) {
        add_pin_locked(tier, row);
        DL_DELETE(tier->by_age, row);
        DL_APPEND(tier->by_age, row);
    }
    pthread_mutex_unlock(&tier->lock);
    return row;
}

void hth_ram_tier_pin_again(hth_ram_tier *tier, hth_ram_row *row)
{
    pthread_mutex_lock(&tier->lock);
    assert(row->pins > 0);
    add_pin_locked(tier, row);
    pthread_mutex_unlock(&tier->lock);
}

void hth_ram_tier_unpin(hth_ram_tier *tier, hth_ram_row *row)
{
    if (!row)
        return;
    pthread_mutex_lock(&tier->lock);
    assert(row->pins > 0);
    drop_pin_locked(tier, row);
    if (row->pins == 0 && !row->visible)
        free_locked(tier, row);
    pthread_mutex_unlock(&tier->lock);
}

void hth_ram_tier_remove(hth_ram_tier *tier, const hth_row_id *id)
{
    hth_ram_row *row;

    pthread_mutex_lock(&tier->lock);
    row = find_locked(tier, id);
    if (row) {
        hide_locked(tier, row);
        if (row->pins == 0)
            free_locked(tier, row);
    }
    pthread_mutex_unlock(&tier->lock);
}

size_t hth_ram_tier_children(hth_ram_tier *tier, const hth_key *parent, hth_row_meta *out, size_t capacity)
{
    family *found = NULL;
    size_t n = 0;

    pthread_mutex_lock(&tier->lock);
    HASH_FIND(hh, tier->families, parent->bytes, HTH_KEY_BYTES, found);
    if (found) {
        hth_ram_row *row;

        DL_FOREACH2(found->children, row, sibling_next)
        {
            if (n == capacity)
                break;
            out[n++] = row->meta;
        }
    }
    pthread_mutex_unlock(&tier->lock);
    return n;
}

void hth_ram_tier_totals_get(hth_ram_tier *tier, hth_ram_tier_totals *out)
{
    pthread_mutex_lock(&tier->lock);
    *out = (hth_ram_tier_totals){ .rows = tier->rows, .bytes = tier->bytes, .rows_evicted = tier->rows_evicted };
    pthread_mutex_unlock(&tier->lock);
}
