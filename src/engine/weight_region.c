/*
 * weight_region.c - fills a file with repacked weights once, and maps it from then on
 *
 *   1. make NAME.filling, lock it exclusively, allocate its pages, map it
 *   2. the caller writes the weights
 *   3. write the header with the checksums, make the mapping read-only
 *   4. rename to NAME.weights, and hold a shared lock instead
 *
 * NAME is the first 32 hex digits of a digest of the key: the model's files (device, inode, size, times), the machine
 * text, the number and the size. A step that looks at names or changes them holds the folder's lock. It is never held
 * for long, and not while weights are written or checked. All locks are flock(), which the kernel drops with the
 * process. So a file without a lock has no holder. A crash before 4 leaves a NAME.filling without a lock, a crash after
 * 4 a NAME.weights without one. The next process that opens a region in the folder maps it or removes it.
 *
 * Every process that maps a region checks all of it: the size, the header, and a CRC32C of the weights. The pages are
 * allocated before they are written, so a full file system is an error at step 1 instead of a SIGBUS at step 2.
 *
 * Users who may write to the folder are trusted, because they could change a mapped file. So folders of other users,
 * except root, are refused, and files that an untrusted user could have written are not used as regions. In a folder
 * that its group may write to, the group is trusted, and its files may belong to the group, too.
 *
 * Layout of a file, little-endian:
 *
 *      0   8  "hthweigh"
 *      8   2  format version, 1
 *     10   1  1: a file without holders stays; not covered by a checksum, because it changes
 *     12   4  CRC32C of the bytes 16 .. 4095
 *     16   8  bytes of weights
 *     24   4  CRC32C of the weights
 *     28   4  CRC32C of the machine text
 *     32  32  SHA-256 of the key
 *     64  32  the caller's digest of the layout: the name, type, shape and offset of each tensor
 *     96  32  SHA-256 of device, inode, size and times of the model's files
 *    128      path of the model, zeros
 *   4096      weights, and zeros up to a multiple of the file system's block (of the page, in hugetlbfs)
 */
#include "engine/weight_region.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fs.h"
#include "base/gguf_name.h"
#include "base/hash.h"
#include "base/os.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

enum {
    FORMAT = 1,
    HEADER_BYTES = 4096,
    AT_KEPT = 10,
    AT_CRC = 12,
    AT_BYTES = 16,
    AT_DATA_CRC = 24,
    AT_MACHINE = 28,
    AT_KEY = 32,
    AT_LAYOUT = 64,
    AT_MODEL = 96,
    AT_PATH = 128,
    NAME_DIGITS = 32,
    WAIT_MS = 30000, /* for another process that is filling the region, and for the folder's lock */
    OWN_MODE = 0600,
    SHARED_MODE = 0660, /* in a folder that its group may write to */
};

static const char magic[8] = { 'h', 't', 'h', 'w', 'e', 'i', 'g', 'h' };
static const char ready_suffix[] = ".weights";
static const char filling_suffix[] = ".filling";

struct hth_weight_region {
    int folder_fd;
    int fd;             /* holds the lock; -1 once there is no file any more */
    struct stat folder; /* its owner, group and mode */
    bool is_filled;
    bool keep;
    uint32_t machine; /* CRC32C of the text */
    size_t n_bytes;
    size_t map_bytes;
    uint8_t *map; /* NULL: none */
    uint8_t key[HTH_SHA256_BYTES];
    uint8_t model[HTH_SHA256_BYTES];
    char model_path[HEADER_BYTES - AT_PATH];
    char path[PATH_MAX];
    char filling_path[PATH_MAX];
};

/* ---- names and identities ---- */

/* 0 or an error number. */
static int add_file(hth_sha256 *sha, const char *path)
{
    uint8_t facts[40];
    struct stat st;

    if (stat(path, &st) != 0)
        return errno;
    hth_put_u64(facts, (uint64_t)st.st_dev);
    hth_put_u64(facts + 8, (uint64_t)st.st_ino);
    hth_put_u64(facts + 16, (uint64_t)st.st_size);
    hth_put_u64(facts + 24, hth_os_mtime_ns(&st));
    hth_put_u64(facts + 32, hth_os_ctime_ns(&st)); /* every change of the bytes changes it, and no user can set it */
    hth_sha256_update(sha, facts, sizeof(facts));
    return 0;
}

int hth_weight_model_digest(const char *path, uint8_t out[HTH_WEIGHT_MODEL_BYTES])
{
    const unsigned n = hth_gguf_n_files(path);
    char buffer[HTH_GGUF_PATH_BYTES];
    hth_sha256 *sha = hth_sha256_new();
    int problem = sha ? 0 : ENOMEM;

    for (unsigned i = 0; !problem && i < n; i++)
        problem = add_file(sha, hth_gguf_file(path, i, buffer));
    if (!problem)
        hth_sha256_peek(sha, out);
    hth_sha256_free(sha);
    return problem;
}

/*
 * Resolve links in the folders of the path. The file name stays, even if it is a link, because it identifies the parts.
 * 0, or an error number.
 */
static int resolve(const char *path, char out[HEADER_BYTES - AT_PATH])
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    char *real = folder ? realpath(folder, NULL) : NULL;
    int problem = !folder ? ENOMEM : !real ? errno : 0;

    if (!problem && (size_t)snprintf(out, HEADER_BYTES - AT_PATH, "%s/%s", real, slash ? slash + 1 : path) >=
                        HEADER_BYTES - AT_PATH)
        problem = ENAMETOOLONG;
    free(real);
    free(folder);
    return problem;
}

static bool ends_with(const char *name, const char *suffix)
{
    return strlen(name) == NAME_DIGITS + strlen(suffix) && strcmp(name + NAME_DIGITS, suffix) == 0;
}

static hearth_status set_names(hth_weight_region *region, const hth_weight_region_key *key, hearth_error *err)
{
    char digits[2 * HTH_SHA256_BYTES + 1];
    hth_sha256 *sha = hth_sha256_new();
    uint8_t numbers[16];
    hearth_status status = HEARTH_OK;
    int problem = sha ? hth_weight_model_digest(key->model_path, region->model) : ENOMEM;

    if (!problem)
        problem = resolve(key->model_path, region->model_path);
    if (problem) {
        status = hth_fail_errno(err, problem, "cannot examine the files of '%s'", key->model_path);
        goto out;
    }
    if (key->model && memcmp(key->model, region->model, sizeof(region->model)) != 0) {
        status = hth_fail(err, HEARTH_IO, "'%s' changed while it was loaded", key->model_path);
        goto out;
    }
    if (strlen(key->folder) + 64 >= sizeof(region->path)) {
        status = hth_fail(err, HEARTH_TOO_LONG, "the name of the folder of host weights '%s' is too long", key->folder);
        goto out;
    }
    hth_put_u64(numbers, key->n_bytes);
    hth_put_u64(numbers + 8, key->number);
    hth_sha256_update(sha, region->model, sizeof(region->model));
    hth_sha256_update(sha, numbers, sizeof(numbers));
    hth_sha256_update(sha, key->machine, strlen(key->machine));
    hth_sha256_peek(sha, region->key);
    hth_hex_encode(region->key, sizeof(region->key), digits);
    (void)snprintf(region->path, sizeof(region->path), "%s/%.*s%s", key->folder, NAME_DIGITS, digits, ready_suffix);
    (void)snprintf(region->filling_path, sizeof(region->filling_path), "%s/%.*s%s", key->folder, NAME_DIGITS, digits,
                   filling_suffix);
out:
    hth_sha256_free(sha);
    return status;
}

/* ---- the folder ---- */

/* Take a lock, waiting if another process holds it. False with errno: EWOULDBLOCK if it was held all the time. */
static bool lock_with_retries(int fd, hth_fs_lock_mode mode)
{
    const int result = hth_fs_lock_within(hth_fs_system(), fd, mode, WAIT_MS);

    errno = -result;
    return result == 0;
}

/* Report that a lock could not be taken. doing: "examining", "filling". */
static hearth_status fail_lock(hearth_error *err, int problem, const char *doing, const char *path)
{
    if (problem == EWOULDBLOCK)
        return hth_fail(err, HEARTH_BUSY, "another process has been %s '%s' for %d s", doing, path, WAIT_MS / 1000);
    return hth_fail_errno(err, problem, "cannot lock '%s'", path);
}

static void unlock(int fd)
{
    (void)flock(fd, LOCK_UN); /* cannot fail on an open file */
}

static hearth_status open_folder(const char *folder, int *fd_out, struct stat *st, hearth_error *err)
{
    int fd;

    *st = (struct stat){ .st_mode = 0 };
    (void)mkdir(folder, 0700); /* it exists already, or opening it fails */
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot open the folder of host weights '%s'", folder);
    if (fstat(fd, st) == 0 && !(st->st_mode & S_IWOTH) && (st->st_uid == geteuid() || st->st_uid == 0)) {
        *fd_out = fd;
        return HEARTH_OK;
    }
    (void)close(fd); /* only inspected */
    if (st->st_mode & S_IWOTH)
        return hth_fail(err, HEARTH_MISUSE,
                        "everybody may write to the folder of host weights '%s', so others could change them; name a "
                        "folder below it",
                        folder);
    return hth_fail(err, HEARTH_MISUSE,
                    "the folder of host weights '%s' belongs to another user, who could change them; name a folder of "
                    "your own or of root",
                    folder);
}

/* Is it certain that only this user, root and users trusted with the folder can have written the file? */
static bool is_trusted(int fd, const struct stat *folder)
{
    struct stat st;
    bool is_groups;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & S_IWOTH))
        return false;
    is_groups = (folder->st_mode & S_IWGRP) && st.st_gid == folder->st_gid;
    return is_groups || (st.st_uid == geteuid() && !(st.st_mode & S_IWGRP));
}

/* Called before another process can open the file. */
static bool set_mode(int fd, const struct stat *folder)
{
    if ((folder->st_mode & S_IWGRP) && fchown(fd, (uid_t)-1, folder->st_gid) == 0)
        return fchmod(fd, SHARED_MODE) == 0;
    return fchmod(fd, OWN_MODE) == 0;
}

/* Is the open file the one with that name? */
static bool has_name(int fd, const char *path)
{
    struct stat open_file, named;

    return fstat(fd, &open_file) == 0 && lstat(path, &named) == 0 && open_file.st_dev == named.st_dev &&
           open_file.st_ino == named.st_ino;
}

/* ---- headers ---- */

static bool is_header(const uint8_t header[HEADER_BYTES])
{
    return memcmp(header, magic, sizeof(magic)) == 0 && header[8] == FORMAT && header[9] == 0 &&
           hth_get_u32(header + AT_CRC) == hth_crc32c(0, header + AT_BYTES, HEADER_BYTES - AT_BYTES) &&
           header[HEADER_BYTES - 1] == 0;
}

typedef enum header_state {
    HEADER_GOOD,
    HEADER_BAD,
    HEADER_UNKNOWN, /* it could not be read, which says nothing about the file */
} header_state;

/*
 * If reading fails, as in a hugetlbfs, map the whole file. A mapping that is only inspected needs no reservation of
 * huge pages, which would fail when all are taken. Reading is tried first, because a file that is truncated would kill
 * a process that accesses its mapping.
 */
static header_state read_header(int fd, uint8_t header[HEADER_BYTES])
{
    struct stat st;
    ssize_t n_read;

    if (fstat(fd, &st) != 0)
        return HEADER_UNKNOWN;
    if (!S_ISREG(st.st_mode) || st.st_size < HEADER_BYTES)
        return HEADER_BAD;
    n_read = pread(fd, header, HEADER_BYTES, 0);
    if (n_read < 0 && errno != EINVAL && errno != EOPNOTSUPP)
        return HEADER_UNKNOWN; /* a page that cannot be read would kill a process that maps it */
    if (n_read < 0) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);

        if (map == MAP_FAILED)
            return HEADER_UNKNOWN;
        memcpy(header, map, HEADER_BYTES);
        (void)munmap(map, (size_t)st.st_size); /* our own mapping */
    } else if (n_read < HEADER_BYTES) {
        return HEADER_UNKNOWN;
    }
    return is_header(header) ? HEADER_GOOD : HEADER_BAD;
}

/*
 * Is the file's model unchanged? True if this process cannot tell, because the model's folder may be inaccessible to
 * it.
 */
static bool is_model_unchanged(const uint8_t header[HEADER_BYTES])
{
    uint8_t now[HTH_SHA256_BYTES];
    int problem = hth_weight_model_digest((const char *)header + AT_PATH, now);

    return problem ? problem != ENOENT && problem != ENOTDIR : memcmp(now, header + AT_MODEL, sizeof(now)) == 0;
}

/*
 * Does the file stay without a holder? It does if it is marked as kept, its model is unchanged, and it is for this
 * machine (NULL: for any).
 */
static bool stays(int fd, const uint32_t *machine)
{
    uint8_t header[HEADER_BYTES];
    const header_state state = read_header(fd, header);

    if (state != HEADER_GOOD)
        return state == HEADER_UNKNOWN;
    return header[AT_KEPT] == 1 && (!machine || hth_get_u32(header + AT_MACHINE) == *machine) &&
           is_model_unchanged(header);
}

/* ---- files without holders ---- */

/*
 * Remove a file that no process holds. Under the folder's lock, so that none starts to hold it. 0, or the error number.
 */
static int remove_unheld(const char *path, bool also_kept, const uint32_t *machine)
{
    int problem = 0, fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return errno;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && (also_kept || !stays(fd, machine)) && unlink(path) != 0)
        problem = errno;
    (void)close(fd);
    return problem;
}

/*
 * Remove files without a holder. Kept files for this machine stay while their model is unchanged. except: the path that
 * the caller is about to open.
 */
static void sweep_locked(const char *folder, const char *except, const uint32_t *machine)
{
    char path[PATH_MAX];
    const struct dirent *entry;
    DIR *directory = opendir(folder);

    if (!directory)
        return;
    while ((entry = readdir(directory))) {
        if (!ends_with(entry->d_name, ready_suffix) && !ends_with(entry->d_name, filling_suffix))
            continue;
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) < sizeof(path) &&
            strcmp(path, except) != 0)
            (void)remove_unheld(path, ends_with(entry->d_name, filling_suffix), machine); /* the next sweep retries */
    }
    (void)closedir(directory);
}

/* ---- the files of a model ---- */

typedef struct model_files {
    uint8_t model[HTH_SHA256_BYTES];
    struct stat folder; /* its owner, group and mode */
    bool drops;
    uint64_t n_bytes; /* their total size, or that of the dropped ones */
} model_files;

static void visit_file(model_files *of, const char *path)
{
    uint8_t header[HEADER_BYTES];
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    if (is_trusted(fd, &of->folder) && read_header(fd, header) == HEADER_GOOD &&
        memcmp(header + AT_MODEL, of->model, sizeof(of->model)) == 0 && fstat(fd, &st) == 0) {
        if (of->drops)
            (void)remove_unheld(path, true, NULL); /* otherwise it stays */
        if (!of->drops || !has_name(fd, path))
            of->n_bytes += (uint64_t)st.st_blocks * 512;
    }
    (void)close(fd); /* only read from */
}

/* Visit the published files in the folder. */
static void visit_files(model_files *of, const char *folder, const char *model_path)
{
    char path[PATH_MAX];
    const struct dirent *entry;
    DIR *directory = NULL;
    int fd = -1;

    if (access(folder, F_OK) != 0 || hth_weight_model_digest(model_path, of->model) != 0 ||
        open_folder(folder, &fd, &of->folder, NULL) != HEARTH_OK)
        return;
    if (!of->drops || flock(fd, LOCK_EX | LOCK_NB) == 0)
        directory = opendir(folder);
    while (directory && (entry = readdir(directory)))
        if (ends_with(entry->d_name, ready_suffix) &&
            (size_t)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) < sizeof(path))
            visit_file(of, path);
    if (directory)
        (void)closedir(directory);
    (void)close(fd); /* with its lock */
}

uint64_t hth_weight_regions_bytes(const char *folder, const char *model_path)
{
    model_files of = { .drops = false };

    visit_files(&of, folder, model_path);
    return of.n_bytes;
}

uint64_t hth_weight_regions_drop(const char *folder, const char *model_path)
{
    model_files of = { .drops = true };

    visit_files(&of, folder, model_path);
    return of.n_bytes;
}

/* ---- open ---- */

static void close_file(hth_weight_region *region)
{
    if (region->fd >= 0)
        (void)close(region->fd); /* with its lock; nothing was written through it */
    region->fd = -1;
}

static void unmap(hth_weight_region *region)
{
    if (region->map)
        (void)munmap(region->map, region->map_bytes); /* our own mapping */
    region->map = NULL;
}

static bool map_file(hth_weight_region *region, int protection)
{
    void *map = mmap(NULL, region->map_bytes, protection, MAP_SHARED, region->fd, 0);

    region->map = map == MAP_FAILED ? NULL : map;
    return region->map != NULL;
}

/* Is the mapped file the region of the key? Checks everything except the weights. */
static bool is_mine(const hth_weight_region *region)
{
    return is_header(region->map) && hth_get_u64(region->map + AT_BYTES) == region->n_bytes &&
           memcmp(region->map + AT_KEY, region->key, sizeof(region->key)) == 0;
}

/* Writes through a mapping, because hugetlbfs does not support write(). */
static void mark_kept(const hth_weight_region *region)
{
    int fd = open(region->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, region->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map != MAP_FAILED) {
        ((uint8_t *)map)[AT_KEPT] = 1;
        (void)munmap(map, region->map_bytes); /* our own mapping */
    }                                         /* otherwise the last holder, or the next sweep, removes the file */
    if (fd >= 0)
        (void)close(fd); /* nothing to sync */
}

/* Lock and map the published file, if any. A damaged file is removed. */
static hearth_status hold_ready_locked(hth_weight_region *region, hearth_error *err)
{
    struct stat st;

    region->fd = open(region->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (region->fd < 0)
        return HEARTH_OK;
    if (is_trusted(region->fd, &region->folder) && fstat(region->fd, &st) == 0 &&
        (uint64_t)st.st_size == region->map_bytes) {
        if (flock(region->fd, LOCK_SH | LOCK_NB) != 0 || !map_file(region, PROT_READ)) {
            const hearth_status status = hth_fail_errno(err, errno, "cannot map '%s'", region->path);

            close_file(region); /* the file may be sound, so it stays */
            return status;
        }
        region->is_filled = is_mine(region);
    }
    if (region->is_filled) {
        if (region->keep && region->map[AT_KEPT] != 1)
            mark_kept(region);
        return HEARTH_OK;
    }
    (void)unlink(region->path); /* otherwise publishing replaces it */
    unmap(region);
    close_file(region);
    return HEARTH_OK;
}

static hearth_status begin_filling_locked(hth_weight_region *region, hearth_error *err)
{
    int problem;

    region->fd = open(region->filling_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, OWN_MODE);
    if (region->fd < 0)
        return hth_fail_errno(err, errno, "cannot make '%s'", region->filling_path);
    if (set_mode(region->fd, &region->folder) && flock(region->fd, LOCK_EX | LOCK_NB) == 0 &&
        ftruncate(region->fd, (off_t)region->map_bytes) == 0 &&
        hth_os_file_allocate(region->fd, 0, region->map_bytes) == 0 && map_file(region, PROT_READ | PROT_WRITE))
        return HEARTH_OK;
    problem = errno;
    (void)hth_fail_errno(err, problem, "cannot allocate %zu MiB in '%s'%s", region->map_bytes >> 20,
                         region->filling_path,
                         problem == ENOMEM || problem == ENOSPC ? "; in hugetlbfs, vm.nr_hugepages makes room" : "");
    (void)unlink(region->filling_path);
    close_file(region);
    return HEARTH_NO_MEMORY;
}

/*
 * Another process is filling the region: release the folder's lock and wait for that process's lock, which ends in any
 * case.
 */
static hearth_status await_filling(hth_weight_region *region, const char *folder, hearth_error *err)
{
    int fd = open(region->filling_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int problem;

    if (fd < 0)
        return errno == ENOENT ? HEARTH_OK : hth_fail_errno(err, errno, "cannot open '%s'", region->filling_path);
    unlock(region->folder_fd);
    problem = lock_with_retries(fd, HTH_FS_LOCK_PROBE) ? 0 : errno;
    (void)close(fd);
    if (problem)
        return fail_lock(err, problem, "filling", region->path);
    return lock_with_retries(region->folder_fd, HTH_FS_LOCK_TRY) ? HEARTH_OK
                                                                 : fail_lock(err, errno, "examining", folder);
}

/* Under the folder's lock, which is released while it waits and then taken again. */
static hearth_status take_locked(hth_weight_region *region, const char *folder, hearth_error *err)
{
    struct stat st;

    sweep_locked(folder, region->path, &region->machine);
    for (;;) {
        hearth_status status = hold_ready_locked(region, err);
        int problem;

        if (status != HEARTH_OK || region->is_filled)
            return status;
        if (lstat(region->filling_path, &st) != 0)
            return begin_filling_locked(region, err);
        status = await_filling(region, folder, err);
        if (status != HEARTH_OK)
            return status;
        problem = remove_unheld(region->filling_path, true, NULL); /* its owner died */
        if (problem && problem != ENOENT)
            return hth_fail_errno(err, problem, "cannot remove '%s'", region->filling_path);
    }
}

/*
 * Release the region's file. Remove it if no other process holds it and it need not be kept; without may_keep, in any
 * case. 0, or the error number because of which the file stays.
 */
static int leave(hth_weight_region *region, bool may_keep)
{
    const char *path = region->is_filled ? region->path : region->filling_path;
    int problem = EBUSY;

    if (region->fd < 0)
        return 0;
    if (lock_with_retries(region->folder_fd, HTH_FS_LOCK_TRY)) {
        problem = 0;
        if ((!may_keep || flock(region->fd, LOCK_EX | LOCK_NB) == 0) && has_name(region->fd, path) &&
            !(may_keep && region->keep && region->is_filled) && unlink(path) != 0)
            problem = errno;
        close_file(region);
        unlock(region->folder_fd);
    }
    close_file(region);
    return problem;
}

hearth_status hth_weight_region_open(const hth_weight_region_key *key, hth_weight_region **out, hearth_error *err)
{
    hearth_status status;
    struct statvfs fs;
    hth_weight_region *region = calloc(1, sizeof(*region));

    if (!region)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a region of weights");
    region->fd = region->folder_fd = -1;
    region->keep = key->keep;
    region->n_bytes = key->n_bytes;
    region->machine = hth_crc32c(0, key->machine, strlen(key->machine));
    status = set_names(region, key, err);
    if (status == HEARTH_OK)
        status = open_folder(key->folder, &region->folder_fd, &region->folder, err);
    if (status != HEARTH_OK)
        goto out;
    if (fstatvfs(region->folder_fd, &fs) != 0 || fs.f_bsize < 1 || key->n_bytes > SIZE_MAX / 2) {
        status = hth_fail(err, HEARTH_IO, "'%s' cannot hold regions of weights", key->folder);
        goto out;
    }
    region->map_bytes = (HEADER_BYTES + key->n_bytes + fs.f_bsize - 1) / fs.f_bsize * fs.f_bsize;
    for (bool again = false;; again = true) {
        int problem;

        if (!lock_with_retries(region->folder_fd, HTH_FS_LOCK_TRY)) {
            status = fail_lock(err, errno, "examining", key->folder);
            goto out;
        }
        status = take_locked(region, key->folder, err);
        unlock(region->folder_fd);
        if (status != HEARTH_OK)
            goto out;
        if (!region->is_filled ||
            hth_get_u32(region->map + AT_DATA_CRC) == hth_crc32c(0, region->map + HEADER_BYTES, region->n_bytes))
            break;
        problem = leave(region, false);
        unmap(region);
        region->is_filled = false;
        if (problem || again) {
            status = hth_fail_errno(err, problem ? problem : EIO, "'%s' is damaged", region->path);
            goto out;
        }
    }
    *out = region;
    region = NULL;
out:
    hth_weight_region_close(region);
    return status;
}

/* ---- use ---- */

void *hth_weight_region_memory(const hth_weight_region *region)
{
    return region->map + HEADER_BYTES;
}

bool hth_weight_region_is_filled(const hth_weight_region *region)
{
    return region->is_filled;
}

bool hth_weight_region_has_layout(const hth_weight_region *region, const uint8_t layout[HTH_WEIGHT_LAYOUT_BYTES])
{
    return memcmp(region->map + AT_LAYOUT, layout, HTH_WEIGHT_LAYOUT_BYTES) == 0;
}

const char *hth_weight_region_path(const hth_weight_region *region)
{
    return region->path;
}

hearth_status hth_weight_region_publish(hth_weight_region *region, const uint8_t layout[HTH_WEIGHT_LAYOUT_BYTES],
                                        hearth_error *err)
{
    uint8_t *header = region->map, now[HTH_SHA256_BYTES];
    hearth_status status = HEARTH_OK;

    if (hth_weight_model_digest(region->model_path, now) != 0 || memcmp(now, region->model, sizeof(now)) != 0) {
        status = hth_fail(err, HEARTH_IO, "'%s' changed while it was loaded", region->model_path);
        goto out;
    }
    memset(header, 0, HEADER_BYTES);
    memcpy(header, magic, sizeof(magic));
    header[8] = FORMAT;
    header[AT_KEPT] = region->keep;
    hth_put_u64(header + AT_BYTES, region->n_bytes);
    hth_put_u32(header + AT_DATA_CRC, hth_crc32c(0, region->map + HEADER_BYTES, region->n_bytes));
    hth_put_u32(header + AT_MACHINE, region->machine);
    memcpy(header + AT_KEY, region->key, sizeof(region->key));
    memcpy(header + AT_LAYOUT, layout, HTH_WEIGHT_LAYOUT_BYTES);
    memcpy(header + AT_MODEL, region->model, sizeof(region->model));
    memcpy(header + AT_PATH, region->model_path, strlen(region->model_path));
    hth_put_u32(header + AT_CRC, hth_crc32c(0, header + AT_BYTES, HEADER_BYTES - AT_BYTES));
    if (mprotect(region->map, region->map_bytes, PROT_READ) != 0) {
        status = hth_fail_errno(err, errno, "cannot protect the weights of '%s'", region->model_path);
        goto out;
    }
    if (!lock_with_retries(region->folder_fd, HTH_FS_LOCK_TRY)) {
        status = fail_lock(err, errno, "examining the folder of", region->path);
        goto out;
    }
    if (!has_name(region->fd, region->filling_path) || rename(region->filling_path, region->path) != 0)
        status = hth_fail_errno(err, errno, "cannot publish '%s'", region->path);
    else if (flock(region->fd, LOCK_SH | LOCK_NB) != 0)
        status = hth_fail_errno(err, errno, "cannot share '%s'", region->path);
    unlock(region->folder_fd);
    region->is_filled = status == HEARTH_OK;
out:
    if (status != HEARTH_OK)
        (void)leave(region, false); /* so that no process waits for it */
    return status;
}

void hth_weight_region_reject(hth_weight_region *region)
{
    (void)leave(region, false); /* if the file stays, the next process that maps it finds the same damage */
}

void hth_weight_region_close(hth_weight_region *region)
{
    if (!region)
        return;
    unmap(region);
    (void)leave(region, true); /* otherwise the next sweep removes it */
    if (region->folder_fd >= 0)
        (void)close(region->folder_fd);
    free(region);
}
