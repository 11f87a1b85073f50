/*
 * ram_directory.c - slots in a mapped file, each made whole by one store
 *
 * Layout, in the machine's byte order, since the memory never leaves the machine:
 *
 *   offset     size  field
 *        0      8    magic "HTHRAMv1" as bytes
 *        8      4    version, 1
 *       12      4    size of a slot, 32
 *       16      8    where slabs begin, 67108864
 *       24      8    length of an arena's segment: slabs do not cross its multiples
 *       32      4    CRC32C of the bytes before
 *     4096    32 n   slots
 *
 *   a slot: 0  8  commit word: 0, or 0x48524F57 << 32 | CRC32C of (slot number u32, slab offset, file bytes)
 *           8  8  offset of the slab, from where slabs begin
 *          16  8  bytes of the file
 *          24  8  last use, a growing number; not covered by the checksum
 *
 * Order: the file is complete before its entry; an entry's fields are written while its commit word is 0, and the
 * commit word last; the commit word is 0 before the slab is written to again. A kill falls between two instructions and
 * every earlier store has taken effect, so it is enough that the compiler keeps this order, and that threads hand slabs
 * to each other under a lock. The header is written once, with its checksum last; a file whose header is invalid is
 * cleared.
 *
 * Pages are allocated before a slot in them is first used: a write through the mapping to a page for which the system
 * has no memory would kill the process.
 */
#include "cache/ram_directory.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/os.h"
#include "cache/arena.h"

#define COMMIT_TAG UINT64_C(0x48524F57)
enum {
    VERSION = 1,
    HEADER_BYTES = 4096,
    READ_BYTES = 64 << 10,
    READ_SLOTS = READ_BYTES / 32,
};

typedef struct entry_slot {
    _Atomic uint64_t commit;
    uint64_t offset;
    uint64_t bytes;
    _Atomic uint64_t used_at;
} entry_slot;
static_assert(sizeof(entry_slot) == 32, "the layout above");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock would be in the process, not in the file");

#define N_SLOTS ((uint32_t)((HTH_RAM_DIRECTORY_BYTES - HEADER_BYTES) / sizeof(entry_slot)))
static_assert(N_SLOTS < HTH_RAM_DIRECTORY_NO_SLOT, "a slot has a number");
static_assert(HTH_RAM_DIRECTORY_BYTES % HTH_ARENA_SEGMENT_BYTES == 0, "an arena follows");

typedef struct header {
    char magic[8];
    uint32_t version;
    uint32_t slot_bytes;
    uint64_t slabs_begin;
    uint64_t segment_bytes;
    uint32_t crc32c;
    uint32_t unused;
} header;
static_assert(offsetof(header, crc32c) == 32, "the layout above");

struct hth_ram_directory {
    int fd; /* locked by this process */
    uint8_t *memory;
    entry_slot *slots; /* [N_SLOTS], in memory; NULL: not mapped, and only read */
    uint32_t n_backed; /* slots whose pages were allocated by this process */
    uint32_t n_words;  /* of taken */
    uint32_t first_free_word;
    uint64_t *taken; /* one bit per slot; slots beyond n_words are free */
};

static uint64_t commit_word(uint32_t number, uint64_t offset, uint64_t bytes)
{
    uint8_t text[20];

    memcpy(text, &number, 4);
    memcpy(text + 4, &offset, 8);
    memcpy(text + 12, &bytes, 8);
    return COMMIT_TAG << 32 | hth_crc32c(0, text, sizeof(text));
}

static header header_now(void)
{
    header now = { .magic = { 'H', 'T', 'H', 'R', 'A', 'M', 'v', '1' },
                   .version = VERSION,
                   .slot_bytes = sizeof(entry_slot),
                   .slabs_begin = HTH_RAM_DIRECTORY_BYTES,
                   .segment_bytes = HTH_ARENA_SEGMENT_BYTES };

    now.crc32c = hth_crc32c(0, &now, offsetof(header, crc32c));
    return now;
}

/* Read exactly n_bytes of the file; false if it has fewer. */
static bool read_at(int fd, void *bytes, size_t n_bytes, uint64_t offset)
{
    size_t n = 0;

    return hth_fs_read_full(hth_fs_system(), fd, bytes, n_bytes, offset, &n) == 0 && n == n_bytes;
}

static bool is_ours(int fd, uint64_t file_bytes)
{
    header expected = header_now(), there;

    return file_bytes >= HTH_RAM_DIRECTORY_BYTES && read_at(fd, &there, sizeof(there), 0) &&
           memcmp(&there, &expected, sizeof(there)) == 0;
}

/* Drop the content of the file; it becomes an empty directory. */
static hearth_status format(hth_ram_directory *directory, uint64_t file_bytes, hearth_error *err)
{
    header now = header_now();
    uint32_t crc = now.crc32c;

    if (file_bytes > 0 && hth_os_file_punch(directory->fd, 0, file_bytes) != 0)
        return hth_fail_errno(err, errno, "cannot clear the RAM tier's memory");
    if (file_bytes < HTH_RAM_DIRECTORY_BYTES && ftruncate(directory->fd, (off_t)HTH_RAM_DIRECTORY_BYTES) != 0)
        return hth_fail_errno(err, errno, "cannot grow the RAM tier's memory");
    if (hth_os_file_allocate(directory->fd, 0, HEADER_BYTES) != 0)
        return hth_fail_errno(err, errno, "no memory for the RAM tier's directory");
    now.crc32c = 0;
    memcpy(directory->memory, &now, sizeof(now));
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(directory->memory + offsetof(header, crc32c), &crc, sizeof(crc));
    return HEARTH_OK;
}

/* Lock the file and return its size. */
static hearth_status lock_file(hth_ram_directory *directory, int fd, uint64_t *file_bytes_out, hearth_error *err)
{
    struct stat st;

    directory->fd = hth_os_memory_file_own(fd);
    if (directory->fd < 0) {
        if (errno == EWOULDBLOCK)
            return hth_fail(err, HEARTH_BUSY, "another process uses this RAM tier's memory");
        if (errno == ENOENT || errno == EBADF)
            return hth_fail(err, HEARTH_MISUSE, "the RAM tier's memory is no open file");
        if (errno == ENOTSUP)
            return hth_fail(err, HEARTH_UNSUPPORTED, "a RAM tier in a given memory file needs Linux");
        return hth_fail_errno(err, errno, "cannot open the RAM tier's memory");
    }
    if (fstat(directory->fd, &st) != 0)
        return hth_fail_errno(err, errno, "cannot see the size of the RAM tier's memory");
    if (!S_ISREG(st.st_mode))
        return hth_fail(err, HEARTH_MISUSE, "the RAM tier's memory must be a file in memory, such as a memfd");
    *file_bytes_out = (uint64_t)st.st_size;
    return HEARTH_OK;
}

static hearth_status open_locked_file(hth_ram_directory *directory, int fd, hearth_error *err)
{
    uint64_t file_bytes = 0;
    void *memory;
    bool ours;
    hearth_status status = lock_file(directory, fd, &file_bytes, err);

    if (status != HEARTH_OK)
        return status;
    ours = is_ours(directory->fd, file_bytes);
    memory = mmap(NULL, HTH_RAM_DIRECTORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, directory->fd, 0);
    if (memory == MAP_FAILED)
        return hth_fail_errno(err, errno, "cannot map the RAM tier's directory");
    directory->memory = memory;
    directory->slots = (entry_slot *)(void *)(directory->memory + HEADER_BYTES);
    return ours ? HEARTH_OK : format(directory, file_bytes, err);
}

hearth_status hth_ram_directory_open(int fd, hth_ram_directory **out, hearth_error *err)
{
    hth_ram_directory *directory = calloc(1, sizeof(*directory));
    hearth_status status;

    if (!directory)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the RAM tier's directory");
    directory->fd = -1;
    status = open_locked_file(directory, fd, err);
    if (status != HEARTH_OK) {
        hth_ram_directory_close(directory);
        return status;
    }
    *out = directory;
    return HEARTH_OK;
}

void hth_ram_directory_close(hth_ram_directory *directory)
{
    if (!directory)
        return;
    if (directory->memory)
        (void)munmap(directory->memory, HTH_RAM_DIRECTORY_BYTES); /* our own mapping */
    if (directory->fd >= 0)
        (void)close(directory->fd); /* closing a file in memory reports no errors */
    free(directory->taken);
    free(directory);
}

int hth_ram_directory_fd(const hth_ram_directory *directory)
{
    return directory->fd;
}

/* Mark a slot as taken; false without memory. */
static bool take_slot(hth_ram_directory *directory, uint32_t number)
{
    uint32_t word = number / 64;

    if (word >= directory->n_words) {
        uint32_t n_words = directory->n_words * 2 > word ? directory->n_words * 2 : word + 1;
        uint64_t *taken = realloc(directory->taken, n_words * sizeof(*taken));

        if (!taken)
            return false;
        memset(taken + directory->n_words, 0, (n_words - directory->n_words) * sizeof(*taken));
        directory->taken = taken;
        directory->n_words = n_words;
    }
    directory->taken[word] |= UINT64_C(1) << number % 64;
    return true;
}

/* ---- what an earlier process left ---- */

typedef struct entry_list {
    hth_ram_entry *entries;
    size_t n;
    size_t capacity;
} entry_list;

static bool append(entry_list *list, const hth_ram_entry *entry)
{
    hth_ram_entry *entries = hth_grown(list->entries, list->n, &list->capacity, sizeof(*entries));

    if (!entries)
        return false;
    list->entries = entries;
    list->entries[list->n++] = *entry;
    return true;
}

/*
 * Read n slots, starting at first. In a mapped file, slots that are neither entries nor zero are cleared. False without
 * memory.
 */
static bool collect(hth_ram_directory *directory, uint32_t first, const entry_slot *slots, uint32_t n, entry_list *list)
{
    for (uint32_t i = 0; i < n; i++) {
        hth_ram_entry entry = {
            .offset = slots[i].offset, .bytes = slots[i].bytes, .used_at = slots[i].used_at, .slot = first + i
        };
        uint64_t commit = slots[i].commit;

        if (commit == 0)
            continue;
        if (commit != commit_word(entry.slot, entry.offset, entry.bytes)) {
            if (directory->slots)
                atomic_store_explicit(&directory->slots[entry.slot].commit, 0, memory_order_release);
            continue;
        }
        if (!take_slot(directory, entry.slot) || !append(list, &entry))
            return false;
    }
    return true;
}

hearth_status hth_ram_directory_entries(hth_ram_directory *directory, hth_ram_entry **out, size_t *n_out,
                                        hearth_error *err)
{
    entry_slot *slots =
        calloc(READ_SLOTS, sizeof(*slots)); /* no mapping: reading a hole through one allocates its pages */
    entry_list list = { .entries = NULL };
    uint32_t first = 0;
    hearth_status status = HEARTH_OK;

    if (!slots)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to read the RAM tier's directory");
    while (status == HEARTH_OK && first < N_SLOTS) {
        uint64_t at = hth_os_file_next_data(directory->fd, HEADER_BYTES + (uint64_t)first * sizeof(entry_slot));
        uint32_t n;

        if (at >= HTH_RAM_DIRECTORY_BYTES)
            break;
        first = (uint32_t)((at - HEADER_BYTES) / sizeof(entry_slot));
        n = N_SLOTS - first < READ_SLOTS ? N_SLOTS - first : READ_SLOTS;
        if (!read_at(directory->fd, slots, n * sizeof(*slots), HEADER_BYTES + (uint64_t)first * sizeof(entry_slot)))
            status = hth_fail(err, HEARTH_IO, "cannot read the RAM tier's directory");
        else if (!collect(directory, first, slots, n, &list))
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to read the RAM tier's directory");
        first += n;
    }
    free(slots);
    if (status != HEARTH_OK) {
        free(list.entries);
        return status;
    }
    *out = list.entries;
    *n_out = list.n;
    return HEARTH_OK;
}

/* ---- entries ---- */

/* A free slot with an allocated page. */
static uint32_t free_slot(hth_ram_directory *directory)
{
    uint32_t word = directory->first_free_word, number;

    while (word < directory->n_words && directory->taken[word] == UINT64_MAX)
        word++;
    directory->first_free_word = word;
    number = word * 64;
    if (word < directory->n_words)
        number += (uint32_t)__builtin_ctzll(~directory->taken[word]);
    if (number >= N_SLOTS)
        return HTH_RAM_DIRECTORY_NO_SLOT;
    while (number >= directory->n_backed) {
        uint32_t n = N_SLOTS - directory->n_backed < READ_SLOTS ? N_SLOTS - directory->n_backed : READ_SLOTS;

        if (hth_os_file_allocate(directory->fd, HEADER_BYTES + (uint64_t)directory->n_backed * sizeof(entry_slot),
                                 n * sizeof(entry_slot)) != 0)
            return HTH_RAM_DIRECTORY_NO_SLOT;
        directory->n_backed += n;
    }
    return take_slot(directory, number) ? number : HTH_RAM_DIRECTORY_NO_SLOT;
}

uint32_t hth_ram_directory_put(hth_ram_directory *directory, uint64_t offset, uint64_t bytes, uint64_t used_at)
{
    uint32_t number = free_slot(directory);
    entry_slot *entry;

    if (number == HTH_RAM_DIRECTORY_NO_SLOT)
        return number;
    entry = &directory->slots[number];
    entry->offset = offset;
    entry->bytes = bytes;
    atomic_store_explicit(&entry->used_at, used_at, memory_order_relaxed);
    atomic_store_explicit(&entry->commit, commit_word(number, offset, bytes), memory_order_release);
    return number;
}

void hth_ram_directory_remove(hth_ram_directory *directory, uint32_t slot)
{
    if (slot == HTH_RAM_DIRECTORY_NO_SLOT)
        return;
    assert(slot / 64 < directory->n_words);
    atomic_store_explicit(&directory->slots[slot].commit, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* later writes of the caller to the slab stay after the store */
    directory->taken[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    if (slot / 64 < directory->first_free_word)
        directory->first_free_word = slot / 64;
}

void hth_ram_directory_note_use(hth_ram_directory *directory, uint32_t slot, uint64_t used_at)
{
    if (slot != HTH_RAM_DIRECTORY_NO_SLOT)
        atomic_store_explicit(&directory->slots[slot].used_at, used_at, memory_order_relaxed);
}

/* ---- unused memory ---- */

static int by_offset(const void *a, const void *b)
{
    const hth_ram_entry *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void punch(int fd, uint64_t begin, uint64_t end)
{
    if (begin < end)
        (void)hth_os_file_punch(fd, begin, end - begin); /* on failure it stays in the file, unused */
}

/* Punch out everything between the slabs of these entries and after them. */
static void punch_gaps(int fd, hth_ram_entry *entries, size_t n, uint64_t file_bytes)
{
    uint64_t done = HTH_RAM_DIRECTORY_BYTES;

    if (n > 0)
        qsort(entries, n, sizeof(*entries), by_offset);
    for (size_t i = 0; i < n; i++) {
        uint64_t begin, end;

        if (__builtin_add_overflow(entries[i].offset, HTH_RAM_DIRECTORY_BYTES, &begin) || begin > file_bytes ||
            entries[i].bytes > file_bytes - begin)
            continue; /* not one of our slabs */
        end = begin + hth_arena_slab_bytes((size_t)entries[i].bytes);
        punch(fd, done, begin);
        done = end > done ? end : done;
    }
    punch(fd, done, file_bytes);
}

hearth_status hth_ram_directory_trim(int fd, size_t *n_rows_out, hearth_error *err)
{
    hth_ram_directory directory = { .fd = -1 };
    hth_ram_entry *entries = NULL;
    uint64_t file_bytes = 0;
    size_t n = 0;
    hearth_status status = lock_file(&directory, fd, &file_bytes, err);

    if (status == HEARTH_OK && is_ours(directory.fd, file_bytes))
        status = hth_ram_directory_entries(&directory, &entries, &n, err);
    if (status == HEARTH_OK) {
        if (n > 0)
            punch_gaps(directory.fd, entries, n, file_bytes);
        *n_rows_out = n;
    }
    if (directory.fd >= 0)
        (void)close(directory.fd); /* closing a file in memory reports no errors */
    free(directory.taken);
    free(entries);
    return status;
}
