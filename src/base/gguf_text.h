/*
 * gguf_text.h - checks for a GGUF file and reads one text of its metadata, without an engine
 *
 * The layout is that of GGUF versions 2 and 3, little-endian: magic, version (u32), numbers of tensors and of members
 * (u64 each), then members: key (u64 length, bytes), type (u32), value. Any thread; blocks.
 */
#ifndef HTH_BASE_GGUF_TEXT_H
#define HTH_BASE_GGUF_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Does the file begin like a GGUF file? Also false if it cannot be read. */
bool hth_gguf_is_file(int fd);

/*
 * Members that begin after this many bytes are not found: long ones, such as tokens, come after the names of a model.
 */
enum { HTH_GGUF_TEXT_BYTES = 64 << 10 };

/*
 * The text with this key, as a string: cut at capacity and at a zero byte. False if it is not among the first bytes, or
 * the file is not a GGUF file or cannot be read.
 */
bool hth_gguf_text_read(int fd, const char *key, char *out, size_t capacity);

#endif
