/*
 * ram_directory.h - which slabs of a memory file hold rows, written down in the file itself
 *
 * The RAM tier may live in a file in memory (a memfd) that outlives the process. The file then begins with this
 * directory, and slabs follow. What a slab holds is not written here: it is a complete KVC image, which says so itself.
 * A process that opens the same file later reads the entries, claims the slabs and keeps or removes each entry.
 *
 * One process at a time has the file: the lock ends with the process. Functions are called by one thread at a time,
 * which is the RAM tier's lock's care.
 */
#ifndef HTH_CACHE_RAM_DIRECTORY_H
#define HTH_CACHE_RAM_DIRECTORY_H

#include "base/status.h"

#define HTH_RAM_DIRECTORY_BYTES ((uint64_t)64 << 20)
#define HTH_RAM_DIRECTORY_NO_SLOT UINT32_MAX

typedef struct hth_ram_directory hth_ram_directory;

typedef struct hth_ram_entry {
    uint64_t offset;  /* of the slab, from the directory's end on */
    uint64_t bytes;   /* of the row's image */
    uint64_t used_at; /* a later use has a larger number */
    uint32_t slot;
} hth_ram_entry;

/*
 * Lock the file behind fd, which stays the caller's, and begin with what it holds: nothing, where it is not the memory
 * of a RAM tier of this version. HEARTH_BUSY when another process has it; HEARTH_UNSUPPORTED where the system cannot
 * lock such a file; HEARTH_MISUSE when fd is no file; HEARTH_IO; HEARTH_NO_MEMORY.
 */
hearth_status hth_ram_directory_open(int fd, hth_ram_directory **out, hearth_error *err);
/* The entries stay for the next process. Accepts NULL. */
void hth_ram_directory_close(hth_ram_directory *directory);

/* The locked descriptor, valid until the close. */
int hth_ram_directory_fd(const hth_ram_directory *directory);

/*
 * The complete entries that were found at the opening, in no order, as a new array that the caller frees; NULL with
 * *n_out == 0 when there are none. Anything else is cleared. What an entry says of its slab is to be checked. Called
 * once, before the functions below.
 */
hearth_status hth_ram_directory_entries(hth_ram_directory *directory, hth_ram_entry **out, size_t *n_out,
                                        hearth_error *err);

/*
 * Enter a slab that holds a whole row. A process that is killed at any instruction leaves the entry or none. Returns its
 * slot; HTH_RAM_DIRECTORY_NO_SLOT when the directory or the memory is full: the row then ends with this process.
 */
uint32_t hth_ram_directory_put(hth_ram_directory *directory, uint64_t offset, uint64_t bytes, uint64_t used_at);
/* Remove an entry, before its slab is written to or given back. NO_SLOT does nothing, here and below. */
void hth_ram_directory_remove(hth_ram_directory *directory, uint32_t slot);
void hth_ram_directory_note_use(hth_ram_directory *directory, uint32_t slot, uint64_t used_at);

#endif
