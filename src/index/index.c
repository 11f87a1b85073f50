/*
 * index.c - opens the index, once per process, and reads it
 */
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
#include "index/index_inside.h"
#include "index/index_past.h"

enum { LOOK_AGAIN_MS = 200 }; /* interval at which a waiter checks that the owner lives */

/*
 * The open indexes of this process. LMDB loses its locks when a process opens an environment twice, and only a list of
 * the whole process can prevent that for independent callers. The lock guards the list and the reference counts, and is
 * held while an index is opened or closed.
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
        abort(); /* out of memory; without the handler a child would write to its parent's environment */
}

/* ---- common to all calls ---- */

hearth_status hth_index_check_process(const hth_index *index, hearth_error *err)
{
    if (index->n_forks == atomic_load(&n_forks))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "process %ld opened the cache index; a child must open its own",
                    (long)index->pid);
}

hearth_status hth_index_finish(hth_index *index, int rc, const char *what, hearth_error *err)
{
    return rc == 0 ? HEARTH_OK : hth_index_env_fail(index->env, rc, what, err);
}

hearth_status hth_index_write_rows(hth_index *index, hth_index_body_fn body, void *user_data, const char *what,
                                   hearth_error *err)
{
    hearth_status status = hth_index_check_process(index, err);

    return status == HEARTH_OK ? hth_index_finish(index, hth_index_env_write(index->env, body, user_data), what, err)
                               : status;
}

hearth_status hth_index_reading_begin(hth_index *index, hth_index_read *read, const char *what, hearth_error *err)
{
    hearth_status status = hth_index_check_process(index, err);

    return status == HEARTH_OK ? hth_index_finish(index, hth_index_env_read_begin(index->env, read), what, err)
                               : status;
}

hearth_status hth_index_reading_end(hth_index *index, hth_index_read *read, int rc, const char *what, hearth_error *err)
{
    hth_index_env_read_end(index->env, read, rc);
    return hth_index_finish(index, rc, what, err);
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
     * Without a boot id, the token gives a name that no later process has: every start is then like one after a boot.
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
    if (index && hth_index_check_process(index, NULL) == HEARTH_OK)
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
    if (hth_index_check_process(index, NULL) != HEARTH_OK)
        return false;
    hth_index_env_maintain(index->env);
    return hth_index_claim_rebuild(index);
}

/* ---- reads ---- */

hearth_status hth_index_get(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                            hearth_error *err)
{
    static const char what[] = "look up a row";
    hth_row_meta meta;
    hth_index_read read;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_row_get(read.txn, &read.dbs, id, &meta);
    status = hth_index_reading_end(index, &read, rc == MDB_NOTFOUND ? 0 : rc, what, err);
    if (status != HEARTH_OK)
        return status;
    *found_out = rc == 0;
    if (rc == 0 && out)
        *out = meta;
    return HEARTH_OK;
}

hearth_status hth_index_look(hth_index *index, const hth_row_id *id, hth_row_meta *out, bool *found_out,
                             bool *is_complete_out, hearth_error *err)
{
    static const char what[] = "look up a row";
    hth_index_state s = { .complete = false };
    hth_index_read read;
    hth_row_meta meta;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    bool found;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_row_get(read.txn, &read.dbs, id, &meta);
    found = rc == 0;
    if (rc == MDB_NOTFOUND) /* a found row needs no more */
        rc = hth_index_state_get(read.txn, &read.dbs, &s);
    status = hth_index_reading_end(index, &read, rc, what, err);
    if (status == HEARTH_OK) {
        if (found)
            *out = meta;
        *found_out = found;
        *is_complete_out = s.complete;
    }
    return status;
}

hearth_status hth_index_get_many(hth_index *index, const hth_row_id *ids, size_t n, hth_row_meta *out, bool *found,
                                 hearth_error *err)
{
    static const char what[] = "look up rows";
    hth_index_read read;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    int rc = 0;

    if (status != HEARTH_OK)
        return status;
    for (size_t i = 0; i < n && (rc == 0 || rc == MDB_NOTFOUND); i++) {
        hth_row_meta meta;

        rc = hth_index_row_get(read.txn, &read.dbs, &ids[i], &meta);
        found[i] = rc == 0;
        if (rc == 0 && out)
            out[i] = meta;
    }
    return hth_index_reading_end(index, &read, rc == MDB_NOTFOUND ? 0 : rc, what, err);
}

static int collect_children(MDB_txn *txn, const hth_index_dbs *dbs, const hth_key *parent, hth_row_meta *out,
                            size_t capacity, size_t *n_out)
{
    hth_key parent_copy = *parent;
    MDB_val key = hth_index_value(parent_copy.bytes, HTH_KEY_BYTES), value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, dbs->children, &cursor);

    if (rc != 0)
        return rc;
    *n_out = 0;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET); rc == 0 && *n_out < capacity;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT_DUP)) {
        hth_index_child child;

        if ((rc = hth_index_decode_child(&value, &child)) != 0 ||
            (rc = hth_index_child_get(txn, dbs, parent, &child, &out[*n_out])) != 0)
            break;
        (*n_out)++;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

hearth_status hth_index_children(hth_index *index, const hth_key *parent, hth_row_meta *out, size_t capacity,
                                 size_t *n_out, hearth_error *err)
{
    static const char what[] = "list rows";
    hth_index_read read;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    size_t n = 0;

    if (status != HEARTH_OK)
        return status;
    status = hth_index_reading_end(index, &read, collect_children(read.txn, &read.dbs, parent, out, capacity, &n), what,
                                   err);
    if (status == HEARTH_OK)
        *n_out = n;
    return status;
}

static int search_leaf(MDB_txn *txn, const hth_index_dbs *dbs, hth_leaf_search *search)
{
    hth_key parent = search->boundary;
    MDB_val key = hth_index_value(parent.bytes, HTH_KEY_BYTES), value;
    MDB_cursor *cursor;
    size_t n = 0;
    int rc = mdb_cursor_open(txn, dbs->children, &cursor);

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
        rc = hth_index_tokens_get(txn, dbs, &child.id, child.n_tokens, &tokens);
        if (rc == 0 && hth_leaf_search_compare(search, tokens, child.n_tokens))
            rc = hth_index_child_get(txn, dbs, &search->boundary, &child, &search->row);
        if (rc != 0 && rc != MDB_NOTFOUND)
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

size_t hth_index_tokens(hth_index *index, const hth_row_id *id, hearth_token *out, size_t capacity)
{
    const uint8_t *tokens;
    hth_index_read read;
    hth_row_meta meta;
    size_t n = 0;
    int rc;

    if (hth_index_reading_begin(index, &read, NULL, NULL) != HEARTH_OK)
        return 0;
    rc = hth_index_row_get(read.txn, &read.dbs, id, &meta);
    if (rc == 0)
        rc = hth_index_tokens_get(read.txn, &read.dbs, id, meta.n_tokens, &tokens);
    for (; rc == 0 && n < meta.n_tokens && n < capacity; n++)
        out[n] = (hearth_token)hth_get_u32(tokens + 4 * n);
    hth_index_env_read_end(index->env, &read, rc);
    return n;
}

hearth_status hth_index_find_leaf(hth_index *index, hth_leaf_search *search, hearth_error *err)
{
    static const char what[] = "compare rows";
    hth_index_read read;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    hth_leaf_search found = *search;

    if (status != HEARTH_OK)
        return status;
    status = hth_index_reading_end(index, &read, search_leaf(read.txn, &read.dbs, &found), what, err);
    if (status == HEARTH_OK)
        *search = found;
    return status;
}

hearth_status hth_index_totals_get(hth_index *index, hth_index_totals *out, hearth_error *err)
{
    static const char what[] = "read totals";
    hth_index_totals totals;
    hth_index_read read;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_index_reading_end(index, &read, hth_index_totals_read(read.txn, &read.dbs, &totals), what, err);
    if (status == HEARTH_OK)
        *out = totals;
    return status;
}

hearth_status hth_index_before_storing(hth_index *index, const hth_row_id *id, bool *is_there_out,
                                       hth_index_totals *totals_out, hearth_error *err)
{
    static const char what[] = "look for room";
    hth_index_totals totals;
    hth_index_read read;
    hth_row_meta meta;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    bool is_there;
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = hth_index_row_get(read.txn, &read.dbs, id, &meta);
    is_there = rc == 0;
    if (rc == 0 || rc == MDB_NOTFOUND)
        rc = hth_index_totals_read(read.txn, &read.dbs, &totals);
    status = hth_index_reading_end(index, &read, rc, what, err);
    if (status == HEARTH_OK) {
        *is_there_out = is_there;
        *totals_out = totals;
    }
    return status;
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

        if ((rc = hth_index_decode_id(key.mv_data, key.mv_size, &id)) != 0 ||
            (rc = hth_index_decode_row(&id, &value, &meta)) != 0)
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

        rc = key.mv_size == HTH_INDEX_AGE_BYTES
               ? hth_index_decode_id((const uint8_t *)key.mv_data + 8, HTH_INDEX_ID_BYTES, &id)
               : MDB_CORRUPTED;
        if (rc == 0)
            rc = hth_index_must_be_there(hth_index_row_get(txn, dbs, &id, &meta));
        if (rc != 0 || !visit(&meta, user_data))
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

hearth_status hth_index_visit(hth_index *index, bool by_age, hth_index_visit_fn visit, void *user_data,
                              hearth_error *err)
{
    static const char what[] = "visit rows";
    hth_index_read read;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    int rc;

    if (status != HEARTH_OK)
        return status;
    rc = by_age ? visit_by_age(read.txn, &read.dbs, visit, user_data)
                : visit_by_key(read.txn, &read.dbs, visit, user_data);
    return hth_index_reading_end(index, &read, rc, what, err);
}

hearth_status hth_index_quota(hth_index *index, uint64_t *out, hearth_error *err)
{
    static const char what[] = "read the quota";
    hth_index_read read;
    hth_index_state s;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_index_reading_end(index, &read, hth_index_state_get(read.txn, &read.dbs, &s), what, err);
    if (status == HEARTH_OK)
        *out = s.quota;
    return status;
}

hearth_status hth_index_has_children(hth_index *index, const hth_row_meta *meta, bool *out, hearth_error *err)
{
    static const char what[] = "look for children";
    hth_index_read read;
    hearth_status status = hth_index_reading_begin(index, &read, what, err);
    bool has = false;

    if (status != HEARTH_OK)
        return status;
    status = hth_index_reading_end(index, &read, hth_index_bears_rows(read.txn, &read.dbs, meta, &has), what, err);
    if (status == HEARTH_OK)
        *out = has;
    return status;
}

/* ---- the past ---- */

bool hth_index_gone(hth_index *index, const hth_past_name *name, hth_gone *out)
{
    hth_index_read read;
    int rc;

    if (hth_index_reading_begin(index, &read, NULL, NULL) != HEARTH_OK)
        return false;
    rc = hth_index_past_gone(read.txn, &read.dbs, name, out);
    hth_index_env_read_end(index->env, &read, rc);
    return rc == 0;
}

bool hth_index_past_ends(hth_index *index, const hth_key *boundary, hth_past_ends *out)
{
    hth_index_read read;
    int rc;

    if (hth_index_reading_begin(index, &read, NULL, NULL) != HEARTH_OK)
        return false;
    rc = hth_index_past_ends_get(read.txn, &read.dbs, boundary, out);
    hth_index_env_read_end(index->env, &read, rc);
    return rc == 0;
}

bool hth_index_beginning(hth_index *index, const hth_beginning_name *name, hth_beginning *out)
{
    hth_index_read read;
    int rc;

    if (hth_index_reading_begin(index, &read, NULL, NULL) != HEARTH_OK)
        return false;
    rc = hth_index_past_beginning(read.txn, &read.dbs, name, out);
    hth_index_env_read_end(index->env, &read, rc);
    return rc == 0;
}

void hth_index_visit_beginnings(hth_index *index, hth_beginning_visit_fn visit, void *user_data)
{
    hth_index_read read;

    if (hth_index_reading_begin(index, &read, NULL, NULL) == HEARTH_OK)
        hth_index_env_read_end(index->env, &read,
                               hth_index_past_visit_beginnings(read.txn, &read.dbs, visit, user_data));
}

/* ---- waiting ---- */

static hth_wait_result look(hth_index *index, const hth_row_id *id)
{
    hth_wait_result result = HTH_WAIT_NOBODY;
    bool is_reserved = false;
    hth_index_read read;
    hth_row_meta meta;
    hth_index_reservation r;
    int rc;

    if (hth_index_reading_begin(index, &read, NULL, NULL) != HEARTH_OK)
        return HTH_WAIT_NOBODY;
    rc = hth_index_row_get(read.txn, &read.dbs, id, &meta);
    if (rc == 0) {
        result = HTH_WAIT_THERE;
    } else if (rc == MDB_NOTFOUND) {
        rc = hth_index_reservation_get(read.txn, &read.dbs, id, &r);
        is_reserved = rc == 0;
    }
    hth_index_env_read_end(index->env, &read, rc);
    /* After the transaction: the check that an owner lives asks the file system. */
    if (result == HTH_WAIT_NOBODY &&
        (hth_index_held_has(index, id) || (is_reserved && hth_index_reservation_is_foreign(index, &r))))
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

void hth_index_wait_change(hth_index *index, uint32_t seen, uint32_t timeout_ms)
{
    hth_notifier_wait(index->notifier, seen, timeout_ms);
}
