/*
 * step_fs.c - the system's file operations, with a test in between
 */
#include "support/step_fs.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Count a step; 0 to go on, or the error to answer with. kill_out (for writes): the process is to end in this step. */
static int step(test_step_fs *s, const char *name, bool *kill_out)
{
    uint64_t n, fail_at = atomic_load(&s->fail_at);

    if (s->fail_only && strcmp(name, s->fail_only) != 0)
        return 0;
    n = atomic_fetch_add(&s->n_steps, 1) + 1;
    if (n == s->kill_at) {
        if (kill_out)
            *kill_out = true;
        else
            (void)kill(getpid(), SIGKILL);
    }
    if (n == s->stop_at)
        (void)kill(getpid(), SIGSTOP);
    if (fail_at > 0 && (n == fail_at || (s->fail_from_then_on && n > fail_at)))
        return -s->fail_errnum;
    return 0;
}

static int step_open(void *context, const char *path, hth_fs_mode mode)
{
    test_step_fs *s = context;
    int rc = step(s, "open", NULL);

    return rc ? rc : s->below->open(s->below->context, path, mode);
}

static int step_open_unnamed(void *context, const char *directory)
{
    test_step_fs *s = context;
    int rc = step(s, "open_unnamed", NULL);

    if (s->no_unnamed)
        return -ENOTSUP;
    return rc ? rc : s->below->open_unnamed(s->below->context, directory);
}

/* Not a step: nothing depends on it, and failing would leak the descriptor in the test itself. */
static int step_close(void *context, int fd)
{
    test_step_fs *s = context;

    return s->below->close(s->below->context, fd);
}

static size_t cut(const test_step_fs *s, size_t n_bytes)
{
    return s->short_io && n_bytes > 1 ? (n_bytes + 2) / 3 : n_bytes;
}

static int64_t step_read_at(void *context, int fd, void *bytes, size_t n_bytes, uint64_t offset)
{
    test_step_fs *s = context;
    int rc = step(s, "read_at", NULL);

    return rc ? rc : s->below->read_at(s->below->context, fd, bytes, cut(s, n_bytes), offset);
}

static int64_t step_write(void *context, int fd, const void *bytes, size_t n_bytes)
{
    test_step_fs *s = context;
    bool dying = false;
    int rc = step(s, "write", &dying);

    if (dying) {
        (void)s->below->write(s->below->context, fd, bytes, n_bytes / 2);
        (void)kill(getpid(), SIGKILL);
    }
    return rc ? rc : s->below->write(s->below->context, fd, bytes, cut(s, n_bytes));
}

static int step_sync_data(void *context, int fd)
{
    test_step_fs *s = context;
    int rc = step(s, "sync_data", NULL);

    return rc ? rc : s->below->sync_data(s->below->context, fd);
}

static int step_sync_directory(void *context, const char *path)
{
    test_step_fs *s = context;
    int rc = step(s, "sync_directory", NULL);

    return rc ? rc : s->below->sync_directory(s->below->context, path);
}

static int step_link_unnamed(void *context, int fd, const char *path)
{
    test_step_fs *s = context;
    int rc = step(s, "link_unnamed", NULL);

    return rc ? rc : s->below->link_unnamed(s->below->context, fd, path);
}

static int step_link(void *context, const char *from, const char *to)
{
    test_step_fs *s = context;
    int rc = step(s, "link", NULL);

    if (s->no_link)
        return -EPERM;
    return rc ? rc : s->below->link(s->below->context, from, to);
}

static int step_rename(void *context, const char *from, const char *to)
{
    test_step_fs *s = context;
    int rc = step(s, "rename", NULL);

    return rc ? rc : s->below->rename(s->below->context, from, to);
}

static int step_remove(void *context, const char *path)
{
    test_step_fs *s = context;
    int rc = step(s, "remove", NULL);

    return rc ? rc : s->below->remove(s->below->context, path);
}

static int step_make_directory(void *context, const char *path)
{
    test_step_fs *s = context;
    int rc = step(s, "make_directory", NULL);

    return rc ? rc : s->below->make_directory(s->below->context, path);
}

static int step_stat(void *context, const char *path, hth_fs_stat *out)
{
    test_step_fs *s = context;
    int rc = step(s, "stat", NULL);

    return rc ? rc : s->below->stat(s->below->context, path, out);
}

static int step_stat_open(void *context, int fd, hth_fs_stat *out)
{
    test_step_fs *s = context;
    int rc = step(s, "stat_open", NULL);

    return rc ? rc : s->below->stat_open(s->below->context, fd, out);
}

static int step_set_mtime(void *context, const char *path, uint64_t unix_seconds)
{
    test_step_fs *s = context;
    int rc = step(s, "set_mtime", NULL);

    return rc ? rc : s->below->set_mtime(s->below->context, path, unix_seconds);
}

static int step_list(void *context, const char *path, hth_fs_visit_fn visit, void *user_data)
{
    test_step_fs *s = context;
    int rc = step(s, "list", NULL);

    /* Not interrupted: readdir is no such call. */
    return rc && rc != -EINTR ? rc : s->below->list(s->below->context, path, visit, user_data);
}

static int step_free_bytes(void *context, const char *path, uint64_t *out)
{
    test_step_fs *s = context;
    int rc = step(s, "free_bytes", NULL);

    if (rc == 0)
        rc = s->below->free_bytes(s->below->context, path, out);
    if (rc == 0 && s->no_device_space)
        *out = 0;
    return rc;
}

static int step_lock(void *context, int fd, hth_fs_lock_mode mode)
{
    test_step_fs *s = context;
    int rc = step(s, "lock", NULL);

    return rc ? rc : s->below->lock(s->below->context, fd, mode);
}

static void step_step(void *context, const char *label)
{
    test_step_fs *s = context;

    (void)step(s, label, NULL); /* a place to be killed at; it cannot fail */
}

void test_step_fs_init(test_step_fs *s, const hth_fs *below)
{
    *s = (test_step_fs){ .below = below ? below : hth_fs_system() };
    s->fs = (hth_fs){
        .context = s,
        .open = step_open,
        .open_unnamed = step_open_unnamed,
        .close = step_close,
        .read_at = step_read_at,
        .write = step_write,
        .sync_data = step_sync_data,
        .sync_directory = step_sync_directory,
        .link_unnamed = step_link_unnamed,
        .link = step_link,
        .rename = step_rename,
        .remove = step_remove,
        .make_directory = step_make_directory,
        .stat = step_stat,
        .stat_open = step_stat_open,
        .set_mtime = step_set_mtime,
        .list = step_list,
        .free_bytes = step_free_bytes,
        .lock = step_lock,
        .step = step_step,
    };
}
