/*
 * mapped_file.h - memory-map a checkpoint's files for reading, and read JSON files
 */
#ifndef HTH_CONVERT_MAPPED_FILE_H
#define HTH_CONVERT_MAPPED_FILE_H

#include <jansson.h>

#include "base/status.h"

enum { HTH_CHECKPOINT_PATH_BYTES = 4096 };

/* FOLDER/NAME. HEARTH_MISUSE if it is too long. */
hearth_status hth_checkpoint_path(const char *folder, const char *name, char out[HTH_CHECKPOINT_PATH_BYTES],
                                  hearth_error *err);

/*
 * Map a regular file; links are followed, because the hub's cache consists of them. HEARTH_NOT_FOUND: there is none;
 * HEARTH_CORRUPT: it is empty, larger than bytes_max, or not a regular file; HEARTH_PERMISSION, HEARTH_IO (a cycle of
 * links). If another process truncates the file while it is mapped, this process is killed (SIGBUS).
 */
hearth_status hth_mapped_file_open(const char *path, uint64_t bytes_max, const uint8_t **bytes, uint64_t *n_bytes,
                                   hearth_error *err);
void hth_mapped_file_close(const uint8_t *bytes, uint64_t n_bytes);
/* These bytes are not needed now, so their memory may be released. They are read again from the file when needed. */
void hth_mapped_file_release(const uint8_t *bytes, uint64_t n_bytes);

/*
 * Read a JSON object from DIRECTORY/NAME, at most 512 MiB. *out is a new reference. HEARTH_NOT_FOUND, with a message:
 * there is no such file. HEARTH_CORRUPT with a message that names the fault.
 */
hearth_status hth_json_file_read(const char *directory, const char *name, json_t **out, hearth_error *err);

#endif
