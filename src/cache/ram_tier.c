/*
 * ram_tier.c - rows over slabs: pins, ages, eviction, adoption
 *
 * One lock guards all bookkeeping. Slabs are filled, read, checksummed, faulted in and written without it. Beside
 * bookkeeping, only the arena works under the lock: it may map and unmap segments and return pages to the system.
 *
 * Idle rows (visible, no pins) are in one of two lists by their last use: leaves, and inner rows, which other rows of
 * the tier stand on. Eviction takes the first leaf, or the first inner row if all leaves are pinned, so its cost does
 * not depend on the number of rows. When a leaf goes, the row that it stood on inherits its last use. That row may
 * become a leaf; its place follows from its last use, and is usually at the very front.
 *
 *   reserved  -> visible            hth_ram_tier_insert
 *   visible   -> hidden             evicted, removed, or found damaged: no longer in table, lists or directory
 *   reserved, hidden -> freed       with the last pin
 *
 * Invariants: a row is in a list exactly if it is visible and has no pins. A row of a memory file is in the directory
 * only while it is visible, so the slab of an entry is never written to.
 */
#include "cache/ram_tier.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include <utlist.h>

#include "base/bytes.h"
#include "base/smaller.h"
#include "cache/arena.h"
#include "cache/ram_directory.h"
#include "cache/ram_table.h"
#include "rows/kvc_signature.h"
#include "rows/row_file.h"

enum { SHRINK_BYTES = 64 << 20 }; /* evicted at once when the quota shrinks */
struct hth_ram_tier {
    hth_arena *arena;
    hth_ram_directory *directory; /* NULL for private memory; guarded by the lock */
    const hth_signing_key *key;   /* NULL: none; fixed at opening */
    hth_past *past;               /* NULL: none; fixed at opening */

    /*
     * Guards the fields below and the guarded fields of rows. Under it, only the locks of the arena and the past are
     * taken.
     */
    pthread_mutex_t lock;
    uint64_t bytes_max;
    hth_ram_table table;
    hth_ram_row *leaves; /* idle, the least recently used first */
    hth_ram_row *inner;
    uint64_t uses; /* the number of the last use */
    uint64_t bytes;
    uint64_t bytes_pinned; /* of slabs that are pinned */
    uint64_t rows_evicted;
    uint64_t rows_displaced;
    uint64_t rows_adopted;
    uint64_t rows_adopted_dropped;
};

static uint64_t slab_bytes_of(const hth_ram_row *row)
{
    return hth_arena_slab_bytes(row->bytes);
}

/* ---- idle rows by age ---- */

/* Does another row begin at the end of this one? A row without tokens ends a chain. */
static bool has_children_locked(const hth_ram_tier *tier, const hth_ram_row *row)
{
    const hth_ram_row *child;

    if (row->meta.id.kind == HTH_ROW_LOGITS || row->meta.id.kind == HTH_ROW_STATE)
        return false;
    child = hth_ram_table_children(&tier->table, &row->meta.id.key);
    return child && (child != row || child->older); /* a row is not its own child */
}

static hth_ram_row **list_of(hth_ram_tier *tier, const hth_ram_row *row)
{
    return row->inner ? &tier->inner : &tier->leaves;
}

static void list_out_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    hth_ram_row **list = list_of(tier, row);

    DL_DELETE(*list, row);
}

/*
 * Most rows belong at an end: they were just used, or are the parent of a row that was just evicted. So search from
 * both.
 */
static void list_in_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    hth_ram_row **list, *old, *new;

    row->inner = has_children_locked(tier, row);
    list = list_of(tier, row);
    old = *list;
    new = old ? old->prev : NULL; /* utlist: before the first is the last */
    if (!old || new->used_at <= row->used_at) {
        DL_APPEND(*list, row);
        return;
    }
    while (old->used_at <= row->used_at && new->used_at > row->used_at) {
        old = old->next;
        new = new->prev;
    }
    if (old->used_at > row->used_at) {
        DL_PREPEND_ELEM(*list, old, row);
    } else {
        DL_APPEND_ELEM(*list, new, row);
    }
}

/*
 * A child of that key was added or removed: the rows that it stands on may have become inner rows or leaves. used_at is
 * the last use of a removed child, which counts as their own; otherwise 0.
 */
static void note_child_locked(hth_ram_tier *tier, const hth_key *parent, uint64_t used_at)
{
    for (hth_row_kind kind = HTH_ROW_BLOCK; kind <= HTH_ROW_SNAPSHOT; kind++) {
        hth_row_id id = { .key = *parent, .kind = kind };
        hth_ram_row *row = hth_ram_table_find(&tier->table, &id);
        bool is_listed = row && row->pins == 0;

        if (!row || (row->used_at >= used_at && (!is_listed || row->inner == has_children_locked(tier, row))))
            continue;
        if (is_listed)
            list_out_locked(tier, row);
        if (row->used_at < used_at)
            row->used_at = used_at;
        if (is_listed)
            list_in_locked(tier, row);
    }
}

/* ---- pins, removal and eviction ---- */

static void note_use_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    row->used_at = ++tier->uses;
    if (tier->directory)
        hth_ram_directory_note_use(tier->directory, row->slot, row->used_at);
}

static void add_pin_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    if (row->pins++ > 0)
        return;
    tier->bytes_pinned += slab_bytes_of(row);
    list_out_locked(tier, row); /* only a visible row gets its first pin here */
}

static void hide_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    if (!row->visible)
        return;
    if (row->pins == 0)
        list_out_locked(tier, row);
    if (tier->directory) /* before the rest, because another row may soon get the slab */
        hth_ram_directory_remove(tier->directory, row->slot);
    row->slot = HTH_RAM_DIRECTORY_NO_SLOT;
    hth_ram_table_remove(&tier->table, row);
    row->visible = false;
    note_child_locked(tier, &row->meta.parent, row->used_at);
}

static void free_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    assert(!row->visible);
    assert(row->pins == 0);
    tier->bytes -= slab_bytes_of(row);
    hth_arena_give(tier->arena, row->slab, row->bytes);
    free(row);
}

/* Evict the least wanted row. Returns the freed bytes; 0 if all rows are pinned. */
static uint64_t evict_one_locked(hth_ram_tier *tier)
{
    hth_ram_row *row = tier->leaves ? tier->leaves : tier->inner;
    uint64_t freed;

    if (!row)
        return 0;
    freed = slab_bytes_of(row); /* NOLINT(clang-analyzer-unix.Malloc): it does not see that freed rows left the lists */
    if (tier->past && !hth_ram_row_is_stored(row))
        hth_past_note_gone(tier->past, &row->meta, HTH_GONE_EVICTED, NULL);
    hide_locked(tier, row);
    free_locked(tier, row);
    tier->rows_evicted++;
    return freed;
}

static void keep_quota_locked(hth_ram_tier *tier)
{
    while (tier->bytes > tier->bytes_max)
        if (evict_one_locked(tier) == 0)
            break;
}

static void drop_pin_locked(hth_ram_tier *tier, hth_ram_row *row)
{
    assert(row->pins > 0);
    if (--row->pins > 0)
        return;
    tier->bytes_pinned -= slab_bytes_of(row);
    if (row->visible)
        list_in_locked(tier, row);
    else
        free_locked(tier, row);
    keep_quota_locked(tier); /* the quota may have been lowered while the row was pinned */
}

/* ---- adoption ---- */

static int by_use(const void *a, const void *b)
{
    const hth_ram_entry *x = a, *y = b;

    if (x->used_at != y->used_at)
        return x->used_at < y->used_at ? -1 : 1;
    return x->slot < y->slot ? -1 : 1;
}

/* Offset of the tokens in a slab; 0: the row cannot be a leaf, or contradicts meta. */
static uint32_t tokens_at(const hth_kvc_info *info, const uint8_t *slab, const hth_row_meta *meta)
{
    if (!hth_row_can_be_leaf(&meta->id, meta->n_tokens) || hth_kvc_n_tokens(info) != meta->n_tokens)
        return 0;
    return (uint32_t)(info->tokens.data - slab); /* after 48 bytes and the text of the row */
}

/*
 * Read the head of a slab; false if it is not a row of ours. The checksum covers the whole head, so the offsets read
 * now stay inside the slab, whatever happens to the memory later.
 */
static bool read_head(const uint8_t *slab, size_t n_bytes, hth_row_meta *out, uint32_t *tokens_at_out)
{
    hth_kvc_info info;
    hth_kvc_fault fault;
    hth_row_id id;

    if (!hth_kvc_parse_meta(slab, n_bytes, n_bytes, &info, &fault, NULL) || !info.has_own_key || !info.has_kind ||
        !info.has_head_crc)
        return false;
    id = (hth_row_id){ .key = info.own_key, .kind = (hth_row_kind)info.kind };
    if (!hth_row_file_meta_of(&info, &id, n_bytes, 0, out))
        return false;
    *tokens_at_out = tokens_at(&info, slab, out);
    return true;
}

/* Make a row from an entry, unless it is damaged or a later entry was the same row. */
static void adopt_locked(hth_ram_tier *tier, const hth_ram_entry *entry, uint64_t used_at)
{
    uint8_t *slab = hth_arena_claim(tier->arena, entry->offset, entry->bytes);
    hth_ram_row *row = slab ? calloc(1, sizeof(*row)) : NULL;
    bool sound = row && read_head(slab, (size_t)entry->bytes, &row->meta, &row->tokens_at);

    if (!sound || hth_ram_table_find(&tier->table, &row->meta.id)) {
        tier->rows_adopted_dropped += !sound;
        hth_ram_directory_remove(tier->directory, entry->slot);
        if (slab)
            hth_arena_give(tier->arena, slab, (size_t)entry->bytes);
        free(row);
        return;
    }
    row->slab = slab;
    row->bytes = (size_t)entry->bytes;
    row->slot = entry->slot;
    row->unverified = true;
    row->visible = true;
    row->used_at = used_at;
    hth_ram_directory_note_use(tier->directory, row->slot, used_at);
    hth_ram_table_add(&tier->table, row);
    tier->bytes += slab_bytes_of(row);
    tier->rows_adopted++;
    list_in_locked(tier, row);
    note_child_locked(tier, &row->meta.parent, 0);
}

static hearth_status adopt_all(hth_ram_tier *tier, hearth_error *err)
{
    hth_ram_entry *entries = NULL;
    size_t n = 0;
    hearth_status status = hth_ram_directory_entries(tier->directory, &entries, &n, err);

    if (status != HEARTH_OK)
        return status;
    if (n > 0)
        qsort(entries, n, sizeof(*entries), by_use);
    pthread_mutex_lock(&tier->lock);
    tier->uses = n;
    for (size_t i = n; i > 0; i--)
        adopt_locked(tier, &entries[i - 1], i);
    keep_quota_locked(tier);
    pthread_mutex_unlock(&tier->lock);
    free(entries);
    hth_arena_claims_end(tier->arena);
    return HEARTH_OK;
}

/* Check a whole row like a file; with a signing key it must be signed. */
static bool verifies(const hth_ram_tier *tier, const hth_ram_row *row)
{
    hth_kvc_info info;
    hth_kvc_fault fault;
    hth_row_meta meta;
    uint32_t at;

    return hth_kvc_parse(row->slab, row->bytes, NULL, &info, &fault) && read_head(row->slab, row->bytes, &meta, &at) &&
           at == row->tokens_at && hth_row_id_equal(&meta.id, &row->meta.id) &&
           hth_key_equal(&meta.parent, &row->meta.parent) && meta.first_position == row->meta.first_position &&
           meta.n_tokens == row->meta.n_tokens &&
           (!tier->key || hth_kvc_verify_signature(row->slab, row->bytes, &info, tier->key, &fault));
}

/* Check an adopted row that the caller pinned. True: it may be used. False: it was removed, and so was the pin. */
static bool check_adopted(hth_ram_tier *tier, hth_ram_row *row)
{
    bool sound = verifies(tier, row); /* two threads may do this at once, with the same result */

    pthread_mutex_lock(&tier->lock);
    if (sound) {
        row->unverified = false;
    } else {
        if (row->visible) {
            tier->rows_adopted_dropped++;
            if (tier->past)
                hth_past_note_gone(tier->past, &row->meta, HTH_GONE_DAMAGED, NULL);
        }
        hide_locked(tier, row);
        drop_pin_locked(tier, row);
    }
    pthread_mutex_unlock(&tier->lock);
    return sound;
}

/* ---- opening and closing ---- */

hearth_status hth_ram_tier_open(const hth_ram_tier_options *options, hth_ram_tier **out, hearth_error *err)
{
    hth_ram_tier *tier = calloc(1, sizeof(*tier));
    hth_arena_options arena_options = { .bytes_max = options->bytes_max, .warm = options->warm, .fd = -1 };
    hearth_status status = HEARTH_OK;

    if (!tier)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the RAM tier");
    tier->bytes_max = options->bytes_max;
    tier->key = options->key;
    tier->past = options->past;
    pthread_mutex_init(&tier->lock, NULL);
    if (!hth_ram_table_init(&tier->table))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the RAM tier");
    if (status == HEARTH_OK && options->memory_fd >= 0) {
        status = hth_ram_directory_open(options->memory_fd, &tier->directory, err);
        if (status == HEARTH_OK) {
            arena_options.fd = hth_ram_directory_fd(tier->directory);
            arena_options.fd_begin = HTH_RAM_DIRECTORY_BYTES;
        }
    }
    if (status == HEARTH_OK)
        status = hth_arena_open(&arena_options, &tier->arena, err);
    if (status == HEARTH_OK && tier->directory)
        status = adopt_all(tier, err);
    if (status != HEARTH_OK) {
        hth_ram_tier_close(tier);
        return status;
    }
    *out = tier;
    return HEARTH_OK;
}

static void free_rows(hth_ram_row *list)
{
    hth_ram_row *row, *next;

    DL_FOREACH_SAFE(list, row, next)
    {
        free(row);
    }
}

void hth_ram_tier_close(hth_ram_tier *tier)
{
    if (!tier)
        return;
    assert(tier->bytes_pinned == 0);
    /* The slabs are freed with the arena, or stay in the file under the entries of the directory. */
    free_rows(tier->leaves);
    free_rows(tier->inner);
    hth_arena_close(tier->arena);
    hth_ram_directory_close(tier->directory);
    hth_ram_table_deinit(&tier->table);
    pthread_mutex_destroy(&tier->lock);
    free(tier);
}

/* ---- rows ---- */

/* Take a slab below the quota, evicting rows as needed; NULL if no more may be evicted. */
static uint8_t *slab_locked(hth_ram_tier *tier, size_t n_bytes, bool *cold_out)
{
    size_t bytes = hth_arena_slab_bytes(n_bytes);
    uint8_t *slab;

    if (tier->bytes > tier->bytes_max || bytes > tier->bytes_max - tier->bytes)
        tier->rows_displaced++;
    if (bytes > tier->bytes_max || tier->bytes_pinned > tier->bytes_max - bytes)
        return NULL; /* evicting all unpinned rows would not make room */
    while (tier->bytes > tier->bytes_max - bytes)
        if (evict_one_locked(tier) == 0)
            return NULL;
    /*
     * Below the quota the arena has a slab, unless the system refuses it new addresses. Then an older row must make
     * room.
     */
    while (!(slab = hth_arena_take(tier->arena, n_bytes, cold_out)))
        if (evict_one_locked(tier) == 0)
            return NULL;
    return slab;
}

/* Give the row a slab of its size; false when the quota has no room for it. */
static bool slab_take(hth_ram_tier *tier, hth_ram_row *row, bool *cold_out)
{
    pthread_mutex_lock(&tier->lock);
    row->slab = slab_locked(tier, row->bytes, cold_out);
    if (row->slab) {
        tier->bytes += slab_bytes_of(row);
        tier->bytes_pinned += slab_bytes_of(row);
    }
    pthread_mutex_unlock(&tier->lock);
    return row->slab != NULL;
}

static void slab_give(hth_ram_tier *tier, hth_ram_row *row)
{
    pthread_mutex_lock(&tier->lock);
    tier->bytes -= slab_bytes_of(row);
    tier->bytes_pinned -= slab_bytes_of(row);
    hth_arena_give(tier->arena, row->slab, row->bytes);
    row->slab = NULL;
    keep_quota_locked(tier); /* the quota may have been lowered in the meantime */
    pthread_mutex_unlock(&tier->lock);
}

/* Give the row a slab with allocated pages. is_next: it is one of a series. */
static bool slab_take_committed(hth_ram_tier *tier, hth_ram_row *row, bool is_next)
{
    for (int n_tries = 0; n_tries < 2; n_tries++) {
        bool cold = false;

        if (!slab_take(tier, row, &cold))
            return false;
        if (is_next)
            hth_arena_more_follow(tier->arena, row->bytes, cold);
        if (!cold || hth_arena_commit(tier->arena, row->slab, row->bytes))
            return true;
        slab_give(tier, row);
        /*
         * The system has no memory for the file now. That may be temporary, so the quota stays. Until then, each
         * reserve returns the memory of older rows to the system. It tries once: if another process takes that memory,
         * it fails.
         */
        if (n_tries == 0)
            (void)hth_ram_tier_evict_bytes(tier, slab_bytes_of(row)); /* if this frees too little, the next try fails */
    }
    return false;
}

hth_ram_row *hth_ram_tier_reserve_in(hth_ram_tier *tier, size_t n_bytes, bool is_next)
{
    hth_ram_row *row = calloc(1, sizeof(*row));

    if (!row)
        return NULL;
    row->bytes = n_bytes;
    row->pins = 1;
    row->slot = HTH_RAM_DIRECTORY_NO_SLOT;
    if (!slab_take_committed(tier, row, is_next)) {
        free(row);
        return NULL;
    }
    return row;
}

uint8_t *hth_ram_row_slab(hth_ram_row *row)
{
    return row->slab;
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

hth_ram_row *hth_ram_tier_insert(hth_ram_tier *tier, hth_ram_row *row, const hth_row_meta *meta)
{
    hth_ram_row *there;
    hth_kvc_info info;
    hth_kvc_fault fault;

    row->meta = *meta; /* no other thread can see it yet */
    row->tokens_at = hth_kvc_parse_meta(row->slab, row->bytes, row->bytes, &info, &fault, NULL)
                       ? tokens_at(&info, row->slab, meta)
                       : 0;
    pthread_mutex_lock(&tier->lock);
    assert(!row->visible);
    assert(row->pins == 1);
    there = hth_ram_table_find(&tier->table, &meta->id);
    if (there && !there->unverified) {
        add_pin_locked(tier, there);
        drop_pin_locked(tier, row);
        row = there;
    } else {
        note_use_locked(tier, row);
        if (tier->directory)
            row->slot = hth_ram_directory_put(tier->directory, hth_arena_offset(tier->arena, row->slab), row->bytes,
                                              row->used_at);
        if (there) { /* the old row is unverified; the new one is sound, and is in the directory by now */
            hide_locked(tier, there);
            if (there->pins == 0)
                free_locked(tier, there);
        }
        hth_ram_table_add(&tier->table, row);
        row->visible = true;
        note_child_locked(tier, &meta->parent, 0);
    }
    pthread_mutex_unlock(&tier->lock);
    return row;
}

/* The meta passed to the insert, with the uses since then. */
static hth_row_meta known_meta_locked(const hth_ram_row *row)
{
    hth_row_meta meta = row->meta;

    meta.hit_count += row->n_uses;
    return meta;
}

void hth_ram_tier_count_uses(hth_ram_tier *tier, const hth_row_id *ids, size_t n)
{
    pthread_mutex_lock(&tier->lock);
    for (size_t i = 0; i < n; i++) {
        hth_ram_row *row = hth_ram_table_find(&tier->table, &ids[i]);

        if (row)
            row->n_uses++;
    }
    pthread_mutex_unlock(&tier->lock);
}

bool hth_ram_tier_has(hth_ram_tier *tier, const hth_row_id *id, hth_row_meta *out)
{
    const hth_ram_row *row;

    pthread_mutex_lock(&tier->lock);
    row = hth_ram_table_find(&tier->table, id);
    if (row && out)
        *out = known_meta_locked(row);
    pthread_mutex_unlock(&tier->lock);
    return row != NULL;
}

bool hth_ram_tier_is_stored(hth_ram_tier *tier, const hth_row_id *id, bool *stored_out)
{
    const hth_ram_row *row;

    pthread_mutex_lock(&tier->lock);
    row = hth_ram_table_find(&tier->table, id);
    if (row)
        *stored_out = hth_ram_row_is_stored(row);
    pthread_mutex_unlock(&tier->lock);
    return row != NULL;
}

size_t hth_ram_tier_tokens(hth_ram_tier *tier, const hth_row_id *id, hearth_token *out, size_t capacity)
{
    const hth_ram_row *row;
    size_t n = 0;

    pthread_mutex_lock(&tier->lock);
    row = hth_ram_table_find(&tier->table, id);
    if (row && row->tokens_at > 0)
        for (; n < row->meta.n_tokens && n < capacity; n++)
            out[n] = (hearth_token)hth_get_u32(row->slab + row->tokens_at + 4 * n);
    pthread_mutex_unlock(&tier->lock);
    return n;
}

void hth_ram_tier_find_leaf(hth_ram_tier *tier, hth_leaf_search *search)
{
    const hth_ram_row *row;
    size_t n = 0;

    pthread_mutex_lock(&tier->lock);
    for (row = hth_ram_table_children(&tier->table, &search->boundary);
         row && n < search->n_rows_max && !hth_leaf_search_is_done(search); row = row->older, n++)
        if (row->tokens_at > 0 &&
            hth_leaf_search_wants(search, &row->meta.id, row->meta.first_position, row->meta.n_tokens) &&
            hth_leaf_search_compare(search, row->slab + row->tokens_at, row->meta.n_tokens))
            search->row = known_meta_locked(row);
    search->is_cut = search->is_cut || (row && !hth_leaf_search_is_done(search));
    pthread_mutex_unlock(&tier->lock);
}

hth_ram_row *hth_ram_tier_pin(hth_ram_tier *tier, const hth_row_id *id)
{
    bool unverified = false;
    hth_ram_row *row;

    pthread_mutex_lock(&tier->lock);
    row = hth_ram_table_find(&tier->table, id);
    if (row) {
        add_pin_locked(tier, row);
        note_use_locked(tier, row);
        unverified = row->unverified;
    }
    pthread_mutex_unlock(&tier->lock);
    if (unverified && !check_adopted(tier, row))
        return NULL;
    return row;
}

void hth_ram_tier_pin_again(hth_ram_tier *tier, hth_ram_row *row)
{
    pthread_mutex_lock(&tier->lock);
    assert(row->pins > 0);
    row->pins++;
    pthread_mutex_unlock(&tier->lock);
}

void hth_ram_tier_unpin(hth_ram_tier *tier, hth_ram_row *row)
{
    if (!row)
        return;
    pthread_mutex_lock(&tier->lock);
    drop_pin_locked(tier, row);
    pthread_mutex_unlock(&tier->lock);
}

void hth_ram_tier_remove(hth_ram_tier *tier, const hth_row_id *id)
{
    hth_ram_row *row;

    pthread_mutex_lock(&tier->lock);
    row = hth_ram_table_find(&tier->table, id);
    if (row) {
        hide_locked(tier, row);
        if (row->pins == 0)
            free_locked(tier, row);
    }
    pthread_mutex_unlock(&tier->lock);
}

size_t hth_ram_tier_children(hth_ram_tier *tier, const hth_key *parent, hth_row_meta *out, size_t capacity)
{
    size_t n = 0;

    pthread_mutex_lock(&tier->lock);
    for (const hth_ram_row *row = hth_ram_table_children(&tier->table, parent); row && n < capacity; row = row->older)
        out[n++] = known_meta_locked(row);
    pthread_mutex_unlock(&tier->lock);
    return n;
}

/* ---- the quota ---- */

uint64_t hth_ram_tier_evict_bytes(hth_ram_tier *tier, uint64_t n_bytes)
{
    uint64_t n_evicted = 0;

    pthread_mutex_lock(&tier->lock);
    while (n_evicted < n_bytes) {
        uint64_t freed = evict_one_locked(tier);

        if (freed == 0)
            break;
        n_evicted += freed;
    }
    pthread_mutex_unlock(&tier->lock);
    (void)hth_arena_release(tier->arena, n_evicted); /* less if a whole segment was already freed */
    return n_evicted;
}

void hth_ram_tier_set_bytes_max(hth_ram_tier *tier, uint64_t bytes_max)
{
    uint64_t next;

    do {
        pthread_mutex_lock(&tier->lock);
        next = hth_smaller(tier->bytes, tier->bytes_max);
        next = hth_larger(bytes_max, next > SHRINK_BYTES ? next - SHRINK_BYTES : 0);
        tier->bytes_max = next;
        keep_quota_locked(tier);
        hth_arena_set_bytes_max(tier->arena, next);
        pthread_mutex_unlock(&tier->lock);
    } while (next != bytes_max);
}

/* ---- monitoring ---- */

static int by_use_latest_first(const void *a, const void *b)
{
    const hth_ram_row_state *x = a, *y = b;

    if (x->used_at == y->used_at)
        return 0;
    return x->used_at > y->used_at ? -1 : 1;
}

static void fill_dump_locked(const hth_ram_tier *tier, hth_ram_row_state *states)
{
    for (size_t i = 0; i < tier->table.n_buckets; i++)
        for (const hth_ram_row *row = tier->table.by_id[i]; row; row = row->next_id)
            *states++ = (hth_ram_row_state){
                .meta = known_meta_locked(row),
                .bytes = slab_bytes_of(row),
                .pins = row->pins,
                .stored = hth_ram_row_is_stored(row),
                .verified = !row->unverified,
                .leaf = !has_children_locked(tier, row),
                .used_at = row->used_at,
            };
}

hearth_status hth_ram_tier_dump(hth_ram_tier *tier, hth_ram_row_state **out, size_t *n_out, hearth_error *err)
{
    hth_ram_row_state *states;
    size_t n;

    pthread_mutex_lock(&tier->lock);
    n = tier->table.n_rows;
    states = n > 0 ? malloc(n * sizeof(*states)) : NULL;
    if (states)
        fill_dump_locked(tier, states);
    pthread_mutex_unlock(&tier->lock);
    if (n > 0 && !states)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to list %zu rows", n);
    if (n > 0)
        qsort(states, n, sizeof(*states), by_use_latest_first);
    *out = states;
    *n_out = n;
    return HEARTH_OK;
}

void hth_ram_tier_totals_get(hth_ram_tier *tier, hth_ram_tier_totals *out)
{
    hth_arena_totals arena;

    pthread_mutex_lock(&tier->lock);
    hth_arena_totals_get(tier->arena, &arena);
    *out = (hth_ram_tier_totals){
        .rows = tier->table.n_rows,
        .bytes = tier->bytes,
        .bytes_max = tier->bytes_max,
        .bytes_mapped = arena.mapped_bytes,
        .bytes_pinned = tier->bytes_pinned,
        .rows_evicted = tier->rows_evicted,
        .rows_displaced = tier->rows_displaced,
        .rows_adopted = tier->rows_adopted,
        .rows_adopted_dropped = tier->rows_adopted_dropped,
    };
    pthread_mutex_unlock(&tier->lock);
}
