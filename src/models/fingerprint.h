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

#include <stdatomic.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/status.h"

typedef struct hth_fingerprint {
    uint8_t bytes[32];
    struct stat file; /* before the file was read */
    bool is_from_memo;
} hth_fingerprint;

/* Observes and cancels the reading of a file. */
typedef struct hth_fingerprint_watch {
    atomic_bool is_cancelled; /* true ends the reading with HEARTH_CANCELLED */
    /* Called before each piece of at most a MiB, with its offset in the file; may be NULL. */
    void (*on_piece)(uint64_t offset, void *user_data);
    void *user_data;
} hth_fingerprint_watch;

typedef struct hth_fingerprint_options {
    hearth_fingerprint_mode mode;
    const char *memo_directory;         /* created if missing; NULL: no memo */
    const hth_fingerprint_watch *watch; /* may be NULL */
    const hth_log *log;                 /* for trusted digests; may be NULL */
    bool trusts_digests; /* in mode safe, a digest that came with the file (trusted_digest.h) is not computed again */
} hth_fingerprint_options;

/* Fingerprint the file at path. A memo that cannot be read or written only costs time. Statuses of hth_fail_errno. */
hearth_status hth_fingerprint_file(const char *path, const hth_fingerprint_options *options, hth_fingerprint *out,
                                   hearth_error *err);

#endif
