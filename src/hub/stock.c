#include "hub/stock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/gguf_name.h"
#include "base/grow.h"
#include "base/hex.h"
#include "base/status.h"
#include "hub/choice.h"

enum { MODELS_MAX = 65536, LEVELS_MAX = 8 };

static const char folder_prefix[] = "models--";

/* ---- directories ---- */

/* Called for each name; false ends the visit. */
typedef bool (*visit_fn)(const char *name, void *user_data);

/* False if some names are unknown. A missing directory has none. */
static bool visit(const char *folder, visit_fn function, void *user_data)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    bool goes_on = true, is_complete;

    if (!directory)
        return errno == ENOENT;
    errno = 0;
    while (goes_on && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            goes_on = function(entry->d_name, user_data);
        errno = 0;
    }
    is_complete = errno == 0;
    (void)closedir(directory); /* only read from */
    return is_complete;
}

/* "models--OWNER--REPO" -> "OWNER/REPO"; an owner has no "--" */
static bool repo_of(const char *folder, char out[HTH_HUB_REPO_BYTES])
{
    const char *owner = folder + strlen(folder_prefix), *middle;
    hth_hub_reference unused;

    if (strncmp(folder, folder_prefix, strlen(folder_prefix)) != 0 || !(middle = strstr(owner, "--")))
        return false;
    return snprintf(out, HTH_HUB_REPO_BYTES, "%.*s/%s", (int)(middle - owner), owner, middle + 2) <
               HTH_HUB_REPO_BYTES &&
           hth_hub_reference_read(out, &unused, NULL) == HEARTH_OK;
}

/* Called for each model of each snapshot; first is that of its first part in the listing. */
typedef bool (*visit_model_fn)(const hth_hub_shelf *shelf, const hth_hub_listing *listing, const hth_hub_file *first,
                               const char *name, void *user_data);

typedef struct walk {
    const char *cache;
    const char *repo; /* while its snapshots are visited */
    hth_hub_shelf shelf;
    visit_model_fn function;
    void *user_data;
    hearth_status status;
    hearth_error *err;
} walk;

static bool walk_snapshot(const char *commit, void *user_data)
{
    walk *w = user_data;
    char quant[HTH_HUB_QUANT_BYTES], name[HTH_HUB_NAME_BYTES];
    hth_hub_listing listing;

    if (!hth_is_hex(commit, HTH_HUB_COMMIT_BYTES - 1))
        return true;
    w->status = hth_hub_snapshot_read(&w->shelf, commit, &listing, w->err);
    for (size_t i = 0; i < listing.n && w->status == HEARTH_OK; i++) {
        const hth_hub_file *file = &listing.files[i];

        if (!hth_hub_is_model(file->path))
            continue;
        (void)snprintf(name, sizeof(name), "%s:%s", w->repo, hth_hub_choice_name(&listing, file->path, quant));
        if (!w->function(&w->shelf, &listing, file, name, w->user_data))
            w->status = hth_fail(w->err, HEARTH_NO_MEMORY, "no memory for the models of '%s'", w->cache);
    }
    hth_hub_listing_deinit(&listing);
    return w->status == HEARTH_OK;
}

static bool walk_repo(const char *folder, void *user_data)
{
    walk *w = user_data;
    char repo[HTH_HUB_REPO_BYTES], snapshots[PATH_MAX];

    if (!repo_of(folder, repo) || hth_hub_shelf_init(&w->shelf, w->cache, repo, NULL) != HEARTH_OK ||
        snprintf(snapshots, sizeof(snapshots), "%s/snapshots", w->shelf.folder) >= (int)sizeof(snapshots))
        return true; /* not a repository */
    w->repo = repo;
    (void)visit(snapshots, walk_snapshot, w); /* an unreadable directory has no models for us */
    w->repo = NULL;
    return w->status == HEARTH_OK;
}

static hearth_status walk_all(const char *cache, visit_model_fn function, void *user_data, hearth_error *err)
{
    walk w = { .cache = cache, .function = function, .user_data = user_data, .err = err };

    (void)visit(cache, walk_repo, &w); /* likewise */
    return w.status;
}

/* ---- the list ---- */

typedef struct list {
    hth_hub_model *models;
    size_t n, capacity;
} list;

static bool add_model(const hth_hub_shelf *shelf, const hth_hub_listing *listing, const hth_hub_file *first,
                      const char *name, void *user_data)
{
    list *l = user_data;
    hth_hub_model *model;
    hth_hub_model *models = l->n < MODELS_MAX ? hth_grown_by(l->models, l->n, 1, &l->capacity, sizeof(*models)) : NULL;
    struct stat st;

    if (!models)
        return false;
    l->models = models;
    model = &models[l->n];
    *model = (hth_hub_model){ .bytes = 0 };
    (void)snprintf(model->name, sizeof(model->name), "%s", name);
    (void)hth_hub_quant_of(first->path, model->quant); /* "" is a valid result */
    if (!hth_hub_snapshot_path(shelf, listing->commit, first->path, model->path) || stat(model->path, &st) != 0)
        return true; /* it was removed meanwhile */
    model->used = (uint64_t)(st.st_atime > st.st_mtime ? st.st_atime : st.st_mtime);
    for (size_t i = 0; i < listing->n; i++)
        if (hth_hub_is_same_model(listing->files[i].path, first->path))
            model->bytes += listing->files[i].bytes;
    l->n++;
    return true;
}

/* By name; of equal names, the most recently used first. */
static int by_name(const void *a, const void *b)
{
    const hth_hub_model *first = a, *second = b;
    const int order = strcmp(first->name, second->name);

    return order != 0 ? order : first->used > second->used ? -1 : first->used < second->used;
}

hearth_status hth_hub_models_read(const char *cache, hth_hub_model **out, size_t *n_out, hearth_error *err)
{
    list l = { .models = NULL };
    const hearth_status status = walk_all(cache, add_model, &l, err);
    size_t n = 0;

    if (status != HEARTH_OK) {
        free(l.models);
        return status;
    }
    if (l.n > 0)
        qsort(l.models, l.n, sizeof(*l.models), by_name);
    for (size_t i = 0; i < l.n; i++) /* a model in several snapshots is listed once */
        if (i == 0 || strcmp(l.models[i].name, l.models[n - 1].name) != 0)
            l.models[n++] = l.models[i];
    *out = l.models;
    *n_out = n;
    return HEARTH_OK;
}

/* ---- removal ---- */

typedef struct removal {
    const char *name;
    hth_hub_shelf shelf; /* of the repository that contains it */
    char (*digests)[HTH_HUB_DIGEST_BYTES];
    size_t n, capacity;
    uint64_t n_freed;
    bool found;
    hearth_status status; /* of the first failure, with its message */
    hearth_error *err;
} removal;

static bool remove_name(removal *r, const char *path)
{
    if (unlink(path) == 0)
        return true;
    if (errno != ENOENT && r->status == HEARTH_OK)
        r->status = hth_fail_errno(r->err, errno, "cannot remove '%s'", path);
    return false;
}

/* Remove the directories of a file, innermost first, as long as they are empty. */
static void remove_empty_folders(const char *path, const char *outermost)
{
    char folder[PATH_MAX];

    (void)snprintf(folder, sizeof(folder), "%s", path); /* as long */
    for (char *slash = strrchr(folder, '/'); slash; slash = strrchr(folder, '/')) {
        *slash = '\0';
        if (strlen(folder) < strlen(outermost) || rmdir(folder) != 0)
            return;
    }
}

static bool unlink_model(const hth_hub_shelf *shelf, const hth_hub_listing *listing, const hth_hub_file *first,
                         const char *name, void *user_data)
{
    removal *r = user_data;
    char path[PATH_MAX];

    if (strcmp(name, r->name) != 0)
        return true;
    r->found = true;
    r->shelf = *shelf;
    for (size_t i = 0; i < listing->n; i++) {
        const hth_hub_file *file = &listing->files[i];
        void *grown;

        if (!hth_hub_is_same_model(file->path, first->path))
            continue;
        grown = hth_grown_by(r->digests, r->n, 1, &r->capacity, sizeof(*r->digests));
        if (!grown)
            return false;
        r->digests = grown;
        (void)snprintf(r->digests[r->n++], HTH_HUB_DIGEST_BYTES, "%s", file->digest);
        if (!hth_hub_snapshot_path(shelf, listing->commit, file->path, path))
            continue;
        if (remove_name(r, path) && !file->digest[0])
            r->n_freed += file->bytes; /* a file, not a link */
        remove_empty_folders(path, shelf->folder);
    }
    return true;
}

typedef struct link_search {
    const char *folder;
    const char *digest;
    unsigned level;
    bool found;
} link_search;

/* Does any link below the directory lead to the blob? Anything that cannot be examined counts as found. */
static bool search_link(const char *name, void *user_data)
{
    link_search *s = user_data;
    char path[PATH_MAX], target[PATH_MAX];
    struct stat st;
    ssize_t n;

    if (snprintf(path, sizeof(path), "%s/%s", s->folder, name) >= (int)sizeof(path)) {
        s->found = true;
    } else if (lstat(path, &st) != 0) {
        s->found = errno != ENOENT;
    } else if (S_ISDIR(st.st_mode)) {
        link_search inner = { .folder = path, .digest = s->digest, .level = s->level + 1 };

        s->found = inner.level > LEVELS_MAX || !visit(path, search_link, &inner) || inner.found;
    } else if (S_ISLNK(st.st_mode)) {
        n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        s->found = n < 0 ? errno != ENOENT : strcmp(hth_gguf_base_name(target), s->digest) == 0;
    }
    return !s->found;
}

/* Open and lock the lock of a blob. -1, with the reason in err, if that fails. */
static int lock_blob(const hth_hub_shelf *shelf, const char *digest, hearth_status *status, hearth_error *err)
{
    char path[PATH_MAX];
    int fd, result;

    if (!hth_hub_lock_path(shelf, digest, path)) {
        *status = hth_fail(err, HEARTH_MISUSE, "the path of its lock is too long");
        return -1;
    }
    *status = hth_hub_make_folders(path, err);
    if (*status != HEARTH_OK)
        return -1;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    result = fd < 0 ? -errno : hth_fs_lock(hth_fs_system(), fd, HTH_FS_LOCK_TRY);
    if (result == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    *status = result == -EWOULDBLOCK ? hth_fail(err, HEARTH_BUSY, "another process downloads or removes it")
                                     : hth_fail_errno(err, -result, "cannot lock '%s'", path);
    return -1;
}

/* A running download has the lock, and links the blob next. Without the lock, the blob is kept. */
static void remove_blob(removal *r, const char *digest)
{
    char blob[PATH_MAX], snapshots[PATH_MAX];
    link_search search = { .folder = snapshots, .digest = digest };
    hearth_status status;
    hearth_error err;
    struct stat st;
    int fd;

    if (!digest[0] || !hth_hub_blob_path(&r->shelf, digest, blob) ||
        snprintf(snapshots, sizeof(snapshots), "%s/snapshots", r->shelf.folder) >= (int)sizeof(snapshots) ||
        stat(blob, &st) != 0)
        return;
    fd = lock_blob(&r->shelf, digest, &status, &err);
    if (fd < 0) {
        if (r->status == HEARTH_OK)
            r->status = hth_fail(r->err, status, "'%s' stays: %s", blob, err.message);
        return;
    }
    if (visit(snapshots, search_link, &search) && !search.found && remove_name(r, blob))
        r->n_freed += (uint64_t)st.st_size;
    (void)close(fd); /* which unlocks it */
}

/* A ref to a removed snapshot would make the cache look as if it had the revision. */
typedef struct refs {
    const hth_hub_shelf *shelf;
    const char *folder; /* below refs/, with a trailing '/', or "" */
    unsigned level;
} refs;

static bool remove_ref(const char *name, void *user_data)
{
    const refs *r = user_data;
    char commit[HTH_HUB_COMMIT_BYTES], ref[PATH_MAX], path[PATH_MAX], snapshot[PATH_MAX];
    struct stat st;

    if (snprintf(ref, sizeof(ref), "%s%s", r->folder, name) >= (int)sizeof(ref) ||
        snprintf(path, sizeof(path), "%s/refs/%s", r->shelf->folder, ref) >= (int)sizeof(path) || lstat(path, &st) != 0)
        return true;
    if (S_ISDIR(st.st_mode) && r->level < LEVELS_MAX && strlen(ref) + 1 < sizeof(ref)) {
        refs inner = { .shelf = r->shelf, .folder = ref, .level = r->level + 1 };

        (void)snprintf(ref + strlen(ref), 2, "/");
        (void)visit(path, remove_ref, &inner);
        (void)rmdir(path); /* fails where it is not empty */
    } else if (hth_hub_commit_read(r->shelf, ref, commit) &&
               snprintf(snapshot, sizeof(snapshot), "%s/snapshots/%s", r->shelf->folder, commit) <
                   (int)sizeof(snapshot) &&
               stat(snapshot, &st) != 0 && errno == ENOENT)
        (void)unlink(path);
    return true;
}

static void remove_rest(const hth_hub_shelf *shelf)
{
    static const char *const folders[] = { "refs", "blobs", "snapshots" };
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/refs", shelf->folder) < (int)sizeof(path))
        (void)visit(path, remove_ref, &(refs){ .shelf = shelf, .folder = "" }); /* a ref to nothing is harmless */
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (snprintf(path, sizeof(path), "%s/%s", shelf->folder, folders[i]) < (int)sizeof(path))
            (void)rmdir(path);  /* fails where it is not empty */
    (void)rmdir(shelf->folder); /* likewise */
}

hearth_status hth_hub_model_remove(const char *cache, const char *name, uint64_t *n_out, hearth_error *err)
{
    removal r = { .name = name, .err = err };
    hearth_status status = walk_all(cache, unlink_model, &r, err);

    if (status == HEARTH_OK && !r.found)
        status = hth_fail(err, HEARTH_NOT_FOUND,
                          "there is no model '%.300s' in '%s'; 'hearth models ls' lists the names", name, cache);
    for (size_t i = 0; i < r.n; i++)
        remove_blob(&r, r.digests[i]);
    if (r.found)
        remove_rest(&r.shelf);
    if (status == HEARTH_OK)
        status = r.status;
    if (status == HEARTH_OK)
        *n_out = r.n_freed;
    free(r.digests);
    return status;
}
