/*
 * index_env.h - the LMDB environment under the index: opened, grown, replaced, and never trusted
 *
 * The index sees only read transactions, and write transactions that commit. This file hides the rest: the map grows,
 * another process grows or replaces it, or a file is damaged or cannot be opened.
 */
#ifndef HTH_INDEX_INDEX_ENV_H
#define HTH_INDEX_INDEX_ENV_H

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

/* A transaction of an environment. */
typedef struct hth_index_txn {
    MDB_txn *mdb;
    hth_index_dbs dbs;
} hth_index_txn;

/* Not an LMDB code: no usable environment at the moment. */
#define HTH_INDEX_ABSENT ENODEV

/*
 * Open or create the environment for this boot in an existing directory. n_crashes: the number of further processes
 * that ended without closing theirs. The call fails only for lack of memory. An environment that cannot be opened, or
 * that another process keeps locked for more than two seconds, counts as absent, after one warning.
 */
hearth_status hth_index_env_open(const char *directory, const char *boot_id, size_t n_crashes, const hth_fs *fs,
                                 const hth_log *log, hth_index_env **out, hearth_error *err);
void hth_index_env_close(hth_index_env *env); /* accepts NULL */

/*
 * Begin a read transaction. Returns 0, an LMDB code or an errno. The same thread must end it soon: until then the map
 * cannot grow and the environment cannot be replaced. Any thread; waits for no other process, makes no system call but
 * fstat and allocates nothing. A few dozen reads may run at once; any more find the index absent.
 */
int hth_index_env_read_begin(hth_index_env *env, hth_index_txn *out);
/*
 * rc: the result of the reads. Damage is noted for the environment that was read, even if it has been replaced since.
 */
void hth_index_env_read_end(hth_index_env *env, const hth_index_txn *txn, int rc);

/*
 * Call body in a write transaction and commit it when body returns 0. If the map has to grow, body runs again from the
 * start. Writer threads only.
 */
typedef int (*hth_index_body_fn)(const hth_index_txn *txn, void *user_data);
int hth_index_env_write(hth_index_env *env, hth_index_body_fn body, void *user_data);

/* Describe the result of an operation in words. rc is not 0. */
hearth_status hth_index_env_fail(const hth_index_env *env, int rc, const char *what, hearth_error *err);

/*
 * Replace an environment that is damaged or that another process replaced, retry an absent one, drop dead readers. May
 * wait for another process; no reader waits for this call. Writer threads only.
 */
void hth_index_env_maintain(hth_index_env *env);

/*
 * Register another user of the environment (log may be NULL); lines go to the log of the user that opened it first. Any
 * thread.
 */
void hth_index_env_add_log(hth_index_env *env, const hth_log *log);
/* That user has closed the index: after the return, no line is written to that log. Any thread. */
void hth_index_env_forget_log(hth_index_env *env, const hth_log *log);

#endif
