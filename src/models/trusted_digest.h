/*
 * trusted_digest.h - the SHA-256 that came with a file, which is taken instead of hashing the file
 *
 *   PATH.sha256             one line as of sha256sum, beside the file: 64 hex digits, and the name of the file or none
 *   models--.../blobs/HEX   the file itself in the cache of a hub (hub/shelf.h), which is named by its digest
 *   blobs/sha256-HEX        the same in Ollama's folder (hub/ollama.h)
 *
 * Nobody checks the bytes. So whoever writes a wrong digest makes two models share rows. A digest counts only if it and
 * its folder belong to this user or to root, nobody else may write to them, and it is younger than the file: the one
 * beside the file must have been written after the file and come to its place after it. The name of a blob counts only
 * through a link that was set after the last change of the blob.
 */
#ifndef HTH_MODELS_TRUSTED_DIGEST_H
#define HTH_MODELS_TRUSTED_DIGEST_H

#include <sys/stat.h>

#include "base/hash.h"
#include "base/log.h"

/*
 * The digest of the file at path, whose fstat is *file. False, with a warning where there is one that does not count:
 * hash the file. A path that is too long has none.
 */
bool hth_trusted_digest(const char *path, const struct stat *file, const hth_log *log, uint8_t out[HTH_SHA256_BYTES]);

#endif
