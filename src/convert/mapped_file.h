/*
 * mapped_file.h - a file of a checkpoint, mapped to be read, and JSON files
 */
#ifndef HTH_CONVERT_MAPPED_FILE_H
#define HTH_CONVERT_MAPPED_FILE_H

#include <jansson.h>

#include "base/status.h"

enum { HTH_CHECKPOINT_PATH_BYTES = 4096 };

/* FOLDER/NAME. HEARTH_MISUSE: it is too long. */
hearth_status hth_checkpoint_path(const char *folder, const char *name, char out[HTH_CHECKPOINT_PATH_BYTES],
                                  hearth_error *err);

/*
 * Map a regular file; links are followed, because the hub's cache is made of them. HEARTH_NOT_FOUND: there is none;
 * HEARTH_CORRUPT: it is empty, larger than bytes_max, or no file; HEARTH_PERMISSION, HEARTH_IO (a cycle of links).
 * Whoever shortens the file meanwhile ends this process (SIGBUS).
 */
hearth_status hth_mapped_file_open(const char *path, uint64_t bytes_max, const uint8_t **bytes, uint64_t *n_bytes,
                                   hearth_error *err);
void hth_mapped_file_close(const uint8_t *bytes, uint64_t n_bytes);
/* These bytes are not needed now: their memory may go. They are read again from the file when they are. */
void hth_mapped_file_release(const uint8_t *bytes, uint64_t n_bytes);

/*
 * Read a JSON object from DIRECTORY/NAME, at most 512 MiB. *out is a new reference. HEARTH_NOT_FOUND: there is no such
 * file, with a message. HEARTH_CORRUPT names the fault.
 */
hearth_status hth_json_file_read(const char *directory, const char *name, json_t **out, hearth_error *err);

#endif
