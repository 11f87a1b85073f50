#include "history/history_files.h"

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
#include "rows/directory.h"

#define SUFFIX ".history"

enum {
    BATCH_BYTES = 1 << 20, /* per write, plus one entry */
    FILES_MANY = 16,
    FILES_MAX = 4096, /* more are not read */
    FOLDERS_TIMES = 4,
    PATH_BYTES = 4096,
    NAME_DIGITS = 16,
    NAME_BYTES = NAME_DIGITS + sizeof(SUFFIX), /* with the terminating NUL */
    FOLDERS_MAX = 4096,
    FOLDER_NAME_BYTES = 256,
    FILES_OF_ALL_MAX = 65536,
};

typedef enum file_state {
    FILE_UNREAD,  /* not read yet, or could not be read */
    FILE_READ,    /* its records are in the history */
    FILE_FOREIGN, /* of no use to us: entries of another key, or not a history */
    FILE_GONE,
} file_state;

typedef struct file {
    uint64_t number;
    uint64_t n_bytes; /* bytes that were read or written */
    file_state state;
} file;

struct hth_history_files {
    /* Fixed. */
    hth_history_files_options options; /* fs is never NULL */
    char *directory;

    /* Used by the thread; before that, by the opening. */
    file *items; /* [n_items], by their numbers; the last one is written if there is an fd */
    size_t n_items, capacity;
    uint64_t bytes_limit; /* above this, or with too many files, they are merged into one */
    size_t files_limit;
    int fd; /* the file being written; -1: none */
    bool has_written;
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

/* The number in the name of a file. False: not a file of a history. */
static bool file_number(const char *name, uint64_t *out)
{
    if (strlen(name) != NAME_BYTES - 1 || strspn(name, "0123456789abcdef") != NAME_DIGITS ||
        strcmp(name + NAME_DIGITS, SUFFIX) != 0)
        return false;
    *out = strtoull(name, NULL, 16);
    return true;
}

static void path_of(const hth_history_files *files, uint64_t number, char *path, size_t capacity)
{
    (void)snprintf(path, capacity, "%s/%016" PRIx64 SUFFIX, files->directory, number); /* checked at opening */
}

static uint64_t sum_of_bytes(const hth_history_files *files)
{
    uint64_t n = 0;

    for (size_t i = 0; i < files->n_items; i++)
        n += files->items[i].n_bytes;
    return n;
}

/* From now on, merge the files only after as much again was added: what stays now would also stay then. */
static void set_limits(hth_history_files *files)
{
    uint64_t n_bytes = sum_of_bytes(files) + files->options.bytes_max, least = 2 * (uint64_t)files->options.bytes_max;

    files->bytes_limit = n_bytes > least ? n_bytes : least;
    files->files_limit = files->n_items + FILES_MANY;
}

/* ---- reading ---- */

static bool add_item(hth_history_files *files, uint64_t number)
{
    file *grown = hth_grown(files->items, files->n_items, &files->capacity, sizeof(*grown));

    if (!grown)
        return false;
    files->items = grown;
    files->items[files->n_items++] = (file){ .number = number };
    return true;
}

/* hth_fs_visit_fn */
static bool note_name(const char *name, void *user_data)
{
    hth_history_files *files = user_data;
    uint64_t number;

    if (file_number(name, &number))
        (void)add_item(files, number); /* without memory it is not read */
    return files->n_items < FILES_MAX;
}

static int compare_items(const void *a, const void *b)
{
    uint64_t x = ((const file *)a)->number, y = ((const file *)b)->number;

    return (x > y) - (x < y);
}

/* Add the record of an entry, if it can have these tokens and they still give the same text. */
static void add_entry(const hth_history_files *files, const hth_history_entry *entry)
{
    hth_history_record record = entry->record;
    hth_history_end before;
    const hth_history_span span = {
        .space = &record.space, .before = &before, .tokens = record.tokens, .n_tokens = record.n_tokens
    };
    hth_history_digest digest;
    char *text;

    if (!hth_history_end_of(files->options.history, &record.space, &record.below, &before))
        return;
    text = files->options.text_of(&span, entry->form, &record.n_bytes, files->options.user_data);
    record.text = text;
    if (text && hth_history_digest_of(&record, &digest) && memcmp(&digest, &entry->digest, sizeof(digest)) == 0)
        hth_history_add_record(files->options.history, &record, &digest);
    free(text);
}

static file_state read_entries(const hth_history_files *files, const uint8_t *bytes, size_t n_bytes)
{
    hth_history_reader reader = { .bytes = bytes, .n_bytes = n_bytes, .key = files->options.key };
    hth_history_entry entry;
    size_t n_sound = 0;

    for (; hth_history_reader_next(&reader, &entry); n_sound++) {
        add_entry(files, &entry);
        free(entry.tokens);
    }
    if (reader.has_no_memory)
        return FILE_UNREAD;
    return reader.has_given_up || (n_sound == 0 && n_bytes > 0) ? FILE_FOREIGN : FILE_READ;
}

static file_state read_open(hth_history_files *files, int fd, uint64_t *n_out)
{
    file_state state = FILE_UNREAD;
    uint8_t *bytes = NULL;
    hth_fs_stat st;
    size_t n = 0;

    if (hth_fs_stat_open(files->options.fs, fd, &st) != 0)
        return FILE_UNREAD;
    *n_out = st.bytes;
    if (!st.is_regular || st.bytes > 8 * (uint64_t)files->options.bytes_max)
        return FILE_FOREIGN;
    bytes = malloc(st.bytes ? (size_t)st.bytes : 1);
    if (bytes && hth_fs_read_full(files->options.fs, fd, bytes, (size_t)st.bytes, 0, &n) == 0 && n == st.bytes)
        state = read_entries(files, bytes, n);
    free(bytes);
    return state;
}

static void read_file(hth_history_files *files, file *f)
{
    char path[PATH_BYTES];
    int fd;

    path_of(files, f->number, path, sizeof(path));
    fd = hth_fs_open(files->options.fs, path, HTH_FS_READ);
    f->n_bytes = 0;
    f->state = fd == -ENOENT ? FILE_GONE : FILE_UNREAD;
    if (fd < 0)
        return;
    f->state = read_open(files, fd, &f->n_bytes);
    hth_fs_close(files->options.fs, fd);
}

static void read_all(hth_history_files *files)
{
    (void)hth_fs_list(files->options.fs, files->directory, note_name, files); /* what cannot be listed is not read */
    if (files->n_items > 0)
        qsort(files->items, files->n_items, sizeof(*files->items), compare_items);
    for (size_t i = 0; i < files->n_items; i++)
        read_file(files, &files->items[i]);
    files->bytes_limit = 2 * (uint64_t)files->options.bytes_max;
    files->files_limit = FILES_MANY;
}

/*
 * ---- the bound of the files of all histories ----
 *
 * Each model has a folder of files; the folders lie side by side. A model that is never loaded again leaves its folder
 * behind. So a process that starts a new file first removes the files that were written longest ago, of any model,
 * until all together are within a number of bytes. A file whose writer is alive stays. Without a file, its texts are
 * tokenized again.
 */

/* The folder that has the folders of all models; false if there is no such name. */
static bool folder_above(const hth_history_files *files, char above[PATH_BYTES])
{
    char *slash;

    (void)snprintf(above, PATH_BYTES, "%s", files->directory); /* checked at opening */
    slash = strrchr(above, '/');
    if (!slash || slash == above)
        return false;
    *slash = '\0';
    return true;
}

typedef struct found_file {
    size_t folder; /* in `folders` */
    uint64_t number;
    uint64_t n_bytes;
    uint64_t mtime;
} found_file;

typedef struct room {
    const hth_fs *fs;
    const char *above; /* the folder that contains all folders */
    char (*folders)[FOLDER_NAME_BYTES];
    size_t n_folders, folders_capacity;
    size_t folder; /* that is being listed */
    found_file *files;
    size_t n_files, files_capacity;
    uint64_t n_bytes;
} room;

static bool folder_path(const room *r, size_t folder, char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s/%s", r->above, r->folders[folder]) < PATH_BYTES;
}

static bool found_path(const room *r, const found_file *f, char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s/%s/%016" PRIx64 SUFFIX, r->above, r->folders[f->folder], f->number) <
           PATH_BYTES;
}

/* hth_fs_visit_fn */
static bool note_folder(const char *name, void *user_data)
{
    room *r = user_data;
    void *grown = hth_grown(r->folders, r->n_folders, &r->folders_capacity, sizeof(*r->folders));

    if (!grown)
        return false;
    r->folders = grown;
    if (snprintf(r->folders[r->n_folders], sizeof(*r->folders), "%s", name) < (int)sizeof(*r->folders))
        r->n_folders++;
    return r->n_folders < FOLDERS_MAX;
}

/* hth_fs_visit_fn */
static bool note_file(const char *name, void *user_data)
{
    room *r = user_data;
    found_file f = { .folder = r->folder }, *grown;
    char path[PATH_BYTES];
    hth_fs_stat st;

    if (!file_number(name, &f.number) || !found_path(r, &f, path) || hth_fs_stat_path(r->fs, path, &st) != 0 ||
        !st.is_regular)
        return true;
    grown = hth_grown(r->files, r->n_files, &r->files_capacity, sizeof(*grown));
    if (!grown)
        return false;
    f.n_bytes = st.bytes;
    f.mtime = st.mtime;
    r->files = grown;
    r->files[r->n_files++] = f;
    r->n_bytes += st.bytes;
    return r->n_files < FILES_OF_ALL_MAX;
}

/* The oldest first; within the same second, by number. */
static int compare_age(const void *a, const void *b)
{
    const found_file *x = a, *y = b;

    if (x->mtime != y->mtime)
        return x->mtime < y->mtime ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void find_files(room *r)
{
    char path[PATH_BYTES];

    (void)hth_fs_list(r->fs, r->above, note_folder, r); /* what cannot be listed stays */
    for (r->folder = 0; r->folder < r->n_folders; r->folder++)
        if (folder_path(r, r->folder, path))
            (void)hth_fs_list(r->fs, path, note_file, r); /* likewise */
    if (r->n_files > 0)
        qsort(r->files, r->n_files, sizeof(*r->files), compare_age);
}

/* Remove the file, and its folder if that is then empty. False: the file's writer is alive, or it cannot be removed. */
static bool remove_file(const room *r, const found_file *f)
{
    char path[PATH_BYTES], folder[PATH_BYTES];
    int fd = found_path(r, f, path) ? hth_fs_open(r->fs, path, HTH_FS_READ) : -1;
    bool ok;

    if (fd < 0)
        return false;
    ok = hth_fs_lock(r->fs, fd, HTH_FS_LOCK_PROBE) == 0 && hth_fs_remove(r->fs, path) == 0;
    hth_fs_close(r->fs, fd);
    if (ok && folder_path(r, f->folder, folder))
        (void)hth_fs_remove(r->fs, folder); /* fails if it still has files */
    return ok;
}

/* Enforce the bound in the folder of all models. Folders without files are removed. */
static void make_room(const hth_history_files *files, uint64_t bytes_max)
{
    char above[PATH_BYTES];
    room r = { .fs = files->options.fs, .above = above };

    if (!folder_above(files, above))
        return;
    find_files(&r);
    for (size_t i = 0; i < r.n_files && r.n_bytes > bytes_max; i++)
        if (remove_file(&r, &r.files[i]))
            r.n_bytes -= r.files[i].n_bytes;
    free(r.files);
    free(r.folders);
}

/* ---- writing ---- */

static void warn_once(hth_history_files *files, const char *what, int error)
{
    if (!files->has_warned)
        hth_warn(files->options.log, "%s in '%s': %s; what is not written is tokenized again after a restart", what,
                 files->directory, strerror(-error));
    files->has_warned = true;
}

/* Create the folder, and its parent, if they are missing. */
static int make_folder(const hth_history_files *files)
{
    char above[PATH_BYTES];
    int result;

    if (folder_above(files, above))
        (void)hth_fs_make_directory(files->options.fs, above); /* the next call reports what is wrong */
    result = hth_fs_make_directory(files->options.fs, files->directory);
    return result == -EEXIST ? 0 : result;
}

/* Does the path still lead to the open file? */
static bool is_at(const hth_history_files *files, int fd, const char *path)
{
    hth_fs_stat open, named;

    return hth_fs_stat_open(files->options.fs, fd, &open) == 0 &&
           hth_fs_stat_path(files->options.fs, path, &named) == 0 && open.inode == named.inode &&
           open.device == named.device;
}

/*
 * Create a file with this number and lock it. Until it is locked, another process may mistake it for one whose writer
 * has ended.
 */
static int make_file(const hth_history_files *files, uint64_t number)
{
    char path[PATH_BYTES];
    int fd;

    path_of(files, number, path, sizeof(path));
    fd = hth_fs_open(files->options.fs, path, HTH_FS_CREATE);
    if (fd < 0)
        return fd;
    (void)hth_fs_lock(files->options.fs, fd, HTH_FS_LOCK_TRY); /* it is new; where locks fail, no process removes it */
    if (is_at(files, fd, path))
        return fd;
    hth_fs_close(files->options.fs, fd);
    return -EEXIST;
}

/* Begin the next file. */
static bool begin_file(hth_history_files *files)
{
    uint64_t number = files->n_items > 0 ? files->items[files->n_items - 1].number : 0;
    int fd;

    make_room(files, FOLDERS_TIMES * (uint64_t)files->options.bytes_max);
    fd = make_folder(files);
    if (fd == 0)
        fd = -EEXIST;
    for (int i = 0; i < FILES_MAX && fd == -EEXIST; i++)
        fd = make_file(files, ++number);
    if (fd >= 0 && !add_item(files, number)) {
        hth_fs_close(files->options.fs, fd);
        fd = -ENOMEM;
    }
    if (fd < 0) {
        warn_once(files, "cannot make a file for the history of tokens", fd);
        return false;
    }
    files->items[files->n_items - 1].state = FILE_READ;
    files->fd = fd;
    files->has_written = true;
    return true;
}

static void end_file(hth_history_files *files)
{
    if (files->fd >= 0)
        hth_fs_close(files->options.fs, files->fd);
    files->fd = -1;
}

/* Append to the batch. False without memory. */
static bool put_entry(hth_history_files *files, const hth_history_record *record)
{
    size_t n = hth_history_entry_bytes(record->n_tokens, files->options.key != NULL);
    hth_history_end before;
    uint8_t *grown;

    if (!hth_history_end_of(files->options.history, &record->space, &record->below, &before))
        return true; /* both were evicted in the meantime */
    grown = hth_grown_by(files->batch, files->n_batch, n, &files->batch_capacity, 1);
    if (!grown)
        return false;
    files->batch = grown;
    if (hth_history_entry_write(record, &before, files->options.key, files->options.text_of, files->options.user_data,
                                files->batch + files->n_batch))
        files->n_batch += n;
    return true;
}

/* Readers skip an entry that a failure cut off, so the file can still be used. */
static bool write_batch(hth_history_files *files)
{
    int result;

    if (files->n_batch == 0)
        return true;
    if (files->fd < 0 && !begin_file(files)) {
        files->n_batch = 0;
        return false;
    }
    result = hth_fs_write_all(files->options.fs, files->fd, files->batch, files->n_batch);
    if (result == 0)
        files->items[files->n_items - 1].n_bytes += files->n_batch;
    else
        warn_once(files, "cannot write the history of tokens", result);
    files->n_batch = 0;
    return result == 0;
}

/* Write all new records. False if some were not written. */
static bool write_new(hth_history_files *files)
{
    hth_history_record *record;
    bool ok = true;

    while (hth_history_take_new(files->options.history, &record)) {
        ok = record && put_entry(files, record) && ok;
        free(record);
        if (files->n_batch >= BATCH_BYTES)
            ok = write_batch(files) && ok;
    }
    return write_batch(files) && ok;
}

/* Read the files that were not read yet or have changed since. True if all are then in the history. */
static bool read_changed(hth_history_files *files)
{
    bool ok = true;

    for (size_t i = 0; i < files->n_items; i++) {
        file *f = &files->items[i];
        char path[PATH_BYTES];
        hth_fs_stat st;

        path_of(files, f->number, path, sizeof(path));
        if (f->state == FILE_UNREAD || hth_fs_stat_path(files->options.fs, path, &st) != 0 || st.bytes != f->n_bytes)
            read_file(files, f);
        ok = ok && f->state != FILE_UNREAD;
    }
    return ok;
}

/* Remove a file whose writer has ended, if it was read to the end. False: it stays. */
static bool remove_read(const hth_history_files *files, const file *f)
{
    char path[PATH_BYTES];
    hth_fs_stat st;
    bool ok;
    int fd;

    if (f->state != FILE_READ)
        return f->state == FILE_GONE;
    path_of(files, f->number, path, sizeof(path));
    fd = hth_fs_open(files->options.fs, path, HTH_FS_READ);
    if (fd < 0)
        return fd == -ENOENT;
    ok = hth_fs_lock(files->options.fs, fd, HTH_FS_LOCK_PROBE) == 0 &&
         hth_fs_stat_open(files->options.fs, fd, &st) == 0 && st.bytes == f->n_bytes &&
         hth_fs_remove(files->options.fs, path) == 0;
    hth_fs_close(files->options.fs, fd);
    return ok;
}

/* Remove the files before the last one, which has all records. */
static void remove_superfluous(hth_history_files *files)
{
    size_t n_kept = 0;

    for (size_t i = 0; i + 1 < files->n_items; i++)
        if (!remove_read(files, &files->items[i]))
            files->items[n_kept++] = files->items[i];
    files->items[n_kept++] = files->items[files->n_items - 1];
    files->n_items = n_kept;
}

/* Discard the last file, which is not needed after all. */
static void discard_file(hth_history_files *files)
{
    char path[PATH_BYTES];

    path_of(files, files->items[files->n_items - 1].number, path, sizeof(path));
    end_file(files);
    if (hth_fs_remove(files->options.fs, path) == 0)
        files->n_items--;
}

/* Write everything to one new file, and remove the files that are then superfluous. */
static void compact(hth_history_files *files)
{
    end_file(files);
    if (read_changed(files)) {
        hth_history_all_are_new(files->options.history);
        if (begin_file(files)) {
            if (write_new(files) && hth_fs_sync_data(files->options.fs, files->fd) == 0 &&
                hth_fs_sync_directory(files->options.fs, files->directory) == 0)
                remove_superfluous(files);
            else
                discard_file(files);
        }
    }
    set_limits(files);
}

/* A process that only reads changes nothing. */
static bool should_compact(const hth_history_files *files)
{
    return files->has_written && (sum_of_bytes(files) > files->bytes_limit || files->n_items > files->files_limit);
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
        (void)write_new(files); /* a failure was logged */
        if (should_compact(files))
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
    free(files->items);
    free(files->directory);
    free(files);
}

/* A missing folder is created with the first file. */
static hearth_status check_folder(const hth_history_files *files, hearth_error *err)
{
    hth_fs_stat st;

    if (strlen(files->directory) + NAME_BYTES + 2 > PATH_BYTES)
        return hth_fail(err, HEARTH_MISUSE, "the path '%.100s...' is too long", files->directory);
    if (hth_fs_stat_path(files->options.fs, files->directory, &st) == -ENOENT)
        return HEARTH_OK;
    return hth_directory_check(files->options.fs, files->directory, NULL, err);
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
    files->options = *options;
    if (!options->fs)
        files->options.fs = hth_fs_system();
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
