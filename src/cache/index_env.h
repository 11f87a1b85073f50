/*
 * index_env.h - the LMDB environment under the index: opened, grown, replaced, and never trusted
 *
 * What the index needs to know of LMDB's life: here is a read transaction, here is a write transaction that commits. That
 * the map grows, that another process grew or replaced it, that a file is damaged or cannot be opened is dealt with
 * here.
 */
#ifndef HTH_CACHE_INDEX_ENV_H
#define HTH_CACHE_INDEX_ENV_H

#include <lmdb.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/status.h"

typedef struct hth_index_env hth_index_env;

typedef struct hth_index_dbs {
    MDB_dbi rows;
    MDB_dbi children;
    MDB_dbi lru;
    MDB_dbi reservations;
    MDB_dbi meta;
    MDB_dbi tokens;
    MDB_dbi past;
    MDB_dbi past_order;
} hth_index_dbs;

/* Not an LMDB code: there is no usable environment at the moment. */
#define HTH_INDEX_ABSENT ENODEV

/*
 * Open or create the environment for this boot in an existing directory; n_crashes more processes than before ended
 * without closing theirs. Fails only for want of memory; what cannot be opened is absent, after one warning. So is what
 * another process keeps locked for more than two seconds.
 */
hearth_status hth_index_env_open(const char *directory, const char *boot_id, size_t n_crashes, const hth_fs *fs,
                                 const hth_log *log, hth_index_env **out, hearth_error *err);
void hth_index_env_close(hth_index_env *env); /* accepts NULL */

typedef struct hth_index_read {
    MDB_txn *txn;
    hth_index_dbs dbs;
} hth_index_read;

/*
 * A read transaction; 0 or an LMDB code or errno. It must be ended by the same thread, soon: the map cannot grow and
 * the environment cannot be replaced before. Any thread; waits for no other process, makes no system call and
 * allocates nothing. A few dozen reads may run at once; more than that are told that the index is absent.
 */
int hth_index_env_read_begin(hth_index_env *env, hth_index_read *out);
/* rc: what the reading ended with. Damage is noted of the environment that was read, whichever comes after it. */
void hth_index_env_read_end(hth_index_env *env, hth_index_read *read, int rc);

/*
 * Call body in a write transaction and commit it when it returns 0. body runs again from the start when the map had to
 * grow. Writer threads only.
 */
typedef int (*hth_index_body_fn)(MDB_txn *txn, const hth_index_dbs *dbs, void *user_data);
int hth_index_env_write(hth_index_env *env, hth_index_body_fn body, void *user_data);

/* Say in words what an operation ended with. rc is not 0. */
hearth_status hth_index_env_fail(const hth_index_env *env, int rc, const char *what, hearth_error *err);

/*
 * Replace a damaged environment or one that another process replaced, try an absent one again, drop dead readers. May
 * wait for another process; no reader waits for this. Writer threads only.
 */
void hth_index_env_maintain(hth_index_env *env);

/* Say nothing from now on: one of several who share the environment has closed it, and the log may have been its. */
void hth_index_env_forget_log(hth_index_env *env);

#endif
