/*
 * index_env.c - the environment that is open, and who may use it when
 *
 *   <directory>/lock                  held while an environment is opened, closed or dropped
 *   <directory>/v3-<boot id>/         the environment of this boot and version: data.mdb, lock.mdb
 *   <directory>/unclean               one byte for each process that ended without closing since the last close
 *   <directory>/dropped-<n>/          being removed
 *
 * The environment runs with MDB_NOSYNC and without MDB_WRITEMAP: LMDB writes pages with pwrite, and a commit ends with
 * one small write of a meta page. So a process that is killed at any instruction leaves the last commit intact. Only a
 * system crash can tear it. After that, the boot id in the name is different, and the files are never opened again. The
 * map is read-only, so a stray pointer of ours cannot write to it.
 *
 * A damaged environment is dropped: it is renamed, so that the next open makes a new one. Other processes that have the
 * old one open notice by its inode that it lost its name, and switch to the new one. Damage that crashes LMDB itself
 * would do so at every start. So after three processes in a row that did not close, the environment is dropped, too.
 *
 * No transaction may run while the map is replaced. Readers hold env_lock shared; writers hold write_lock; a thread
 * that replaces the map or the environment holds both, write_lock first. Another process may stop at any instruction,
 * and no reader may wait for it. So every wait for another process (the directory's lock, LMDB's two mutexes) happens
 * under write_lock alone, for which no reader waits. A new environment is opened beside the old one and replaces it
 * when it is complete; by then its read transactions have their slots in LMDB's reader table. A single read goes
 * without the index if it needs a larger map while another thread writes, or if no read transaction is free.
 *
 * Damage belongs to the environment in which it was met. It is noted under env_lock or write_lock, while that
 * environment is still in use.
 *
 * LMDB never makes its files shorter. If another program does, the next transaction notices it (map_size.h), and the
 * environment counts as damaged.
 */
#include "index/index_env.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/grow.h"
#include "base/os.h"
#include "index/map_size.h"

#define MAP_BYTES_MIN ((size_t)16 << 20)
#define MAP_BYTES_MAX ((size_t)64 << 30)

enum {
    N_DBS = 8,
    POOL_MAX = 64, /* read transactions of this process */
    READERS_MAX = 128 * POOL_MAX,
    LOCK_BYTES = 64 * READERS_MAX, /* approximate size of lock.mdb: a cache line per reader */
    LOCK_MS = 2000,                /* longest wait for the lock of the directory */
    CRASHES_MAX = 3,
    PATH_BYTES = 4096,
    ATTEMPTS_MAX = 64, /* tries of one write: the map reaches its limit in 12 doublings */
};

/* One open environment; zeroed if none. */
typedef struct environment {
    MDB_env *mdb; /* NULL: absent */
    hth_index_dbs dbs;
    uint64_t device; /* of data.mdb, to notice its replacement */
    uint64_t inode;
    uint64_t lock_inode; /* of lock.mdb */
    uint64_t page_bytes;
    hth_map_size data; /* data.mdb; LMDB owns the descriptor */
    hth_map_size lock; /* lock.mdb; ours, closed after mdb, because closing it drops LMDB's locks */
    MDB_txn *pool[POOL_MAX];
    size_t n_pool;
} environment;

struct hth_index_env {
    /* Fixed after opening. */
    const hth_fs *fs;
    char directory[PATH_BYTES];
    char path[PATH_BYTES]; /* the environment of this boot */
    char name[128];        /* last part of path */

    /* Held by a write transaction of this process, and while now is replaced. */
    pthread_mutex_t write_lock;
    /* Shared by read transactions; exclusive, inside write_lock, while now or its map is replaced. */
    pthread_rwlock_t env_lock;
    environment now;

    _Atomic bool is_damaged;
    _Atomic bool was_warned;

    /*
     * Guards the logs of the users that have the index open; held while a line is written, so that no line is written
     * after a log is removed.
     */
    pthread_mutex_t log_lock;
    const hth_log **logs;
    size_t n_logs;
    size_t logs_capacity;

    /* Guards the order of now.pool: read transactions that were reset and keep their reader slot. Innermost lock. */
    pthread_mutex_t pool_lock;
};

/* ---- the meaning of codes ---- */

static bool is_damage(int rc)
{
    switch (rc) {
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_PANIC:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
    case MDB_CURSOR_FULL:
    case MDB_PAGE_FULL:
    case MDB_BAD_TXN:
    case MDB_BAD_RSLOT: /* another process lengthened lock.mdb */
    case MDB_BAD_DBI: return true;
    default: return false;
    }
}

/* Log to the user that opened the index first; the others share the index. */
static void tell(hth_index_env *env, hearth_log_level level, const char *line)
{
    pthread_mutex_lock(&env->log_lock);
    if (env->n_logs > 0)
        hth_log_line(env->logs[0], level, "hearth", "%s", line);
    pthread_mutex_unlock(&env->log_lock);
}

static void warn_once(hth_index_env *env, const char *what, int rc)
{
    char line[PATH_BYTES + 200];

    if (atomic_exchange(&env->was_warned, true))
        return;
    (void)snprintf(line, sizeof(line),
                   "cache index in '%s' not usable (%s: %s); rows are found by file names until it is made anew",
                   env->directory, what, mdb_strerror(rc));
    tell(env, HEARTH_LOG_WARNING, line);
}

/* Note damage that an operation met in the environment in use. Under env_lock, shared, or write_lock. */
static void note_damage(hth_index_env *env, int rc)
{
    if (!is_damage(rc))
        return;
    atomic_store(&env->is_damaged, true);
    warn_once(env, "damaged", rc);
}

hearth_status hth_index_env_fail(const hth_index_env *env, int rc, const char *what, hearth_error *err)
{
    assert(rc != 0);
    if (rc == HTH_INDEX_ABSENT)
        return hth_fail(err, HEARTH_IO, "%s: the cache index in '%s' is not usable now", what, env->directory);
    if (is_damage(rc))
        return hth_fail(err, HEARTH_CORRUPT, "%s: the cache index in '%s' is damaged: %s", what, env->directory,
                        mdb_strerror(rc));
    if (rc == MDB_MAP_FULL)
        return hth_fail(err, HEARTH_FULL, "%s: the cache index in '%s' has reached its largest size", what,
                        env->directory);
    if (rc > 0)
        return hth_fail_errno(err, rc, "%s: cache index in '%s'", what, env->directory);
    return hth_fail(err, HEARTH_IO, "%s: cache index in '%s': %s", what, env->directory, mdb_strerror(rc));
}

/* ---- the sizes of the files ---- */

/*
 * Can the maps of the environment in use be read? A file that became shorter is damaged. A data file that is shorter
 * than its meta page claims may be sound: a page that a transaction allocates and frees is counted but never written.
 * Under env_lock, shared, or write_lock.
 */
static bool is_whole(hth_index_env *env)
{
    environment *now = &env->now;
    bool data_was_cut = false, lock_was_cut = false;
    uint64_t n_bytes;
    MDB_envinfo info;

    if (hth_map_size_look(&now->data, 0, &data_was_cut) != 0 || hth_map_size_look(&now->lock, 0, &lock_was_cut) != 0)
        return false;
    if (data_was_cut || lock_was_cut) {
        atomic_store(&env->is_damaged, true);
        warn_once(env, data_was_cut ? "data.mdb became shorter" : "lock.mdb became shorter", MDB_CORRUPTED);
        return false;
    }
    if (mdb_env_info(now->mdb, &info) != 0)
        return false;
    n_bytes = (info.me_last_pgno + 1) * now->page_bytes;
    return n_bytes <= atomic_load(&now->data.n_bytes) || n_bytes > info.me_mapsize ||
           hth_map_size_look(&now->data, n_bytes, &data_was_cut) == 0;
}

/* ---- opening ---- */

static bool join(char *path, const char *directory, const char *name)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s", directory, name);

    return n > 0 && n < PATH_BYTES;
}

/* Remove an environment's directory and its files. The next open removes the remains of a failure. */
static void remove_environment(const hth_fs *fs, const char *path)
{
    static const char *const names[] = { "data.mdb", "lock.mdb" };
    char file[PATH_BYTES];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (join(file, path, names[i]))
            (void)hth_fs_remove(fs, file);
    (void)hth_fs_remove(fs, path);
}

/* Rename the environment's directory, then remove it. Under the directory's lock, with mdb closed. */
static void drop_environment(hth_index_env *env)
{
    char dropped[PATH_BYTES], name[64];
    uint64_t number;

    hth_os_random(&number, sizeof(number));
    (void)snprintf(name, sizeof(name), "dropped-%016" PRIx64, number);
    if (join(dropped, env->directory, name) && hth_fs_rename(env->fs, env->path, dropped) == 0)
        remove_environment(env->fs, dropped);
    else
        remove_environment(env->fs, env->path);
}

/* True for names "v3-..." or "dropped-..." as this file makes them; nothing else here is ours to remove. */
static bool is_environment_name(const char *name, bool is_dropped)
{
    const char *digits = name + (is_dropped ? strlen("dropped-") : 1);
    size_t n = strspn(digits, is_dropped ? "0123456789abcdef" : "0123456789");

    if (is_dropped)
        return n > 0 && digits[n] == '\0';
    return n > 0 && digits[n] == '-';
}

/* Remove the remains of other boots and unfinished drops. Another version's index of this boot may be in use. */
static bool remove_leftover(const char *name, void *user_data)
{
    hth_index_env *env = user_data;
    const char *boot = strchr(env->name, '-');
    const char *its_boot = strchr(name, '-');
    bool is_dropped = strncmp(name, "dropped-", strlen("dropped-")) == 0;
    char path[PATH_BYTES];
    hth_fs_stat st;

    if (!is_environment_name(name, is_dropped))
        return true;
    if (!is_dropped && !(name[0] == 'v' && its_boot && strcmp(its_boot, boot) != 0))
        return true;
    if (join(path, env->directory, name) && hth_fs_stat_path(env->fs, path, &st) == 0 && !st.is_regular)
        remove_environment(env->fs, path);
    return true;
}

static int open_dbs(MDB_txn *txn, unsigned flags, hth_index_dbs *out)
{
    const struct {
        const char *name;
        MDB_dbi *dbi;
        unsigned flags;
    } dbs[N_DBS] = {
        { "rows", &out->rows, 0 }, { "children", &out->children, MDB_DUPSORT | MDB_DUPFIXED },
        { "lru", &out->lru, 0 },   { "reservations", &out->reservations, 0 },
        { "meta", &out->meta, 0 }, { "tokens", &out->tokens, 0 },
        { "past", &out->past, 0 }, { "past_order", &out->past_order, 0 },
    };

    for (size_t i = 0; i < N_DBS; i++) {
        int rc = mdb_dbi_open(txn, dbs[i].name, dbs[i].flags | flags, dbs[i].dbi);

        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Open the databases; create missing ones. Only creating one writes, so a stopped writer does not stall a start. */
static int open_or_make_dbs(MDB_env *mdb, hth_index_dbs *out)
{
    int rc = MDB_NOTFOUND;

    for (int makes = 0; makes < 2 && rc == MDB_NOTFOUND; makes++) {
        MDB_txn *txn;

        rc = mdb_txn_begin(mdb, NULL, makes ? 0 : MDB_RDONLY, &txn);
        if (rc != 0)
            return rc;
        rc = open_dbs(txn, makes ? MDB_CREATE : 0, out);
        if (rc == 0)
            return mdb_txn_commit(txn);
        mdb_txn_abort(txn);
    }
    return rc;
}

/*
 * With a truncated file, reading the map beyond the file's end would kill the process (SIGBUS). Lengthen it: the new
 * zeros are not valid pages, and LMDB notices that. A short file may be sound: a page that a transaction allocates and
 * frees is counted but never written. Only the holder of the write transaction may change the size.
 */
static int lengthen(MDB_env *mdb)
{
    MDB_envinfo info;
    MDB_stat db;
    MDB_txn *txn;
    struct stat st;
    mdb_filehandle_t fd;
    off_t need;
    int rc;

    if ((rc = mdb_env_info(mdb, &info)) != 0 || (rc = mdb_env_stat(mdb, &db)) != 0 ||
        (rc = mdb_env_get_fd(mdb, &fd)) != 0)
        return rc;
    need = (off_t)((info.me_last_pgno + 1) * db.ms_psize);
    if (fstat(fd, &st) != 0)
        return errno;
    if (st.st_size >= need)
        return 0;

    rc = mdb_txn_begin(mdb, NULL, 0, &txn);
    if (rc != 0)
        return rc;
    if (fstat(fd, &st) != 0 || (st.st_size < need && ftruncate(fd, need) != 0))
        rc = errno;
    mdb_txn_abort(txn);
    return rc;
}

/* Create read transactions in advance, because a new one waits for any process that is changing the reader table. */
static int fill_pool(environment *e)
{
    while (e->n_pool < POOL_MAX) {
        MDB_txn *txn;
        int rc = mdb_txn_begin(e->mdb, NULL, MDB_RDONLY, &txn);

        if (rc == MDB_READERS_FULL && e->n_pool > 0)
            break; /* then fewer reads can run at once */
        if (rc != 0)
            return rc;
        mdb_txn_reset(txn);
        e->pool[e->n_pool++] = txn;
    }
    return 0;
}

static void environment_close(environment *e)
{
    while (e->n_pool > 0)
        mdb_txn_abort(e->pool[--e->n_pool]);
    if (e->mdb) {
        mdb_env_close(e->mdb);
        (void)close(e->lock.fd);
    }
    *e = (environment){ .mdb = NULL };
}

/*
 * LMDB writes to its lock file through a map. That kills the process (SIGBUS) when the device has no block left for a
 * page. So allocate the whole file first. Under the directory's lock, and only while this process does not have the
 * file open. 0, or an errno; *fd_out is open on success.
 */
static int allocate_lock_file(const hth_index_env *env, int *fd_out)
{
    char path[PATH_BYTES];
    struct stat st;
    int fd, rc = 0;

    if (!join(path, env->path, "lock.mdb"))
        return ENAMETOOLONG;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    /* LMDB derives the number of readers from the size, so a file that others may have open keeps its size. */
    if (fstat(fd, &st) != 0 || hth_os_file_allocate(fd, 0, st.st_size > 0 ? (uint64_t)st.st_size : LOCK_BYTES) != 0)
        rc = errno;
    if (rc == ENOSPC || rc == EDQUOT || rc == EFBIG) {
        (void)close(fd);
        return rc;
    }
    *fd_out = fd; /* some file systems cannot allocate */
    return 0;
}

/* Open the files at env->path. */
static int open_files(const hth_index_env *env, environment *out)
{
    environment e = { .mdb = NULL };
    MDB_envinfo info;
    hth_fs_stat st;
    char path[PATH_BYTES];
    MDB_stat db;
    int rc;

    rc = allocate_lock_file(env, &e.lock.fd);
    if (rc != 0)
        return rc;
    rc = mdb_env_create(&e.mdb);
    if (rc != 0) {
        (void)close(e.lock.fd);
        return rc;
    }
    if ((rc = mdb_env_set_maxdbs(e.mdb, N_DBS)) != 0 || (rc = mdb_env_set_maxreaders(e.mdb, READERS_MAX)) != 0 ||
        (rc = mdb_env_open(e.mdb, env->path, MDB_NOSYNC | MDB_NOTLS, 0600)) != 0 || (rc = lengthen(e.mdb)) != 0 ||
        (rc = mdb_env_info(e.mdb, &info)) != 0 || (rc = mdb_env_stat(e.mdb, &db)) != 0 ||
        (rc = mdb_env_get_fd(e.mdb, &e.data.fd)) != 0)
        goto out;
    e.page_bytes = db.ms_psize;
    if (info.me_mapsize < MAP_BYTES_MIN && (rc = mdb_env_set_mapsize(e.mdb, MAP_BYTES_MIN)) != 0)
        goto out;
    (void)mdb_reader_check(e.mdb, NULL); /* dead readers only make the file grow */
    rc = open_or_make_dbs(e.mdb, &e.dbs);
    if (rc == 0)
        rc = fill_pool(&e);
    if (rc != 0)
        goto out;
    rc = join(path, env->path, "data.mdb") ? -hth_fs_stat_path(env->fs, path, &st) : ENAMETOOLONG;
    if (rc != 0)
        goto out;
    e.device = st.device;
    e.inode = st.inode;
    e.data.n_bytes = st.bytes;
    rc = join(path, env->path, "lock.mdb") ? -hth_fs_stat_path(env->fs, path, &st) : ENAMETOOLONG;
    if (rc != 0)
        goto out;
    e.lock_inode = st.inode;
    e.lock.n_bytes = st.bytes;
    *out = e;
    return 0;
out:
    environment_close(&e);
    return rc;
}

/*
 * Lock the directory; returns the descriptor to close, or -errno. Other processes hold the lock only briefly. If one of
 * them is stopped while holding it, that must not keep this process from starting: the result is then -EWOULDBLOCK.
 */
static int lock_directory(const hth_index_env *env)
{
    char path[PATH_BYTES];
    int fd, result;

    if (!join(path, env->directory, "lock"))
        return -ENAMETOOLONG;
    fd = hth_fs_open(env->fs, path, HTH_FS_SHARED);
    if (fd < 0)
        return fd;
    result = hth_fs_lock_within(env->fs, fd, HTH_FS_LOCK_TRY, LOCK_MS);
    if (result == 0)
        return fd;
    hth_fs_close(env->fs, fd);
    return result;
}

/* Does data.mdb or lock.mdb of the environment in use still have its name? */
static bool has_name(const hth_index_env *env)
{
    char path[PATH_BYTES];
    hth_fs_stat st;

    if (join(path, env->path, "data.mdb") && hth_fs_stat_path(env->fs, path, &st) == 0 &&
        st.device == env->now.device && st.inode == env->now.inode)
        return true;
    return join(path, env->path, "lock.mdb") && hth_fs_stat_path(env->fs, path, &st) == 0 &&
           st.device == env->now.device && st.inode == env->now.lock_inode;
}

/*
 * Open or create the environment, into *out, and drop a damaged one. Under write_lock; the environment in use stays
 * open in the meantime. Its lock file must not be opened twice, so it loses its name if it still has it.
 */
static void open_beside(hth_index_env *env, size_t n_crashes, environment *out)
{
    char unclean[PATH_BYTES];
    hth_fs_stat st;
    int lock = lock_directory(env);
    int rc = 0;

    if (lock < 0) {
        warn_once(env, "lock", -lock);
        return;
    }
    if (env->now.mdb && has_name(env))
        drop_environment(env);
    if (n_crashes > 0 && join(unclean, env->directory, "unclean")) {
        uint64_t n = hth_fs_stat_path(env->fs, unclean, &st) == 0 ? st.bytes + n_crashes : n_crashes;
        int fd;

        (void)hth_fs_remove(env->fs, unclean);
        if (n >= CRASHES_MAX) {
            char line[PATH_BYTES + 200];

            (void)snprintf(line, sizeof(line),
                           "the last processes ended without closing the cache index in '%s'; it is made anew",
                           env->directory);
            tell(env, HEARTH_LOG_INFO, line);
            drop_environment(env);
        } else if ((fd = hth_fs_open(env->fs, unclean, HTH_FS_CREATE)) >= 0) {
            (void)hth_fs_write_all(env->fs, fd, "....", (size_t)n); /* if this fails, one more crash is needed */
            hth_fs_close(env->fs, fd);
        }
    }
    for (int i = 0; i < 2; i++) {
        rc = -hth_fs_make_directory(env->fs, env->path);
        if (rc == 0 || rc == EEXIST)
            rc = open_files(env, out);
        if (rc == 0 || !is_damage(rc))
            break;
        drop_environment(env);
    }
    if (rc == 0)
        (void)hth_fs_list(env->fs, env->directory, remove_leftover, env); /* leftovers only take space */
    else
        warn_once(env, "open", rc);
    hth_fs_close(env->fs, lock);
}

hearth_status hth_index_env_open(const char *directory, const char *boot_id, size_t n_crashes, const hth_fs *fs,
                                 const hth_log *log, hth_index_env **out, hearth_error *err)
{
    hth_index_env *env = calloc(1, sizeof(*env));

    if (!env)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache index");
    env->fs = fs;
    (void)snprintf(env->name, sizeof(env->name), "v3-%.100s", boot_id);
    if (snprintf(env->directory, PATH_BYTES, "%s", directory) >= PATH_BYTES ||
        !join(env->path, env->directory, env->name)) {
        free(env);
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", directory);
    }
    pthread_mutex_init(&env->write_lock, NULL);
    pthread_rwlock_init(&env->env_lock, NULL);
    pthread_mutex_init(&env->pool_lock, NULL);
    pthread_mutex_init(&env->log_lock, NULL);
    hth_index_env_add_log(env, log);
    pthread_mutex_lock(&env->write_lock);
    open_beside(env, n_crashes, &env->now); /* no other thread has env yet */
    pthread_mutex_unlock(&env->write_lock);
    *out = env;
    return HEARTH_OK;
}

void hth_index_env_close(hth_index_env *env)
{
    char unclean[PATH_BYTES];
    int lock;

    if (!env)
        return;
    pthread_mutex_lock(&env->write_lock);
    lock = lock_directory(env); /* LMDB must not be opened while another process closes it */
    environment_close(&env->now);
    if (join(unclean, env->directory, "unclean"))
        (void)hth_fs_remove(env->fs, unclean); /* usually absent */
    if (lock >= 0)
        hth_fs_close(env->fs, lock);
    pthread_mutex_unlock(&env->write_lock);
    pthread_mutex_destroy(&env->log_lock);
    pthread_mutex_destroy(&env->pool_lock);
    free(env->logs);
    pthread_rwlock_destroy(&env->env_lock);
    pthread_mutex_destroy(&env->write_lock);
    free(env);
}

/* ---- reading ---- */

/* Use the size that another process gave the map, unless a thread is using the map. */
static void try_remap(hth_index_env *env)
{
    if (pthread_mutex_trylock(&env->write_lock) != 0)
        return;
    if (pthread_rwlock_trywrlock(&env->env_lock) == 0) {
        if (env->now.mdb && mdb_env_set_mapsize(env->now.mdb, 0) != 0)
            atomic_store(&env->is_damaged, true); /* the map is gone */
        pthread_rwlock_unlock(&env->env_lock);
    }
    pthread_mutex_unlock(&env->write_lock);
}

static MDB_txn *pool_take(hth_index_env *env)
{
    MDB_txn *txn = NULL;

    pthread_mutex_lock(&env->pool_lock);
    if (env->now.n_pool > 0)
        txn = env->now.pool[--env->now.n_pool];
    pthread_mutex_unlock(&env->pool_lock);
    return txn;
}

static void pool_put(hth_index_env *env, MDB_txn *txn)
{
    pthread_mutex_lock(&env->pool_lock);
    assert(env->now.n_pool < POOL_MAX);
    env->now.pool[env->now.n_pool++] = txn;
    pthread_mutex_unlock(&env->pool_lock);
}

int hth_index_env_read_begin(hth_index_env *env, hth_index_txn *out)
{
    for (int i = 0; i < 2; i++) {
        MDB_txn *txn = NULL;
        int rc;

        pthread_rwlock_rdlock(&env->env_lock);
        if (env->now.mdb && !atomic_load(&env->is_damaged) && is_whole(env))
            txn = pool_take(env);
        if (!txn) {
            pthread_rwlock_unlock(&env->env_lock);
            return HTH_INDEX_ABSENT;
        }
        rc = mdb_txn_renew(txn);
        if (rc == 0) {
            *out = (hth_index_txn){ .mdb = txn, .dbs = env->now.dbs };
            return 0;
        }
        pool_put(env, txn); /* it keeps its slot and is unchanged */
        note_damage(env, rc);
        pthread_rwlock_unlock(&env->env_lock);
        if (rc != MDB_MAP_RESIZED)
            return rc;
        try_remap(env);
    }
    return HTH_INDEX_ABSENT;
}

void hth_index_env_read_end(hth_index_env *env, const hth_index_txn *txn, int rc)
{
    mdb_txn_reset(txn->mdb);
    pool_put(env, txn->mdb);
    note_damage(env, rc);
    pthread_rwlock_unlock(&env->env_lock);
}

/* ---- writing ---- */

/* Replace an environment that is damaged, absent, or has lost its name. Under write_lock. */
static void refresh_locked(hth_index_env *env, bool retry_absent)
{
    environment next = { .mdb = NULL }, last;
    char data[PATH_BYTES];
    hth_fs_stat st = { .inode = 0 };

    if (env->now.mdb && !atomic_load(&env->is_damaged) && is_whole(env)) {
        int result = join(data, env->path, "data.mdb") ? hth_fs_stat_path(env->fs, data, &st) : -ENAMETOOLONG;

        if (result == 0 ? st.device == env->now.device && st.inode == env->now.inode : result != -ENOENT)
            return;
    } else if (!retry_absent) {
        return;
    }
    open_beside(env, 0, &next);
    if (!next.mdb && !atomic_load(&env->is_damaged))
        return; /* the old one is better than none; the next write tries again */
    pthread_rwlock_wrlock(&env->env_lock);
    last = env->now;
    env->now = next;
    atomic_store(&env->is_damaged, false);
    if (next.mdb)
        atomic_store(&env->was_warned, false);
    pthread_rwlock_unlock(&env->env_lock);
    environment_close(&last);
}

/* Resize the map; 0: to the size that another process gave it. Under write_lock. */
static int resize_locked(hth_index_env *env, size_t n_bytes)
{
    int rc;

    pthread_rwlock_wrlock(&env->env_lock);
    rc = mdb_env_set_mapsize(env->now.mdb, n_bytes);
    pthread_rwlock_unlock(&env->env_lock);
    if (rc != 0)
        atomic_store(&env->is_damaged, true); /* the old map is gone */
    return rc;
}

static int write_once(hth_index_env *env, hth_index_body_fn body, void *user_data)
{
    hth_index_txn txn = { .dbs = env->now.dbs };
    int rc = mdb_txn_begin(env->now.mdb, NULL, 0, &txn.mdb);

    if (rc != 0)
        return rc;
    rc = body(&txn, user_data);
    if (rc != 0) {
        mdb_txn_abort(txn.mdb);
        return rc;
    }
    hth_fs_step(env->fs, "index commit");
    rc = mdb_txn_commit(txn.mdb);
    hth_fs_step(env->fs, "index committed");
    return rc;
}

int hth_index_env_write(hth_index_env *env, hth_index_body_fn body, void *user_data)
{
    int rc = HTH_INDEX_ABSENT;

    pthread_mutex_lock(&env->write_lock);
    refresh_locked(env, false);
    for (int i = 0; i < ATTEMPTS_MAX && env->now.mdb && !atomic_load(&env->is_damaged); i++) {
        MDB_envinfo info;

        rc = write_once(env, body, user_data);
        if (rc == MDB_MAP_RESIZED) {
            rc = resize_locked(env, 0);
        } else if (rc == MDB_MAP_FULL && mdb_env_info(env->now.mdb, &info) == 0 && info.me_mapsize < MAP_BYTES_MAX) {
            rc = resize_locked(env, info.me_mapsize * 2);
        } else {
            break;
        }
        if (rc != 0)
            break;
        rc = HTH_INDEX_ABSENT; /* nothing is written yet, in case this was the last try */
    }
    note_damage(env, rc);
    pthread_mutex_unlock(&env->write_lock);
    return rc;
}

void hth_index_env_maintain(hth_index_env *env)
{
    pthread_mutex_lock(&env->write_lock);
    refresh_locked(env, true);
    if (env->now.mdb)
        (void)mdb_reader_check(env->now.mdb, NULL); /* dead readers only make the file grow */
    pthread_mutex_unlock(&env->write_lock);
}

void hth_index_env_add_log(hth_index_env *env, const hth_log *log)
{
    const hth_log **logs;

    if (!log)
        return;
    pthread_mutex_lock(&env->log_lock);
    logs = hth_grown(env->logs, env->n_logs, &env->logs_capacity, sizeof(*logs));
    if (logs) { /* otherwise nothing is logged for this user */
        env->logs = logs;
        env->logs[env->n_logs++] = log;
    }
    pthread_mutex_unlock(&env->log_lock);
}

void hth_index_env_forget_log(hth_index_env *env, const hth_log *log)
{
    size_t i = 0;

    pthread_mutex_lock(&env->log_lock);
    while (i < env->n_logs && env->logs[i] != log)
        i++;
    if (i < env->n_logs) {
        env->n_logs--;
        memmove(env->logs + i, env->logs + i + 1, (env->n_logs - i) * sizeof(*env->logs));
    }
    pthread_mutex_unlock(&env->log_lock);
}
