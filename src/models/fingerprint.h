/*
 * fingerprint.h - which model a file is
 *
 * A fingerprint stands at the beginning of every cache key, so two files with one fingerprint would share rows. Hashing
 * all of a large file takes seconds; a memo keeps the result under (device, inode, size, modification and status-change
 * time), so that a restart does not hash it again.
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

#include "base/status.h"

typedef struct hth_fingerprint {
    uint8_t bytes[32];
    struct stat file; /* as it was before it was read */
    bool is_from_memo;
} hth_fingerprint;

/* Who goes along while a file is read. */
typedef struct hth_fingerprint_watch {
    atomic_bool is_cancelled;          /* once it is true, HEARTH_CANCELLED ends it */
    void (*on_piece)(void *user_data); /* before each piece of it, a megabyte; may be NULL */
    void *user_data;
} hth_fingerprint_watch;

/*
 * Fingerprint the file at path. memo_directory (NULL: no memo) is created when missing; a memo that cannot be read or
 * written is only slower. watch may be NULL. Other statuses are those of hth_fail_errno.
 */
hearth_status hth_fingerprint_file(const char *path, hearth_fingerprint_mode mode, const char *memo_directory,
                                   const hth_fingerprint_watch *watch, hth_fingerprint *out, hearth_error *err);

#endif
