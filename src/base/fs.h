/*
 * fs.h - the file operations of the file tier, as a table
 *
 * The tier works on files only through a table of functions with a context. So a test can make an operation fail, stop
 * the process at one, or lose unsynced data. The entries are thin: they may be interrupted (-EINTR) and may read or
 * write less than asked. The functions hth_fs_* below go through the table and handle both. Other code uses only these.
 *
 * Results are 0, a count or a descriptor, or -errno. Paths are absolute or relative to the working directory.
 */
#ifndef HTH_BASE_FS_H
#define HTH_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hth_fs_mode {
    HTH_FS_READ,   /* an existing file, not a symbolic link; never waits for the other end of a pipe */
    HTH_FS_CREATE, /* a new file for writing, mode 0600; -EEXIST if the name is taken */
    HTH_FS_SHARED, /* a file for locking, made with mode 0600 if it is missing */
} hth_fs_mode;

typedef enum hth_fs_lock_mode {
    HTH_FS_LOCK_HOLD,  /* exclusive; waits for its turn */
    HTH_FS_LOCK_TRY,   /* exclusive; -EWOULDBLOCK if another descriptor holds a lock */
    HTH_FS_LOCK_PROBE, /* shared, so that probes do not conflict; -EWOULDBLOCK if the file is locked exclusively */
} hth_fs_lock_mode;

typedef struct hth_fs_stat {
    uint64_t bytes;
    uint64_t mtime;      /* Unix seconds */
    uint64_t changed_ns; /* when bytes, names or attributes last changed; with the inode it distinguishes files */
    uint64_t device;
    uint64_t inode;
    uint32_t uid;
    uint32_t permissions; /* the lower nine bits of the mode */
    bool is_sticky;       /* a directory's sticky bit: only owners may remove and rename entries */
    bool is_directory;
    bool is_regular;
} hth_fs_stat;

/* Called for every name in a directory except "." and "..", in no particular order, until it returns false. */
typedef bool (*hth_fs_visit_fn)(const char *name, void *user_data);

typedef struct hth_fs {
    void *context;
    int (*open)(void *context, const char *path, hth_fs_mode mode);
    int (*open_unnamed)(void *context, const char *directory);
    int (*close)(void *context, int fd);
    int64_t (*read_at)(void *context, int fd, void *bytes, size_t n_bytes, uint64_t offset);
    int64_t (*write)(void *context, int fd, const void *bytes, size_t n_bytes);
    int (*sync_data)(void *context, int fd);
    int (*sync_directory)(void *context, const char *path);
    int (*link_unnamed)(void *context, int fd, const char *path);
    int (*link)(void *context, const char *from, const char *to);
    int (*rename)(void *context, const char *from, const char *to);
    int (*remove)(void *context, const char *path);
    int (*make_directory)(void *context, const char *path);
    int (*stat)(void *context, const char *path, hth_fs_stat *out);
    int (*stat_open)(void *context, int fd, hth_fs_stat *out);
    int (*set_mtime)(void *context, const char *path, uint64_t unix_seconds);
    int (*list)(void *context, const char *path, hth_fs_visit_fn visit, void *user_data);
    int (*free_bytes)(void *context, const char *path, uint64_t *out);
    int (*lock)(void *context, int fd, hth_fs_lock_mode mode);
    /* Called at steps that are not file operations, such as the commit of an index transaction. May be NULL. */
    void (*step)(void *context, const char *label);
} hth_fs;

/* The system's own files. A static table without state. */
const hth_fs *hth_fs_system(void);

int hth_fs_open(const hth_fs *fs, const char *path, hth_fs_mode mode);
/* A new file without a name, on the device of directory. -ENOTSUP if the system cannot do that. */
int hth_fs_open_unnamed(const hth_fs *fs, const char *directory);
/* Never retried, because the descriptor is gone either way. */
void hth_fs_close(const hth_fs *fs, int fd);
/* Read until n_bytes are read or the file ends. *n_out is the number of bytes read. */
int hth_fs_read_full(const hth_fs *fs, int fd, void *bytes, size_t n_bytes, uint64_t offset, size_t *n_out);
/* Write all bytes after the bytes written so far. */
int hth_fs_write_all(const hth_fs *fs, int fd, const void *bytes, size_t n_bytes);
int hth_fs_sync_data(const hth_fs *fs, int fd);
/* Make the names in a directory durable. */
int hth_fs_sync_directory(const hth_fs *fs, const char *path);
/* Give an unnamed file a name. -EEXIST: the name is taken. */
int hth_fs_link_unnamed(const hth_fs *fs, int fd, const char *path);
/* Give a file one more name. -EEXIST: the name is taken. */
int hth_fs_link(const hth_fs *fs, const char *from, const char *to);
/* Replaces an existing file of that name. */
int hth_fs_rename(const hth_fs *fs, const char *from, const char *to);
/* A file or an empty directory. */
int hth_fs_remove(const hth_fs *fs, const char *path);
/* Mode 0700. -EEXIST: the name is taken. */
int hth_fs_make_directory(const hth_fs *fs, const char *path);
int hth_fs_stat_path(const hth_fs *fs, const char *path, hth_fs_stat *out);
int hth_fs_stat_open(const hth_fs *fs, int fd, hth_fs_stat *out);
int hth_fs_set_mtime(const hth_fs *fs, const char *path, uint64_t unix_seconds);
int hth_fs_list(const hth_fs *fs, const char *path, hth_fs_visit_fn visit, void *user_data);
/* Free bytes on the device for users without privileges. */
int hth_fs_free_bytes(const hth_fs *fs, const char *path, uint64_t *out);
/* Lock a whole open file for this descriptor, until the descriptor is closed or the process ends. */
int hth_fs_lock(const hth_fs *fs, int fd, hth_fs_lock_mode mode);
/* The same with HTH_FS_LOCK_TRY or HTH_FS_LOCK_PROBE; -EWOULDBLOCK if another holder kept it for wait_ms. */
int hth_fs_lock_within(const hth_fs *fs, int fd, hth_fs_lock_mode mode, uint32_t wait_ms);
void hth_fs_step(const hth_fs *fs, const char *label);

#endif
