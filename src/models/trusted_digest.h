/*
 * trusted_digest.h - the SHA-256 that came with a file, which is used instead of hashing the file
 *
 *   PATH.sha256             one line as from sha256sum, next to the file: 64 hex digits, optionally the file name
 *   models--.../blobs/HEX   the file itself, named by its digest, in the cache of a hub (hub/shelf.h)
 *   blobs/sha256-HEX        the same in Ollama's directory (hub/ollama.h)
 *
 * The bytes are not checked, so a wrong digest makes two models share rows. A digest counts only if it and its
 * directory belong to this user or to root, no other user can write to them, and it is newer than the file: a digest
 * next to the file must have been written and put in place after the file. The name of a blob counts only through a
 * link that was made after the last change of the blob.
 */
#ifndef HTH_MODELS_TRUSTED_DIGEST_H
#define HTH_MODELS_TRUSTED_DIGEST_H

#include <sys/stat.h>

#include "base/hash.h"
#include "base/log.h"

/*
 * The digest of the file at path, whose fstat is *file. False if the file must be hashed, with a warning if there is a
 * digest that does not count. A path that is too long has no digest.
 */
bool hth_trusted_digest(const char *path, const struct stat *file, const hth_log *log, uint8_t out[HTH_SHA256_BYTES]);

#endif
