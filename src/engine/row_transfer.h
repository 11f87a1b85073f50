/*
 * row_transfer.h - a cached prefix as one file, to take along, and back into rows
 *
 * Exporting walks from a row to the beginning of its prefix, reads and verifies every row on the way and joins their
 * states into one plain KVC file, which any reader of the format can load: it starts at token 0, holds all tokens and
 * the engine's state of the whole sequence, and is a snapshot row to Hearth (docs/format.md, "Exported files"). With it
 * go the logits after the last token, where the cache has them.
 *
 * Importing verifies such a file and puts its rows into a cache: cut into blocks and a tail where its state is that of
 * plain attention, as one snapshot row where it is not. A prompt that begins with those tokens then hits, by the model
 * and under the context parameters that the file names.
 *
 * Both work on a file tier by hand, beside any processes that use it, and may be called from any thread that may block.
 */
#ifndef HTH_ENGINE_ROW_TRANSFER_H
#define HTH_ENGINE_ROW_TRANSFER_H

#include "cache/file_tier.h"
#include "cache/signing_key.h"

/*
 * Told now and then how many of how many bytes are done; the total does not change, and the last call of a success says
 * that all are. false ends the transfer with HEARTH_CANCELLED. On the calling thread; may not use the tiers.
 */
typedef bool (*hth_transfer_progress_fn)(uint64_t bytes_done, uint64_t bytes_total, void *user_data);

/* ---- out of a cache ---- */

/* All zeros are good defaults. What it points to is read during the call only. */
typedef struct hth_export_options {
    bool replace;                       /* a file of that name is replaced; otherwise it is left alone */
    bool without_logits;                /* leave the logits out */
    const hth_signing_key *signing_key; /* rows not signed with it are refused, and the file is signed; NULL: neither */
    const hth_fs *fs;                   /* for the file; NULL: the system's */
    hth_transfer_progress_fn progress;  /* may be NULL */
    void *progress_user_data;
} hth_export_options;

typedef struct hth_exported {
    uint32_t n_tokens;
    size_t n_rows; /* without that of the logits */
    bool has_logits;
    uint64_t bytes; /* of the file */
} hth_exported;

/*
 * Write the prefix that key names, which is that of a tail, a block or a snapshot row, into a file at path. Its rows may
 * lie in any of tiers[n_tiers], n_tiers >= 1; where several have one, the first is asked. The file gets its name when it
 * is whole and durable (whole_file.h); its mode is 0600.
 *
 * Memory: the rows of the prefix, once.
 *
 * Returns HEARTH_OK and *out. HEARTH_NOT_FOUND when no tier has such a row, or one that it stands on; HEARTH_CORRUPT
 * when a row does not verify or is not signed with the key (it stays where it is); HEARTH_UNSUPPORTED when the rows
 * cannot be joined, as those of models with a window or recurrent layers and of other engines; HEARTH_MISUSE when the
 * file exists and is not to be replaced, or path is no name for a file; HEARTH_CANCELLED; HEARTH_FULL, HEARTH_PERMISSION,
 * HEARTH_IO, HEARTH_NO_MEMORY. After a failure what has the name is what had it before or, when only the sync of its
 * folder failed, the whole file.
 */
hearth_status hth_row_export(hth_file_tier *const *tiers, size_t n_tiers, const hth_key *key, const char *path,
                             const hth_export_options *options, hth_exported *out, hearth_error *err);

/* ---- into a cache ---- */

/* All zeros are good defaults. What it points to is read during the call only. */
typedef struct hth_import_options {
    const hth_keyspace *keyspace;       /* refuse files that are not of this model and context; NULL: take any */
    const hth_signing_key *signing_key; /* a file not signed with it is refused, and rows are signed; NULL: neither */
    const hth_fs *fs;                   /* for the file; NULL: the system's */
    hth_transfer_progress_fn progress;  /* may be NULL */
    void *progress_user_data;
} hth_import_options;

typedef struct hth_imported {
    hth_key key; /* names the prefix: exporting it again gives the file back */
    uint32_t n_tokens;
    size_t n_rows;      /* that the prefix has now, with that of the logits */
    size_t n_published; /* those of them that were not there before */
    bool has_logits;
} hth_imported;

/*
 * Put the prefix of a plain KVC file into a tier. Rows that are there already stay. Opens write transactions of the
 * tier's index, so never on a scheduler's thread.
 *
 * Memory: the file and one row.
 *
 * Returns HEARTH_OK and *out. HEARTH_NOT_FOUND, HEARTH_PERMISSION or HEARTH_IO for a file that cannot be read;
 * HEARTH_CORRUPT when it does not verify, is not signed with the key, or its state is not one of its tokens;
 * HEARTH_UNSUPPORTED for a row that starts later than token 0 or has no state, a file of another keyspace, and a state
 * that cannot be cut and comes from another writer; HEARTH_FULL when quota or device have no room; HEARTH_CANCELLED;
 * HEARTH_NO_MEMORY. After a failure some rows may have been published: each is whole, and they are the beginning of the
 * prefix.
 */
hearth_status hth_row_import(hth_file_tier *tier, const char *path, const hth_import_options *options,
                             hth_imported *out, hearth_error *err);

#endif
