/*
 * partial.h - a blob that is being downloaded in pieces, in any order, and can be resumed after a crash
 *
 * The file BLOB.hearth.incomplete has
 *
 *   offset 0       the bytes of the blob, with holes
 *   offset bytes   "HTHPART1"
 *   then           one byte for each piece of 8 MiB: 1 if the piece is present, otherwise 0
 *
 * A mark is written after its piece has been synced. Other programs name their files BLOB.incomplete and interpret
 * their size as progress, so this name differs. The checksum of the whole blob is checked at the end.
 */
#ifndef HTH_HUB_PARTIAL_H
#define HTH_HUB_PARTIAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

enum { HTH_HUB_PIECE_BYTES = 8 << 20 };

/* Several threads may call its functions at once, for different pieces; the caller guards the marks. */
typedef struct hth_hub_partial {
    char path[PATH_MAX];
    int fd;
    uint64_t bytes;
    size_t n_pieces;
    bool *marks; /* [n_pieces] */
} hth_hub_partial;

/*
 * Open the partial file of a blob, or create it; the caller has the blob's lock. HEARTH_FULL: the device has no room
 * for the rest; the message suggests setting cache_variable to another directory. End it with hth_hub_partial_close,
 * even after a failure.
 */
hearth_status hth_hub_partial_open(hth_hub_partial *out, const char *blob, uint64_t bytes, const char *cache_variable,
                                   hearth_error *err);
void hth_hub_partial_close(hth_hub_partial *partial);

hearth_status hth_hub_partial_write(const hth_hub_partial *partial, const void *bytes, size_t n_bytes, uint64_t at,
                                    hearth_error *err);
hearth_status hth_hub_partial_read(const hth_hub_partial *partial, void *bytes, size_t n_bytes, uint64_t at,
                                   hearth_error *err);
/* Make a piece durable, and write its mark; marks is not changed. */
hearth_status hth_hub_partial_keep(const hth_hub_partial *partial, size_t piece, hearth_error *err);

/* The end offset of a piece. */
uint64_t hth_hub_piece_end(const hth_hub_partial *partial, size_t piece);

/* All pieces are present and correct: make it the blob, durably. */
hearth_status hth_hub_partial_finish(hth_hub_partial *partial, const char *blob, hearth_error *err);
/* Its bytes are wrong: remove them. */
void hth_hub_partial_remove(const hth_hub_partial *partial);

#endif
