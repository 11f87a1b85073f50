/*
 * index.c - the records of the index, and what is done with them
 *
 *   database      key                                        value
 *   rows          key 32, kind 1                             parent 32, first_position u32, n_tokens u32, bytes u64,
 *                                                            last_used_time u64, hit_count u32, save_reason u8
 *   children      parent 32                                  key 32, kind 1 (sorted duplicates)
 *   lru           last_used_time u64 big-endian, key, kind   nothing
 *   reservations  key 32, kind 1                             owner token u64, deadline u64 (monotonic seconds)
 *   meta          "state"                                    complete u8, rebuilder's token u64, quota u64
 *                 "totals"                                   rows u64, bytes u64, rows by kind 5 x u64
 *   past, past_order: index_past.h
 *   past, past_order   see index_past.h
 *
 * Integers are little-endian but for the one that orders lru. Databases live in one boot of one machine only, so the
 * monotonic clock means the same to all who read them; the version is in the environment's name (index_env.c).
 *
 * Every entry of children and lru and every total follows from rows and is changed in the same transaction. What does
 * not fit together is damage (MDB_CORRUPTED), and damage costs a rebuild.
 */
#include "cache/index.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/os.h"
#include "cache/bell.h"
#include "cache/index_env.h"
#include "cache/index_past.h"
#include "cache/owner.h"

enum {
    ID_BYTES = HTH_KEY_BYTES + 1,
    ROW_BYTES = HTH_KEY_BYTES + 4 + 4 + 8 + 8 + 4 + 1,
    AGE_BYTES = 8 + ID_BYTES,
    RESERVATION_BYTES = 16,
    STATE_BYTES = 17,
    TOTALS_BYTES = 16 + 8 * HTH_ROW_KINDS,
    EVICTED_DEADLINE_S = 60, /* to remove the files of one round of eviction in */
    DEPTH_MAX = 1 << 20,     /* rows of one prefix */
    LOOK_AGAIN_MS = 200,     /* a waiter asks whether the owner still lives */
};

struct hth_index {
    hth_index *next; /* in the registry */
    uint64_t device;
    uint64_t inode;
    size_t n_refs;

    pid_t pid;
    unsigned n_forks; /* as it was at the opening */
    const hth_fs *fs;
    hth_owner *owner;
    hth_index_env *env;
    hth_bell *bell;

    /*
     * Guards what this process holds reservations of, as it knows itself: one that is in the index and not here could
     * not be dropped when it was given up. Innermost lock.
     */
    pthread_mutex_t held_lock;
    hth_row_id *held;
    size_t n_held;
    size_t held_capacity;
};

/*
 * The indexes that this process has open. LMDB loses its locks when an environment is opened twice in one process, and
 * two callers that know nothing of each other can only meet in a place like this. The lock guards the list and the
 * reference counts, and is held while an index is opened or closed.
 */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static hth_index *registry;

/* How often this process is the child of a fork: whether an index is the parent's must not cost a system call. */
static _Atomic unsigned n_forks;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add(&n_forks, 1);
}

static void count_forks(void)
{
    if (pthread_atfork(NULL, NULL, count_fork) != 0)
        abort(); /* no memory for three pointers, and a child would write to its parent's environment */
}

/* ---- records ---- */

static MDB_val value_of(void *bytes, size_t n_bytes)
{
    return (MDB_val){ .mv_size = n_bytes, .mv_data = bytes };
}

static void encode_id(const hth_row_id *id, uint8_t bytes[ID_BYTES])
{
    memcpy(bytes, id->key.bytes, HTH_KEY_BYTES);
    bytes[HTH_KEY_BYTES] = (uint8_t)id->kind;
}

static int decode_id(const uint8_t *bytes, size_t n_bytes, hth_row_id *out)
{
    if (n_bytes != ID_BYTES || bytes[HTH_KEY_BYTES] >= HTH_ROW_KINDS)
        return MDB_CORRUPTED;
    memcpy(out->key.bytes, bytes, HTH_KEY_BYTES);
    out->kind = (hth_row_kind)bytes[HTH_KEY_BYTES];
    return 0;
}

static void encode_row(const hth_row_meta *meta, uint8_t bytes[ROW_BYTES])
{
    memcpy(bytes, meta->parent.bytes, HTH_KEY_BYTES);
    hth_put_u32(bytes + 32, meta->first_position);
    hth_put_u32(bytes + 36, meta->n_tokens);
    hth_put_u64(bytes + 40, meta->bytes);
    hth_put_u64(bytes + 48, meta->last_used_time);
    hth_put_u32(bytes + 56, meta->hit_count);
    bytes[60] = meta->save_reason;
}

static int decode_row(const hth_row_id *id, const MDB_val *value, hth_row_meta *out)
{
    const uint8_t *bytes = value->mv_data;

    if (value->mv_size != ROW_BYTES)
        return MDB_CORRUPTED;
    *out = (hth_row_meta){
        .id = *id,
        .first_position = hth_get_u32(bytes + 32),
        .n_tokens = hth_get_u32(bytes + 36),
        .bytes = hth_get_u64(bytes + 40),
        .last_used_time = hth_get_u64(bytes + 48),
        .hit_count = hth_get_u32(bytes + 56),
        .save_reason = bytes[60],
    };
    memcpy(out->parent.bytes, bytes, HTH_KEY_BYTES);
    return 0;
}

/* The key of a row in lru. */
static void encode_age(const hth_row_meta *meta, uint8_t bytes[AGE_BYTES])
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(meta->last_used_time >> (56 - 8 * i));
    encode_id(&meta->id, bytes + 8);
}

typedef struct state {
    bool complete;
    uint64_t rebuilder;
    uint64_t quota;
} state;

/* ---- inside a transaction ---- */

static int row_get(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, hth_row_meta *out)
{
    uint8_t id_bytes[ID_BYTES];
    MDB_val key = value_of(id_bytes, ID_BYTES), value;
    int rc;

    encode_id(id, id_bytes);
    rc = mdb_get(txn, dbs->rows, &key, &value);
    return rc ? rc : decode_row(id, &value, out);
}

static int state_get(MDB_txn *txn, const hth_index_dbs *dbs, state *out)
{
    MDB_val key = value_of("state", 5), value;
    const uint8_t *bytes;
    int rc = mdb_get(txn, dbs->meta, &key, &value);

    if (rc == MDB_NOTFOUND) {
        *out = (state){ .complete = false };
        return 0;
    }
    if (rc != 0)
        return rc;
    if (value.mv_size != STATE_BYTES)
        return MDB_CORRUPTED;
    bytes = value.mv_data;
    *out = (state){
        .complete = bytes[0] == 1,
        .rebuilder = hth_get_u64(bytes + 1),
        .quota = hth_get_u64(bytes + 9),
    };
    return 0;
}

static int state_put(MDB_txn *txn, const hth_index_dbs *dbs, const state *s)
{
    uint8_t bytes[STATE_BYTES];
    MDB_val key = value_of("state", 5), value = value_of(bytes, STATE_BYTES);

    bytes[0] = s->complete;
    hth_put_u64(bytes + 1, s->rebuilder);
    hth_put_u64(bytes + 9, s->quota);
    return mdb_put(txn, dbs->meta, &key, &value, 0);
}

static int totals_get(MDB_txn *txn, const hth_index_dbs *dbs, hth_index_totals *out)
{
    MDB_val key = value_of("totals", 6), value;
    const uint8_t *bytes;
    state s;
    int rc = state_get(txn, dbs, &s);

    if (rc != 0)
        return rc;
    *out = (hth_index_totals){ .complete = s.complete };
    rc = mdb_get(txn, dbs->meta, &key, &value);
    if (rc == MDB_NOTFOUND)
        return 0;
    if (rc != 0)
        return rc;
    if (value.mv_size != TOTALS_BYTES)
        return MDB_CORRUPTED;
    bytes = value.mv_data;
    out->rows = hth_get_u64(bytes);
    out->bytes = hth_get_u64(bytes + 8);
    for (size_t i = 0; i < HTH_ROW_KINDS; i++)
        out->rows_by_kind[i] = hth_get_u64(bytes + 16 + 8 * i);
    return 0;
}

static int totals_put(MDB_txn *txn, const hth_index_dbs *dbs, const hth_index_totals *totals)
{
    uint8_t bytes[TOTALS_BYTES];
    MDB_val key = value_of("totals", 6), value = value_of(bytes, TOTALS_BYTES);

    hth_put_u64(bytes, totals->rows);
    hth_put_u64(bytes + 8, totals->bytes);
    for (size_t i = 0; i < HTH_ROW_KINDS; i++)
        hth_put_u64(bytes + 16 + 8 * i, totals->rows_by_kind[i]);
    return mdb_put(txn, dbs->meta, &key, &value, 0);
}

/* What is missing here although rows says that it is there was damaged. */
static int must_be_there(int rc)
{
    return rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc;
}

static int age_put(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta)
{
    uint8_t age[AGE_BYTES];
    MDB_val key = value_of(age, AGE_BYTES), nothing = value_of(NULL, 0);

    encode_age(meta, age);
    return mdb_put(txn, dbs->lru, &key, &nothing, 0);
}

static int age_remove(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta)
{
    uint8_t age[AGE_BYTES];
    MDB_val key = value_of(age, AGE_BYTES);

    encode_age(meta, age);
    return must_be_there(mdb_del(txn, dbs->lru, &key, NULL));
}

/* Take out a row that is there, as meta. */
static int row_remove(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta, hth_index_totals *totals)
{
    hth_key parent = meta->parent;
    uint8_t id_bytes[ID_BYTES];
    MDB_val id = value_of(id_bytes, ID_BYTES), parent_key = value_of(parent.bytes, HTH_KEY_BYTES);
    int rc;

    encode_id(&meta->id, id_bytes);
    if ((rc = must_be_there(mdb_del(txn, dbs->rows, &id, NULL))) != 0 ||
        (rc = must_be_there(mdb_del(txn, dbs->children, &parent_key, &id))) != 0 ||
        (rc = age_remove(txn, dbs, meta)) != 0)
        return rc;
    if (totals->rows == 0 || totals->bytes < meta->bytes || totals->rows_by_kind[meta->id.kind] == 0)
        return MDB_CORRUPTED;
    totals->rows--;
    totals->bytes -= meta->bytes;
    totals->rows_by_kind[meta->id.kind]--;
    return 0;
}

/* Put a row in, in the place of the one that is there. */
static int row_put(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta, hth_index_totals *totals)
{
    hth_key parent = meta->parent;
    uint8_t id_bytes[ID_BYTES], row[ROW_BYTES];
    MDB_val id = value_of(id_bytes, ID_BYTES), value = value_of(row, ROW_BYTES);
    MDB_val parent_key = value_of(parent.bytes, HTH_KEY_BYTES);
    hth_row_meta old;
    int rc = row_get(txn, dbs, &meta->id, &old);

    if (rc == 0)
        rc = row_remove(txn, dbs, &old, totals);
    else if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc != 0)
        return rc;

    encode_id(&meta->id, id_bytes);
    encode_row(meta, row);
    if ((rc = mdb_put(txn, dbs->rows, &id, &value, 0)) != 0 ||
        (rc = mdb_put(txn, dbs->children, &parent_key, &id, 0)) != 0 || (rc = age_put(txn, dbs, meta)) != 0 ||
        (rc = hth_index_past_forget_gone(txn, dbs, &meta->id)) != 0)
        return rc;
    totals->rows++;
    totals->bytes += meta->bytes;
    totals->rows_by_kind[meta->id.kind]++;
    return 0;
}

/* Write a row that is there with another time or hit count. */
static int row_update(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *old, const hth_row_meta *meta)
{
    uint8_t id_bytes[ID_BYTES], row[ROW_BYTES];
    MDB_val id = value_of(id_bytes, ID_BYTES), value = value_of(row, ROW_BYTES);
    int rc = 0;

    encode_id(&meta->id, id_bytes);
    encode_row(meta, row);
    if (old->last_used_time != meta->last_used_time) {
        rc = age_remove(txn, dbs, old);
        if (rc == 0)
            rc = age_put(txn, dbs, meta);
    }
    return rc ? rc : mdb_put(txn, dbs->rows, &id, &value, 0);
}

/* ---- reservations inside a transaction ---- */

typedef struct reservation {
    uint64_t owner;
    uint64_t deadline;
} reservation;

static uint64_t now_s(void)
{
    return hth_os_monotonic_ns() / 1000000000u;
}

static int reservation_get(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, reservation *out)
{
    uint8_t id_bytes[ID_BYTES];
    MDB_val key = value_of(id_bytes, ID_BYTES), value;
    int rc;

    encode_id(id, id_bytes);
    rc = mdb_get(txn, dbs->reservations, &key, &value);
    if (rc != 0)
        return rc;
    if (value.mv_size != RESERVATION_BYTES)
        return MDB_CORRUPTED;
    out->owner = hth_get_u64(value.mv_data);
    out->deadline = hth_get_u64((const uint8_t *)value.mv_data + 8);
    return 0;
}

static int reservation_put(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id, uint64_t owner,
                           uint32_t deadline_s)
{
    uint8_t id_bytes[ID_BYTES], bytes[RESERVATION_BYTES];
    MDB_val key = value_of(id_bytes, ID_BYTES), value = value_of(bytes, RESERVATION_BYTES);

    encode_id(id, id_bytes);
    hth_put_u64(bytes, owner);
    hth_put_u64(bytes + 8, now_s() + deadline_s);
    return mdb_put(txn, dbs->reservations, &key, &value, 0);
}

/* ---- what this process holds ---- */

/* Where the row is in held, or n_held. */
static size_t held_find_locked(const hth_index *index, const hth_row_id *id)
{
    size_t i = 0;

    while (i < index->n_held && !hth_row_id_equal(&index->held[i], id))
        i++;
    return i;
}

static bool held_has(hth_index *index, const hth_row_id *id)
{
    bool has;

    pthread_mutex_lock(&index->held_lock);
    has = held_find_locked(index, id) < index->n_held;
    pthread_mutex_unlock(&index->held_lock);
    return has;
}

/* 0 or ENOMEM. */
static int held_add(hth_index *index, const hth_row_id *id)
{
    int rc = 0;

    pthread_mutex_lock(&index->held_lock);
    if (held_find_locked(index, id) == index->n_held) {
        if (index->n_held == index->held_capacity) {
            size_t capacity = 2 * index->held_capacity + 64;
            hth_row_id *larger = realloc(index->held, capacity * sizeof(*larger));

            if (larger) {
                index->held = larger;
                index->held_capacity = capacity;
            } else {
                rc = ENOMEM;
            }
        }
        if (rc == 0)
            index->held[index->n_held++] = *id;
    }
    pthread_mutex_unlock(&index->held_lock);
    return rc;
}

static void held_remove(hth_index *index, const hth_row_id *id)
{
    size_t i;

    pthread_mutex_lock(&index->held_lock);
    i = held_find_locked(index, id);
    if (i < index->n_held)
        index->held[i] = index->held[--index->n_held];
    pthread_mutex_unlock(&index->held_lock);
}

/*
 * Does somebody who lives hold it, in time? Of ours, whether a thread still holds it is known for certain; one that was
 * given up may be here still, because the transaction that was to drop it failed.
 */
static bool reservation_holds(hth_index *index, const hth_row_id *id, const reservation *r)
{
    if (r->owner == hth_owner_token(index->owner))
        return held_has(index, id);
    return r->deadline > now_s() && hth_owner_lives(index->owner, r->owner);
}

/* Drop the reservation of a row when it is ours or its owner is dead. */
static int reservation_drop(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id)
{
    uint8_t id_bytes[ID_BYTES];
    MDB_val key = value_of(id_bytes, ID_BYTES);
    reservation r;
    int rc = reservation_get(txn, dbs, id, &r);

    if (rc == MDB_NOTFOUND)
        return 0;
    if (rc != 0)
        return rc;
    if (r.owner != hth_owner_token(index->owner) && hth_owner_lives(index->owner, r.owner))
        return 0;
    encode_id(id, id_bytes);
    return mdb_del(txn, dbs->reservations, &key, NULL);
}

/* ---- common to all calls ---- */

static hearth_status check_process(const hth_index *index, hearth_error *err)
{
    if (index->n_forks == atomic_load(&n_forks))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "process %ld opened the cache index; a child must open its own",
                    (long)index->pid);
}

static hearth_status finish(hth_index *index, int rc, const char *what, hearth_error *err)
{
    return rc == 0 ? HEARTH_OK : hth_index_env_fail(index->env, rc, what, err);
}

/* What a write transaction is to do to how many rows, and how many it did something to. */
typedef struct row_change {
    hth_index *index;
    const hth_row_meta *rows;
    const hth_row_id *ids;
    hth_index_confirm_fn confirm; /* may be NULL */
    void *user_data;
    size_t n;
    size_t n_done;
} row_change;

/* ---- opening ---- */

/* Is the index incomplete, and nobody filling it? Then that is the caller's to do. */
static int claim_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    state s;
    int rc = state_get(txn, dbs, &s);

    change->n_done = 0;
    if (rc != 0 || s.complete || (s.rebuilder != 0 && hth_owner_lives(change->index->owner, s.rebuilder)))
        return rc;
    s.rebuilder = hth_owner_token(change->index->owner);
    change->n_done = 1;
    return state_put(txn, dbs, &s);
}

bool hth_index_claim_rebuild(hth_index *index)
{
    row_change change = { .index = index };
    hth_index_totals totals = { .rows = 0 };
    int rc;

    if (hth_index_totals_get(index, &totals, NULL) != HEARTH_OK || totals.complete)
        return false;
    rc = hth_index_env_write(index->env, claim_body, &change);
    return finish(index, rc, "claim", NULL) == HEARTH_OK && change.n_done == 1;
}

static hearth_status open_new(const hth_index_options *options, const hth_fs *fs, hth_index *index, hearth_error *err)
{
    char boot_id[128] = "unknown", bell[4096];
    hearth_status status;

    index->fs = fs;
    index->pid = getpid();
    index->n_forks = atomic_load(&n_forks);
    index->n_refs = 1;
    if (snprintf(bell, sizeof(bell), "%s/bell", options->directory) >= (int)sizeof(bell))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", options->directory);
    index->bell = hth_bell_open(bell);
    if (!index->bell)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache index");
    status = hth_owner_open(fs, options->owners_directory, &index->owner, err);
    if (status != HEARTH_OK)
        return status;
    /*
     * Where the boot cannot be told, the token makes a name that no later process meets: every start is then like one
     * after a boot.
     */
    if (!options->boot_id && !hth_os_boot_id(boot_id, sizeof(boot_id))) {
        uint8_t token[8];

        hth_put_u64(token, hth_owner_token(index->owner));
        hth_hex_encode(token, sizeof(token), boot_id);
    }
    return hth_index_env_open(options->directory, options->boot_id ? options->boot_id : boot_id,
                              hth_owner_sweep(index->owner), fs, options->log, &index->env, err);
}

/* What is no file and no environment. */
static void free_memory(hth_index *index)
{
    hth_bell_close(index->bell);
    pthread_mutex_destroy(&index->held_lock);
    free(index->held);
    free(index);
}

static void free_index(hth_index *index)
{
    if (!index)
        return;
    hth_index_env_close(index->env);
    hth_owner_close(index->owner);
    free_memory(index);
}

/* Under the registry's lock. */
static hearth_status open_registered(const hth_index_options *options, const hth_fs *fs, hth_index **out,
                                     hearth_error *err)
{
    hearth_status status;
    hth_index *index;
    hth_fs_stat st;
    int rc;

    rc = hth_fs_stat_path(fs, options->directory, &st);
    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot look at '%s'", options->directory);
    for (index = registry; index; index = index->next) {
        if (index->device == st.device && index->inode == st.inode && index->pid == getpid()) {
            index->n_refs++;
            *out = index;
            return HEARTH_OK;
        }
    }

    index = calloc(1, sizeof(*index));
    if (!index)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache index");
    pthread_mutex_init(&index->held_lock, NULL);
    index->device = st.device;
    index->inode = st.inode;
    status = open_new(options, fs, index, err);
    if (status != HEARTH_OK) {
        free_index(index);
        return status;
    }
    index->next = registry;
    registry = index;
    *out = index;
    return HEARTH_OK;
}

hearth_status hth_index_open(const hth_index_options *options, hth_index **out, bool *rebuild_out, hearth_error *err)
{
    const hth_fs *fs = options->fs ? options->fs : hth_fs_system();
    int rc = hth_fs_make_directory(fs, options->directory);
    hearth_status status;
    hth_index *index = NULL;

    if (rc != 0 && rc != -EEXIST)
        return hth_fail_errno(err, -rc, "cannot make the directory '%s'", options->directory);
    (void)pthread_once(&forks_once, count_forks); /* cannot fail */
    pthread_mutex_lock(&registry_lock);
    status = open_registered(options, fs, &index, err);
    pthread_mutex_unlock(&registry_lock);
    if (status != HEARTH_OK)
        return status;
    assert(index);
    if (rebuild_out)
        *rebuild_out = hth_index_claim_rebuild(index);
    *out = index;
    return HEARTH_OK;
}

void hth_index_close(hth_index *index)
{
    bool is_last;

    if (!index)
        return;
    pthread_mutex_lock(&registry_lock);
    is_last = --index->n_refs == 0;
    if (!is_last)
        hth_index_env_forget_log(index->env);
    for (hth_index **at = &registry; is_last && *at; at = &(*at)->next) {
        if (*at == index) {
            *at = index->next;
            break;
        }
    }
    if (is_last && index->pid == getpid()) {
        free_index(index);
    } else if (is_last) {
        /* The environment is the parent's; LMDB has no way to forget it without releasing what the parent holds. */
        hth_owner_forget(index->owner);
        free_memory(index);
    }
    pthread_mutex_unlock(&registry_lock);
}

uint64_t hth_index_owner_token(const hth_index *index)
{
    return hth_owner_token(index->owner);
}

bool hth_index_owner_lives(const hth_index *index, uint64_t token)
{
    return hth_owner_lives(index->owner, token);
}

bool hth_index_maintain(hth_index *index)
{
    if (check_process(index, NULL) != HEARTH_OK)
        return false;
    hth_index_env_maintain(index->env);
    return hth_index_claim_rebuild(index);
}

/* ---- reads ---- */

hearth_status hth_index_get(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                            hearth_error *err)
{
    hearth_status status = check_process(index, err);
    hth_row_meta meta;
    hth_index_read read;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_env_read_begin(index->env, &read);
    if (rc == 0) {
        rc = row_get(read.txn, &read.dbs, id, &meta);
        hth_index_env_read_end(index->env, &read, rc);
    }
    if (rc != 0 && rc != MDB_NOTFOUND)
        return finish(index, rc, "look up a row", err);
    *found_out = rc == 0;
    if (rc == 0 && out)
        *out = meta;
    return HEARTH_OK;
}

hearth_status hth_index_get_many(hth_index *index, const hth_row_id *ids, size_t n, hth_row_meta *out, bool *found,
                                 hearth_error *err)
{
    hearth_status status = check_process(index, err);
    hth_index_read read;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_env_read_begin(index->env, &read);
    if (rc == 0) {
        for (size_t i = 0; i < n && (rc == 0 || rc == MDB_NOTFOUND); i++) {
            hth_row_meta meta;

            rc = row_get(read.txn, &read.dbs, &ids[i], &meta);
            found[i] = rc == 0;
            if (rc == 0 && out)
                out[i] = meta;
        }
        if (rc == MDB_NOTFOUND)
            rc = 0;
        hth_index_env_read_end(index->env, &read, rc);
    }
    return finish(index, rc, "look up rows", err);
}

static int collect_children(MDB_txn *txn, const hth_index_dbs *dbs, const hth_key *parent, hth_row_meta *out,
                            size_t capacity, size_t *n_out)
{
    hth_key parent_copy = *parent;
    MDB_val key = value_of(parent_copy.bytes, HTH_KEY_BYTES), value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, dbs->children, &cursor);

    if (rc != 0)
        return rc;
    *n_out = 0;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT_DUP)) {
        hth_row_meta meta;
        hth_row_id id;

        if ((rc = decode_id(value.mv_data, value.mv_size, &id)) != 0 ||
            (rc = must_be_there(row_get(txn, dbs, &id, &meta))) != 0)
            break;
        *n_out = hth_row_insert_by_age(out, *n_out, capacity, &meta);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

hearth_status hth_index_children(hth_index *index, const hth_key *parent, hth_row_meta *out, size_t capacity,
                                 size_t *n_out, hearth_error *err)
{
    hearth_status status = check_process(index, err);
    hth_index_read read;
    size_t n = 0;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_env_read_begin(index->env, &read);
    if (rc == 0) {
        rc = collect_children(read.txn, &read.dbs, parent, out, capacity, &n);
        hth_index_env_read_end(index->env, &read, rc);
    }
    if (rc == 0)
        *n_out = n;
    return finish(index, rc, "list rows", err);
}

hearth_status hth_index_totals_get(hth_index *index, hth_index_totals *out, hearth_error *err)
{
    hearth_status status = check_process(index, err);
    hth_index_totals totals;
    hth_index_read read;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_env_read_begin(index->env, &read);
    if (rc == 0) {
        rc = totals_get(read.txn, &read.dbs, &totals);
        hth_index_env_read_end(index->env, &read, rc);
    }
    if (rc == 0)
        *out = totals;
    return finish(index, rc, "read totals", err);
}

static int visit_by_key(MDB_txn *txn, const hth_index_dbs *dbs, hth_index_visit_fn visit, void *user_data)
{
    MDB_val key, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, dbs->rows, &cursor);

    if (rc != 0)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        hth_row_meta meta;
        hth_row_id id;

        if ((rc = decode_id(key.mv_data, key.mv_size, &id)) != 0 || (rc = decode_row(&id, &value, &meta)) != 0)
            break;
        if (!visit(&meta, user_data))
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int visit_by_age(MDB_txn *txn, const hth_index_dbs *dbs, hth_index_visit_fn visit, void *user_data)
{
    MDB_val key, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, dbs->lru, &cursor);

    if (rc != 0)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        hth_row_meta meta;
        hth_row_id id;

        rc = key.mv_size == AGE_BYTES ? decode_id((const uint8_t *)key.mv_data + 8, ID_BYTES, &id) : MDB_CORRUPTED;
        if (rc == 0)
            rc = must_be_there(row_get(txn, dbs, &id, &meta));
        if (rc != 0 || !visit(&meta, user_data))
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

hearth_status hth_index_visit(hth_index *index, bool by_age, hth_index_visit_fn visit, void *user_data,
                              hearth_error *err)
{
    hearth_status status = check_process(index, err);
    hth_index_read read;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_env_read_begin(index->env, &read);
    if (rc == 0) {
        rc = by_age ? visit_by_age(read.txn, &read.dbs, visit, user_data)
                    : visit_by_key(read.txn, &read.dbs, visit, user_data);
        hth_index_env_read_end(index->env, &read, rc);
    }
    return finish(index, rc, "visit rows", err);
}

static int collect_orphans(const hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, hth_row_id *out,
                           size_t capacity, size_t *n_out)
{
    uint64_t dead_owner = 0; /* 0 is nobody's token */
    MDB_val key, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, dbs->reservations, &cursor);

    if (rc != 0)
        return rc;
    *n_out = 0;
    while (*n_out < capacity && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        hth_row_id id;
        uint64_t owner;

        rc = value.mv_size == RESERVATION_BYTES ? decode_id(key.mv_data, key.mv_size, &id) : MDB_CORRUPTED;
        if (rc != 0)
            break;
        owner = hth_get_u64(value.mv_data);
        if (owner != dead_owner && hth_owner_lives(index->owner, owner))
            continue;
        dead_owner = owner;
        out[(*n_out)++] = id;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

hearth_status hth_index_orphans(hth_index *index, hth_row_id *out, size_t capacity, size_t *n_out, hearth_error *err)
{
    hearth_status status = check_process(index, err);
    hth_index_read read;
    size_t n = 0;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_env_read_begin(index->env, &read);
    if (rc == 0) {
        rc = collect_orphans(index, read.txn, &read.dbs, out, capacity, &n);
        hth_index_env_read_end(index->env, &read, rc);
    }
    if (rc == 0)
        *n_out = n;
    return finish(index, rc, "list reservations", err);
}

hearth_status hth_index_quota(hth_index *index, uint64_t *out, hearth_error *err)
{
    hearth_status status = check_process(index, err);
    hth_index_read read;
    state s;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_env_read_begin(index->env, &read);
    if (rc == 0) {
        rc = state_get(read.txn, &read.dbs, &s);
        hth_index_env_read_end(index->env, &read, rc);
    }
    if (rc == 0)
        *out = s.quota;
    return finish(index, rc, "read the quota", err);
}

hearth_status hth_index_reservation_is_ours(hth_index *index, const hth_row_id *id, bool *ours_out, hearth_error *err)
{
    hearth_status status = check_process(index, err);
    hth_index_read read;
    reservation r;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_env_read_begin(index->env, &read);
    if (rc == 0) {
        rc = reservation_get(read.txn, &read.dbs, id, &r);
        hth_index_env_read_end(index->env, &read, rc);
    }
    if (rc != 0 && rc != MDB_NOTFOUND)
        return finish(index, rc, "look up a reservation", err);
    *ours_out = rc == 0 && r.owner == hth_owner_token(index->owner);
    return HEARTH_OK;
}

/* ---- the past ---- */

bool hth_index_gone(hth_index *index, const hth_past_name *name, hth_gone *out)
{
    hth_index_read read;
    int rc;

    if (check_process(index, NULL) != HEARTH_OK || hth_index_env_read_begin(index->env, &read) != 0)
        return false;
    rc = hth_index_past_gone(read.txn, &read.dbs, name, out);
    hth_index_env_read_end(index->env, &read, rc);
    return rc == 0;
}

bool hth_index_past_ends(hth_index *index, const hth_key *boundary, hth_past_ends *out)
{
    hth_index_read read;
    int rc;

    if (check_process(index, NULL) != HEARTH_OK || hth_index_env_read_begin(index->env, &read) != 0)
        return false;
    rc = hth_index_past_ends_get(read.txn, &read.dbs, boundary, out);
    hth_index_env_read_end(index->env, &read, rc);
    return rc == 0;
}

bool hth_index_beginning(hth_index *index, const hth_beginning_name *name, hth_beginning *out)
{
    hth_index_read read;
    int rc;

    if (check_process(index, NULL) != HEARTH_OK || hth_index_env_read_begin(index->env, &read) != 0)
        return false;
    rc = hth_index_past_beginning(read.txn, &read.dbs, name, out);
    hth_index_env_read_end(index->env, &read, rc);
    return rc == 0;
}

void hth_index_visit_beginnings(hth_index *index, hth_beginning_visit_fn visit, void *user_data)
{
    hth_index_read read;

    if (check_process(index, NULL) == HEARTH_OK && hth_index_env_read_begin(index->env, &read) == 0)
        hth_index_env_read_end(index->env, &read,
                               hth_index_past_visit_beginnings(read.txn, &read.dbs, visit, user_data));
}

/* ---- waiting ---- */

static hth_wait_result look(hth_index *index, const hth_row_id *id)
{
    hth_wait_result result = HTH_WAIT_NOBODY;
    hth_index_read read;
    hth_row_meta meta;
    reservation r;
    int rc;

    if (check_process(index, NULL) != HEARTH_OK || hth_index_env_read_begin(index->env, &read) != 0)
        return HTH_WAIT_NOBODY;
    rc = row_get(read.txn, &read.dbs, id, &meta);
    if (rc == 0) {
        result = HTH_WAIT_THERE;
    } else if (rc == MDB_NOTFOUND) {
        rc = reservation_get(read.txn, &read.dbs, id, &r);
        if (rc == 0)
            result = HTH_WAIT_TIMEOUT;
    }
    hth_index_env_read_end(index->env, &read, rc);
    if (result == HTH_WAIT_TIMEOUT && !reservation_holds(index, id, &r))
        result = HTH_WAIT_NOBODY;
    return result;
}

hth_wait_result hth_index_wait(hth_index *index, const hth_row_id *id, uint32_t timeout_ms)
{
    uint64_t now = hth_os_monotonic_ns(), end = now + hth_ms_to_ns(timeout_ms);

    for (;;) {
        uint32_t seen = hth_bell_count(index->bell);
        hth_wait_result result = look(index, id);
        uint64_t left_ms;

        if (result != HTH_WAIT_TIMEOUT || now >= end)
            return result;
        left_ms = (end - now + 999999) / 1000000;
        hth_bell_wait(index->bell, seen, left_ms < LOOK_AGAIN_MS ? (uint32_t)left_ms : LOOK_AGAIN_MS);
        now = hth_os_monotonic_ns();
    }
}

uint32_t hth_index_changes(const hth_index *index)
{
    return hth_bell_count(index->bell);
}

void hth_index_wait_change(hth_index *index, uint32_t seen, uint32_t timeout_ms)
{
    hth_bell_wait(index->bell, seen, timeout_ms);
}

/* ---- writes ---- */

static hearth_status write_rows(hth_index *index, hth_index_body_fn body, void *user_data, const char *what,
                                hearth_error *err)
{
    hearth_status status = check_process(index, err);

    return status == HEARTH_OK ? finish(index, hth_index_env_write(index->env, body, user_data), what, err) : status;
}

typedef struct reserve_request {
    hth_index *index;
    const hth_row_id *ids;
    size_t n;
    uint32_t deadline_s;
    hth_reserve_result *results;
} reserve_request;

/* Put in a reservation of ours that a thread of ours holds from now on. */
static int reserve_row(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id,
                       uint32_t deadline_s)
{
    int rc = held_add(index, id);

    if (rc != 0)
        return rc;
    rc = reservation_put(txn, dbs, id, hth_owner_token(index->owner), deadline_s);
    if (rc != 0)
        held_remove(index, id);
    return rc;
}

static int reserve_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    reserve_request *request = user_data;

    for (size_t i = 0; i < request->n; i++) {
        const hth_row_id *id = &request->ids[i];
        hth_row_meta meta;
        reservation r;
        int rc;

        if (request->results[i] == HTH_RESERVED)
            held_remove(request->index, id); /* the transaction began anew */
        request->results[i] = HTH_RESERVE_TAKEN;
        rc = row_get(txn, dbs, id, &meta);
        if (rc == 0) {
            request->results[i] = HTH_RESERVE_EXISTS;
            continue;
        }
        if (rc != MDB_NOTFOUND)
            return rc;
        rc = reservation_get(txn, dbs, id, &r);
        if (rc != 0 && rc != MDB_NOTFOUND)
            return rc;
        if (rc == 0 && reservation_holds(request->index, id, &r))
            continue;
        rc = reserve_row(request->index, txn, dbs, id, request->deadline_s);
        if (rc != 0)
            return rc;
        request->results[i] = HTH_RESERVED;
    }
    return 0;
}

hearth_status hth_index_reserve(hth_index *index, const hth_row_id *ids, size_t n, uint32_t deadline_s,
                                hth_reserve_result *results, hearth_error *err)
{
    reserve_request request = {
        .index = index,
        .ids = ids,
        .n = n,
        .deadline_s = deadline_s,
        .results = results,
    };
    hearth_status status;

    for (size_t i = 0; i < n; i++)
        results[i] = HTH_RESERVE_TAKEN;
    status = write_rows(index, reserve_body, &request, "reserve rows", err);
    for (size_t i = 0; status != HEARTH_OK && i < n; i++) {
        if (results[i] == HTH_RESERVED)
            held_remove(index, &ids[i]);
        results[i] = HTH_RESERVE_TAKEN;
    }
    return status;
}

typedef struct take_request {
    hth_index *index;
    const hth_row_id *id;
    uint32_t deadline_s;
    hth_reserve_result result;
    bool was_known;
    hth_row_meta meta;
} take_request;

static int take_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    take_request *request = user_data;
    hth_index_totals totals;
    reservation r;
    int rc;

    if (request->result == HTH_RESERVED)
        held_remove(request->index, request->id); /* the transaction began anew */
    request->result = HTH_RESERVE_TAKEN;
    request->was_known = false;
    rc = reservation_get(txn, dbs, request->id, &r);
    if (rc == 0 && reservation_holds(request->index, request->id, &r))
        return 0;
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    rc = row_get(txn, dbs, request->id, &request->meta);
    if (rc == 0) {
        request->was_known = true;
        if ((rc = totals_get(txn, dbs, &totals)) != 0 || (rc = row_remove(txn, dbs, &request->meta, &totals)) != 0 ||
            (rc = totals_put(txn, dbs, &totals)) != 0)
            return rc;
    } else if (rc != MDB_NOTFOUND) {
        return rc;
    }
    rc = reserve_row(request->index, txn, dbs, request->id, request->deadline_s);
    if (rc == 0)
        request->result = HTH_RESERVED;
    return rc;
}

hearth_status hth_index_take(hth_index *index, const hth_row_id *id, uint32_t deadline_s,
                             hth_reserve_result *result_out, bool *was_known_out, hth_row_meta *meta_out,
                             hearth_error *err)
{
    take_request request = { .index = index, .id = id, .deadline_s = deadline_s, .result = HTH_RESERVE_TAKEN };
    hearth_status status = write_rows(index, take_body, &request, "take a row", err);

    if (status != HEARTH_OK) {
        if (request.result == HTH_RESERVED)
            held_remove(index, id);
        return status;
    }
    *result_out = request.result;
    *was_known_out = request.was_known;
    if (request.was_known)
        *meta_out = request.meta;
    return HEARTH_OK;
}

static int publish_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    hth_index_totals totals;
    int rc = totals_get(txn, dbs, &totals);

    for (size_t i = 0; i < change->n && rc == 0; i++) {
        rc = row_put(txn, dbs, &change->rows[i], &totals);
        if (rc == 0)
            rc = reservation_drop(change->index, txn, dbs, &change->rows[i].id);
    }
    return rc ? rc : totals_put(txn, dbs, &totals);
}

hearth_status hth_index_publish(hth_index *index, const hth_row_meta *rows, size_t n, hearth_error *err)
{
    row_change change = { .index = index, .rows = rows, .n = n };
    hearth_status status = write_rows(index, publish_body, &change, "publish rows", err);

    for (size_t i = 0; i < n; i++)
        held_remove(index, &rows[i].id);
    hth_bell_ring(index->bell);
    return status;
}

/* Drop a reservation that nobody stands behind any more. */
static int drop_unheld(hth_index *index, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_id *id)
{
    return held_has(index, id) ? 0 : reservation_drop(index, txn, dbs, id);
}

/* Put in one row that was found as a file, unless somebody else sees to it. */
static int adopt_row(row_change *change, MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta,
                     hth_index_totals *totals)
{
    hth_row_meta known;
    reservation r;
    int rc = row_get(txn, dbs, &meta->id, &known);

    if (rc == MDB_NOTFOUND) {
        rc = reservation_get(txn, dbs, &meta->id, &r);
        if (rc == 0 && reservation_holds(change->index, &meta->id, &r))
            return 0;
        if (change->confirm && !change->confirm(&meta->id, change->user_data))
            return rc == MDB_NOTFOUND ? 0 : rc;
        if (rc == 0 || rc == MDB_NOTFOUND)
            rc = row_put(txn, dbs, meta, totals);
        if (rc == 0)
            change->n_done++;
    }
    return rc ? rc : drop_unheld(change->index, txn, dbs, &meta->id);
}

static int adopt_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    hth_index_totals totals;
    int rc = totals_get(txn, dbs, &totals);

    change->n_done = 0;
    for (size_t i = 0; i < change->n && rc == 0; i++)
        rc = adopt_row(change, txn, dbs, &change->rows[i], &totals);
    return rc ? rc : totals_put(txn, dbs, &totals);
}

hearth_status hth_index_adopt(hth_index *index, const hth_row_meta *rows, size_t n, hth_index_confirm_fn is_there,
                              void *user_data, size_t *adopted_out, hearth_error *err)
{
    row_change change = { .index = index, .rows = rows, .confirm = is_there, .user_data = user_data, .n = n };
    hearth_status status = write_rows(index, adopt_body, &change, "adopt rows", err);

    hth_bell_ring(index->bell);
    if (status == HEARTH_OK && adopted_out)
        *adopted_out = change.n_done;
    return status;
}

static int release_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    int rc = 0;

    for (size_t i = 0; i < change->n && rc == 0; i++)
        rc = reservation_drop(change->index, txn, dbs, &change->ids[i]);
    return rc;
}

hearth_status hth_index_release(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err)
{
    row_change change = { .index = index, .ids = ids, .n = n };

    hearth_status status = write_rows(index, release_body, &change, "release reservations", err);

    for (size_t i = 0; i < n; i++)
        held_remove(index, &ids[i]);
    hth_bell_ring(index->bell);
    return status;
}

typedef struct gone_request {
    hth_index *index;
    const hth_row_meta *meta;
    const hth_gone *gone;
} gone_request;

static int release_gone_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const gone_request *request = user_data;
    hth_row_meta known;
    int rc = reservation_drop(request->index, txn, dbs, &request->meta->id);

    if (rc == 0)
        rc = row_get(txn, dbs, &request->meta->id, &known);
    /* One that is there was put in by somebody else, when our time was over. */
    return rc == MDB_NOTFOUND ? hth_index_past_note_gone(txn, dbs, request->meta, request->gone) : rc;
}

hearth_status hth_index_release_gone(hth_index *index, const hth_row_meta *meta, const hth_gone *gone,
                                     hearth_error *err)
{
    gone_request request = { .index = index, .meta = meta, .gone = gone };
    hearth_status status = write_rows(index, release_gone_body, &request, "release a reservation", err);

    held_remove(index, &meta->id);
    hth_bell_ring(index->bell);
    return status;
}

static int release_dead_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    int rc = 0;

    for (size_t i = 0; i < change->n && rc == 0; i++) {
        reservation r;

        rc = reservation_get(txn, dbs, &change->ids[i], &r);
        if (rc == 0 && r.owner != hth_owner_token(change->index->owner))
            rc = reservation_drop(change->index, txn, dbs, &change->ids[i]);
        else if (rc == MDB_NOTFOUND)
            rc = 0;
    }
    return rc;
}

hearth_status hth_index_release_dead(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err)
{
    row_change change = { .index = index, .ids = ids, .n = n };

    hearth_status status = write_rows(index, release_dead_body, &change, "release dead reservations", err);

    hth_bell_ring(index->bell);
    return status;
}

static int remove_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    row_change *change = user_data;
    hth_index_totals totals;
    int rc = totals_get(txn, dbs, &totals);

    change->n_done = 0;
    for (size_t i = 0; i < change->n && rc == 0; i++) {
        hth_row_meta meta;

        rc = row_get(txn, dbs, &change->ids[i], &meta);
        if (rc == 0 && (!change->confirm || change->confirm(&meta.id, change->user_data))) {
            rc = row_remove(txn, dbs, &meta, &totals);
            change->n_done++;
        } else if (rc == MDB_NOTFOUND) {
            rc = 0;
        }
    }
    return rc ? rc : totals_put(txn, dbs, &totals);
}

hearth_status hth_index_remove_lost(hth_index *index, const hth_row_id *ids, size_t n, hth_index_confirm_fn is_gone,
                                    void *user_data, size_t *removed_out, hearth_error *err)
{
    row_change change = { .index = index, .ids = ids, .confirm = is_gone, .user_data = user_data, .n = n };
    hearth_status status = write_rows(index, remove_body, &change, "remove rows", err);

    if (status == HEARTH_OK && removed_out)
        *removed_out = change.n_done;
    return status;
}

hearth_status hth_index_remove(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err)
{
    return hth_index_remove_lost(index, ids, n, NULL, NULL, NULL, err);
}

typedef struct note_request {
    const hth_index_sighting *sightings;
    size_t n;
} note_request;

static int note_beginnings_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const note_request *request = user_data;
    int rc = 0;

    for (size_t i = 0; i < request->n && rc == 0; i++)
        rc = hth_index_past_note_beginning(txn, dbs, &request->sightings[i].name, &request->sightings[i].space);
    return rc;
}

hearth_status hth_index_note_beginnings(hth_index *index, const hth_index_sighting *sightings, size_t n,
                                        hearth_error *err)
{
    note_request request = { .sightings = sightings, .n = n };

    return write_rows(index, note_beginnings_body, &request, "note beginnings", err);
}

/* ---- eviction ---- */

/*
 * Does a row stand on this one? A child begins where its parent ends, so positions only grow along a chain and no loop
 * of forged rows can keep itself alive. Rows without tokens bear nothing; a snapshot stands on nothing.
 */
static int has_children(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta, bool *out)
{
    uint64_t end = (uint64_t)meta->first_position + meta->n_tokens;
    hth_key parent = meta->id.key;
    MDB_val key = value_of(parent.bytes, HTH_KEY_BYTES), value;
    MDB_cursor *cursor;
    int rc;

    *out = false;
    if (meta->n_tokens == 0)
        return 0;
    rc = mdb_cursor_open(txn, dbs->children, &cursor);
    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET); rc == 0 && !*out;
         rc = *out ? 0 : mdb_cursor_get(cursor, &key, &value, MDB_NEXT_DUP)) {
        hth_row_meta child;
        hth_row_id id;

        if ((rc = decode_id(value.mv_data, value.mv_size, &id)) != 0 ||
            (rc = must_be_there(row_get(txn, dbs, &id, &child))) != 0)
            break;
        *out = child.first_position >= end;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* The kinds of row that others can stand on. */
static const hth_row_kind bearing_kinds[] = { HTH_ROW_BLOCK, HTH_ROW_TAIL, HTH_ROW_SNAPSHOT };

enum { N_BEARING_KINDS = sizeof(bearing_kinds) / sizeof(bearing_kinds[0]) };

/* Move age back to where the rows that meta stood on are, if they come earlier: they may have become leaves. */
static int step_back(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *meta, uint8_t age[AGE_BYTES])
{
    for (size_t i = 0; i < N_BEARING_KINDS; i++) {
        hth_row_id id = { .key = meta->parent, .kind = bearing_kinds[i] };
        uint8_t parent_age[AGE_BYTES];
        hth_row_meta parent;
        int rc = row_get(txn, dbs, &id, &parent);

        if (rc == MDB_NOTFOUND)
            continue;
        if (rc != 0)
            return rc;
        encode_age(&parent, parent_age);
        if (memcmp(parent_age, age, AGE_BYTES) < 0)
            memcpy(age, parent_age, AGE_BYTES);
    }
    return 0;
}

typedef struct evict_request {
    hth_index *index;
    uint64_t bytes_max;
    hth_index_needed_fn is_needed; /* may be NULL */
    void *user_data;
    hth_row_meta *rows;
    size_t capacity;
    size_t n;
    hth_gone gone; /* what is remembered of them */
} evict_request;

static int evict_leaves(evict_request *request, MDB_txn *txn, const hth_index_dbs *dbs, MDB_cursor *cursor,
                        hth_index_totals *totals)
{
    uint8_t age[AGE_BYTES] = { 0 };

    while (totals->bytes > request->bytes_max && request->n < request->capacity) {
        MDB_val key = value_of(age, AGE_BYTES), nothing;
        hth_row_meta meta;
        hth_row_id id;
        bool is_needed = true;
        int rc = mdb_cursor_get(cursor, &key, &nothing, MDB_SET_RANGE);

        while (rc == 0 && is_needed) {
            if (key.mv_size != AGE_BYTES || decode_id((const uint8_t *)key.mv_data + 8, ID_BYTES, &id) != 0)
                return MDB_CORRUPTED;
            if ((rc = must_be_there(row_get(txn, dbs, &id, &meta))) != 0 ||
                (rc = has_children(txn, dbs, &meta, &is_needed)) != 0)
                return rc;
            if (!is_needed && request->is_needed)
                is_needed = request->is_needed(&meta, request->user_data);
            if (is_needed)
                rc = mdb_cursor_get(cursor, &key, &nothing, MDB_NEXT);
        }
        if (rc != 0)
            return rc == MDB_NOTFOUND ? 0 : rc; /* every row that is left is needed */

        memcpy(age, key.mv_data, AGE_BYTES);
        if ((rc = row_remove(txn, dbs, &meta, totals)) != 0 ||
            (rc = hth_index_past_note_gone(txn, dbs, &meta, &request->gone)) != 0 ||
            (rc = reserve_row(request->index, txn, dbs, &id, EVICTED_DEADLINE_S)) != 0)
            return rc;
        request->rows[request->n++] = meta;
        if ((rc = step_back(txn, dbs, &meta, age)) != 0)
            return rc;
    }
    return 0;
}

/* The rows of an attempt that came to nothing. */
static void let_go(evict_request *request)
{
    while (request->n > 0)
        held_remove(request->index, &request->rows[--request->n].id);
}

static int evict_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    evict_request *request = user_data;
    hth_index_totals totals;
    MDB_cursor *cursor;
    int rc = totals_get(txn, dbs, &totals);

    let_go(request);
    if (rc != 0 || !totals.complete)
        return rc;
    rc = mdb_cursor_open(txn, dbs->lru, &cursor);
    if (rc != 0)
        return rc;
    rc = evict_leaves(request, txn, dbs, cursor, &totals);
    mdb_cursor_close(cursor);
    return rc ? rc : totals_put(txn, dbs, &totals);
}

hearth_status hth_index_evict(hth_index *index, uint64_t bytes_max, hth_index_needed_fn is_needed, void *user_data,
                              hth_row_meta *rows, size_t capacity, size_t *n_out, hearth_error *err)
{
    evict_request request = {
        .index = index,
        .bytes_max = bytes_max,
        .is_needed = is_needed,
        .user_data = user_data,
        .rows = rows,
        .capacity = capacity,
        .gone = { .reason = HTH_GONE_EVICTED, .time = hth_os_unix_seconds() },
    };
    hearth_status status = write_rows(index, evict_body, &request, "evict rows", err);

    if (status == HEARTH_OK)
        *n_out = request.n;
    else
        let_go(&request);
    return status;
}

hearth_status hth_index_has_children(hth_index *index, const hth_row_meta *meta, bool *out, hearth_error *err)
{
    hearth_status status = check_process(index, err);
    hth_index_read read;
    bool has = false;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_env_read_begin(index->env, &read);
    if (rc == 0) {
        rc = has_children(read.txn, &read.dbs, meta, &has);
        hth_index_env_read_end(index->env, &read, rc);
    }
    if (rc == 0)
        *out = has;
    return finish(index, rc, "look for children", err);
}

/* ---- uses ---- */

/* Make what a row stands on as recent as time. Stops at the first that is: what that stands on came along then. */
static int touch_ancestors(MDB_txn *txn, const hth_index_dbs *dbs, const hth_row_meta *row, uint64_t time)
{
    hth_row_meta at = *row;

    for (int depth = 0; depth < DEPTH_MAX && at.first_position > 0; depth++) {
        hth_row_meta next = { .n_tokens = 0 };

        for (size_t i = 0; i < N_BEARING_KINDS; i++) {
            hth_row_id id = { .key = at.parent, .kind = bearing_kinds[i] };
            hth_row_meta old, touched;
            int rc = row_get(txn, dbs, &id, &old);

            if (rc == MDB_NOTFOUND || (rc == 0 && old.last_used_time >= time))
                continue;
            if (rc != 0)
                return rc;
            touched = old;
            touched.last_used_time = time;
            if ((rc = row_update(txn, dbs, &old, &touched)) != 0)
                return rc;
            if (old.first_position < at.first_position && next.n_tokens == 0)
                next = old;
        }
        if (next.n_tokens == 0)
            break;
        at = next;
    }
    return 0;
}

typedef struct touch_request {
    const hth_index_use *uses;
    size_t n;
} touch_request;

static int touch_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const touch_request *request = user_data;

    for (size_t i = 0; i < request->n; i++) {
        const hth_index_use *use = &request->uses[i];
        hth_row_meta old, meta;
        int rc = row_get(txn, dbs, &use->id, &old);

        if (rc == MDB_NOTFOUND)
            continue;
        if (rc != 0)
            return rc;
        meta = old;
        if (use->last_used_time > meta.last_used_time)
            meta.last_used_time = use->last_used_time;
        if (__builtin_add_overflow(meta.hit_count, use->hits, &meta.hit_count))
            meta.hit_count = UINT32_MAX;
        if ((rc = row_update(txn, dbs, &old, &meta)) != 0 ||
            (rc = touch_ancestors(txn, dbs, &meta, meta.last_used_time)) != 0)
            return rc;
    }
    return 0;
}

hearth_status hth_index_touch(hth_index *index, const hth_index_use *uses, size_t n, hearth_error *err)
{
    touch_request request = { .uses = uses, .n = n };

    return write_rows(index, touch_body, &request, "note uses", err);
}

/* ---- state ---- */

static int set_quota_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const uint64_t *quota = user_data;
    state s;
    int rc = state_get(txn, dbs, &s);

    s.quota = *quota;
    return rc ? rc : state_put(txn, dbs, &s);
}

hearth_status hth_index_set_quota(hth_index *index, uint64_t bytes_max, hearth_error *err)
{
    return write_rows(index, set_quota_body, &bytes_max, "set the quota", err);
}

static int clear_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const hth_index *index = user_data;
    hth_index_totals none = { .rows = 0 };
    state s;
    int rc;

    if ((rc = state_get(txn, dbs, &s)) != 0 || (rc = mdb_drop(txn, dbs->rows, 0)) != 0 ||
        (rc = mdb_drop(txn, dbs->children, 0)) != 0 || (rc = mdb_drop(txn, dbs->lru, 0)) != 0 ||
        (rc = totals_put(txn, dbs, &none)) != 0)
        return rc;
    /* Reservations stay: others are writing rows, which must not be lost for it. */
    s.complete = false;
    s.rebuilder = hth_owner_token(index->owner);
    return state_put(txn, dbs, &s);
}

hearth_status hth_index_clear(hth_index *index, hearth_error *err)
{
    return write_rows(index, clear_body, index, "clear", err);
}

static int rebuilt_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const hth_index *index = user_data;
    state s;
    int rc = state_get(txn, dbs, &s);

    if (rc != 0 || s.rebuilder != hth_owner_token(index->owner))
        return rc; /* not the index that we were filling */
    s.complete = true;
    return state_put(txn, dbs, &s);
}

hearth_status hth_index_rebuilt(hth_index *index, hearth_error *err)
{
    return write_rows(index, rebuilt_body, index, "finish the rebuild", err);
}

static int unclaim_body(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data)
{
    const hth_index *index = user_data;
    state s;
    int rc = state_get(txn, dbs, &s);

    if (rc != 0 || s.rebuilder != hth_owner_token(index->owner))
        return rc;
    s.rebuilder = 0;
    return state_put(txn, dbs, &s);
}

void hth_index_rebuild_failed(hth_index *index)
{
    (void)write_rows(index, unclaim_body, index, "give up the rebuild", NULL); /* a dead owner's claim ends, too */
}
