/*
 * needs_text.h - the needs of a model as lines of text, between processes and in a file
 *
 *   device WEIGHTS CELLS BUFFERS FREE TOTAL NAME
 *   host WEIGHTS REPACKED CELLS BUFFERS PROCESS CONTEXT
 *
 * Numbers are bytes, except CONTEXT. The line of the host is the last one.
 */
#ifndef HTH_WIRE_NEEDS_TEXT_H
#define HTH_WIRE_NEEDS_TEXT_H

#include "api/buffer.h"
#include "models/fit_choice.h"
#include "models/needs.h"

void hth_needs_write(const hth_model_needs *needs, hth_buffer *out);
/*
 * Read one line into needs, which must be zeros before the first line. needs->n_ctx is above 0 after the last line.
 * False, with needs unchanged: the line has another form, its numbers are absurd, or there are too many devices.
 */
bool hth_needs_read(const char *line, hth_model_needs *needs);

/* "BYTES:NAME": free memory found on a device (fit_choice.h). */
enum { HTH_FOUND_TEXT_BYTES = 96 };
void hth_found_write(const hth_fit_found_device *found, char text[HTH_FOUND_TEXT_BYTES]);
/* False, with out unchanged: the text has another form. */
bool hth_found_read(const char *text, hth_fit_found_device *out);

/*
 * An estimate while the needs are unknown. The size of the file at path or, if its name is that of a part of a split
 * model ("x-00001-of-00003.gguf"), of all parts. A missing file counts as 0. path may be NULL. Blocks for a few system
 * calls.
 */
uint64_t hth_model_files_bytes(const char *path);

/* The bytes of a worker's process on the host, without rows; and the bytes on devices. */
uint64_t hth_needs_host_bytes(const hth_model_needs *needs);
uint64_t hth_needs_device_bytes(const hth_model_needs *needs);

#endif
