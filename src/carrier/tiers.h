/*
 * tiers.h - the rows that this node has in files
 *
 * Memory of workers (their RAM tier) is not among them: rows get here when a worker writes them. Any thread may call
 * these functions.
 */
#ifndef HTH_CARRIER_TIERS_H
#define HTH_CARRIER_TIERS_H

#include "cache/file_levels.h"
#include "rows/signing_key.h"

typedef struct hth_tiers hth_tiers;

/*
 * Open the file tiers of options, see hth_file_levels_open; is_of_copies is set here. What the options borrow must
 * outlive the tiers. HEARTH_FAILED: no tier can be used; HEARTH_NO_MEMORY.
 */
hearth_status hth_tiers_open(const hth_cache_options *options, hth_tiers **out, hearth_error *err);
void hth_tiers_close(hth_tiers *tiers); /* accepts NULL */

/* Find a row; *out gets its facts. At most *n_names missing files are looked for by name, see hth_file_tier_look. */
bool hth_tiers_look(hth_tiers *tiers, const hth_row_id *id, hth_row_meta *out, unsigned *n_names);
/* The rows with this parent key, at most capacity, each once; those of the fastest tier first. */
size_t hth_tiers_children(hth_tiers *tiers, const hth_key *parent, hth_row_meta *out, size_t capacity);
/* Open the file of a row; the caller closes it with hth_fs_close. Statuses as hth_file_tier_open_file. */
hearth_status hth_tiers_open_file(hth_tiers *tiers, const hth_row_id *id, int *fd_out, size_t *n_bytes_out,
                                  hearth_error *err);
const hth_fs *hth_tiers_fs(const hth_tiers *tiers);

/*
 * Check the bytes of a row: format, name, and the signature if there is a signing key, but not the CRC of its image,
 * which publishing checks. *out gets its facts. HEARTH_CORRUPT.
 */
hearth_status hth_tiers_check(const hth_tiers *tiers, const hth_row_id *id, const uint8_t *bytes, size_t n_bytes,
                              hth_row_meta *out, hearth_error *err);
/*
 * Publish a row that was checked, in the fastest tier that can. May wait for a device. HEARTH_CORRUPT: its image is
 * damaged; otherwise as hth_file_tier_publish.
 */
hearth_status hth_tiers_publish(hth_tiers *tiers, const hth_row_meta *meta, const uint8_t *bytes, hearth_error *err);
/* Note that these rows were used, so that they stay. */
void hth_tiers_touch(hth_tiers *tiers, const hth_row_id *ids, size_t n);
/* Write such notes to the index. May wait for a device. */
void hth_tiers_maintain(hth_tiers *tiers);

#endif
