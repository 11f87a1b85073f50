/*
 * fingerprinting.c - see fingerprinting.h
 */
#include "models/fingerprinting.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/gguf_name.h"
#include "base/hash.h"
#include "base/os.h"

enum {
    TELL_MS = 100, /* between two progress reports */
};

struct hth_fingerprinting {
    char *path;
    char *memo_directory; /* NULL: none */
    hth_fingerprint_options options;
    hearth_work_fn on_work;
    void *work_user_data;
    hth_fingerprint_watch watch;
    atomic_bool is_waited_for;
    uint64_t bytes;                  /* of all parts */
    uint64_t bytes_before;           /* of the parts before the one that is read; the thread's */
    atomic_uint_fast64_t bytes_read; /* of all parts */

    pthread_mutex_t lock; /* guards has_ended */
    pthread_cond_t ended;
    bool has_ended;

    pthread_t thread;
    bool has_thread; /* join it */

    /* The thread writes these; read them after joining it. */
    hearth_status status;
    hearth_error err;
    uint8_t found[HTH_SHA256_BYTES];

    unsigned n_parts;     /* 1: one file */
    struct stat before[]; /* [n_parts], at the beginning; st_nlink 0: no file */
};

/* The parts of the split model whose first part is at path. A part that is missing is an error of the engine. */
static unsigned count_parts(const char *path)
{
    const unsigned n = hth_gguf_n_files(path);
    char buffer[HTH_GGUF_PATH_BYTES];

    for (unsigned i = 1; i < n; i++)
        if (access(hth_gguf_file(path, i, buffer), F_OK) != 0)
            return 1;
    return n;
}

/* The path of part i, counted from 0; also for a single file. */
static const char *part_at(const hth_fingerprinting *f, unsigned i, char buffer[HTH_GGUF_PATH_BYTES])
{
    return f->n_parts == 1 ? f->path : hth_gguf_file(f->path, i, buffer);
}

/* Is it the same file, with the same size and times? */
static bool is_unchanged(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           hth_os_mtime_ns(a) == hth_os_mtime_ns(b) && hth_os_ctime_ns(a) == hth_os_ctime_ns(b);
}

static hearth_status fail_changed(const char *path, hearth_error *err)
{
    return hth_fail(err, HEARTH_IO, "'%s' changed while it was loaded; load it again", path);
}

static void note(const hth_fingerprinting *f, hearth_work_kind kind)
{
    const hearth_work work = { .struct_size = sizeof(work), .kind = kind };

    if (f->on_work)
        f->on_work(&work, f->work_user_data);
}

static void on_piece(uint64_t offset, void *user_data)
{
    hth_fingerprinting *f = user_data;

    atomic_store_explicit(&f->bytes_read, f->bytes_before + offset, memory_order_relaxed);
    if (atomic_load_explicit(&f->is_waited_for, memory_order_relaxed))
        note(f, HEARTH_WORK_BEGINS);
}

static hearth_status make_part(hth_fingerprinting *f, unsigned i, uint8_t out[HTH_SHA256_BYTES])
{
    char buffer[HTH_GGUF_PATH_BYTES];
    const char *path = part_at(f, i, buffer);
    hth_fingerprint found;
    const hearth_status status = hth_fingerprint_file(path, &f->options, &found, &f->err);

    if (status != HEARTH_OK)
        return status;
    if (!is_unchanged(&f->before[i], &found.file))
        return fail_changed(path, &f->err);
    memcpy(out, found.bytes, sizeof(found.bytes));
    return HEARTH_OK;
}

static hearth_status make_split(hth_fingerprinting *f)
{
    static const char domain[] = "hearth-split-v1";
    hearth_status status = HEARTH_OK;
    hth_sha256 *sha = hth_sha256_new();
    uint8_t n_parts[8], digest[HTH_SHA256_BYTES];

    if (!sha)
        return hth_fail(&f->err, HEARTH_NO_MEMORY, "no memory to fingerprint '%s'", f->path);
    hth_put_u64(n_parts, f->n_parts);
    hth_sha256_update(sha, domain, sizeof(domain) - 1);
    hth_sha256_update(sha, n_parts, sizeof(n_parts));
    for (unsigned i = 0; i < f->n_parts && status == HEARTH_OK; i++) {
        status = make_part(f, i, digest);
        f->bytes_before += (uint64_t)f->before[i].st_size;
        hth_sha256_update(sha, digest, sizeof(digest));
    }
    hth_sha256_peek(sha, f->found);
    hth_sha256_free(sha);
    return status;
}

static void make(hth_fingerprinting *f)
{
    f->status = f->n_parts == 1 ? make_part(f, 0, f->found) : make_split(f);
    atomic_store_explicit(&f->bytes_read, f->bytes, memory_order_relaxed);
    pthread_mutex_lock(&f->lock);
    f->has_ended = true;
    pthread_cond_signal(&f->ended);
    pthread_mutex_unlock(&f->lock);
}

static void *run(void *context)
{
    hth_os_thread_name("hearth-finger");
    make(context);
    return NULL;
}

hearth_status hth_fingerprinting_new(const char *path, const hth_fingerprint_options *options, hearth_work_fn on_work,
                                     void *work_user_data, hth_fingerprinting **out, hearth_error *err)
{
    const unsigned n_parts = count_parts(path);
    hth_fingerprinting *f = calloc(1, sizeof(*f) + n_parts * sizeof(f->before[0]));

    if (f) {
        pthread_mutex_init(&f->lock, NULL);
        hth_condition_init(&f->ended);
        f->path = strdup(path);
        f->memo_directory = options->memo_directory ? strdup(options->memo_directory) : NULL;
    }
    if (!f || !f->path || (options->memo_directory && !f->memo_directory)) {
        hth_fingerprinting_free(f);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to fingerprint '%s'", path);
    }
    f->options = *options;
    f->options.memo_directory = f->memo_directory;
    f->options.watch = &f->watch;
    f->on_work = on_work;
    f->work_user_data = work_user_data;
    f->watch.on_piece = on_piece;
    f->watch.user_data = f;
    assert(n_parts > 0);
    f->n_parts = n_parts;
    for (unsigned i = 0; i < n_parts; i++) {
        char buffer[HTH_GGUF_PATH_BYTES];

        if (stat(part_at(f, i, buffer), &f->before[i]) != 0)
            f->before[i] = (struct stat){ .st_nlink = 0 };
        f->bytes += (uint64_t)f->before[i].st_size;
    }
    f->has_thread = pthread_create(&f->thread, NULL, run, f) == 0; /* otherwise hth_fingerprinting_wait does the work */
    *out = f;
    return HEARTH_OK;
}

void hth_fingerprinting_free(hth_fingerprinting *f)
{
    if (!f)
        return;
    hth_fingerprinting_cancel(f);
    if (f->has_thread)
        pthread_join(f->thread, NULL);
    pthread_cond_destroy(&f->ended);
    pthread_mutex_destroy(&f->lock);
    free(f->memo_directory);
    free(f->path);
    free(f);
}

void hth_fingerprinting_cancel(hth_fingerprinting *f)
{
    atomic_store_explicit(&f->watch.is_cancelled, true, memory_order_relaxed);
}

/* Are the files the same as at the beginning? */
static hearth_status check_files(const hth_fingerprinting *f, hearth_error *err)
{
    struct stat now;

    for (unsigned i = 0; i < f->n_parts; i++) {
        char buffer[HTH_GGUF_PATH_BYTES];
        const char *path = part_at(f, i, buffer);

        if (stat(path, &now) != 0 || !is_unchanged(&f->before[i], &now))
            return fail_changed(path, err);
    }
    return count_parts(f->path) == f->n_parts ? HEARTH_OK : fail_changed(f->path, err);
}

float hth_fingerprinting_fraction(const hth_fingerprinting *f)
{
    const uint64_t bytes_read = atomic_load_explicit(&f->bytes_read, memory_order_relaxed);

    return bytes_read < f->bytes ? (float)bytes_read / (float)f->bytes : 1;
}

/* Report progress until the thread has ended. */
static void tell_until_end(hth_fingerprinting *f, hearth_load_progress_fn progress, void *user_data)
{
    bool has_ended = false;

    while (!has_ended) {
        const struct timespec then = hth_deadline_after(TELL_MS);

        if (!progress(hth_fingerprinting_fraction(f), user_data))
            hth_fingerprinting_cancel(f);
        pthread_mutex_lock(&f->lock);
        if (!f->has_ended)
            (void)pthread_cond_timedwait(&f->ended, &f->lock, &then); /* the loop checks again */
        has_ended = f->has_ended;
        pthread_mutex_unlock(&f->lock);
    }
}

hearth_status hth_fingerprinting_wait(hth_fingerprinting *f, hearth_load_progress_fn progress, void *user_data,
                                      uint8_t out[32], hearth_error *err)
{
    hearth_status status;

    note(f, HEARTH_WORK_BEGINS);
    atomic_store_explicit(&f->is_waited_for, true, memory_order_relaxed);
    if (f->has_thread && progress)
        tell_until_end(f, progress, user_data);
    if (f->has_thread)
        pthread_join(f->thread, NULL);
    else
        make(f);
    f->has_thread = false;
    note(f, HEARTH_WORK_ENDS);
    if (f->status != HEARTH_OK) {
        if (err)
            *err = f->err;
        return f->status;
    }
    status = check_files(f, err);
    if (status == HEARTH_OK && progress && !progress(1, user_data))
        status = hth_fail(err, HEARTH_CANCELLED, "loading '%s' was cancelled", f->path);
    if (status == HEARTH_OK)
        memcpy(out, f->found, sizeof(f->found));
    return status;
}
