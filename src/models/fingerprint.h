/*
 * fingerprint.h - the digest that identifies a model file
 *
 * Every cache key begins with a fingerprint, so two files with the same fingerprint would share rows. Hashing a large
 * file takes seconds. So a memo stores the result under (device, inode, size, modification time, status-change time),
 * and a restart does not hash the file again.
 *
 *   safe          SHA-256 of every byte
 *   gguf_chunked  SHA-256("hearth-gguf-chunked-v1" || size u64le || first MiB || 256 samples of 64 KiB, evenly spaced
 *                 over the rest || last 64 KiB)
 *   fast_unsafe   SHA-256("hearth-fast-unsafe-v1" || size u64le || mtime in ns u64le || absolute path)
 */
#ifndef HTH_MODELS_FINGERPRINT_H
#define HTH_MODELS_FINGERPRINT_H

#include <sys/stat.h>

#include "base/log.h"
#include "base/status.h"

typedef struct hth_fingerprint {
    uint8_t bytes[32];
    struct stat file; /* before the file was read */
    bool is_from_memo;
} hth_fingerprint;

typedef struct hth_fingerprint_options {
    hearth_fingerprint_mode mode;
    const char *memo_directory; /* created if missing; NULL: no memo */
    const hth_log *log;         /* for trusted digests; may be NULL */
    bool trusts_digests; /* in mode safe, a digest that came with the file (trusted_digest.h) is not computed again */
} hth_fingerprint_options;

/* Fingerprint the file at path. A memo that cannot be read or written only costs time. Statuses of hth_fail_errno. */
hearth_status hth_fingerprint_file(const char *path, const hth_fingerprint_options *options, hth_fingerprint *out,
                                   hearth_error *err);

/* ---- on a thread of its own ---- */

/*
 * Makes the fingerprint of a model while its file is loaded. Hashing takes about as long as loading, and the two are
 * independent. The file is read from the device once, because whichever is second finds it in the page cache.
 *
 * The fingerprint of a split model is SHA-256("hearth-split-v1" || number of parts u64le || fingerprint of each part).
 */
typedef struct hth_fingerprinting hth_fingerprinting;

/*
 * Begin with the file at path, or with all parts of the split model whose first part it is. The log must
 * outlive the result. hth_fingerprinting_wait reports errors of the files. During that wait, on_work (may be NULL) is
 * called for each piece that is read, to show progress.
 */
hearth_status hth_fingerprinting_new(const char *path, const hth_fingerprint_options *options, hearth_work_fn on_work,
                                     void *work_user_data, hth_fingerprinting **out, hearth_error *err);
/* Cancel, and wait for the thread. Accepts NULL. */
void hth_fingerprinting_free(hth_fingerprinting *fingerprinting);

/* The fraction of the bytes that have been hashed, 0 to 1. Any thread. */
float hth_fingerprinting_fraction(const hth_fingerprinting *fingerprinting);
/*
 * Wait for the fingerprint, once. Meanwhile progress (may be NULL) is called with this fraction, on the waiting thread,
 * and with 1 at the end; it cancels the work by returning false. HEARTH_IO if a file has changed, or was replaced,
 * since the beginning: the engine may have loaded other bytes than were hashed. HEARTH_CANCELLED.
 */
hearth_status hth_fingerprinting_wait(hth_fingerprinting *fingerprinting, hearth_load_progress_fn progress,
                                      void *user_data, uint8_t out[32], hearth_error *err);
/* Make it end soon. Any thread. */
void hth_fingerprinting_cancel(hth_fingerprinting *fingerprinting);

#endif
