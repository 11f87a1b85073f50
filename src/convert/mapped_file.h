/*
 * mapped_file.h - memory-map a checkpoint's files for reading, and read JSON files
 */
#ifndef HTH_CONVERT_MAPPED_FILE_H
#define HTH_CONVERT_MAPPED_FILE_H

#include <jansson.h>

#include "base/status.h"

typedef struct hth_mapped_file {
    char path[4096]; /* FOLDER/NAME, for messages */
    const uint8_t *bytes;
    uint64_t n_bytes;
} hth_mapped_file;

/*
 * Map a regular file of a folder; links are followed, because the hub's cache consists of them. HEARTH_NOT_FOUND: there
 * is none; HEARTH_CORRUPT: it is empty, larger than bytes_max, or not a regular file; HEARTH_PERMISSION, HEARTH_IO (a
 * cycle of links); HEARTH_MISUSE: its path is too long. If another process truncates the file while it is mapped, this
 * process is killed (SIGBUS).
 */
hearth_status hth_mapped_file_open(const char *folder, const char *name, uint64_t bytes_max, hth_mapped_file *out,
                                   hearth_error *err);
void hth_mapped_file_close(const uint8_t *bytes, uint64_t n_bytes);
/* These bytes are not needed now, so their memory may be released. They are read again from the file when needed. */
void hth_mapped_file_release(const uint8_t *bytes, uint64_t n_bytes);

/*
 * Read a JSON object from FOLDER/NAME, at most 512 MiB. *out is a new reference. HEARTH_NOT_FOUND, with a message:
 * there is no such file. HEARTH_CORRUPT with a message that names the fault.
 */
hearth_status hth_json_file_read(const char *folder, const char *name, json_t **out, hearth_error *err);

/* The value of a non-negative JSON integer; false for anything else. */
bool hth_json_size(const json_t *value, uint64_t *out);

#endif
