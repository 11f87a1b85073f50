/*
 * index.c - opens the index, once per process, and reads it
 */
#include "index/index.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/grow.h"
#include "base/hex.h"
#include "base/os.h"
#include "index/index_env.h"
#include "index/index_records.h"
#include "index/notifier.h"
#include "index/owner.h"

struct hth_index {
    hth_index *next; /* in the registry */
    uint64_t device;
    uint64_t inode;
    size_t n_refs;

    pid_t pid;
    unsigned n_forks; /* when the index was opened */
    const hth_fs *fs;
    hth_owner *owner;
    hth_index_env *env;
    hth_notifier *notifier;

    /* Guards the rows that threads of this process hold. Innermost lock. */
    pthread_mutex_t held_lock;
    hth_row_id *held;
    size_t n_held;
    size_t held_capacity;
};

enum { LOOK_AGAIN_MS = 200 }; /* interval at which a waiter checks that the owner is alive */

/*
 * The open indexes of this process. LMDB loses its locks when a process opens an environment twice, and only a
 * process-wide list can prevent that among independent callers. The lock guards the list and the reference counts, and
 * is held while an index is opened or closed.
 */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static hth_index *registry;

/*
 * Counts the forks between the first opener of an index and this process: a check for a fork must not cost a system
 * call.
 */
static _Atomic unsigned n_forks;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add(&n_forks, 1);
}

static void count_forks(void)
{
    if (pthread_atfork(NULL, NULL, count_fork) != 0)
        abort(); /* out of memory; without the handler a child could write to its parent's environment */
}

/* ---- common to all calls ---- */

/* HEARTH_MISUSE in the child of a fork. */
static hearth_status check_process(const hth_index *index, hearth_error *err)
{
    if (index->n_forks == atomic_load(&n_forks))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "process %ld opened the cache index; a child must open its own",
                    (long)index->pid);
}

/* Turn the result of a transaction into a status. */
static hearth_status index_finish(hth_index *index, int rc, const char *what, hearth_error *err)
{
    return rc == 0 ? HEARTH_OK : hth_index_env_fail(index->env, rc, what, err);
}

/* Run body in a write transaction. */
static hearth_status write_rows(hth_index *index, hth_index_body_fn body, void *user_data, const char *what,
                                hearth_error *err)
{
    hearth_status status = check_process(index, err);

    if (status == HEARTH_OK)
        status = index_finish(index, hth_index_env_write(index->env, body, user_data), what, err);
    return status;
}

typedef struct reading {
    hth_index_txn txn;
    const char *what; /* for messages; NULL before reading_gave */
} reading;

/*
 * Begin a read transaction as hth_index_env_read_begin does, but return a status; HEARTH_MISUSE in the child of a fork.
 * After HEARTH_OK, end it with reading_end or reading_gave.
 */
static hearth_status reading_begin(hth_index *index, reading *read, const char *what, hearth_error *err)
{
    hearth_status status = check_process(index, err);

    if (status == HEARTH_OK)
        status = index_finish(index, hth_index_env_read_begin(index->env, &read->txn), what, err);
    read->what = what;
    return status;
}

/* rc is the result of the reads. */
static hearth_status reading_end(hth_index *index, reading *read, int rc, hearth_error *err)
{
    hth_index_env_read_end(index->env, &read->txn, rc);
    return index_finish(index, rc, read->what, err);
}

/* End reads whose failure is no error: the caller then has no result. */
static bool reading_gave(hth_index *index, reading *read, int rc)
{
    hth_index_env_read_end(index->env, &read->txn, rc);
    return rc == 0;
}

/* ---- opening ---- */

static hearth_status open_new(const hth_index_options *options, const hth_fs *fs, hth_index *index, hearth_error *err)
{
    char boot_id[128] = "unknown", notifier[4096];
    hearth_status status;

    index->fs = fs;
    index->pid = getpid();
    index->n_forks = atomic_load(&n_forks);
    index->n_refs = 1;
    if (snprintf(notifier, sizeof(notifier), "%s/bell", options->directory) >= (int)sizeof(notifier))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", options->directory);
    index->notifier = hth_notifier_open(notifier);
    if (!index->notifier)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache index");
    status = hth_owner_open(fs, options->owners_directory, &index->owner, err);
    if (status != HEARTH_OK)
        return status;
    /*
     * Without a boot id, the token gives a name that no later process uses: every start is then like one after a boot.
     */
    if (!options->boot_id && !hth_os_boot_id(boot_id, sizeof(boot_id))) {
        uint8_t token[8];

        hth_put_u64(token, hth_owner_token(index->owner));
        hth_hex_encode(token, sizeof(token), boot_id);
    }
    return hth_index_env_open(options->directory, options->boot_id ? options->boot_id : boot_id,
                              hth_owner_sweep(index->owner), fs, options->log, &index->env, err);
}

/* Free the memory only, no file and no environment. */
static void free_memory(hth_index *index)
{
    hth_notifier_close(index->notifier);
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

/* Called under the registry's lock. */
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
            hth_index_env_add_log(index->env, options->log);
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

void hth_index_forget_log(hth_index *index, const hth_log *log)
{
    if (index && check_process(index, NULL) == HEARTH_OK)
        hth_index_env_forget_log(index->env, log);
}

void hth_index_close(hth_index *index)
{
    bool is_last;

    if (!index)
        return;
    pthread_mutex_lock(&registry_lock);
    is_last = --index->n_refs == 0;
    for (hth_index **at = &registry; is_last && *at; at = &(*at)->next) {
        if (*at == index) {
            *at = index->next;
            break;
        }
    }
    if (is_last && index->pid == getpid()) {
        free_index(index);
    } else if (is_last) {
        /* The environment is the parent's; LMDB cannot forget it without releasing the parent's locks. */
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

/*
 * ---- reservations, and the rows that threads of this process hold ----
 *
 * A reservation in the index informs other processes. Between threads of this process, only the list of held rows
 * counts, whatever the index says: a transaction that dropped a reservation may have failed, or a new environment may
 * know of none. A held row is not given to any other thread, so a hold has one holder. A thread that releases a hold,
 * even because the transaction that was to reserve the row failed, therefore always releases its own.
 */

typedef struct index_reservation {
    uint64_t owner;
    uint64_t deadline;
} index_reservation;

static uint64_t now_s(void)
{
    return hth_os_monotonic_ns() / 1000000000u;
}

static int reservation_get(const hth_index_txn *txn, const hth_row_id *id, index_reservation *out)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES];
    MDB_val key = hth_index_id_value(id, id_bytes), value;
    int rc = mdb_get(txn->mdb, txn->dbs.reservations, &key, &value);

    if (rc != 0)
        return rc;
    if (value.mv_size != HTH_INDEX_RESERVATION_BYTES)
        return MDB_CORRUPTED;
    out->owner = hth_get_u64(value.mv_data);
    out->deadline = hth_get_u64((const uint8_t *)value.mv_data + 8);
    return 0;
}

static int reservation_put(const hth_index_txn *txn, const hth_row_id *id, uint64_t owner, uint32_t deadline_s)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES], bytes[HTH_INDEX_RESERVATION_BYTES];
    MDB_val key = hth_index_id_value(id, id_bytes), value = hth_index_value(bytes, HTH_INDEX_RESERVATION_BYTES);

    hth_put_u64(bytes, owner);
    hth_put_u64(bytes + 8, now_s() + deadline_s);
    return mdb_put(txn->mdb, txn->dbs.reservations, &key, &value, 0);
}

/* ---- rows held by this process ---- */

/* The index of the row in held, or n_held. */
static size_t held_find_locked(const hth_index *index, const hth_row_id *id)
{
    size_t i = 0;

    while (i < index->n_held && !hth_row_id_equal(&index->held[i], id))
        i++;
    return i;
}

/* True when a thread of this process holds the row. */
static bool held_has(hth_index *index, const hth_row_id *id)
{
    bool has;

    pthread_mutex_lock(&index->held_lock);
    has = held_find_locked(index, id) < index->n_held;
    pthread_mutex_unlock(&index->held_lock);
    return has;
}

/* Add a row that is not held. 0 or ENOMEM. */
static int held_add(hth_index *index, const hth_row_id *id)
{
    hth_row_id *held;
    int rc = 0;

    pthread_mutex_lock(&index->held_lock);
    assert(held_find_locked(index, id) == index->n_held);
    held = hth_grown(index->held, index->n_held, &index->held_capacity, sizeof(*held));
    if (held) {
        index->held = held;
        index->held[index->n_held++] = *id;
    } else {
        rc = ENOMEM;
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

/* True when another living process has the reservation, and its deadline has not passed. */
static bool reservation_is_foreign(const hth_index *index, const index_reservation *r)
{
    return r->owner != hth_owner_token(index->owner) && r->deadline > now_s() &&
           hth_owner_lives(index->owner, r->owner);
}

/* *out: a thread of this process, or another process, holds the row. */
static int row_is_held(hth_index *index, const hth_index_txn *txn, const hth_row_id *id, bool *out)
{
    index_reservation r;
    int rc;

    *out = held_has(index, id);
    if (*out)
        return 0;
    rc = reservation_get(txn, id, &r);
    if (rc == 0)
        *out = reservation_is_foreign(index, &r);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Drop the reservation of a row when its owner is dead or, unless keeps_ours, when it is ours. */
static int reservation_drop(hth_index *index, const hth_index_txn *txn, const hth_row_id *id, bool keeps_ours)
{
    uint8_t id_bytes[HTH_INDEX_ID_BYTES];
    MDB_val key = hth_index_id_value(id, id_bytes);
    index_reservation r;
    int rc = reservation_get(txn, id, &r);

    if (rc != 0)
        return rc == MDB_NOTFOUND ? 0 : rc;
    if (r.owner == hth_owner_token(index->owner) ? keeps_ours : hth_owner_lives(index->owner, r.owner))
        return 0;
    return mdb_del(txn->mdb, txn->dbs.reservations, &key, NULL);
}

/* Add our reservation for a row that is not held; from now on a thread of this process holds it. */
static int reserve_row(hth_index *index, const hth_index_txn *txn, const hth_row_id *id, uint32_t deadline_s)
{
    int rc = held_add(index, id);

    if (rc != 0)
        return rc;
    rc = reservation_put(txn, id, hth_owner_token(index->owner), deadline_s);
    if (rc != 0)
        held_remove(index, id);
    return rc;
}

/* ---- reads ---- */

hearth_status hth_index_look(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                             bool *is_complete_out, hearth_error *err)
{
    hth_index_state s = { .complete = false };
    reading read;
    hth_row_meta meta;
    hearth_status status = reading_begin(index, &read, "look up a row", err);
    bool found;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_row_get(&read.txn, id, &meta);
    found = rc == 0;
    if (rc == MDB_NOTFOUND) /* a row that was found needs nothing more */
        rc = is_complete_out ? hth_index_state_get(&read.txn, &s) : 0;
    status = reading_end(index, &read, rc, err);
    if (status != HEARTH_OK)
        return status;
    *found_out = found;
    if (found && out)
        *out = meta;
    if (is_complete_out)
        *is_complete_out = s.complete;
    return HEARTH_OK;
}

hearth_status hth_index_get(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                            hearth_error *err)
{
    return hth_index_look(index, id, out, found_out, NULL, err);
}

static int collect_children(const hth_index_txn *txn, const hth_key *parent, hth_row_meta *out, size_t capacity,
                            size_t *n_out)
{
    hth_key parent_copy = *parent;
    MDB_val key = hth_index_value(parent_copy.bytes, HTH_KEY_BYTES), value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn->mdb, txn->dbs.children, &cursor);

    if (rc != 0)
        return rc;
    *n_out = 0;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET); rc == 0 && *n_out < capacity;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT_DUP)) {
        hth_index_child child;

        if ((rc = hth_index_decode_child(&value, &child)) != 0 ||
            (rc = hth_index_child_get(txn, parent, &child, &out[*n_out])) != 0)
            break;
        (*n_out)++;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

hearth_status hth_index_children(hth_index *index, const hth_key *parent, hth_row_meta *out, size_t capacity,
                                 size_t *n_out, hearth_error *err)
{
    reading read;
    hearth_status status = reading_begin(index, &read, "list rows", err);
    size_t n = 0;

    if (status == HEARTH_OK)
        status = reading_end(index, &read, collect_children(&read.txn, parent, out, capacity, &n), err);
    if (status == HEARTH_OK)
        *n_out = n;
    return status;
}

static int search_leaf(const hth_index_txn *txn, hth_leaf_search *search)
{
    hth_key parent = search->boundary;
    MDB_val key = hth_index_value(parent.bytes, HTH_KEY_BYTES), value;
    MDB_cursor *cursor;
    size_t n = 0;
    int rc = mdb_cursor_open(txn->mdb, txn->dbs.children, &cursor);

    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET); rc == 0 && !hth_leaf_search_is_done(search);
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT_DUP)) {
        hth_index_child child;
        const uint8_t *tokens;

        search->is_cut = search->is_cut || n == search->n_rows_max;
        if (n++ == search->n_rows_max)
            break;
        if ((rc = hth_index_decode_child(&value, &child)) != 0)
            break;
        if (!hth_leaf_search_wants(search, &child.id, child.first_position, child.n_tokens))
            continue;
        rc = hth_index_tokens_get(txn, &child.id, child.n_tokens, &tokens);
        if (rc == 0 && hth_leaf_search_compare(search, tokens, child.n_tokens))
            rc = hth_index_child_get(txn, &search->boundary, &child, &search->row);
        if (rc != 0 && rc != MDB_NOTFOUND)
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

size_t hth_index_tokens(hth_index *index, const hth_row_id *id, hearth_token *out, size_t capacity)
{
    const uint8_t *tokens;
    reading read;
    hth_row_meta meta;
    size_t n = 0;
    int rc;

    if (reading_begin(index, &read, NULL, NULL) != HEARTH_OK)
        return 0;
    rc = hth_index_row_get(&read.txn, id, &meta);
    if (rc == 0)
        rc = hth_index_tokens_get(&read.txn, id, meta.n_tokens, &tokens);
    for (; rc == 0 && n < meta.n_tokens && n < capacity; n++)
        out[n] = (hearth_token)hth_get_u32(tokens + 4 * n);
    (void)reading_gave(index, &read, rc); /* a failure reads no tokens */
    return n;
}

hearth_status hth_index_find_leaf(hth_index *index, hth_leaf_search *search, hearth_error *err)
{
    reading read;
    hearth_status status = reading_begin(index, &read, "compare rows", err);
    hth_leaf_search found = *search;

    if (status == HEARTH_OK)
        status = reading_end(index, &read, search_leaf(&read.txn, &found), err);
    if (status == HEARTH_OK)
        *search = found;
    return status;
}

hearth_status hth_index_totals_get(hth_index *index, hth_index_totals *out, hearth_error *err)
{
    reading read;
    hearth_status status = reading_begin(index, &read, "read totals", err);

    return status == HEARTH_OK ? reading_end(index, &read, hth_index_totals_read(&read.txn, out), err) : status;
}

hearth_status hth_index_before_storing(hth_index *index, const hth_row_id *id, bool *is_there_out,
                                       hth_index_totals *totals_out, hearth_error *err)
{
    reading read;
    hth_row_meta meta;
    hearth_status status = reading_begin(index, &read, "look for room", err);
    bool is_there;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_row_get(&read.txn, id, &meta);
    is_there = rc == 0;
    if (rc == 0 || rc == MDB_NOTFOUND)
        rc = hth_index_totals_read(&read.txn, totals_out);
    status = reading_end(index, &read, rc, err);
    if (status == HEARTH_OK)
        *is_there_out = is_there;
    return status;
}

/* The row that an entry of lru names. */
static int row_by_age(const hth_index_txn *txn, const MDB_val *age, hth_row_meta *out)
{
    hth_row_id id;

    if (age->mv_size != HTH_INDEX_AGE_BYTES ||
        hth_index_decode_id((const uint8_t *)age->mv_data + 8, HTH_INDEX_ID_BYTES, &id) != 0)
        return MDB_CORRUPTED;
    return hth_index_must_be_there(hth_index_row_get(txn, &id, out));
}

static int visit_rows(const hth_index_txn *txn, bool by_age, hth_index_visit_fn visit, void *user_data)
{
    MDB_val key, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn->mdb, by_age ? txn->dbs.lru : txn->dbs.rows, &cursor);

    if (rc != 0)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        hth_row_meta meta;
        hth_row_id id;

        if (by_age)
            rc = row_by_age(txn, &key, &meta);
        else if ((rc = hth_index_decode_id(key.mv_data, key.mv_size, &id)) == 0)
            rc = hth_index_decode_row(&id, &value, &meta);
        if (rc != 0 || !visit(&meta, user_data))
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

hearth_status hth_index_visit(hth_index *index, bool by_age, hth_index_visit_fn visit, void *user_data,
                              hearth_error *err)
{
    reading read;
    hearth_status status = reading_begin(index, &read, "visit rows", err);

    return status == HEARTH_OK ? reading_end(index, &read, visit_rows(&read.txn, by_age, visit, user_data), err)
                               : status;
}

hearth_status hth_index_quota(hth_index *index, uint64_t *out, hearth_error *err)
{
    reading read;
    hth_index_state s;
    hearth_status status = reading_begin(index, &read, "read the quota", err);

    if (status == HEARTH_OK)
        status = reading_end(index, &read, hth_index_state_get(&read.txn, &s), err);
    if (status == HEARTH_OK)
        *out = s.quota;
    return status;
}

hearth_status hth_index_has_children(hth_index *index, const hth_row_meta *meta, bool *out, hearth_error *err)
{
    reading read;
    hearth_status status = reading_begin(index, &read, "look for children", err);
    bool has;

    if (status == HEARTH_OK)
        status = reading_end(index, &read, hth_index_bears_rows(&read.txn, meta, &has), err);
    if (status == HEARTH_OK)
        *out = has;
    return status;
}

/* ---- the past ---- */

bool hth_index_gone(hth_index *index, const hth_past_name *name, hth_gone *out)
{
    reading read;

    return reading_begin(index, &read, NULL, NULL) == HEARTH_OK &&
           reading_gave(index, &read, hth_index_past_gone(&read.txn, name, out));
}

bool hth_index_past_ends(hth_index *index, const hth_key *boundary, hth_past_ends *out)
{
    reading read;

    return reading_begin(index, &read, NULL, NULL) == HEARTH_OK &&
           reading_gave(index, &read, hth_index_past_ends_get(&read.txn, boundary, out));
}

bool hth_index_beginning(hth_index *index, const hth_beginning_name *name, hth_beginning *out)
{
    reading read;

    return reading_begin(index, &read, NULL, NULL) == HEARTH_OK &&
           reading_gave(index, &read, hth_index_past_beginning(&read.txn, name, out));
}

void hth_index_visit_beginnings(hth_index *index, hth_beginning_visit_fn visit, void *user_data)
{
    reading read;

    if (reading_begin(index, &read, NULL, NULL) != HEARTH_OK)
        return; /* without the index there is one explanation less */
    (void)reading_gave(index, &read, hth_index_past_visit_beginnings(&read.txn, visit, user_data));
}

/* ---- waiting ---- */

static hth_wait_result look(hth_index *index, const hth_row_id *id)
{
    hth_wait_result result = HTH_WAIT_NO_WRITER;
    bool is_reserved = false;
    reading read;
    hth_row_meta meta;
    index_reservation r;
    int rc;

    if (reading_begin(index, &read, NULL, NULL) != HEARTH_OK)
        return HTH_WAIT_NO_WRITER;
    rc = hth_index_row_get(&read.txn, id, &meta);
    if (rc == 0) {
        result = HTH_WAIT_THERE;
    } else if (rc == MDB_NOTFOUND) {
        rc = reservation_get(&read.txn, id, &r);
        is_reserved = rc == 0;
    }
    (void)reading_gave(index, &read, rc); /* a failure has no result */
    /* After the transaction, because the check for a living owner asks the file system. */
    if (result == HTH_WAIT_NO_WRITER && (held_has(index, id) || (is_reserved && reservation_is_foreign(index, &r))))
        result = HTH_WAIT_TIMEOUT;
    return result;
}

hth_wait_result hth_index_wait(hth_index *index, const hth_row_id *id, uint32_t timeout_ms)
{
    uint64_t now = hth_os_monotonic_ns(), end = now + hth_ms_to_ns(timeout_ms);

    for (;;) {
        uint32_t seen = hth_notifier_count(index->notifier);
        hth_wait_result result = look(index, id);
        uint64_t left_ms;

        if (result != HTH_WAIT_TIMEOUT || now >= end)
            return result;
        left_ms = (end - now + 999999) / 1000000;
        hth_notifier_wait(index->notifier, seen, left_ms < LOOK_AGAIN_MS ? (uint32_t)left_ms : LOOK_AGAIN_MS);
        now = hth_os_monotonic_ns();
    }
}

uint32_t hth_index_changes(const hth_index *index)
{
    return hth_notifier_count(index->notifier);
}

/* ---- requesting reservations ---- */

hearth_status hth_index_reservation_is_ours(hth_index *index, const hth_row_id *id, bool *ours_out, hearth_error *err)
{
    reading read;
    index_reservation r;
    hearth_status status = reading_begin(index, &read, "look up a reservation", err);
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = reservation_get(&read.txn, id, &r);
    status = reading_end(index, &read, rc == MDB_NOTFOUND ? 0 : rc, err);
    if (status == HEARTH_OK)
        *ours_out = rc == 0 && r.owner == hth_owner_token(index->owner);
    return status;
}

static int collect_orphans(const hth_index *index, const hth_index_txn *txn, hth_row_id *out, size_t capacity,
                           size_t *n_out)
{
    uint64_t dead_owner = 0; /* no owner has token 0 */
    MDB_val key, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn->mdb, txn->dbs.reservations, &cursor);

    if (rc != 0)
        return rc;
    *n_out = 0;
    while (*n_out < capacity && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        hth_row_id id;
        uint64_t owner;

        rc = value.mv_size == HTH_INDEX_RESERVATION_BYTES ? hth_index_decode_id(key.mv_data, key.mv_size, &id)
                                                          : MDB_CORRUPTED;
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
    reading read;
    hearth_status status = reading_begin(index, &read, "list reservations", err);
    size_t n = 0;

    if (status == HEARTH_OK)
        status = reading_end(index, &read, collect_orphans(index, &read.txn, out, capacity, &n), err);
    if (status == HEARTH_OK)
        *n_out = n;
    return status;
}

/* ---- the write transactions of publishing and removal ---- */

/* The rows that a write transaction changes, and the number of rows changed. */
typedef struct row_change {
    hth_index *index;
    const hth_row_head *rows; /* or */
    const hth_row_id *ids;
    bool keeps_ours;              /* drops only reservations of dead owners */
    hth_index_confirm_fn confirm; /* may be NULL */
    void *user_data;
    size_t n;
    size_t n_done;
} row_change;

typedef struct reserve_request {
    hth_index *index;
    const hth_row_id *id;
    uint32_t deadline_s;
    hth_reserve_result result;
} reserve_request;

static int reserve_body(const hth_index_txn *txn, void *user_data)
{
    reserve_request *request = user_data;
    hth_row_meta meta;
    bool is_held;
    int rc;

    if (request->result == HTH_RESERVED)
        held_remove(request->index, request->id); /* the transaction started again */
    request->result = HTH_RESERVE_TAKEN;
    rc = hth_index_row_get(txn, request->id, &meta);
    if (rc == 0)
        request->result = HTH_RESERVE_EXISTS;
    if (rc != MDB_NOTFOUND)
        return rc;
    rc = row_is_held(request->index, txn, request->id, &is_held);
    if (rc != 0 || is_held)
        return rc;
    rc = reserve_row(request->index, txn, request->id, request->deadline_s);
    if (rc == 0)
        request->result = HTH_RESERVED;
    return rc;
}

hearth_status hth_index_reserve(hth_index *index, const hth_row_id *id, uint32_t deadline_s,
                                hth_reserve_result *result_out, hearth_error *err)
{
    reserve_request request = { .index = index, .id = id, .deadline_s = deadline_s, .result = HTH_RESERVE_TAKEN };
    hearth_status status = write_rows(index, reserve_body, &request, "reserve rows", err);

    if (status != HEARTH_OK && request.result == HTH_RESERVED)
        held_remove(index, id);
    *result_out = status == HEARTH_OK ? request.result : HTH_RESERVE_TAKEN;
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

static int take_body(const hth_index_txn *txn, void *user_data)
{
    take_request *request = user_data;
    hth_index_totals totals;
    bool is_held;
    int rc;

    if (request->result == HTH_RESERVED)
        held_remove(request->index, request->id); /* the transaction started again */
    request->result = HTH_RESERVE_TAKEN;
    request->was_known = false;
    rc = row_is_held(request->index, txn, request->id, &is_held);
    if (rc != 0 || is_held)
        return rc;
    rc = hth_index_row_get(txn, request->id, &request->meta);
    if (rc == 0) {
        request->was_known = true;
        if ((rc = hth_index_totals_read(txn, &totals)) != 0 ||
            (rc = hth_index_row_remove(txn, &request->meta, &totals)) != 0 ||
            (rc = hth_index_totals_write(txn, &totals)) != 0)
            return rc;
    } else if (rc != MDB_NOTFOUND) {
        return rc;
    }
    rc = reserve_row(request->index, txn, request->id, request->deadline_s);
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

static int release_body(const hth_index_txn *txn, void *user_data)
{
    row_change *change = user_data;
    int rc = 0;

    for (size_t i = 0; i < change->n && rc == 0; i++)
        rc = reservation_drop(change->index, txn, change->ids ? &change->ids[i] : &change->rows[i].meta.id,
                              change->keeps_ours);
    return rc;
}

static int publish_body(const hth_index_txn *txn, void *user_data)
{
    row_change *change = user_data;
    hth_index_totals totals;
    int rc = hth_index_totals_read(txn, &totals);

    for (size_t i = 0; i < change->n && rc == 0; i++) {
        rc = hth_index_row_put(txn, &change->rows[i], &totals);
        if (rc == 0)
            rc = reservation_drop(change->index, txn, &change->rows[i].meta.id, false);
    }
    return rc ? rc : hth_index_totals_write(txn, &totals);
}

hearth_status hth_index_publish(hth_index *index, const hth_row_head *rows, size_t n, hearth_error *err)
{
    row_change change = { .index = index, .rows = rows, .n = n };
    hearth_status status = write_rows(index, publish_body, &change, "publish rows", err);

    if (status != HEARTH_OK) /* so that others need not wait for the deadlines; if this also fails, they wait */
        (void)write_rows(index, release_body, &change, "release reservations", NULL);
    for (size_t i = 0; i < n; i++)
        held_remove(index, &rows[i].meta.id);
    hth_notifier_notify(index->notifier);
    return status;
}

/* Drop a reservation that no thread of this process holds. */
static int drop_unheld(hth_index *index, const hth_index_txn *txn, const hth_row_id *id)
{
    return held_has(index, id) ? 0 : reservation_drop(index, txn, id, false);
}

/* Add one row that was found as a file, unless another thread or process holds it. */
static int adopt_row(row_change *change, const hth_index_txn *txn, const hth_row_head *head, hth_index_totals *totals)
{
    const hth_row_id *id = &head->meta.id;
    hth_row_meta known;
    bool is_held;
    int rc = hth_index_row_get(txn, id, &known);

    if (rc == MDB_NOTFOUND) {
        rc = row_is_held(change->index, txn, id, &is_held);
        if (rc != 0 || is_held || (change->confirm && !change->confirm(id, change->user_data)))
            return rc;
        rc = hth_index_row_put(txn, head, totals);
        if (rc == 0)
            change->n_done++;
    }
    return rc ? rc : drop_unheld(change->index, txn, id);
}

static int adopt_body(const hth_index_txn *txn, void *user_data)
{
    row_change *change = user_data;
    hth_index_totals totals;
    int rc = hth_index_totals_read(txn, &totals);

    change->n_done = 0;
    for (size_t i = 0; i < change->n && rc == 0; i++)
        rc = adopt_row(change, txn, &change->rows[i], &totals);
    return rc ? rc : hth_index_totals_write(txn, &totals);
}

hearth_status hth_index_adopt(hth_index *index, const hth_row_head *rows, size_t n, hth_index_confirm_fn is_there,
                              void *user_data, size_t *adopted_out, hearth_error *err)
{
    row_change change = { .index = index, .rows = rows, .confirm = is_there, .user_data = user_data, .n = n };
    hearth_status status = write_rows(index, adopt_body, &change, "adopt rows", err);

    hth_notifier_notify(index->notifier);
    if (status == HEARTH_OK && adopted_out)
        *adopted_out = change.n_done;
    return status;
}

hearth_status hth_index_release(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err)
{
    row_change change = { .index = index, .ids = ids, .n = n };
    hearth_status status = write_rows(index, release_body, &change, "release reservations", err);

    for (size_t i = 0; i < n; i++)
        held_remove(index, &ids[i]);
    hth_notifier_notify(index->notifier);
    return status;
}

typedef struct gone_request {
    hth_index *index;
    const hth_row_meta *meta;
    const hth_gone *gone;
} gone_request;

static int release_gone_body(const hth_index_txn *txn, void *user_data)
{
    const gone_request *request = user_data;
    hth_row_meta known;
    int rc = reservation_drop(request->index, txn, &request->meta->id, false);

    if (rc == 0)
        rc = hth_index_row_get(txn, &request->meta->id, &known);
    /* A row that is there was added by another process after our deadline. */
    return rc == MDB_NOTFOUND ? hth_index_past_note_gone(txn, request->meta, request->gone) : rc;
}

hearth_status hth_index_release_gone(hth_index *index, const hth_row_meta *meta, const hth_gone *gone,
                                     hearth_error *err)
{
    gone_request request = { .index = index, .meta = meta, .gone = gone };
    hearth_status status = write_rows(index, release_gone_body, &request, "release a reservation", err);

    held_remove(index, &meta->id);
    hth_notifier_notify(index->notifier);
    return status;
}

hearth_status hth_index_release_dead(hth_index *index, const hth_row_id *ids, size_t n, hearth_error *err)
{
    row_change change = { .index = index, .ids = ids, .keeps_ours = true, .n = n };
    hearth_status status = write_rows(index, release_body, &change, "release dead reservations", err);

    hth_notifier_notify(index->notifier);
    return status;
}

static int remove_body(const hth_index_txn *txn, void *user_data)
{
    row_change *change = user_data;
    hth_index_totals totals;
    int rc = hth_index_totals_read(txn, &totals);

    change->n_done = 0;
    for (size_t i = 0; i < change->n && rc == 0; i++) {
        hth_row_meta meta;

        rc = hth_index_row_get(txn, &change->ids[i], &meta);
        if (rc == 0 && (!change->confirm || change->confirm(&meta.id, change->user_data))) {
            rc = hth_index_row_remove(txn, &meta, &totals);
            change->n_done++;
        } else if (rc == MDB_NOTFOUND) {
            rc = 0;
        }
    }
    return rc ? rc : hth_index_totals_write(txn, &totals);
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

typedef struct note_request {
    const hth_index_sighting *sightings;
    size_t n;
} note_request;

static int note_beginnings_body(const hth_index_txn *txn, void *user_data)
{
    const note_request *request = user_data;
    int rc = 0;

    for (size_t i = 0; i < request->n && rc == 0; i++)
        rc = hth_index_past_note_beginning(txn, &request->sightings[i].name, &request->sightings[i].space);
    return rc;
}

hearth_status hth_index_note_beginnings(hth_index *index, const hth_index_sighting *sightings, size_t n,
                                        hearth_error *err)
{
    note_request request = { .sightings = sightings, .n = n };

    return write_rows(index, note_beginnings_body, &request, "note beginnings", err);
}

/* ---- state ---- */

/* Claim the rebuild of an incomplete index that no process is filling. */
static int claim_body(const hth_index_txn *txn, void *user_data)
{
    row_change *change = user_data;
    hth_index_state s;
    int rc = hth_index_state_get(txn, &s);

    change->n_done = 0;
    if (rc != 0 || s.complete || (s.rebuilder != 0 && hth_owner_lives(change->index->owner, s.rebuilder)))
        return rc;
    s.rebuilder = hth_owner_token(change->index->owner);
    change->n_done = 1;
    return hth_index_state_put(txn, &s);
}

bool hth_index_claim_rebuild(hth_index *index)
{
    row_change change = { .index = index };
    hth_index_totals totals = { .rows = 0 };
    int rc;

    if (hth_index_totals_get(index, &totals, NULL) != HEARTH_OK || totals.complete)
        return false;
    rc = hth_index_env_write(index->env, claim_body, &change);
    return index_finish(index, rc, "claim", NULL) == HEARTH_OK && change.n_done == 1;
}

static int set_quota_body(const hth_index_txn *txn, void *user_data)
{
    const uint64_t *quota = user_data;
    hth_index_state s;
    int rc = hth_index_state_get(txn, &s);

    s.quota = *quota;
    return rc ? rc : hth_index_state_put(txn, &s);
}

hearth_status hth_index_set_quota(hth_index *index, uint64_t bytes_max, hearth_error *err)
{
    return write_rows(index, set_quota_body, &bytes_max, "set the quota", err);
}

static int clear_body(const hth_index_txn *txn, void *user_data)
{
    const hth_index *index = user_data;
    hth_index_totals none = { .rows = 0 };
    hth_index_state s;
    int rc;

    if ((rc = hth_index_state_get(txn, &s)) != 0 || (rc = mdb_drop(txn->mdb, txn->dbs.rows, 0)) != 0 ||
        (rc = mdb_drop(txn->mdb, txn->dbs.children, 0)) != 0 || (rc = mdb_drop(txn->mdb, txn->dbs.tokens, 0)) != 0 ||
        (rc = mdb_drop(txn->mdb, txn->dbs.lru, 0)) != 0 || (rc = hth_index_totals_write(txn, &none)) != 0)
        return rc;
    /* Reservations stay: they protect the rows that others are writing. */
    s.complete = false;
    s.rebuilder = hth_owner_token(index->owner);
    return hth_index_state_put(txn, &s);
}

hearth_status hth_index_clear(hth_index *index, hearth_error *err)
{
    return write_rows(index, clear_body, index, "clear", err);
}

typedef struct rebuild_end {
    const hth_index *index;
    bool is_complete;
} rebuild_end;

static int end_rebuild_body(const hth_index_txn *txn, void *user_data)
{
    const rebuild_end *end = user_data;
    hth_index_state s;
    int rc = hth_index_state_get(txn, &s);

    if (rc != 0 || s.rebuilder != hth_owner_token(end->index->owner))
        return rc; /* not the index that we were filling */
    if (end->is_complete)
        s.complete = true;
    else
        s.rebuilder = 0;
    return hth_index_state_put(txn, &s);
}

hearth_status hth_index_rebuilt(hth_index *index, hearth_error *err)
{
    rebuild_end end = { .index = index, .is_complete = true };

    return write_rows(index, end_rebuild_body, &end, "finish the rebuild", err);
}

void hth_index_rebuild_failed(hth_index *index)
{
    rebuild_end end = { .index = index };

    /* If this fails, the claim ends with its owner. */
    (void)write_rows(index, end_rebuild_body, &end, "give up the rebuild", NULL);
}

/* ---- choosing the rows to evict, and recording the uses that decide it ---- */

enum {
    EVICTED_DEADLINE_S = 60, /* time to remove the files of one round of eviction */
    DEPTH_MAX = 1 << 20,     /* rows of one prefix */
    AHEAD_S = 60,            /* maximum by which a time of use may be ahead of the clock */
};

/* The kinds of rows that others can stand on. */
static const hth_row_kind bearing_kinds[] = { HTH_ROW_BLOCK, HTH_ROW_TAIL, HTH_ROW_SNAPSHOT };

enum { N_BEARING_KINDS = sizeof(bearing_kinds) / sizeof(bearing_kinds[0]) };

/* Propagate the age to the rows that meta stood on, if they are older: they may have become leaves. */
static int step_back(const hth_index_txn *txn, const hth_row_meta *meta, uint8_t age[HTH_INDEX_AGE_BYTES])
{
    for (size_t i = 0; i < N_BEARING_KINDS; i++) {
        hth_row_id id = { .key = meta->parent, .kind = bearing_kinds[i] };
        uint8_t parent_age[HTH_INDEX_AGE_BYTES];
        hth_row_meta parent;
        int rc = hth_index_row_get(txn, &id, &parent);

        if (rc == MDB_NOTFOUND)
            continue;
        if (rc != 0)
            return rc;
        hth_index_encode_age(&parent, parent_age);
        if (memcmp(parent_age, age, HTH_INDEX_AGE_BYTES) < 0)
            memcpy(age, parent_age, HTH_INDEX_AGE_BYTES);
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
    hth_gone gone; /* the index remembers this of each row */
} evict_request;

static int evict_leaves(evict_request *request, const hth_index_txn *txn, MDB_cursor *cursor, hth_index_totals *totals)
{
    uint8_t age[HTH_INDEX_AGE_BYTES] = { 0 };

    while (totals->bytes > request->bytes_max && request->n < request->capacity) {
        MDB_val key = hth_index_value(age, HTH_INDEX_AGE_BYTES), nothing;
        hth_row_meta meta;
        bool is_needed = true;
        int rc = mdb_cursor_get(cursor, &key, &nothing, MDB_SET_RANGE);

        while (rc == 0 && is_needed) {
            if ((rc = row_by_age(txn, &key, &meta)) != 0 || (rc = hth_index_bears_rows(txn, &meta, &is_needed)) != 0 ||
                (!is_needed && (rc = row_is_held(request->index, txn, &meta.id, &is_needed)) != 0))
                return rc;
            if (!is_needed && request->is_needed)
                is_needed = request->is_needed(&meta, request->user_data);
            if (is_needed)
                rc = mdb_cursor_get(cursor, &key, &nothing, MDB_NEXT);
        }
        if (rc != 0)
            return rc == MDB_NOTFOUND ? 0 : rc; /* all other rows are needed */

        memcpy(age, key.mv_data, HTH_INDEX_AGE_BYTES);
        if ((rc = hth_index_row_remove(txn, &meta, totals)) != 0 ||
            (rc = hth_index_past_note_gone(txn, &meta, &request->gone)) != 0 ||
            (rc = reserve_row(request->index, txn, &meta.id, EVICTED_DEADLINE_S)) != 0)
            return rc;
        request->rows[request->n++] = meta;
        if ((rc = step_back(txn, &meta, age)) != 0)
            return rc;
    }
    return 0;
}

/* Release the rows of an attempt that failed. */
static void let_go(evict_request *request)
{
    while (request->n > 0)
        held_remove(request->index, &request->rows[--request->n].id);
}

/*
 * Rows that were used while the clock was ahead would outlast all later rows. So they count as used now. That is
 * enough: the index lives until the next boot, and file times are bounded where they are read.
 */
static int bound_times(const hth_index_txn *txn, MDB_cursor *cursor, uint64_t now)
{
    for (;;) {
        MDB_val key, nothing;
        hth_row_meta old, bounded;
        int rc = mdb_cursor_get(cursor, &key, &nothing, MDB_LAST);

        if (rc != 0)
            return rc == MDB_NOTFOUND ? 0 : rc;
        rc = row_by_age(txn, &key, &old);
        if (rc != 0 || old.last_used_time <= now + AHEAD_S)
            return rc;
        bounded = old;
        bounded.last_used_time = now;
        rc = hth_index_row_update(txn, &old, &bounded);
        if (rc != 0)
            return rc;
    }
}

static int evict_body(const hth_index_txn *txn, void *user_data)
{
    evict_request *request = user_data;
    hth_index_totals totals;
    MDB_cursor *cursor;
    int rc = hth_index_totals_read(txn, &totals);

    let_go(request);
    if (rc != 0 || !totals.complete)
        return rc;
    rc = mdb_cursor_open(txn->mdb, txn->dbs.lru, &cursor);
    if (rc != 0)
        return rc;
    rc = bound_times(txn, cursor, request->gone.time);
    if (rc == 0)
        rc = evict_leaves(request, txn, cursor, &totals);
    mdb_cursor_close(cursor);
    return rc ? rc : hth_index_totals_write(txn, &totals);
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

/* ---- uses ---- */

/*
 * Make a row's ancestors as recent as time. Stop at the first one that already is: its ancestors were touched with it.
 */
static int touch_ancestors(const hth_index_txn *txn, const hth_row_meta *row, uint64_t time)
{
    hth_row_meta at = *row;

    for (int depth = 0; depth < DEPTH_MAX && at.first_position > 0; depth++) {
        hth_row_meta next = { .n_tokens = 0 };

        for (size_t i = 0; i < N_BEARING_KINDS; i++) {
            hth_row_id id = { .key = at.parent, .kind = bearing_kinds[i] };
            hth_row_meta old, touched;
            int rc = hth_index_row_get(txn, &id, &old);

            if (rc == MDB_NOTFOUND || (rc == 0 && old.last_used_time >= time))
                continue;
            if (rc != 0)
                return rc;
            touched = old;
            touched.last_used_time = time;
            if ((rc = hth_index_row_update(txn, &old, &touched)) != 0)
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

static int touch_body(const hth_index_txn *txn, void *user_data)
{
    const touch_request *request = user_data;

    for (size_t i = 0; i < request->n; i++) {
        const hth_index_use *use = &request->uses[i];
        hth_row_meta old, meta;
        int rc = hth_index_row_get(txn, &use->id, &old);

        if (rc == MDB_NOTFOUND)
            continue;
        if (rc != 0)
            return rc;
        meta = old;
        if (use->last_used_time > meta.last_used_time)
            meta.last_used_time = use->last_used_time;
        if (__builtin_add_overflow(meta.hit_count, use->hits, &meta.hit_count))
            meta.hit_count = UINT32_MAX;
        if ((rc = hth_index_row_update(txn, &old, &meta)) != 0 ||
            (rc = touch_ancestors(txn, &meta, meta.last_used_time)) != 0)
            return rc;
    }
    return 0;
}

hearth_status hth_index_touch(hth_index *index, const hth_index_use *uses, size_t n, hearth_error *err)
{
    touch_request request = { .uses = uses, .n = n };

    return write_rows(index, touch_body, &request, "note uses", err);
}
