/*
 * history_files.c - see history_files.h
 */
#include "cache/history_files.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/deadline.h"
#include "base/grow.h"
#include "base/os.h"
#include "cache/directory.h"

enum {
    BATCH_BYTES = 1 << 20, /* of one write, and one entry more */
    FILES_MANY = 16,
    FILES_MAX = 4096, /* more are not read */
    NAME_DIGITS = 16,
    PATH_BYTES = 4096,
};

static const char suffix[] = ".history";

struct hth_history_files {
    /* Fixed. */
    hth_history *history;
    char *directory;
    size_t bytes_max;
    hth_history_text_fn text_of;
    void *user_data;
    const hth_signing_key *key;
    const hth_fs *fs;
    const hth_log *log;

    /* Of the thread; of the opening before. */
    uint64_t *numbers; /* [n_numbers], ascending: files that were read or written, and are not removed */
    size_t n_numbers, numbers_capacity;
    uint64_t n_bytes; /* of these files */
    int fd;           /* the file that is written; -1: none */
    bool has_warned;
    uint8_t *batch; /* [n_batch] */
    size_t n_batch, batch_capacity;

    pthread_t thread;
    /* Guards the fields below. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_new;
    bool is_writing;
    bool is_closing;
    bool has_ended;
};

static void path_of(const hth_history_files *files, uint64_t number, char *path, size_t capacity)
{
    (void)snprintf(path, capacity, "%s/%016" PRIx64 "%s", files->directory, number, suffix); /* checked at opening */
}

/* ---- reading ---- */

/* hth_fs_visit_fn */
static bool note_name(const char *name, void *user_data)
{
    hth_history_files *files = user_data;
    uint64_t number, *grown;
    char *end;

    if (strlen(name) != NAME_DIGITS + sizeof(suffix) - 1 || strcmp(name + NAME_DIGITS, suffix) != 0)
        return true;
    number = strtoull(name, &end, 16);
    grown = end == name + NAME_DIGITS
              ? hth_grown(files->numbers, files->n_numbers, &files->numbers_capacity, sizeof(*grown))
              : NULL;
    if (grown) {
        files->numbers = grown;
        files->numbers[files->n_numbers++] = number;
    }
    return files->n_numbers < FILES_MAX;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Add the record of an entry, if its tokens have the text that they had. */
static void add_entry(const hth_history_files *files, const hth_history_entry *entry)
{
    hth_history_record record = {
        .space = entry->space,
        .below = entry->below,
        .tokens = entry->tokens,
        .n_tokens = entry->n_tokens,
    };
    char *text = files->text_of(entry->tokens, entry->n_tokens, entry->form, &record.n_bytes, files->user_data);
    hth_history_digest digest;

    record.text = text;
    if (text && hth_history_digest_of(&record, &digest) && memcmp(&digest, &entry->digest, sizeof(digest)) == 0)
        hth_history_add_record(files->history, &record);
    free(text);
}

static void read_entries(const hth_history_files *files, const uint8_t *bytes, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes;) {
        hth_history_entry entry;
        size_t n = hth_history_entry_read(bytes + at, n_bytes - at, files->key, &entry);

        if (n > 0) {
            add_entry(files, &entry);
            free(entry.tokens);
        } else {
            n = hth_history_entry_next(bytes + at, n_bytes - at);
        }
        at += n;
    }
}

/* A file that cannot be read costs what is in it. */
static void read_file(hth_history_files *files, uint64_t number)
{
    char path[PATH_BYTES];
    hth_fs_stat st;
    uint8_t *bytes = NULL;
    size_t n = 0;
    int fd;

    path_of(files, number, path, sizeof(path));
    fd = hth_fs_open(files->fs, path, HTH_FS_READ);
    if (fd < 0)
        return;
    if (hth_fs_stat_open(files->fs, fd, &st) == 0 && st.is_regular && st.bytes <= 8 * (uint64_t)files->bytes_max)
        bytes = malloc(st.bytes ? (size_t)st.bytes : 1);
    if (bytes && hth_fs_read_full(files->fs, fd, bytes, (size_t)st.bytes, 0, &n) == 0)
        read_entries(files, bytes, n);
    files->n_bytes += n;
    free(bytes);
    hth_fs_close(files->fs, fd);
}

static void read_all(hth_history_files *files)
{
    (void)hth_fs_list(files->fs, files->directory, note_name, files); /* what cannot be listed is not read */
    if (files->n_numbers > 0)
        qsort(files->numbers, files->n_numbers, sizeof(*files->numbers), compare_numbers);
    for (size_t i = 0; i < files->n_numbers; i++)
        read_file(files, files->numbers[i]);
}

/* ---- writing ---- */

static void warn_once(hth_history_files *files, const char *what, int error)
{
    if (!files->has_warned)
        hth_warn(files->log, "%s in '%s': %s; what is not written is tokenized again after a restart", what,
                 files->directory, strerror(-error));
    files->has_warned = true;
}

/* Make the folder, and the one above it, if they are missing. */
static int make_folder(const hth_history_files *files)
{
    char above[PATH_BYTES];
    char *slash;
    int result;

    (void)snprintf(above, sizeof(above), "%s", files->directory); /* checked at opening */
    slash = strrchr(above, '/');
    if (slash && slash > above) {
        *slash = '\0';
        (void)hth_fs_make_directory(files->fs, above); /* the next call tells what is wrong */
    }
    result = hth_fs_make_directory(files->fs, files->directory);
    return result == -EEXIST ? 0 : result;
}

/* Make the next file and lock it. */
static bool begin_file(hth_history_files *files)
{
    uint64_t number = files->n_numbers > 0 ? files->numbers[files->n_numbers - 1] : 0;
    uint64_t *grown = hth_grown(files->numbers, files->n_numbers, &files->numbers_capacity, sizeof(*grown));
    int fd = make_folder(files);
    char path[PATH_BYTES];

    if (!grown)
        return false;
    files->numbers = grown;
    if (fd == 0)
        fd = -EEXIST;
    for (int i = 0; i < FILES_MAX && fd == -EEXIST; i++) {
        path_of(files, ++number, path, sizeof(path));
        fd = hth_fs_open(files->fs, path, HTH_FS_CREATE);
    }
    if (fd < 0) {
        warn_once(files, "cannot make a file for the history of tokens", fd);
        return false;
    }
    (void)hth_fs_lock(files->fs, fd, HTH_FS_LOCK_TRY); /* it is new; without locks others remove it early */
    files->numbers[files->n_numbers++] = number;
    files->fd = fd;
    return true;
}

static void end_file(hth_history_files *files)
{
    if (files->fd >= 0)
        hth_fs_close(files->fs, files->fd);
    files->fd = -1;
}

/* hth_history_record_fn: append to the batch */
static bool put_entry(const hth_history_record *record, void *user_data)
{
    hth_history_files *files = user_data;
    size_t n = hth_history_entry_bytes(record->n_tokens, files->key != NULL);
    uint8_t *grown;

    if (files->n_batch > 0 && files->n_batch + n > BATCH_BYTES)
        return false;
    grown = hth_grown_by(files->batch, files->n_batch, n, &files->batch_capacity, 1);
    if (!grown)
        return true; /* passed over */
    files->batch = grown;
    if (hth_history_entry_write(record, files->key, files->text_of, files->user_data, files->batch + files->n_batch))
        files->n_batch += n;
    return true;
}

/* Write all that is new. An entry that a failure cuts off is passed over by readers, so the file can go on. */
static bool write_new(hth_history_files *files)
{
    int result = 0;

    for (;;) {
        files->n_batch = 0;
        hth_history_take_new(files->history, put_entry, files);
        if (files->n_batch == 0)
            return result == 0;
        if (files->fd < 0 && !begin_file(files))
            return false;
        result = hth_fs_write_all(files->fs, files->fd, files->batch, files->n_batch);
        if (result == 0)
            files->n_bytes += files->n_batch;
        else
            warn_once(files, "cannot write the history of tokens", result);
    }
}

static bool has_ended(const hth_history_files *files, const char *path)
{
    int fd = hth_fs_open(files->fs, path, HTH_FS_READ), locked;

    if (fd < 0)
        return fd == -ENOENT;
    locked = hth_fs_lock(files->fs, fd, HTH_FS_LOCK_PROBE);
    hth_fs_close(files->fs, fd);
    return locked == 0;
}

/* Write everything to one new file, and remove the files that are superfluous then. */
static void compact(hth_history_files *files)
{
    size_t n_before = files->n_numbers, n_kept = 0;
    char path[PATH_BYTES];

    end_file(files);
    files->n_bytes = 0;
    hth_history_all_are_new(files->history);
    if (!begin_file(files) || !write_new(files) || hth_fs_sync_data(files->fs, files->fd) != 0 ||
        hth_fs_sync_directory(files->fs, files->directory) != 0)
        return;
    for (size_t i = 0; i < files->n_numbers; i++) {
        path_of(files, files->numbers[i], path, sizeof(path));
        if (i >= n_before || !has_ended(files, path))
            files->numbers[n_kept++] = files->numbers[i];
        else
            (void)hth_fs_remove(files->fs, path); /* a file that stays is read again, no more */
    }
    files->n_numbers = n_kept;
}

static bool is_large(const hth_history_files *files)
{
    return files->n_bytes > 2 * (uint64_t)files->bytes_max || files->n_numbers > FILES_MANY;
}

static void *run(void *user_data)
{
    hth_history_files *files = user_data;
    bool goes_on = true;

    hth_os_thread_name("hearth-history");
    pthread_mutex_lock(&files->lock);
    while (goes_on) {
        while (!files->has_new && !files->is_closing)
            pthread_cond_wait(&files->changed, &files->lock);
        goes_on = !files->is_closing;
        files->has_new = false;
        files->is_writing = true;
        pthread_mutex_unlock(&files->lock);
        (void)write_new(files); /* a failure was told */
        if (is_large(files))
            compact(files);
        pthread_mutex_lock(&files->lock);
        files->is_writing = false;
        pthread_cond_broadcast(&files->changed);
    }
    files->has_ended = true;
    pthread_cond_broadcast(&files->changed);
    pthread_mutex_unlock(&files->lock);
    return NULL;
}

/* ---- from other threads ---- */

static void files_free(hth_history_files *files)
{
    end_file(files);
    pthread_cond_destroy(&files->changed);
    pthread_mutex_destroy(&files->lock);
    free(files->batch);
    free(files->numbers);
    free(files->directory);
    free(files);
}

/* A folder that is not there yet is made with the first file. */
static hearth_status check_folder(const hth_history_files *files, hearth_error *err)
{
    hth_fs_stat st;

    if (strlen(files->directory) + NAME_DIGITS + sizeof(suffix) + 1 > PATH_BYTES)
        return hth_fail(err, HEARTH_MISUSE, "the path '%.100s...' is too long", files->directory);
    if (hth_fs_stat_path(files->fs, files->directory, &st) == -ENOENT)
        return HEARTH_OK;
    return hth_directory_check(files->fs, files->directory, NULL, err);
}

hearth_status hth_history_files_open(const hth_history_files_options *options, hth_history_files **out,
                                     hearth_error *err)
{
    hth_history_files *files = calloc(1, sizeof(*files));
    hearth_status status;
    int failed;

    if (!files || !(files->directory = strdup(options->directory))) {
        free(files);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the history of tokens");
    }
    files->history = options->history;
    files->bytes_max = options->bytes_max;
    files->text_of = options->text_of;
    files->user_data = options->user_data;
    files->key = options->key;
    files->fs = options->fs ? options->fs : hth_fs_system();
    files->log = options->log;
    files->fd = -1;
    pthread_mutex_init(&files->lock, NULL);
    hth_condition_init(&files->changed);
    status = check_folder(files, err);
    if (status == HEARTH_OK) {
        read_all(files);
        failed = pthread_create(&files->thread, NULL, run, files);
        if (failed)
            status = hth_fail_errno(err, failed, "cannot start a thread for the history of tokens");
    }
    if (status != HEARTH_OK) {
        files_free(files);
        return status;
    }
    *out = files;
    return HEARTH_OK;
}

void hth_history_files_wake(hth_history_files *files)
{
    if (!files)
        return;
    pthread_mutex_lock(&files->lock);
    files->has_new = true;
    pthread_cond_broadcast(&files->changed);
    pthread_mutex_unlock(&files->lock);
}

static bool is_idle(const hth_history_files *files)
{
    return !files->has_new && !files->is_writing;
}

static bool wait_until(hth_history_files *files, uint32_t timeout_ms, bool (*holds)(const hth_history_files *))
{
    struct timespec deadline = hth_deadline_after(timeout_ms);
    int result = 0;
    bool ok;

    while (!holds(files) && result == 0)
        result = pthread_cond_timedwait(&files->changed, &files->lock, &deadline);
    ok = holds(files);
    pthread_mutex_unlock(&files->lock);
    return ok;
}

bool hth_history_files_flush(hth_history_files *files, uint32_t timeout_ms)
{
    pthread_mutex_lock(&files->lock);
    return wait_until(files, timeout_ms, is_idle);
}

static bool thread_has_ended(const hth_history_files *files)
{
    return files->has_ended;
}

bool hth_history_files_close(hth_history_files *files, uint32_t timeout_ms)
{
    if (!files)
        return true;
    pthread_mutex_lock(&files->lock);
    files->is_closing = true;
    pthread_cond_broadcast(&files->changed);
    if (!wait_until(files, timeout_ms, thread_has_ended)) {
        (void)pthread_detach(files->thread);
        return false;
    }
    pthread_join(files->thread, NULL);
    files_free(files);
    return true;
}
