/*
 * row_transfer.h - exports a cached prefix to one file, and imports it into rows
 *
 * An export walks from a row to the beginning of its prefix, reads and verifies every row on the way and joins their
 * states into one plain KVC file, which any reader of the format can load. The file starts at token 0, holds all tokens
 * and the engine's state of the whole sequence, and is a snapshot row to Hearth (docs/format.md, "Exported files"). It
 * contains the logits after the last token, if the cache has them.
 *
 * An import verifies such a file and puts its rows into a cache. If its state is that of plain attention, it is cut
 * into blocks and a tail; otherwise it is one snapshot row. A prompt that begins with those tokens then hits, for the
 * model and context parameters that the file names.
 *
 * Both work either directly on a file tier, alongside any processes that use it, or through an open cache. A row that
 * was just saved may be only in RAM, without any file. So with an open cache, an export borrows rows as a restore does,
 * and an import puts them where a save puts them. Any thread that may block may call them.
 */
#ifndef HTH_TRANSFER_ROW_TRANSFER_H
#define HTH_TRANSFER_ROW_TRANSFER_H

#include "base/folder_room.h"
#include "cache/cache.h"
#include "cache/file_tier.h"
#include "rows/signing_key.h"

/*
 * Called from time to time with the bytes done and the total, which does not change. On success, the last call reports
 * all bytes. Returning false ends the transfer with HEARTH_CANCELLED. Called on the calling thread; must not use the
 * tiers.
 */
typedef bool (*hth_transfer_progress_fn)(uint64_t bytes_done, uint64_t bytes_total, void *user_data);

/* ---- out of a cache ---- */

/* A zeroed struct holds the defaults. Pointers are only used during the call. */
typedef struct hth_export_options {
    bool replace;        /* replace an existing file of that name, which otherwise is an error */
    bool without_logits; /* leave the logits out */
    uint32_t n_tokens;   /* the prefix ends there, inside the last row (which must be divisible); 0: at its end */
    const hth_signing_key *signing_key; /* refuse rows not signed with it, and sign the file; NULL: neither */
    const hth_folder_limits *limits;    /* for the folder of the file; NULL: none */
    const hth_fs *fs;                   /* for the file; NULL: the system's */
    hth_transfer_progress_fn progress;  /* may be NULL */
    void *progress_user_data;
} hth_export_options;

typedef struct hth_exported {
    uint32_t n_tokens;
    size_t n_rows; /* without the row of the logits */
    bool has_logits;
    uint64_t bytes; /* of the file */
} hth_exported;

/*
 * Write the prefix of key, which is the key of a tail, block or snapshot row, into a file at path. Its rows may lie in
 * any of tiers[n_tiers], n_tiers >= 1; a row is read from the first tier that has it. The file gets its name when it is
 * complete and durable (whole_file.h); its mode is 0600.
 *
 * Memory: the rows of the prefix, once.
 *
 * Returns HEARTH_OK and *out. HEARTH_NOT_FOUND if no tier has the row, or a row that it stands on; HEARTH_CORRUPT if a
 * row does not verify or is not signed with the key (it stays in its place); HEARTH_UNSUPPORTED if the rows cannot be
 * joined, such as those of models with a window or recurrent layers and of other engines; HEARTH_MISUSE if the file
 * exists and must not be replaced, or path is not a valid file name; HEARTH_CANCELLED; HEARTH_FULL, also if the file
 * would exceed the limits; HEARTH_PERMISSION, HEARTH_IO, HEARTH_NO_MEMORY. After a failure the name refers to the
 * earlier file, if any, or to the complete new file if only the sync of its folder failed.
 */
hearth_status hth_row_export(hth_file_tier *const *tiers, size_t n_tiers, const hth_key *key, const char *path,
                             const hth_export_options *options, hth_exported *out, hearth_error *err);

/*
 * The same from an open cache, from whichever tier has a row. keyspace is the required keyspace. last is the key of the
 * row in which the prefix ends, key that of the prefix itself; they differ if options->n_tokens cuts the row. The cache
 * has already checked its rows and signs them later, so only the file is signed with the key.
 */
hearth_status hth_row_export_cached(hth_cache *cache, const hth_keyspace *keyspace, const hth_key *last,
                                    const hth_key *key, const char *path, const hth_export_options *options,
                                    hth_exported *out, hearth_error *err);

/* ---- into a cache ---- */

/* A zeroed struct holds the defaults. Pointers are only used during the call. */
typedef struct hth_import_options {
    const hth_keyspace *keyspace;       /* refuse files of another model or context; NULL: accept any */
    uint32_t n_tokens_max;              /* refuse longer prefixes; 0: any length */
    bool keeps_tokens;                  /* return the tokens in the result */
    const hth_signing_key *signing_key; /* refuse a file not signed with it, and sign the rows; NULL: neither */
    const hth_fs *fs;                   /* for the file; NULL: the system's */
    hth_transfer_progress_fn progress;  /* may be NULL */
    void *progress_user_data;
} hth_import_options;

typedef struct hth_imported {
    hth_key key; /* of the prefix: exporting it gives the same file again */
    uint32_t n_tokens;
    size_t n_rows;      /* rows of the prefix, including that of the logits */
    size_t n_published; /* rows that are new to the cache */
    bool has_logits;
    uint64_t bytes;       /* of the file */
    hearth_token *tokens; /* [n_tokens], released with free; NULL if not requested */
} hth_imported;

/*
 * Put the prefix of a plain KVC file into a tier. Existing rows stay. Opens write transactions of the index of the
 * tier, so never call it on a scheduler's thread.
 *
 * Memory: the file and one row.
 *
 * Returns HEARTH_OK and *out. HEARTH_NOT_FOUND, HEARTH_PERMISSION or HEARTH_IO for a file that cannot be read;
 * HEARTH_CORRUPT if it does not verify, is not signed with the key, or its state does not belong to its tokens;
 * HEARTH_UNSUPPORTED for a row that starts after token 0 or has no state, a file of another keyspace, and a state from
 * another writer that cannot be cut; HEARTH_FULL if the quota or the device has no room; HEARTH_CANCELLED;
 * HEARTH_NO_MEMORY. After a failure some rows may have been published: each is whole, and they are the beginning of the
 * prefix.
 */
hearth_status hth_row_import(hth_file_tier *tier, const char *path, const hth_import_options *options,
                             hth_imported *out, hearth_error *err);

/* The same into an open cache, which writes the rows to its files later. HEARTH_FULL: no room in RAM. */
hearth_status hth_row_import_cached(hth_cache *cache, const char *path, const hth_import_options *options,
                                    hth_imported *out, hearth_error *err);

#endif
