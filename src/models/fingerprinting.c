/*
 * fingerprinting.c - a thread around hth_fingerprint_file
 */
#include "models/fingerprinting.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os.h"
#include "models/fingerprint.h"

struct hth_fingerprinting {
    char *path;
    char *memo_directory; /* NULL: none */
    hearth_fingerprint_mode mode;
    struct stat before; /* at the beginning; st_nlink 0: there was no file */
    hearth_work_fn on_work;
    void *work_user_data;
    hth_fingerprint_watch watch;
    atomic_bool is_waited_for;

    pthread_t thread;
    bool has_thread; /* join it */

    /* The thread writes these; read them after joining it. */
    hearth_status status;
    hearth_error err;
    hth_fingerprint found;
};

static void note(const hth_fingerprinting *f, hearth_work_kind kind)
{
    const hearth_work work = { .struct_size = sizeof(work), .kind = kind };

    if (f->on_work)
        f->on_work(&work, f->work_user_data);
}

static void on_piece(void *user_data)
{
    const hth_fingerprinting *f = user_data;

    if (atomic_load_explicit(&f->is_waited_for, memory_order_relaxed))
        note(f, HEARTH_WORK_BEGINS);
}

static void make(hth_fingerprinting *f)
{
    f->status = hth_fingerprint_file(f->path, f->mode, f->memo_directory, &f->watch, &f->found, &f->err);
}

static void *run(void *context)
{
    hth_os_thread_name("hearth-finger");
    make(context);
    return NULL;
}

hearth_status hth_fingerprinting_new(const char *path, hearth_fingerprint_mode mode, const char *memo_directory,
                                     hearth_work_fn on_work, void *work_user_data, hth_fingerprinting **out,
                                     hearth_error *err)
{
    hth_fingerprinting *f = calloc(1, sizeof(*f));

    if (f) {
        f->path = strdup(path);
        f->memo_directory = memo_directory ? strdup(memo_directory) : NULL;
    }
    if (!f || !f->path || (memo_directory && !f->memo_directory)) {
        hth_fingerprinting_free(f);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to fingerprint '%s'", path);
    }
    f->mode = mode;
    f->on_work = on_work;
    f->work_user_data = work_user_data;
    f->watch.on_piece = on_piece;
    f->watch.user_data = f;
    if (stat(path, &f->before) != 0)
        f->before = (struct stat){ .st_nlink = 0 };
    f->has_thread = pthread_create(&f->thread, NULL, run, f) == 0; /* else hth_fingerprinting_wait does the work */
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
    free(f->memo_directory);
    free(f->path);
    free(f);
}

void hth_fingerprinting_cancel(hth_fingerprinting *f)
{
    atomic_store_explicit(&f->watch.is_cancelled, true, memory_order_relaxed);
}

/* Is it the same file, with the same size and times? */
static bool is_unchanged(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           hth_os_mtime_ns(a) == hth_os_mtime_ns(b) && hth_os_ctime_ns(a) == hth_os_ctime_ns(b);
}

hearth_status hth_fingerprinting_wait(hth_fingerprinting *f, uint8_t out[32], hearth_error *err)
{
    struct stat now;

    note(f, HEARTH_WORK_BEGINS);
    atomic_store_explicit(&f->is_waited_for, true, memory_order_relaxed);
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
    if (!is_unchanged(&f->before, &f->found.file) || stat(f->path, &now) != 0 || !is_unchanged(&f->before, &now))
        return hth_fail(err, HEARTH_IO, "'%s' changed while it was loaded; load it again", f->path);
    memcpy(out, f->found.bytes, sizeof(f->found.bytes));
    return HEARTH_OK;
}
