/*
 * ram_directory.h - the list of slabs that hold rows, inside a memory file
 *
 * The RAM tier may live in a file in memory (a memfd) that outlives the process. The file begins with this directory,
 * and slabs follow. The directory does not describe the content of a slab: the slab is a complete KVC file and
 * describes itself. A later process that opens the file reads the entries, claims the slabs and keeps or removes each
 * entry.
 *
 * One process at a time owns the file, by a lock that ends with the process. One thread at a time may call the
 * functions; the lock of the RAM tier ensures that.
 */
#ifndef HTH_CACHE_RAM_DIRECTORY_H
#define HTH_CACHE_RAM_DIRECTORY_H

#include "base/status.h"

#define HTH_RAM_DIRECTORY_BYTES ((uint64_t)64 << 20)
#define HTH_RAM_DIRECTORY_NO_SLOT UINT32_MAX

typedef struct hth_ram_directory hth_ram_directory;

typedef struct hth_ram_entry {
    uint64_t offset;  /* of the slab, counted from the end of the directory */
    uint64_t bytes;   /* of the row's file */
    uint64_t used_at; /* a later use has a larger number */
    uint32_t slot;
} hth_ram_entry;

/*
 * Lock the file behind fd, which the caller keeps, and start with its content. If it is not the memory of a RAM tier of
 * this version, start empty. HEARTH_BUSY if another process has it locked; HEARTH_UNSUPPORTED if the system cannot lock
 * such a file; HEARTH_MISUSE if fd is not a file; HEARTH_IO; HEARTH_NO_MEMORY.
 */
hearth_status hth_ram_directory_open(int fd, hth_ram_directory **out, hearth_error *err);
/* The entries stay for the next process. Accepts NULL. */
void hth_ram_directory_close(hth_ram_directory *directory);

/* The locked descriptor, valid until the close. */
int hth_ram_directory_fd(const hth_ram_directory *directory);

/*
 * The complete entries that the file had when it was opened, in no particular order, as a new array that the caller
 * frees; NULL with *n_out == 0 if there are none. Everything else is cleared. The caller checks each entry against its
 * slab. Call it once, before the functions below.
 */
hearth_status hth_ram_directory_entries(hth_ram_directory *directory, hth_ram_entry **out, size_t *n_out,
                                        hearth_error *err);

/*
 * Add an entry for a slab that holds a whole row. If the process is killed at any instruction, the entry is either
 * complete or absent. Returns its slot; HTH_RAM_DIRECTORY_NO_SLOT if the directory or the memory is full: the row then
 * ends with this process.
 */
uint32_t hth_ram_directory_put(hth_ram_directory *directory, uint64_t offset, uint64_t bytes, uint64_t used_at);
/* Remove an entry, before its slab is overwritten or given back. NO_SLOT does nothing, here and below. */
void hth_ram_directory_remove(hth_ram_directory *directory, uint32_t slot);
void hth_ram_directory_note_use(hth_ram_directory *directory, uint32_t slot, uint64_t used_at);

/*
 * Return the memory of a file that holds neither rows nor their entries to the system: a process that has ended had
 * faulted it in ahead of use. n_rows_out receives the number of entries; 0: nothing in the file is useful, perhaps
 * because it is not the memory of a RAM tier of this version. The function maps nothing and trusts no entry. Statuses
 * as hth_ram_directory_open; the rows stay in any case.
 */
hearth_status hth_ram_directory_trim(int fd, size_t *n_rows_out, hearth_error *err);

#endif
