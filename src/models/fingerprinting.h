/*
 * fingerprinting.h - make the fingerprint of a model on a thread of its own while its file is loaded
 *
 * Hashing takes about as long as loading, and the two are independent. The file is read from the device once, because
 * whichever is second finds it in the page cache.
 *
 * The fingerprint of one file is that of fingerprint.h. That of a split model is
 * SHA-256("hearth-split-v1" || number of parts u64le || fingerprint of each part).
 */
#ifndef HTH_MODELS_FINGERPRINTING_H
#define HTH_MODELS_FINGERPRINTING_H

#include "models/fingerprint.h"

typedef struct hth_fingerprinting hth_fingerprinting;

/*
 * Begin with the file at path, or with all parts of the split model whose first part it is. The watch of the options is
 * not used; the log must outlive the result. hth_fingerprinting_wait reports errors of the files. During that wait,
 * on_work (may be NULL) is called for each piece that is read, to show progress.
 */
hearth_status hth_fingerprinting_new(const char *path, const hth_fingerprint_options *options, hearth_work_fn on_work,
                                     void *work_user_data, hth_fingerprinting **out, hearth_error *err);
/* Cancel, and wait for the thread. Accepts NULL. */
void hth_fingerprinting_free(hth_fingerprinting *fingerprinting);

/* The fraction of the bytes that have been hashed, 0 to 1. Any thread. */
float hth_fingerprinting_fraction(const hth_fingerprinting *fingerprinting);
/*
 * Wait for the fingerprint, once. Meanwhile progress (may be NULL) is called with this fraction, on the waiting thread,
 * and with 1 at the end; it cancels the work by returning false. HEARTH_IO if a file has changed, or was replaced,
 * since the beginning: the engine may have loaded other bytes than were hashed. HEARTH_CANCELLED.
 */
hearth_status hth_fingerprinting_wait(hth_fingerprinting *fingerprinting, hearth_load_progress_fn progress,
                                      void *user_data, uint8_t out[32], hearth_error *err);
/* Make it end soon. Any thread. */
void hth_fingerprinting_cancel(hth_fingerprinting *fingerprinting);

#endif
