/*
 * fingerprinting.h - a file's fingerprint, made on a thread of its own while the file is loaded
 *
 * Hashing all of a file takes about as long as loading it, and neither needs the other: the engine reads the file from the
 * page cache, which the hashing fills or finds filled.
 */
#ifndef HTH_MODELS_FINGERPRINTING_H
#define HTH_MODELS_FINGERPRINTING_H

#include "base/status.h"

typedef struct hth_fingerprinting hth_fingerprinting;

/*
 * Begin with the file at path. As hth_fingerprint_file; what is wrong with the file is told by waiting. on_work (NULL:
 * nobody watches) is told of work while it is waited for: each piece that is read begins anew.
 */
hearth_status hth_fingerprinting_new(const char *path, hearth_fingerprint_mode mode, const char *memo_directory,
                                     hearth_work_fn on_work, void *work_user_data, hth_fingerprinting **out,
                                     hearth_error *err);
/* Cancel, and wait for the thread. Accepts NULL. */
void hth_fingerprinting_free(hth_fingerprinting *fingerprinting);

/*
 * Wait for the fingerprint, once. HEARTH_IO when the file at path is not, or is not any more, the one that was there when
 * this began, as it was then: what was read from it meanwhile is not what the fingerprint says. HEARTH_CANCELLED.
 */
hearth_status hth_fingerprinting_wait(hth_fingerprinting *fingerprinting, uint8_t out[32], hearth_error *err);
/* Have it end soon. Any thread. */
void hth_fingerprinting_cancel(hth_fingerprinting *fingerprinting);

#endif
