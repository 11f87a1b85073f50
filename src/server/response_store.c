/*
 * response_store.c - see response_store.h
 *
 * The loop has the list of records, oldest first. The thread has the files. Jobs go to the thread in order, and come
 * back through a pipe that wakes the loop. A record that is not in the list is looked up on disk as well: another
 * server may have stored it.
 */
#include "server/response_store.h"

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
#include "base/os.h"
#include "base/status.h"
#include "base/whole_file.h"

enum {
    HEAD_BYTES = 16,
    RECORD_BYTES_MAX = 64 << 20,  /* of a file; far more than a record needs */
    WAITING_BYTES_MAX = 64 << 20, /* waiting to be written; records beyond it are not kept */
    DAY_S = 24 * 60 * 60,
    LEFTOVER_S = 60 * 60, /* an older temporary file has no owner */
};

static const char magic[4] = { 'H', 'R', 'F', '1' };
static const char suffix[] = ".hrr", part_suffix[] = ".part";

typedef struct entry {
    UT_hash_handle hh;
    struct entry *prev, *next; /* by age */
    uint8_t key[HTH_SHA256_BYTES];
    uint64_t stored_s;
    size_t n;
    char bytes[]; /* [n], without a directory */
} entry;

typedef enum job_kind { JOB_WRITE, JOB_READ, JOB_REMOVE } job_kind;

struct hth_response_job {
    hth_response_job *next;
    job_kind kind;
    uint8_t key[HTH_SHA256_BYTES];
    uint64_t stored_s;           /* WRITE */
    hth_response_lookup *lookup; /* READ: the loop's; NULL: nobody waits any more */
    char *bytes;                 /* READ: the record, NULL for none */
    size_t n;
    hearth_error error; /* WRITE: the failure */
    char written[];     /* WRITE: [n] */
};

struct hth_response_store {
    hth_response_store_options options;
    char *directory; /* NULL: memory */
    entry *entries;
    entry *by_age;
    uint64_t n_bytes;

    /* With a directory. */
    pthread_t thread;
    bool has_thread;
    int wake[2]; /* a pipe, read by the loop */
    struct event *on_wake;
    uint64_t n_waiting_bytes; /* the loop's */

    pthread_mutex_t lock;   /* guards the fields below */
    pthread_cond_t changed; /* to_do or is_ending */
    hth_response_job *to_do, *done;
    bool is_ending;
};

void hth_response_key(const uint8_t owner[HTH_RESPONSE_OWNER_BYTES], const char *id, size_t n_id,
                      uint8_t key[HTH_SHA256_BYTES])
{
    static const char what[] = "hearth-response-v1";
    hth_sha256 *sha = hth_sha256_new();

    memset(key, 0, HTH_SHA256_BYTES); /* without memory nobody finds it */
    if (!sha)
        return;
    hth_sha256_update(sha, what, sizeof(what));
    hth_sha256_update(sha, owner, HTH_RESPONSE_OWNER_BYTES);
    hth_sha256_update(sha, id, n_id);
    hth_sha256_peek(sha, key);
    hth_sha256_free(sha);
}

/* ---- files: the thread's ---- */

static void path_of(const hth_response_store *store, const uint8_t key[HTH_SHA256_BYTES], char path[PATH_MAX])
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
    status = hth_whole_file_begin(hth_fs_system(), path, HTH_WHOLE_FILE_REPLACE, &file, &job->error);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, head, sizeof(head), &job->error);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, job->written, job->n, &job->error);
    if (status == HEARTH_OK)
        return hth_whole_file_commit(file, &job->error);
    hth_whole_file_abort(file);
    return status;
}

/* The record in an open file. NULL if it is damaged or too old. */
static char *read_open(const hth_response_store *store, int fd, size_t *n_out)
{
    uint8_t head[HEAD_BYTES];
    hth_fs_stat stat;
    size_t n, n_read;
    char *bytes;

    if (hth_fs_stat_open(hth_fs_system(), fd, &stat) != 0 || stat.bytes < HEAD_BYTES ||
        stat.bytes - HEAD_BYTES > RECORD_BYTES_MAX ||
        hth_fs_read_full(hth_fs_system(), fd, head, sizeof(head), 0, &n_read) != 0 || n_read != sizeof(head) ||
        memcmp(head, magic, sizeof(magic)) != 0 ||
        hth_get_u64(head + 8) + (uint64_t)store->options.days_max * DAY_S < hth_os_unix_seconds())
        return NULL;
    n = (size_t)stat.bytes - HEAD_BYTES;
    bytes = malloc(n + 1);
    if (bytes && hth_fs_read_full(hth_fs_system(), fd, bytes, n, HEAD_BYTES, &n_read) == 0 && n_read == n &&
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
        (void)hth_fs_remove(hth_fs_system(), path); /* it may be gone */
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
        LL_DELETE(store->to_do, job);
        pthread_mutex_unlock(&store->lock);
        work_on(store, job);
        pthread_mutex_lock(&store->lock);
        LL_APPEND(store->done, job);
        while (write(store->wake[1], "", 1) < 0 && errno == EINTR) /* a full pipe means that the loop is awake */
            ;
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

/* ---- jobs: the loop's ---- */

static hth_response_job *job_new(job_kind kind, const uint8_t key[HTH_SHA256_BYTES], size_t n)
{
    hth_response_job *job = calloc(1, sizeof(*job) + n);

    if (!job)
        return NULL;
    job->kind = kind;
    memcpy(job->key, key, HTH_SHA256_BYTES);
    return job;
}

static void give(hth_response_store *store, hth_response_job *job)
{
    pthread_mutex_lock(&store->lock);
    LL_APPEND(store->to_do, job);
    pthread_cond_signal(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

static void job_free(hth_response_job *job)
{
    free(job->bytes);
    free(job);
}

static void take_done(hth_response_store *store, hth_response_job *job)
{
    if (job->kind == JOB_WRITE) {
        store->n_waiting_bytes -= job->n;
        if (job->error.status != HEARTH_OK)
            hth_warn(store->options.log, "a response cannot be kept: %s", job->error.message);
    } else if (job->lookup) {
        job->lookup->job = NULL;
        job->lookup->on_found(job->bytes, job->n, job->lookup->user_data);
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
            LL_DELETE(store->done, job);
        pthread_mutex_unlock(&store->lock);
        if (!job)
            return;
        take_done(store, job);
    }
}

/* ---- what is kept ---- */

/* Remove an entry and its file. */
static void drop(hth_response_store *store, entry *e)
{
    hth_response_job *job = store->directory ? job_new(JOB_REMOVE, e->key, 0) : NULL;

    if (job)
        give(store, job);        /* without memory the file stays until the server starts anew */
    HASH_DEL(store->entries, e); /* NOLINT(clang-analyzer-core.NullDereference): what is in the table has neighbours */
    DL_DELETE(store->by_age, e);
    store->n_bytes -= e->n;
    free(e);
}

static bool is_old(const hth_response_store *store, const entry *e)
{
    return e->stored_s + (uint64_t)store->options.days_max * DAY_S < hth_os_unix_seconds();
}

static void make_room(hth_response_store *store)
{
    while (store->by_age && (store->n_bytes > store->options.bytes_max || is_old(store, store->by_age)))
        drop(store, store->by_age);
}

static entry *find(hth_response_store *store, const uint8_t key[HTH_SHA256_BYTES])
{
    entry *e = NULL;

    HASH_FIND(hh, store->entries, key, HTH_SHA256_BYTES, e);
    return e;
}

static entry *entry_new(const uint8_t key[HTH_SHA256_BYTES], uint64_t stored_s, size_t n, size_t n_kept)
{
    entry *e = calloc(1, sizeof(*e) + n_kept);

    if (!e)
        return NULL;
    memcpy(e->key, key, HTH_SHA256_BYTES);
    e->stored_s = stored_s;
    e->n = n;
    return e;
}

static void add(hth_response_store *store, entry *e)
{
    HASH_ADD(hh, store->entries, key, HTH_SHA256_BYTES, e);
    DL_APPEND(store->by_age, e);
    store->n_bytes += e->n;
}

void hth_response_store_put(hth_response_store *store, const uint8_t key[HTH_SHA256_BYTES], const void *bytes, size_t n)
{
    hth_response_job *job = NULL;
    entry *e = find(store, key);

    if (e)
        drop(store, e);
    if (n > store->options.bytes_max || n > RECORD_BYTES_MAX)
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
    add(store, e);
    make_room(store);
}

void hth_response_store_remove(hth_response_store *store, const uint8_t key[HTH_SHA256_BYTES])
{
    entry *e = find(store, key);
    hth_response_job *job;

    if (e) {
        drop(store, e);
        return;
    }
    job = store->directory ? job_new(JOB_REMOVE, key, 0) : NULL; /* another server's */
    if (job)
        give(store, job);
}

void hth_response_store_find(hth_response_store *store, const uint8_t key[HTH_SHA256_BYTES],
                             hth_response_lookup *lookup)
{
    hth_response_job *job = store->directory ? job_new(JOB_READ, key, 0) : NULL;
    entry *e;

    lookup->job = job;
    if (job) {
        job->lookup = lookup;
        give(store, job);
        return;
    }
    make_room(store); /* what is too old is none */
    e = store->directory ? NULL : find(store, key);
    lookup->on_found(e ? e->bytes : NULL, e ? e->n : 0, lookup->user_data);
}

void hth_response_lookup_cancel(hth_response_lookup *lookup)
{
    if (lookup->job)
        lookup->job->lookup = NULL;
    lookup->job = NULL;
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

/* A file that was there before: a record of ours, or what a write that was broken off has left. */
static bool on_name(const char *name, void *user_data)
{
    hth_response_store *store = user_data;
    uint8_t key[HTH_SHA256_BYTES];
    char path[PATH_MAX], digits[2 * HTH_SHA256_BYTES + 1];
    hth_fs_stat stat;
    entry *e;

    if (snprintf(path, sizeof(path), "%s/%s", store->directory, name) >= (int)sizeof(path) ||
        hth_fs_stat_path(hth_fs_system(), path, &stat) != 0 || !stat.is_regular)
        return true;
    if (name[0] == '.' && ends_in(name, part_suffix) && stat.mtime + LEFTOVER_S < hth_os_unix_seconds())
        (void)hth_fs_remove(hth_fs_system(), path); /* next time, otherwise */
    if (strlen(name) != sizeof(digits) - 1 + sizeof(suffix) - 1 || !ends_in(name, suffix))
        return true;
    memcpy(digits, name, sizeof(digits) - 1);
    digits[sizeof(digits) - 1] = '\0';
    if (!hth_hex_decode(digits, key, sizeof(key)) || stat.bytes < HEAD_BYTES || stat.bytes > SIZE_MAX)
        return true;
    e = entry_new(key, stat.mtime, (size_t)stat.bytes - HEAD_BYTES, 0);
    if (e)
        add(store, e);
    return true;
}

static int by_time(const entry *a, const entry *b)
{
    return (a->stored_s > b->stored_s) - (a->stored_s < b->stored_s);
}

static hearth_status open_directory(hth_response_store *store, hearth_error *err)
{
    int failed = hth_fs_make_directory(hth_fs_system(), store->directory);

    if (failed == 0 || failed == -EEXIST)
        failed = hth_fs_list(hth_fs_system(), store->directory, on_name, store);
    if (failed)
        return hth_fail_errno(err, -failed, "responses cannot be kept in '%s'", store->directory);
    DL_SORT(store->by_age, by_time);
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
    make_room(store);
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
    store->options.directory = NULL;
    store->wake[0] = store->wake[1] = -1;
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->changed, NULL);
    if (options->directory) {
        store->directory = strdup(options->directory);
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
    free(e);
    if (store->on_wake)
        event_free(store->on_wake);
    for (int i = 0; i < 2; i++)
        if (store->wake[i] >= 0)
            (void)close(store->wake[i]); /* nothing is in it that is wanted */
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    free(store->directory);
    free(store);
}
