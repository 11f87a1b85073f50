/*
 *   1. lock the blob, and check whether it exists now
 *   2. several threads request runs of missing pieces and save each complete piece (partial.h)
 *   3. meanwhile this thread hashes the pieces in order
 *   4. if the digest is right, the partial file becomes the blob
 *   5. the snapshot gets a link to the blob, and the lock is released; a removal finds both or neither
 *
 * A blob that existed in step 1 and has no link from the snapshot yet is hashed before step 5, because a link means
 * that the bytes were right when it was made (models/trusted_digest.h). A correct link is not changed. A blob of a
 * registry gets no link; the manifest that is written later (registry.c) has the same meaning.
 *
 * A thread whose connection breaks requests the rest of its run. If the server does not support ranges, the threads
 * end, and the last of them reads the whole file alone and skips the pieces that are present.
 *
 * Invariant: a blob has its name only when its bytes had the right digest and were synced.
 */
#include "hub/download.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/status.h"
#include "hub/client.h"
#include "hub/partial.h"

enum {
    CONNECTIONS = 4,
    RUN_PIECES_MAX = 8,     /* of one request */
    SHOW_MS = 250,          /* between two calls of on_progress */
    PROGRESS_BYTES = 65536, /* enough progress that a broken connection is not counted as a failure */
    SHA1_BYTES_MAX = 64 << 20,
    SHA1_DIGITS = 2 * HTH_GIT_ID_BYTES,
};

typedef struct download {
    const hth_hub_settings *settings;
    const hth_hub_blob *blob;
    const hth_hub_file *file; /* of the blob */
    const hth_hub_watch *watch;
    hth_hub_partial partial; /* its marks are guarded by the lock */

    /* Guards the fields below. No file is touched and no callback runs while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool *claimed; /* [n_pieces]; assigned to a running thread, or present */
    bool takes_no_ranges;
    bool failed; /* status and err are those of the first failure */
    hearth_status status;
    hearth_error err;
    uint64_t n_arrived; /* bytes of the file that are present, including those of unfinished pieces */
    unsigned n_at_work;
} download;

typedef struct transfer {
    download *d;
    hth_hub_client client;
    uint64_t begin; /* of the requested bytes; 0 for a whole file */
    uint64_t at, end;
    bool is_whole;    /* without a range */
    uint64_t n_fresh; /* bytes of a range since the last failure */
} transfer;

/* ---- shared state ---- */

static void fail_with(download *d, hearth_status status, const hearth_error *err)
{
    pthread_mutex_lock(&d->lock);
    if (!d->failed) {
        d->status = status;
        d->err = *err;
    }
    d->failed = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* A range must not change bytes that the reader of the whole file has written. */
static bool must_end_locked(const transfer *t)
{
    return t->d->failed || (t->d->takes_no_ranges && !t->is_whole);
}

static bool must_end(transfer *t)
{
    bool result;

    pthread_mutex_lock(&t->d->lock);
    result = must_end_locked(t);
    pthread_mutex_unlock(&t->d->lock);
    return result;
}

/* False if the transfer must end. */
static bool wait_ms(transfer *t, uint32_t ms)
{
    download *d = t->d;
    const struct timespec deadline = hth_deadline_after(ms);
    int result = 0;
    bool goes_on;

    pthread_mutex_lock(&d->lock);
    while (!must_end_locked(t) && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&d->changed, &d->lock, &deadline);
    goes_on = !must_end_locked(t);
    pthread_mutex_unlock(&d->lock);
    return goes_on;
}

/* The next run of pieces for a thread. False if there is none; the thread is then no longer at work. */
static bool claim(transfer *t)
{
    download *d = t->d;
    const hth_hub_partial *p = &d->partial;
    size_t first = 0, n_max = p->n_pieces / CONNECTIONS, n = 0;

    n_max = n_max < 1 ? 1 : n_max > RUN_PIECES_MAX ? RUN_PIECES_MAX : n_max;
    pthread_mutex_lock(&d->lock);
    while (first < p->n_pieces && d->claimed[first])
        first++;
    t->is_whole = d->takes_no_ranges;
    if (t->is_whole && d->n_at_work == 1 && !d->failed)
        n = p->n_pieces - first;
    for (; !must_end_locked(t) && !t->is_whole && n < n_max && first + n < p->n_pieces && !d->claimed[first + n]; n++)
        d->claimed[first + n] = true;
    if (n == 0) {
        d->n_at_work--; /* under the same lock, so that one thread is the last */
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    if (n == 0)
        return false;
    t->at = t->is_whole ? 0 : (uint64_t)first * HTH_HUB_PIECE_BYTES;
    t->end = hth_hub_piece_end(p, first + n - 1);
    return true;
}

/* Return the missing pieces of the run, so that another thread can take them. */
static void give_back(transfer *t)
{
    download *d = t->d;

    pthread_mutex_lock(&d->lock);
    d->n_arrived -= t->at % HTH_HUB_PIECE_BYTES;
    for (size_t i = (size_t)(t->at / HTH_HUB_PIECE_BYTES); (uint64_t)i * HTH_HUB_PIECE_BYTES < t->end; i++)
        d->claimed[i] = d->partial.marks[i];
    pthread_mutex_unlock(&d->lock);
}

/* ---- one transfer ---- */

static bool refuse_size(download *d, const char *cause)
{
    hearth_error err;

    fail_with(d,
              hth_fail(&err, HEARTH_CORRUPT,
                       "the %s lists '%s' with %" PRIu64 " bytes, but %s; pull again later, or tell its owner",
                       d->settings->called, d->file->path, d->file->bytes, cause),
              &err);
    return false;
}

/* The hub repeats the size and digest of the file before it redirects. */
static bool check_head(hth_fetch *fetch, void *user_data)
{
    const transfer *t = user_data;
    download *d = t->d;
    const char *size = hth_fetch_header(fetch, "X-Linked-Size"), *etag = hth_fetch_header(fetch, "X-Linked-ETag");
    hearth_error err;

    if (size && strtoull(size, NULL, 10) != d->file->bytes)
        return refuse_size(d, "now tells another size");
    if (etag && strncmp(etag, "W/", 2) == 0)
        etag += 2;
    if (etag)
        etag += *etag == '"';
    if (!etag || strncasecmp(etag, d->file->digest, strlen(d->file->digest)) == 0)
        return true;
    fail_with(d, hth_fail(&err, HEARTH_CORRUPT, "the hub tells two digests of '%s'; pull again", d->file->path), &err);
    return false;
}

/* "bytes 0-99/1000" */
static bool check_range(hth_fetch *fetch, const transfer *t)
{
    const char *text = hth_fetch_header(fetch, "Content-Range");
    const char *slash = text ? strchr(text, '/') : NULL;

    /* "*" instead of a range belongs to an error response, and a missing number is not 0. */
    if (!slash || strncmp(text, "bytes ", 6) != 0 || !isdigit((unsigned char)text[6]) ||
        strtoull(text + 6, NULL, 10) != t->begin)
        return refuse_size(t->d, "its storage sends other bytes than the asked ones");
    return strtoull(slash + 1, NULL, 10) == t->d->file->bytes || refuse_size(t->d, "its storage has another size");
}

static bool keep_piece(download *d, size_t piece)
{
    hearth_error err;
    const hearth_status status = hth_hub_partial_keep(&d->partial, piece, &err);

    if (status != HEARTH_OK) {
        fail_with(d, status, &err);
        return false;
    }
    pthread_mutex_lock(&d->lock);
    d->partial.marks[piece] = true;
    d->claimed[piece] = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return true;
}

/* Write bytes within one piece. Hashed bytes must not change, so a piece that is present is not written again. */
static bool take_part(transfer *t, const char *bytes, size_t n)
{
    download *d = t->d;
    const size_t piece = (size_t)(t->at / HTH_HUB_PIECE_BYTES);
    hearth_error err;
    hearth_status status;
    bool is_there;

    pthread_mutex_lock(&d->lock);
    is_there = d->partial.marks[piece];
    pthread_mutex_unlock(&d->lock);
    if (!is_there) {
        status = hth_hub_partial_write(&d->partial, bytes, n, t->at, &err);
        if (status != HEARTH_OK) {
            fail_with(d, status, &err);
            return false;
        }
        pthread_mutex_lock(&d->lock);
        d->n_arrived += n;
        pthread_mutex_unlock(&d->lock);
    }
    t->at += n;
    t->n_fresh += n;
    if (!t->is_whole && t->n_fresh >= PROGRESS_BYTES)
        t->client.n_failures = 0;
    if (is_there || t->at < hth_hub_piece_end(&d->partial, piece))
        return true;
    if (!keep_piece(d, piece))
        return false;
    t->client.n_failures = 0; /* a whole file starts over after a failure: only its saved pieces count as progress */
    return true;
}

static bool take_bytes(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data)
{
    transfer *t = user_data;
    download *d = t->d;
    const char *next = bytes;

    if (must_end(t))
        return false;
    if (status == 200 && !t->is_whole) {
        pthread_mutex_lock(&d->lock);
        d->takes_no_ranges = true;
        pthread_cond_broadcast(&d->changed); /* wakes the others */
        pthread_mutex_unlock(&d->lock);
        return false;
    }
    if (status == 206 && (t->is_whole || (t->at == t->begin && !check_range(fetch, t))))
        return t->is_whole ? refuse_size(d, "its storage sends a part of it only") : false;
    if (n_bytes > t->end - t->at)
        return refuse_size(d, "its storage sends more");
    while (n_bytes > 0) {
        const uint64_t piece_end = hth_hub_piece_end(&d->partial, (size_t)(t->at / HTH_HUB_PIECE_BYTES));
        const size_t n = n_bytes < piece_end - t->at ? n_bytes : (size_t)(piece_end - t->at);

        if (!take_part(t, next, n))
            return false;
        next += n;
        n_bytes -= n;
    }
    return true;
}

/* Transfer the whole run, with as many requests as needed. False if it is abandoned. */
static bool transfer_run(transfer *t)
{
    download *d = t->d;
    hearth_error err = { .message = "" };
    hth_hub_outcome outcome;

    do {
        hth_hub_question question = { .path = d->blob->url,
                                      .subject = d->file->path,
                                      .keeps_landing = true,
                                      .on_head = check_head,
                                      .on_bytes = take_bytes,
                                      .user_data = t };

        if (t->is_whole && t->at % HTH_HUB_PIECE_BYTES != 0) {
            pthread_mutex_lock(&d->lock);
            if (!d->partial.marks[t->at / HTH_HUB_PIECE_BYTES])
                d->n_arrived -= t->at % HTH_HUB_PIECE_BYTES;
            pthread_mutex_unlock(&d->lock);
        }
        if (t->is_whole)
            t->at = 0;
        t->begin = t->at;
        question.begin = t->is_whole ? 0 : t->at;
        question.end = t->is_whole ? 0 : t->end;
        t->n_fresh = 0;
        outcome = hth_hub_ask(&t->client, &question, &err);
        if (outcome == HTH_HUB_STOPPED)
            return false; /* d has the reason, or its pieces come with the whole file */
        if (outcome == HTH_HUB_DONE && t->at < t->end) {
            /* A server that repeatedly ends early without an error reports a wrong size. */
            (void)hth_fail(&err, HEARTH_CORRUPT, "the %s's storage ends '%s' early", d->settings->called,
                           d->file->path);
            outcome = t->client.n_failures++ < CONNECTIONS ? HTH_HUB_AGAIN : HTH_HUB_FAILED;
            t->client.wait_ms = SHOW_MS;
        }
    } while (outcome == HTH_HUB_AGAIN && wait_ms(t, t->client.wait_ms));
    if (outcome == HTH_HUB_FAILED)
        fail_with(d, HEARTH_IO, &err);
    return outcome == HTH_HUB_DONE;
}

static void *transfer_pieces(void *user_data)
{
    transfer *t = user_data;

    while (claim(t))
        if (!transfer_run(t))
            give_back(t);
    return NULL;
}

/* ---- the checksum ---- */

static hearth_status hash_piece(const hth_hub_partial *partial, size_t piece, hth_sha256 *sha, hearth_error *err)
{
    enum { CHUNK_BYTES = 256 << 10 };
    const uint64_t end = hth_hub_piece_end(partial, piece);
    char *chunk = malloc(CHUNK_BYTES);
    hearth_status status = chunk ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a checksum");

    for (uint64_t at = (uint64_t)piece * HTH_HUB_PIECE_BYTES; status == HEARTH_OK && at < end;) {
        const size_t n = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;

        status = hth_hub_partial_read(partial, chunk, n, at, err);
        if (status == HEARTH_OK)
            hth_sha256_update(sha, chunk, n);
        at += n;
    }
    free(chunk);
    return status;
}

static hearth_status git_digest(const hth_hub_partial *partial, char out[HTH_HUB_DIGEST_BYTES], hearth_error *err)
{
    uint8_t id[HTH_GIT_ID_BYTES];
    const size_t n = (size_t)partial->bytes;
    char *bytes = malloc(n);
    hearth_status status = bytes ? hth_hub_partial_read(partial, bytes, n, 0, err)
                                 : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a checksum");

    if (status == HEARTH_OK) {
        hth_git_blob_id(bytes, n, id);
        hth_hex_encode(id, sizeof(id), out);
    }
    free(bytes);
    return status;
}

/* Wait for a piece, showing progress meanwhile. False if it cannot be had. */
static bool wait_for(download *d, size_t piece)
{
    bool is_there, at_work;
    uint64_t n_arrived;

    do {
        const struct timespec deadline = hth_deadline_after(SHOW_MS);
        int result = 0;

        pthread_mutex_lock(&d->lock);
        while (!d->partial.marks[piece] && d->n_at_work > 0 && result != ETIMEDOUT)
            result = pthread_cond_timedwait(&d->changed, &d->lock, &deadline);
        is_there = d->partial.marks[piece];
        at_work = d->n_at_work > 0;
        n_arrived = d->n_arrived;
        pthread_mutex_unlock(&d->lock);
        if (d->watch->on_progress)
            d->watch->on_progress(d->file->path, n_arrived, d->file->bytes, d->watch->user_data);
    } while (!is_there && at_work);
    return is_there;
}

/* The digest of a blob, of which pieces are still to come if waits is true. */
static hearth_status digest(download *d, const hth_hub_partial *partial, bool waits, char out[HTH_HUB_DIGEST_BYTES],
                            hearth_error *err)
{
    const bool is_git = strlen(d->file->digest) == SHA1_DIGITS;
    uint8_t bytes[HTH_SHA256_BYTES];
    hth_sha256 *sha = hth_sha256_new();
    hearth_status status = sha ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a checksum");

    for (size_t i = 0; i < partial->n_pieces && status == HEARTH_OK; i++) {
        if (waits && !wait_for(d, i))
            status = d->failed ? hth_fail(err, d->status, "%s", d->err.message) /* the threads have ended */
                               : hth_fail(err, HEARTH_IO, "'%s' did not come; pull again", d->file->path);
        else if (!is_git)
            status = hash_piece(partial, i, sha, err);
    }
    if (status == HEARTH_OK && is_git) {
        status = git_digest(partial, out, err);
    } else if (status == HEARTH_OK) {
        hth_sha256_peek(sha, bytes);
        hth_hex_encode(bytes, sizeof(bytes), out);
    }
    hth_sha256_free(sha);
    return status;
}

static hearth_status digest_of_blob(download *d, char out[HTH_HUB_DIGEST_BYTES], hearth_error *err)
{
    hth_hub_partial whole = { .fd = open(d->blob->path, O_RDONLY | O_CLOEXEC),
                              .bytes = d->file->bytes,
                              .n_pieces = (size_t)((d->file->bytes + HTH_HUB_PIECE_BYTES - 1) / HTH_HUB_PIECE_BYTES) };
    hearth_status status;

    (void)snprintf(whole.path, sizeof(whole.path), "%s", d->blob->path); /* as long */
    status =
        whole.fd < 0 ? hth_fail_errno(err, errno, "cannot read '%s'", whole.path) : digest(d, &whole, false, out, err);
    hth_hub_partial_close(&whole);
    return status;
}

/* ---- the download ---- */

static size_t start_threads(download *d, transfer transfers[CONNECTIONS], pthread_t threads[CONNECTIONS],
                            hearth_error *err)
{
    const size_t n_wanted = d->partial.n_pieces < CONNECTIONS ? d->partial.n_pieces : CONNECTIONS;
    size_t n = 0;

    while (n < n_wanted) {
        transfer *t = &transfers[n];

        *t = (transfer){ .d = d };
        if (hth_hub_client_init(&t->client, d->settings, d->blob->repo, err) != HEARTH_OK)
            break;
        pthread_mutex_lock(&d->lock);
        d->n_at_work++;
        pthread_mutex_unlock(&d->lock);
        if (pthread_create(&threads[n], NULL, transfer_pieces, t) != 0) {
            pthread_mutex_lock(&d->lock);
            d->n_at_work--;
            pthread_mutex_unlock(&d->lock);
            hth_hub_client_deinit(&t->client);
            (void)hth_fail(err, HEARTH_NO_MEMORY, "no thread can be started for a download");
            break;
        }
        n++;
    }
    return n; /* fewer connections are enough */
}

static hearth_status transfer_all(download *d, hearth_error *err)
{
    transfer *transfers = calloc(CONNECTIONS, sizeof(*transfers)); /* too large for a stack */
    pthread_t threads[CONNECTIONS];
    char found[HTH_HUB_DIGEST_BYTES];
    size_t n;
    hearth_status status;

    if (!transfers)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a download");
    for (size_t i = 0; i < d->partial.n_pieces; i++) {
        d->claimed[i] = d->partial.marks[i];
        if (d->claimed[i])
            d->n_arrived += hth_hub_piece_end(&d->partial, i) - (uint64_t)i * HTH_HUB_PIECE_BYTES;
    }
    if (d->watch->on_progress)
        d->watch->on_progress(d->file->path, d->n_arrived, d->file->bytes, d->watch->user_data);
    n = start_threads(d, transfers, threads, err);
    status = n > 0 ? digest(d, &d->partial, true, found, err) : HEARTH_NO_MEMORY;
    if (status != HEARTH_OK)
        fail_with(d, status, &(hearth_error){ .message = "" }); /* ends the threads; the first failure is kept */
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL); /* it was started */
        hth_hub_client_deinit(&transfers[i].client);
    }
    free(transfers);
    if (status != HEARTH_OK)
        return status;
    if (strcmp(found, d->file->digest) != 0) {
        hth_hub_partial_remove(&d->partial);
        return hth_fail(err, HEARTH_CORRUPT,
                        "the bytes of '%s' are not those that the %s lists: their digest is %.12s..., not %.12s...; "
                        "they were deleted; pull again",
                        d->file->path, d->settings->called, found, d->file->digest);
    }
    return hth_hub_partial_finish(&d->partial, d->blob->path, err);
}

static hearth_status download_missing(download *d, hearth_error *err)
{
    hearth_status status;

    status = hth_hub_partial_open(&d->partial, d->blob->path, d->file->bytes, d->settings->cache_variable, err);
    if (status == HEARTH_OK) {
        d->claimed = calloc(d->partial.n_pieces, sizeof(*d->claimed));
        status = d->claimed ? transfer_all(d, err)
                            : hth_fail(err, HEARTH_NO_MEMORY, "no memory for the pieces of '%s'", d->file->path);
    }
    hth_hub_partial_close(&d->partial);
    free(d->claimed);
    return status;
}

/* The place of a blob's link; shelf NULL: no link. */
typedef struct link_place {
    const hth_hub_shelf *shelf;
    const char *commit;
} link_place;

/* The blob's lock is held. */
static hearth_status download_locked(download *d, const link_place *place, hearth_error *err)
{
    char found[HTH_HUB_DIGEST_BYTES];
    hearth_status status = HEARTH_OK;

    if (!hth_hub_blob_is_there(d->blob->path, d->file->bytes)) {
        status = download_missing(d, err);
    } else if (place->shelf ? hth_hub_is_linked(place->shelf, place->commit, d->file) : d->blob->is_known) {
        return HEARTH_OK;
    } else {
        status = digest_of_blob(d, found, err);
        if (status == HEARTH_OK && strcmp(found, d->file->digest) != 0) {
            if (d->watch->on_note)
                d->watch->on_note("the file changed since it was downloaded; it is downloaded again",
                                  d->watch->user_data);
            status = download_missing(d, err);
        }
    }
    return status == HEARTH_OK && place->shelf ? hth_hub_link(place->shelf, place->commit, d->file, err) : status;
}

/* The kernel releases the lock when its holder dies. */
static hearth_status lock(download *d, int *fd_out, hearth_error *err)
{
    const hth_fs *fs = hth_fs_system();
    const char *path = d->blob->lock;
    int fd, result;
    hearth_status status = hth_hub_make_folders(path, err);

    if (status != HEARTH_OK)
        return status;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 && errno == ELOOP)
        return hth_fail(err, HEARTH_PERMISSION,
                        "the lock '%s' is a symbolic link, which may lead to a file of somebody else; remove it", path);
    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot open the lock '%s'", path);
    result = hth_fs_lock(fs, fd, HTH_FS_LOCK_TRY);
    if (result == -EWOULDBLOCK) {
        if (d->watch->on_note)
            d->watch->on_note("another process downloads this file; waiting for it", d->watch->user_data);
        result = hth_fs_lock(fs, fd, HTH_FS_LOCK_HOLD);
    }
    if (result < 0) {
        (void)close(fd); /* nothing was written */
        return hth_fail_errno(err, -result, "cannot lock '%s'", path);
    }
    *fd_out = fd;
    return HEARTH_OK;
}

static hearth_status run(const hth_hub_settings *settings, const hth_hub_blob *blob, const link_place *place,
                         const hth_hub_watch *watch, hearth_error *err)
{
    download *d;
    int lock_fd = -1;
    hearth_status status = hth_hub_make_folders(blob->path, err);

    if (status != HEARTH_OK)
        return status;
    d = calloc(1, sizeof(*d)); /* too large for a stack */
    if (!d)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a download");
    d->settings = settings;
    d->blob = blob;
    d->file = blob->file;
    d->watch = watch;
    pthread_mutex_init(&d->lock, NULL);
    hth_condition_init(&d->changed);
    status = lock(d, &lock_fd, err);
    if (status == HEARTH_OK)
        status = download_locked(d, place, err);
    if (lock_fd >= 0)
        (void)close(lock_fd); /* which unlocks it */
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
    return status;
}

hearth_status hth_hub_download_blob(const hth_hub_settings *settings, const hth_hub_blob *blob,
                                    const hth_hub_watch *watch, hearth_error *err)
{
    return run(settings, blob, &(link_place){ .shelf = NULL }, watch, err);
}

hearth_status hth_hub_download(const hth_hub_settings *settings, const hth_hub_shelf *shelf, const char *repo,
                               const char *commit, const hth_hub_file *file, const hth_hub_watch *watch,
                               hearth_error *err)
{
    char escaped[3 * HTH_HUB_PATH_BYTES], url[HTH_FETCH_URL_BYTES], path[PATH_MAX], lock_path[PATH_MAX];
    const hth_hub_blob blob = { .repo = repo, .file = file, .url = url, .path = path, .lock = lock_path };

    if (strlen(file->digest) == SHA1_DIGITS && file->bytes > SHA1_BYTES_MAX)
        return hth_fail(err, HEARTH_CORRUPT, "the hub gives no SHA-256 of '%s'; it could not be checked", file->path);
    if (!hth_hub_blob_path(shelf, file->digest, path) || !hth_hub_lock_path(shelf, file->digest, lock_path))
        return hth_fail(err, HEARTH_MISUSE, "the path of '%s' in the cache is too long; set HF_HUB_CACHE", file->path);
    if (!hth_hub_escape(file->path, "-._~/", escaped, sizeof(escaped)) ||
        snprintf(url, sizeof(url), "/%s/resolve/%s/%s", repo, commit, escaped) >= (int)sizeof(url))
        return hth_fail(err, HEARTH_MISUSE, "the address of '%s' is too long", file->path);
    return run(settings, &blob, &(link_place){ .shelf = shelf, .commit = commit }, watch, err);
}
