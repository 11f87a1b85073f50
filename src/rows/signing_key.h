/*
 * signing_key.h - the secret that signs the rows of a cache
 *
 * A user who can write to a cache directory can put rows there that pass every checksum. With a signing key, rows are
 * written with an HMAC over the whole file, and only rows with a valid HMAC are used (kvc_signature.h).
 */
#ifndef HTH_ROWS_SIGNING_KEY_H
#define HTH_ROWS_SIGNING_KEY_H

#include "base/fs.h"
#include "base/hash.h"
#include "base/status.h"

#define HTH_SIGNING_KEY_BYTES_MIN 32
#define HTH_SIGNING_KEY_FILE_BYTES_MAX 4096

typedef hth_hmac_key hth_signing_key;

/*
 * Read a key from a file: 64 hex digits in either case, optionally followed by white space, stand for 32 bytes. Any
 * other HTH_SIGNING_KEY_BYTES_MIN .. HTH_SIGNING_KEY_FILE_BYTES_MAX bytes are the key itself, including line ends.
 *
 * fs NULL: the system's. The caller owns *out and frees it with hth_signing_key_free. Blocks on the file.
 *
 * HEARTH_PERMISSION if it is not a regular file of this user or of root (a symbolic link is not), or if group or others
 * may read or write it; HEARTH_CORRUPT if it is too short or too long; HEARTH_NOT_FOUND, HEARTH_IO, HEARTH_NO_MEMORY.
 * No message contains a byte of the key.
 */
hearth_status hth_signing_key_load(const hth_fs *fs, const char *path, hth_signing_key **out, hearth_error *err);

/* Wipes the key. Accepts NULL. */
static inline void hth_signing_key_free(hth_signing_key *key)
{
    hth_hmac_key_free(key);
}

#endif
