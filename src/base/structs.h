/*
 * structs.h - structs that cross the public API boundary and carry their own size
 *
 * The program may have been compiled against an older or a newer hearth.h than this library. Public structs only grow
 * at their end, so both sides know the beginning. Fields that an older program lacks keep their defaults. Fields of a
 * newer program that this library does not know must be zero, their default; otherwise the call is refused.
 */
#ifndef HTH_BASE_STRUCTS_H
#define HTH_BASE_STRUCTS_H

#include "base/status.h"

/* Fill a caller's struct of struct_size bytes, which begins with that size, from ours of size bytes. */
void hth_struct_init(void *to, size_t struct_size, const void *defaults, size_t size);

/*
 * Read a caller's struct into ours of size bytes, which holds the defaults. name is that of the struct, for the
 * message. HEARTH_MISUSE: its struct_size is not a valid size, or it sets fields that this library does not know.
 */
hearth_status hth_struct_read(void *to, size_t size, const void *from, const char *name, hearth_error *err);

/* The same for an array of n structs. The struct_size of the first one applies to all. */
hearth_status hth_structs_read(void *to, size_t size, const void *from, size_t n, const char *name, hearth_error *err);

/* Fill a caller's struct, which begins with its size, as far as it reaches. */
void hth_struct_write(void *to, const void *from, size_t size);

#endif
