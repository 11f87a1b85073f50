/*
 * The loop has the list of records, oldest first. The thread has the files. Jobs go to the thread in order, and come
 * back through a pipe that wakes the loop. A record that is not in the list is looked up on disk as well: another
 * server may have stored it.
 *
 * Where room is needed, the oldest record of the tenant that holds the most bytes goes. So a tenant that stores much
 * drives out its own records, and has the room that others leave.
 */
#include "front/response_store.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "base/bytes.h"
#include "base/hex.h"
#include "base/os.h"
#include "base/status.h"
#include "base/whole_file.h"

enum {
    HEAD_BYTES = 24,
    HEAD_BYTES_1 = 16,            /* of files without a tenant */
    RECORD_BYTES_MAX = 64 << 20,  /* of a file; far more than a record needs */
    WAITING_BYTES_MAX = 64 << 20, /* waiting to be written; records beyond that are not kept */
    DAY_S = 24 * 60 * 60,
    LEFTOVER_S = 60 * 60, /* an older temporary file is abandoned */
};

static const char magic[4] = { 'H', 'R', 'F', '2' }, magic_1[4] = { 'H', 'R', 'F', '1' };
static const char suffix[] = ".hrr", part_suffix[] = ".part";

/* An owner of entries. It is freed with its last entry. */
typedef struct tenant {
    UT_hash_handle hh;
    uint64_t tag;
    uint64_t n_bytes;
    struct entry *by_age; /* linked by older and newer */
} tenant;

typedef struct entry {
    UT_hash_handle hh;
    struct entry *prev, *next;   /* of all entries, by age */
    struct entry *older, *newer; /* of its tenant */
    tenant *tenant;
    uint8_t key[HTH_RESPONSE_KEY_BYTES];
    uint64_t stored_s;
    size_t n;
    char bytes[]; /* [n], without a directory */
} entry;

typedef enum job_kind { JOB_WRITE, JOB_READ, JOB_REMOVE } job_kind;

struct hth_response_job {
    hth_response_job *prev, *next; /* prev allows appending in constant time */
    job_kind kind;
    uint8_t key[HTH_RESPONSE_KEY_BYTES];
    uint64_t stored_s;           /* WRITE */
    hth_response_lookup *lookup; /* READ: the event loop's; NULL: it was cancelled */
    char *bytes;                 /* READ: the record; NULL: none */
    size_t n;
    hearth_error error; /* WRITE: the failure */
    char written[];     /* WRITE: [n] */
};

struct hth_response_store {
    hth_response_store_options options;
    char *directory; /* NULL: memory */
    entry *entries;
    entry *by_age;
    tenant *tenants;
    uint64_t n_bytes;

    /* With a directory. */
    pthread_t thread;
    bool has_thread;
    int wake[2]; /* a pipe, read by the loop */
    struct event *on_wake;
    uint64_t n_waiting_bytes; /* used by the event loop only */

    pthread_mutex_t lock;   /* guards the fields below */
    pthread_cond_t changed; /* to_do or is_ending */
    hth_response_job *to_do, *done;
    bool is_ending;
};

void hth_response_key(const uint8_t owner[HTH_RESPONSE_OWNER_BYTES], const char *id, size_t n_id,
                      uint8_t key[HTH_RESPONSE_KEY_BYTES])
{
    static const char what[] = "hearth-response-v1";
    uint8_t digest[HTH_SHA256_BYTES];
    hth_sha256 *sha = hth_sha256_new();

    memset(key, 0, HTH_RESPONSE_KEY_BYTES); /* without memory, it is not found */
    if (!sha)
        return;
    hth_sha256_update(sha, what, sizeof(what));
    hth_sha256_update(sha, owner, HTH_RESPONSE_OWNER_BYTES);
    hth_sha256_peek(sha, digest);
    memcpy(key + HTH_SHA256_BYTES, digest, HTH_RESPONSE_KEY_BYTES - HTH_SHA256_BYTES);
    hth_sha256_update(sha, id, n_id);
    hth_sha256_peek(sha, key);
    hth_sha256_free(sha);
}

/* ---- files: used by the thread only ---- */

static void path_of(const hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES], char path[PATH_MAX])
{
    char name[2 * HTH_SHA256_BYTES + 1];

    hth_hex_encode(key, HTH_SHA256_BYTES, name);
    (void)snprintf(path, PATH_MAX, "%s/%s%s", store->directory, name, suffix); /* the directory is short enough */
}

static hearth_status write_file(const hth_response_store *store, hth_response_job *job)
{
    uint8_t head[HEAD_BYTES];
    char path[PATH_MAX];
    hth_whole_file *file = NULL;
    hearth_status status;

    path_of(store, job->key, path);
    memcpy(head, magic, sizeof(magic));
    hth_put_u32(head + 4, hth_crc32c(0, job->written, job->n));
    hth_put_u64(head + 8, job->stored_s);
    memcpy(head + HEAD_BYTES_1, job->key + HTH_SHA256_BYTES, HEAD_BYTES - HEAD_BYTES_1);
    status = hth_whole_file_begin(hth_fs_system(), path, HTH_WHOLE_FILE_REPLACE, &file, &job->error);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, head, sizeof(head), &job->error);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, job->written, job->n, &job->error);
    return hth_whole_file_end(file, status, &job->error);
}

/* Read the head of an open file. Returns its length; 0 if it is no valid head. */
static size_t read_head(int fd, uint8_t head[HEAD_BYTES])
{
    size_t n;

    if (hth_fs_read_full(hth_fs_system(), fd, head, HEAD_BYTES, 0, &n) != 0)
        return 0;
    if (n >= HEAD_BYTES_1 && memcmp(head, magic_1, sizeof(magic_1)) == 0) {
        memset(head + HEAD_BYTES_1, 0, HEAD_BYTES - HEAD_BYTES_1);
        return HEAD_BYTES_1;
    }
    return n == HEAD_BYTES && memcmp(head, magic, sizeof(magic)) == 0 ? HEAD_BYTES : 0;
}

/* The record in an open file. NULL if it is damaged or too old. */
static char *read_open(const hth_response_store *store, int fd, size_t *n_out)
{
    uint8_t head[HEAD_BYTES];
    hth_fs_stat stat;
    size_t n, n_read;
    const size_t n_head = read_head(fd, head);
    char *bytes;

    if (n_head == 0 || hth_fs_stat_open(hth_fs_system(), fd, &stat) != 0 || stat.bytes < n_head ||
        stat.bytes - n_head > RECORD_BYTES_MAX ||
        hth_get_u64(head + 8) + (uint64_t)store->options.limits.days_max * DAY_S < hth_os_unix_seconds())
        return NULL;
    n = (size_t)stat.bytes - n_head;
    bytes = malloc(n + 1);
    if (bytes && hth_fs_read_full(hth_fs_system(), fd, bytes, n, n_head, &n_read) == 0 && n_read == n &&
        hth_crc32c(0, bytes, n) == hth_get_u32(head + 4)) {
        *n_out = n;
        return bytes;
    }
    free(bytes);
    return NULL;
}

static void read_file(const hth_response_store *store, hth_response_job *job)
{
    char path[PATH_MAX];
    int fd;

    path_of(store, job->key, path);
    fd = hth_fs_open(hth_fs_system(), path, HTH_FS_READ);
    if (fd < 0)
        return;
    job->bytes = read_open(store, fd, &job->n);
    hth_fs_close(hth_fs_system(), fd);
}

static void work_on(const hth_response_store *store, hth_response_job *job)
{
    char path[PATH_MAX];

    switch (job->kind) {
    case JOB_WRITE:
        if (write_file(store, job) == HEARTH_OK)
            job->error.status = HEARTH_OK;
        break;
    case JOB_READ: read_file(store, job); break;
    case JOB_REMOVE:
        path_of(store, job->key, path);
        (void)hth_fs_remove(hth_fs_system(), path); /* it may already be gone */
        break;
    }
}

static void *run(void *context)
{
    hth_response_store *store = context;

    hth_os_thread_name("hearth-store");
    pthread_mutex_lock(&store->lock);
    for (;;) {
        hth_response_job *job = store->to_do;

        if (!job && store->is_ending)
            break;
        if (!job) {
            pthread_cond_wait(&store->changed, &store->lock);
            continue;
        }
        DL_DELETE(store->to_do, job);
        pthread_mutex_unlock(&store->lock);
        work_on(store, job);
        pthread_mutex_lock(&store->lock);
        DL_APPEND(store->done, job);
        while (write(store->wake[1], "", 1) < 0 && errno == EINTR) /* a full pipe means that the loop will wake up */
            ;
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

/* ---- jobs: used by the event loop only ---- */

static hth_response_job *job_new(job_kind kind, const uint8_t key[HTH_RESPONSE_KEY_BYTES], size_t n)
{
    hth_response_job *job = calloc(1, sizeof(*job) + n);

    if (!job)
        return NULL;
    job->kind = kind;
    memcpy(job->key, key, HTH_RESPONSE_KEY_BYTES);
    return job;
}

static void give(hth_response_store *store, hth_response_job *job)
{
    pthread_mutex_lock(&store->lock);
    DL_APPEND(store->to_do, job);
    pthread_cond_signal(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

static void job_free(hth_response_job *job)
{
    free(job->bytes);
    free(job);
}

static void on_shared(const void *bytes, size_t n, void *user_data)
{
    hth_response_lookup *lookup = user_data;

    lookup->on_found(bytes, n, lookup->user_data);
}

/* The lookup ends with this record; bytes NULL: there is none here. */
static void end_lookup(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES],
                       hth_response_lookup *lookup, const void *bytes, size_t n)
{
    lookup->shared = (hth_shared_lookup){ .on_found = on_shared, .user_data = lookup };
    if (bytes || !store->options.shared || !hth_shared_records_find(store->options.shared, key, &lookup->shared))
        lookup->on_found(bytes, n, lookup->user_data);
}

static void take_done(hth_response_store *store, hth_response_job *job)
{
    if (job->kind == JOB_WRITE) {
        store->n_waiting_bytes -= job->n;
        if (job->error.status != HEARTH_OK)
            hth_warn(store->options.log, "a response cannot be kept: %s", job->error.message);
    } else if (job->lookup) {
        job->lookup->job = NULL;
        end_lookup(store, job->key, job->lookup, job->bytes, job->n);
    }
    job_free(job);
}

static void on_wake(evutil_socket_t fd, short what, void *user_data)
{
    hth_response_store *store = user_data;
    hth_response_job *job;
    char bytes[64];

    (void)what;
    while (read(fd, bytes, sizeof(bytes)) > 0)
        continue;
    for (;;) {
        pthread_mutex_lock(&store->lock);
        job = store->done;
        if (job)
            DL_DELETE(store->done, job);
        pthread_mutex_unlock(&store->lock);
        if (!job)
            return;
        take_done(store, job);
    }
}

/* ---- entries and tenants ---- */

/* Take an entry out of the lists and free it. */
static void forget(hth_response_store *store, entry *e)
{
    tenant *t = e->tenant;

    HASH_DEL(store->entries, e); /* NOLINT(clang-analyzer-core.NullDereference): what is in the table has neighbours */
    DL_DELETE(store->by_age, e);
    DL_DELETE2(t->by_age, e, older, newer);
    store->n_bytes -= e->n;
    t->n_bytes -= e->n;
    free(e);
    if (!t->by_age) {
        HASH_DEL(store->tenants, t); /* NOLINT(clang-analyzer-core.NullDereference): as above */
        free(t);
    }
}

/* Remove an entry and its file. */
static void drop(hth_response_store *store, entry *e)
{
    hth_response_job *job = store->directory ? job_new(JOB_REMOVE, e->key, 0) : NULL;

    if (job)
        give(store, job); /* without memory, the file stays until the server restarts */
    forget(store, e);
}

/* The tenant that holds the most, preferably not this one. There is at least one. */
static tenant *largest(const hth_response_store *store, const tenant *spared)
{
    tenant *found = store->tenants;

    for (tenant *t = store->tenants; t; t = t->hh.next)
        if (t->n_bytes > found->n_bytes || (t->n_bytes == found->n_bytes && found == spared))
            found = t;
    return found;
}

/* newcomer: the owner of the newest entry, or NULL. */
static void make_room(hth_response_store *store, const tenant *newcomer)
{
    const uint64_t seconds_max = (uint64_t)store->options.limits.days_max * DAY_S;

    while (store->by_age && store->by_age->stored_s + seconds_max < hth_os_unix_seconds())
        drop(store, store->by_age);
    while (store->by_age && store->n_bytes > store->options.limits.bytes_max)
        drop(store, largest(store, newcomer)->by_age); /* NOLINT(clang-analyzer-unix.Malloc): drop takes it out */
}

static entry *find(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES])
{
    entry *e = NULL;

    HASH_FIND(hh, store->entries, key, HTH_SHA256_BYTES, e);
    return e;
}

static entry *entry_new(const uint8_t key[HTH_RESPONSE_KEY_BYTES], uint64_t stored_s, size_t n, size_t n_kept)
{
    entry *e = calloc(1, sizeof(*e) + n_kept);

    if (!e)
        return NULL;
    memcpy(e->key, key, HTH_RESPONSE_KEY_BYTES);
    e->stored_s = stored_s;
    e->n = n;
    return e;
}

/* Add an entry, the newest of all. False: no memory for its tenant, and the entry is freed. */
static bool add(hth_response_store *store, entry *e)
{
    uint64_t tag;
    tenant *t;

    memcpy(&tag, e->key + HTH_SHA256_BYTES, sizeof(tag));
    HASH_FIND(hh, store->tenants, &tag, sizeof(tag), t);
    if (!t) {
        t = calloc(1, sizeof(*t));
        if (!t) {
            free(e);
            return false;
        }
        t->tag = tag;
        HASH_ADD(hh, store->tenants, tag, sizeof(tag), t);
    }
    e->tenant = t;
    t->n_bytes += e->n;
    DL_APPEND2(t->by_age, e, older, newer);
    HASH_ADD(hh, store->entries, key, HTH_SHA256_BYTES, e);
    DL_APPEND(store->by_age, e);
    store->n_bytes += e->n;
    return true;
}

void hth_response_store_put(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES], const void *bytes,
                            size_t n)
{
    if (store->options.shared && n <= store->options.limits.bytes_max)
        hth_shared_records_put(store->options.shared, key, bytes, n);
    hth_response_store_put_here(store, key, bytes, n);
}

void hth_response_store_put_here(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES],
                                 const void *bytes, size_t n)
{
    hth_response_job *job = NULL;
    entry *e = find(store, key);

    if (e)
        drop(store, e);
    if (n > store->options.limits.bytes_max || n > RECORD_BYTES_MAX)
        return;
    if (store->directory && store->n_waiting_bytes + n > WAITING_BYTES_MAX) {
        hth_warn(store->options.log, "a response is not kept: '%s' takes them too slowly", store->directory);
        return;
    }
    e = entry_new(key, hth_os_unix_seconds(), n, store->directory ? 0 : n);
    if (e && store->directory)
        job = job_new(JOB_WRITE, key, n);
    if (!e || (store->directory && !job)) {
        hth_warn(store->options.log, "a response is not kept: no memory");
        free(e);
        return;
    }
    if (job) {
        job->stored_s = e->stored_s;
        job->n = n;
        memcpy(job->written, bytes, n);
        store->n_waiting_bytes += n;
        give(store, job);
    } else {
        memcpy(e->bytes, bytes, n);
    }
    if (add(store, e)) /* otherwise the file stays until the server restarts */
        make_room(store, e->tenant);
}

void hth_response_store_remove(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES])
{
    entry *e = find(store, key);
    hth_response_job *job;

    if (store->options.shared)
        hth_shared_records_remove(store->options.shared, key);
    if (e) {
        drop(store, e);
        return;
    }
    job = store->directory ? job_new(JOB_REMOVE, key, 0) : NULL; /* it may be another server's */
    if (job)
        give(store, job);
}

void hth_response_store_find(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES],
                             hth_response_lookup *lookup)
{
    hth_response_job *job = store->directory ? job_new(JOB_READ, key, 0) : NULL;
    entry *e;

    lookup->shared.call = NULL;
    lookup->job = job;
    if (job) {
        job->lookup = lookup;
        give(store, job);
        return;
    }
    make_room(store, NULL); /* a record that is too old does not count */
    e = store->directory ? NULL : find(store, key);
    end_lookup(store, key, lookup, e ? e->bytes : NULL, e ? e->n : 0);
}

void hth_response_lookup_cancel(hth_response_lookup *lookup)
{
    if (lookup->job)
        lookup->job->lookup = NULL;
    lookup->job = NULL;
    hth_shared_lookup_cancel(&lookup->shared);
}

size_t hth_response_store_n(const hth_response_store *store, uint64_t *bytes_out)
{
    *bytes_out = store->n_bytes;
    return HASH_COUNT(store->entries);
}

/* ---- beginning and end ---- */

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);

    return n >= n_end && strcmp(name + n - n_end, end) == 0;
}

/* Read the head of a file, like read_head. */
static size_t head_of(const char *path, uint8_t head[HEAD_BYTES])
{
    const int fd = hth_fs_open(hth_fs_system(), path, HTH_FS_READ);
    const size_t n = fd >= 0 ? read_head(fd, head) : 0;

    if (fd >= 0)
        hth_fs_close(hth_fs_system(), fd);
    return n;
}

/* A file that was there before: a record, or the remains of an interrupted write. */
static bool on_name(const char *name, void *user_data)
{
    hth_response_store *store = user_data;
    uint8_t key[HTH_RESPONSE_KEY_BYTES];
    char path[PATH_MAX], digits[2 * HTH_SHA256_BYTES + 1];
    uint8_t head[HEAD_BYTES];
    hth_fs_stat stat;
    size_t n_head;
    entry *e;

    if (snprintf(path, sizeof(path), "%s/%s", store->directory, name) >= (int)sizeof(path) ||
        hth_fs_stat_path(hth_fs_system(), path, &stat) != 0 || !stat.is_regular)
        return true;
    if (name[0] == '.' && ends_in(name, part_suffix) && stat.mtime + LEFTOVER_S < hth_os_unix_seconds())
        (void)hth_fs_remove(hth_fs_system(), path); /* if this fails, the next start tries again */
    if (strlen(name) != sizeof(digits) - 1 + sizeof(suffix) - 1 || !ends_in(name, suffix))
        return true;
    memcpy(digits, name, sizeof(digits) - 1);
    digits[sizeof(digits) - 1] = '\0';
    if (!hth_hex_decode(digits, key, HTH_SHA256_BYTES) || stat.bytes > SIZE_MAX)
        return true;
    n_head = head_of(path, head);
    if (n_head == 0 || stat.bytes < n_head)
        return true;
    memcpy(key + HTH_SHA256_BYTES, head + HEAD_BYTES_1, HEAD_BYTES - HEAD_BYTES_1);
    e = entry_new(key, stat.mtime, (size_t)stat.bytes - n_head, 0);
    if (e)
        DL_APPEND(store->by_age, e);
    return true;
}

static int by_time(const entry *a, const entry *b)
{
    return (a->stored_s > b->stored_s) - (a->stored_s < b->stored_s);
}

static hearth_status open_directory(hth_response_store *store, hearth_error *err)
{
    int failed = hth_fs_make_directory(hth_fs_system(), store->directory);
    entry *found, *e;

    if (failed == 0 || failed == -EEXIST)
        failed = hth_fs_list(hth_fs_system(), store->directory, on_name, store);
    if (failed)
        return hth_fail_errno(err, -failed, "responses cannot be kept in '%s'", store->directory);
    /* So far the entries are only in a list. Add them to the table and their tenants by age. */
    DL_SORT(store->by_age, by_time);
    found = store->by_age;
    store->by_age = NULL;
    while ((e = found)) {
        DL_DELETE(found, e);
        (void)add(store, e); /* without memory, the entry is dropped */
    }
    return HEARTH_OK;
}

static hearth_status start_thread(hth_response_store *store, hearth_error *err)
{
    int failed;

    if (!hth_os_pipe(store->wake))
        return hth_fail_errno(err, errno, "cannot make a pipe");
    store->on_wake = event_new(store->options.base, store->wake[0], EV_READ | EV_PERSIST, on_wake, store);
    if (!store->on_wake || event_add(store->on_wake, NULL) != 0)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the store of responses");
    failed = pthread_create(&store->thread, NULL, run, store);
    if (failed)
        return hth_fail_errno(err, failed, "cannot start a thread");
    store->has_thread = true;
    make_room(store, NULL);
    return HEARTH_OK;
}

hearth_status hth_response_store_new(const hth_response_store_options *options, hth_response_store **out,
                                     hearth_error *err)
{
    hth_response_store *store = calloc(1, sizeof(*store));
    hearth_status status = HEARTH_OK;

    if (!store)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the store of responses");
    store->options = *options;
    store->options.limits.directory = NULL;
    store->wake[0] = store->wake[1] = -1;
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->changed, NULL);
    if (options->limits.directory) {
        store->directory = strdup(options->limits.directory);
        if (!store->directory)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the store of responses");
        else if (strlen(store->directory) + (size_t)2 * HTH_SHA256_BYTES + sizeof(suffix) + 1 > PATH_MAX)
            status = hth_fail(err, HEARTH_MISUSE, "responses cannot be kept in '%.100s...': the name is too long",
                              store->directory);
        if (status == HEARTH_OK)
            status = open_directory(store, err);
        if (status == HEARTH_OK)
            status = start_thread(store, err);
    }
    if (status != HEARTH_OK) {
        hth_response_store_free(store);
        return status;
    }
    *out = store;
    return HEARTH_OK;
}

void hth_response_store_free(hth_response_store *store)
{
    hth_response_job *job, *next_job;
    entry *e, *next;
    tenant *t, *next_t;

    if (!store)
        return;
    if (store->has_thread) {
        pthread_mutex_lock(&store->lock);
        store->is_ending = true;
        pthread_cond_signal(&store->changed);
        pthread_mutex_unlock(&store->lock);
        pthread_join(store->thread, NULL);
    }
    LL_FOREACH_SAFE(store->done, job, next_job)
    job_free(job);
    HASH_CLEAR(hh, store->entries);
    DL_FOREACH_SAFE(store->by_age, e, next)
    free(e); /* also entries without a tenant yet, if listing the folder failed */
    HASH_ITER(hh, store->tenants, t, next_t)
    {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference,clang-analyzer-unix.Malloc): as in forget */
        HASH_DEL(store->tenants, t);
        free(t);
    }
    if (store->on_wake)
        event_free(store->on_wake);
    for (int i = 0; i < 2; i++)
        if (store->wake[i] >= 0)
            (void)close(store->wake[i]); /* its contents are not needed */
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    free(store->directory);
    free(store);
}
