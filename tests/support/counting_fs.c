/*
 * counting_fs.c - a count before each operation of the system
 */
#include "support/counting_fs.h"

static void count(void *context, bool is_open)
{
    test_counting_fs *counting = context;

    if (!pthread_equal(counting->thread, pthread_self()))
        return;
    atomic_fetch_add(&counting->n_steps, 1);
    if (is_open)
        atomic_fetch_add(&counting->n_opens, 1);
}

static int counted_open(void *context, const char *path, hth_fs_mode mode)
{
    count(context, true);
    return hth_fs_system()->open(NULL, path, mode);
}

static int counted_open_unnamed(void *context, const char *directory)
{
    count(context, false);
    return hth_fs_system()->open_unnamed(NULL, directory);
}

static int counted_close(void *context, int fd)
{
    count(context, false);
    return hth_fs_system()->close(NULL, fd);
}

static int64_t counted_read_at(void *context, int fd, void *bytes, size_t n_bytes, uint64_t offset)
{
    count(context, false);
    return hth_fs_system()->read_at(NULL, fd, bytes, n_bytes, offset);
}

static int64_t counted_write(void *context, int fd, const void *bytes, size_t n_bytes)
{
    count(context, false);
    return hth_fs_system()->write(NULL, fd, bytes, n_bytes);
}

static int counted_sync_data(void *context, int fd)
{
    count(context, false);
    return hth_fs_system()->sync_data(NULL, fd);
}

static int counted_sync_directory(void *context, const char *path)
{
    count(context, false);
    return hth_fs_system()->sync_directory(NULL, path);
}

static int counted_link_unnamed(void *context, int fd, const char *path)
{
    count(context, false);
    return hth_fs_system()->link_unnamed(NULL, fd, path);
}

static int counted_link(void *context, const char *from, const char *to)
{
    count(context, false);
    return hth_fs_system()->link(NULL, from, to);
}

static int counted_rename(void *context, const char *from, const char *to)
{
    count(context, false);
    return hth_fs_system()->rename(NULL, from, to);
}

static int counted_remove(void *context, const char *path)
{
    count(context, false);
    return hth_fs_system()->remove(NULL, path);
}

static int counted_make_directory(void *context, const char *path)
{
    count(context, false);
    return hth_fs_system()->make_directory(NULL, path);
}

static int counted_stat(void *context, const char *path, hth_fs_stat *out)
{
    count(context, false);
    return hth_fs_system()->stat(NULL, path, out);
}

static int counted_stat_open(void *context, int fd, hth_fs_stat *out)
{
    count(context, false);
    return hth_fs_system()->stat_open(NULL, fd, out);
}

static int counted_set_mtime(void *context, const char *path, uint64_t unix_seconds)
{
    count(context, false);
    return hth_fs_system()->set_mtime(NULL, path, unix_seconds);
}

static int counted_list(void *context, const char *path, hth_fs_visit_fn visit, void *user_data)
{
    count(context, false);
    return hth_fs_system()->list(NULL, path, visit, user_data);
}

static int counted_free_bytes(void *context, const char *path, uint64_t *out)
{
    count(context, false);
    return hth_fs_system()->free_bytes(NULL, path, out);
}

static int counted_lock(void *context, int fd, hth_fs_lock_mode mode)
{
    count(context, false);
    return hth_fs_system()->lock(NULL, fd, mode);
}

void test_counting_fs_reset(test_counting_fs *counting)
{
    atomic_store(&counting->n_opens, 0);
    atomic_store(&counting->n_steps, 0);
}

void test_counting_fs_init(test_counting_fs *counting)
{
    counting->thread = pthread_self();
    test_counting_fs_reset(counting);
    counting->fs = (hth_fs){
        .context = counting,
        .open = counted_open,
        .open_unnamed = counted_open_unnamed,
        .close = counted_close,
        .read_at = counted_read_at,
        .write = counted_write,
        .sync_data = counted_sync_data,
        .sync_directory = counted_sync_directory,
        .link_unnamed = counted_link_unnamed,
        .link = counted_link,
        .rename = counted_rename,
        .remove = counted_remove,
        .make_directory = counted_make_directory,
        .stat = counted_stat,
        .stat_open = counted_stat_open,
        .set_mtime = counted_set_mtime,
        .list = counted_list,
        .free_bytes = counted_free_bytes,
        .lock = counted_lock,
    };
}
