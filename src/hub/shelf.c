#include "hub/shelf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/hex.h"
#include "base/os.h"
#include "base/status.h"
#include "base/whole_file.h"

enum { LEVELS_MAX = 8, COMMIT_DIGITS = HTH_HUB_COMMIT_BYTES - 1 };

#define JOIN(out, format, ...) (snprintf(out, PATH_MAX, format, __VA_ARGS__) < PATH_MAX)

/* ---- paths ---- */

hearth_status hth_hub_shelf_init(hth_hub_shelf *out, const char *cache, const char *repo, hearth_error *err)
{
    const int n_owner = (int)strcspn(repo, "/");

    if (!JOIN(out->folder, "%s/models--%.*s--%s", cache, n_owner, repo, repo + n_owner + 1) ||
        !JOIN(out->locks, "%s/.locks/models--%.*s--%s", cache, n_owner, repo, repo + n_owner + 1))
        return hth_fail(err, HEARTH_MISUSE, "the path of the folder for models is too long; set HF_HUB_CACHE");
    return HEARTH_OK;
}

bool hth_hub_blob_path(const hth_hub_shelf *shelf, const char *digest, char out[PATH_MAX])
{
    return JOIN(out, "%s/blobs/%s", shelf->folder, digest);
}

bool hth_hub_snapshot_path(const hth_hub_shelf *shelf, const char *commit, const char *path, char out[PATH_MAX])
{
    return JOIN(out, "%s/snapshots/%s/%s", shelf->folder, commit, path);
}

bool hth_hub_lock_path(const hth_hub_shelf *shelf, const char *digest, char out[PATH_MAX])
{
    return JOIN(out, "%s/%s.lock", shelf->locks, digest);
}

bool hth_hub_blob_is_there(const char *blob, uint64_t bytes)
{
    struct stat st;

    return stat(blob, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
}

hearth_status hth_hub_make_folders(const char *path, hearth_error *err)
{
    char folder[PATH_MAX];

    if (!JOIN(folder, "%s", path))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", path);
    for (char *at = strchr(folder + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        /* With the permissions that the user's umask allows: other programs and users share this cache. */
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return hth_fail_errno(err, errno, "cannot make the folder '%s'", folder);
        *at = '/';
    }
    return HEARTH_OK;
}

hearth_status hth_hub_write_file(const char *path, const char *text, size_t n_bytes, hearth_error *err)
{
    hth_whole_file *file = NULL;
    hearth_status status = hth_hub_make_folders(path, err);

    if (status == HEARTH_OK)
        status = hth_whole_file_begin(hth_fs_system(), path, HTH_WHOLE_FILE_REPLACE, &file, err);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, text, n_bytes, err);
    if (status == HEARTH_OK)
        (void)fchmod(hth_whole_file_descriptor(file), 0644); /* otherwise other users may be unable to read it */
    return hth_whole_file_end(file, status, err);
}

/* ---- commits ---- */

bool hth_hub_commit_read(const hth_hub_shelf *shelf, const char *revision, char out[HTH_HUB_COMMIT_BYTES])
{
    char path[PATH_MAX], text[HTH_HUB_COMMIT_BYTES + 8] = "";
    FILE *file;

    if (hth_is_hex(revision, COMMIT_DIGITS)) {
        (void)snprintf(out, HTH_HUB_COMMIT_BYTES, "%s", revision); /* is_hex */
        return true;
    }
    if (!hth_hub_revision_is_safe(revision) || !JOIN(path, "%s/refs/%s", shelf->folder, revision))
        return false;
    file = fopen(path, "re");
    if (!file)
        return false;
    (void)fread(text, 1, sizeof(text) - 1, file); /* checked below */
    (void)fclose(file);                           /* only read from */
    text[strcspn(text, "\r\n ")] = '\0';
    if (!hth_is_hex(text, COMMIT_DIGITS))
        return false;
    (void)snprintf(out, HTH_HUB_COMMIT_BYTES, "%.*s", COMMIT_DIGITS, text); /* is_hex */
    return true;
}

hearth_status hth_hub_commit_write(const hth_hub_shelf *shelf, const char *revision, const char *commit,
                                   hearth_error *err)
{
    char path[PATH_MAX];

    if (hth_is_hex(revision, COMMIT_DIGITS))
        return HEARTH_OK;
    if (!JOIN(path, "%s/refs/%s", shelf->folder, revision))
        return hth_fail(err, HEARTH_MISUSE, "the revision '%s' is too long", revision);
    return hth_hub_write_file(path, commit, strlen(commit), err);
}

/* ---- snapshots ---- */

/* The target of a file's link. */
static void link_target(const hth_hub_file *file, char out[PATH_MAX])
{
    size_t n = 0;

    for (const char *c = file->path; *c; c++)
        if (*c == '/')
            n += (size_t)snprintf(out + n, PATH_MAX - n, "../"); /* no longer than the path */
    (void)snprintf(out + n, PATH_MAX - n, "../../blobs/%s", file->digest);
}

bool hth_hub_is_linked(const hth_hub_shelf *shelf, const char *commit, const hth_hub_file *file)
{
    char path[PATH_MAX], wanted[PATH_MAX], target[PATH_MAX];
    const ssize_t n = hth_hub_snapshot_path(shelf, commit, file->path, path) ? readlink(path, target, PATH_MAX) : -1;

    link_target(file, wanted);
    return n >= 0 && (size_t)n == strlen(wanted) && memcmp(target, wanted, (size_t)n) == 0;
}

hearth_status hth_hub_link(const hth_hub_shelf *shelf, const char *commit, const hth_hub_file *file, hearth_error *err)
{
    const struct timespec tick = { .tv_nsec = 10000000 }; /* the longest tick of a system's file clock */
    char path[PATH_MAX], temporary[PATH_MAX], target[PATH_MAX], hex[17];
    uint8_t random[8];
    hearth_status status;

    hth_os_random(random, sizeof(random)); /* processes of several machines may share the cache */
    hth_hex_encode(random, sizeof(random), hex);
    /* The temporary name does not contain the final one, because the longest names leave no room for more. */
    if (!hth_hub_snapshot_path(shelf, commit, file->path, path) ||
        !JOIN(temporary, "%.*s/.%s.link", (int)(strrchr(path, '/') - path), path, hex))
        return hth_fail(err, HEARTH_MISUSE, "the path of '%s' in the cache is too long; set HF_HUB_CACHE", file->path);
    status = hth_hub_make_folders(path, err);
    if (status != HEARTH_OK)
        return status;
    link_target(file, target);
    (void)nanosleep(&tick, NULL); /* makes the link newer than the blob, as models/trusted_digest.h requires */
    if (symlink(target, temporary) != 0 || rename(temporary, path) != 0) {
        status = hth_fail_errno(err, errno, "cannot make the link '%s'", path);
        (void)unlink(temporary); /* it may be missing */
    }
    return status;
}

typedef struct reader {
    const char *root; /* the snapshot's directory */
    hth_hub_listing *out;
    bool failed;
} reader;

static void add_file(reader *r, const char *full, const char *path)
{
    hth_hub_file file = { .path = "" };
    char target[PATH_MAX];
    struct stat st;
    const ssize_t n = readlink(full, target, sizeof(target) - 1);
    const char *name;

    if (stat(full, &st) != 0 || !S_ISREG(st.st_mode) || !hth_hub_path_is_safe(path))
        return; /* its blob is gone */
    file.bytes = (uint64_t)st.st_size;
    (void)snprintf(file.path, sizeof(file.path), "%.*s", HTH_HUB_PATH_BYTES - 1, path); /* is_safe */
    if (n > 0) {
        target[n] = '\0';
        name = strrchr(target, '/');
        name = name ? name + 1 : target;
        if (strlen(name) < sizeof(file.digest))
            (void)snprintf(file.digest, sizeof(file.digest), "%.*s", HTH_HUB_DIGEST_BYTES - 1, name);
    }
    r->failed |= !hth_hub_listing_add(r->out, &file);
}

/* folder is a path in the snapshot with a trailing '/', or "". */
static void read_folder(reader *r, const char *folder, unsigned level)
{
    char full[PATH_MAX], path[PATH_MAX];
    DIR *directory = JOIN(full, "%s/%s", r->root, folder) ? opendir(full) : NULL;
    const struct dirent *entry;

    while (directory && !r->failed && (entry = readdir(directory)) != NULL) {
        struct stat st;

        if (entry->d_name[0] == '.' || !JOIN(path, "%s%s", folder, entry->d_name) ||
            !JOIN(full, "%s/%s", r->root, path) || lstat(full, &st) != 0)
            continue;
        if (hth_gguf_is_name(entry->d_name))
            add_file(r, full, path);
        else if (S_ISDIR(st.st_mode) && level < LEVELS_MAX && strlen(path) + 1 < PATH_MAX) {
            (void)snprintf(path + strlen(path), 2, "/");
            read_folder(r, path, level + 1);
        }
    }
    if (directory)
        (void)closedir(directory);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const hth_hub_file *)a)->path, ((const hth_hub_file *)b)->path);
}

hearth_status hth_hub_snapshot_read(const hth_hub_shelf *shelf, const char *commit, hth_hub_listing *out,
                                    hearth_error *err)
{
    char root[PATH_MAX];
    reader r = { .root = root, .out = out };

    *out = (hth_hub_listing){ .files = NULL };
    (void)snprintf(out->commit, sizeof(out->commit), "%.*s", COMMIT_DIGITS, commit);
    if (JOIN(root, "%s/snapshots/%s", shelf->folder, commit))
        read_folder(&r, "", 0);
    if (out->n > 0)
        qsort(out->files, out->n, sizeof(*out->files), by_path);
    return r.failed ? hth_fail(err, HEARTH_NO_MEMORY, "no memory for the files of a snapshot") : HEARTH_OK;
}
