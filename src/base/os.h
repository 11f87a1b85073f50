/*
 * os.h - what differs between systems, and clocks
 *
 * One source file a system implements it (os_linux.c, os_darwin.c, os_freebsd.c); nothing above asks which system it
 * runs on. Every function may be called from any thread.
 */
#ifndef HTH_BASE_OS_H
#define HTH_BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* ---- time ---- */

/* A clock that never goes back, the same for all processes of this boot. */
uint64_t hth_os_monotonic_ns(void);
static inline uint64_t hth_ms_to_ns(uint32_t ms)
{
    return (uint64_t)ms * 1000000u;
}
/* Wall clock. */
uint64_t hth_os_unix_seconds(void);
/* Times of a file, nanoseconds since 1970. */
uint64_t hth_os_mtime_ns(const struct stat *st);
uint64_t hth_os_ctime_ns(const struct stat *st);

/* ---- the machine ---- */

/* A text of letters, digits and dashes that is another one after every boot. False when it cannot be known. */
bool hth_os_boot_id(char *text, size_t capacity);
/* The host's name; false, with text unchanged, when it is unknown or does not fit. */
bool hth_os_hostname(char *text, size_t capacity);
/* Memory that this process may use at most: the machine's or, where it is lower, the container's. */
uint64_t hth_os_memory_bytes(void);
/* Memory that can be had now without swapping. */
uint64_t hth_os_memory_available_bytes(void);
/* CPUs that this process may run on, at least 1. */
unsigned hth_os_n_cpus(void);
/* The path of the running program; false, with path unchanged, when it is unknown or does not fit. */
bool hth_os_program_path(char *path, size_t capacity);
/* Bytes that nobody can guess. */
void hth_os_random(void *bytes, size_t n_bytes);

/* ---- processes ---- */

/* Memory of a process that is in RAM; 0 where there is no such process or it cannot be known. */
uint64_t hth_os_process_resident_bytes(int pid);
/* Processor time that this process has used. */
uint64_t hth_os_process_cpu_ns(void);
/* Descriptors that this process has open; 0 where that cannot be known. */
uint32_t hth_os_n_descriptors(void);

/* ---- threads and memory ---- */

/* Name the calling thread, for debuggers and ps; cut at 15 bytes. */
void hth_os_thread_name(const char *name);
/*
 * Raise the nice value of the calling thread alone, which is what it began with, by steps; without effect where the
 * system has no such thing. Work of threads that hold locks others wait for: a few steps give way to decoding without
 * ever keeping such a thread from its turn.
 */
#define HTH_OS_NICE_HELPER 5
void hth_os_thread_nice(int steps);
/*
 * Sleep until somebody wakes those who sleep on word (four aligned bytes, perhaps in memory that processes share), the
 * value there is not expected, or timeout_ms are over; may return early. False, at once, where there is no such thing.
 */
bool hth_os_word_wait(const void *word, uint32_t expected, uint32_t timeout_ms);
void hth_os_word_wake(void *word);
/*
 * Ask for huge pages and fault a private, writable mapping in. What it holds stays; nobody may write to it meanwhile.
 */
void hth_os_memory_prefault(void *memory, size_t n_bytes);
/*
 * Give the pages of a private mapping back to the system; they stay mapped, and what they hold is undefined. Nothing
 * happens where the system cannot.
 */
void hth_os_memory_discard(void *memory, size_t n_bytes);
/* No huge pages for this mapping from now on: memory is given back in small pieces and must not come back in large. */
void hth_os_memory_small_pages(void *memory, size_t n_bytes);

/* ---- memory that outlives a process ---- */

/* All return 0 or a descriptor, or -1 with errno; ENOTSUP where the system has no such thing. */

/* A new file that lives in memory only and can grow, but not shrink; it is gone with its last descriptor. */
int hth_os_memory_file_new(const char *name);
/* Its size stays as it is from now on, whoever has a descriptor: nobody's mapping of it can lose its pages. */
int hth_os_memory_file_seal(int fd);
/*
 * Open the file behind fd once more and lock it. The descriptor returned shares nothing with fd, so the lock ends with
 * this process (or close of the descriptor and munmap of its mappings) even when fd was inherited and lives on
 * elsewhere. EWOULDBLOCK when another one holds the lock.
 */
int hth_os_memory_file_own(int fd);
/* Make the pages of a range be there, so that writing to them through a mapping cannot fail. What they hold stays. */
int hth_os_file_allocate(int fd, uint64_t offset, uint64_t n_bytes);
/* Give the pages of a range back to the system; they read as zeros. */
int hth_os_file_punch(int fd, uint64_t offset, uint64_t n_bytes);
/* The first offset >= at that is in no hole; UINT64_MAX when there is none. */
uint64_t hth_os_file_next_data(int fd, uint64_t at);

/* ---- sockets ---- */

/*
 * True when the other end of a connected socket will send no more: it was closed, for writing at least, although bytes it
 * sent before may wait unread. Does not wait. Where the system tells less, false until both directions are closed.
 */
bool hth_os_peer_has_ended(int fd);

/* ---- processes ---- */

/* The first three make system calls only and keep errno of no interest: for the time between fork and exec. */

/* From now on the calling process is killed when the thread that forked it ends; nothing where there is no such thing. */
void hth_os_end_with_parent(void);
/* Close every descriptor from first to last, both included, that is open. */
void hth_os_close_range(unsigned first, unsigned last);
/* When memory runs out, the system is to take the calling process rather than its parent. A wish. */
void hth_os_first_to_go(void);

/* ---- files ---- */

/* All return 0 or a descriptor, or -1 with errno. */

/* Open a new file without a name, for writing, mode 0600, on the device of directory. ENOTSUP where there is none. */
int hth_os_open_unnamed(const char *directory);
/* Give such a file a name that does not exist yet. */
int hth_os_link_unnamed(int fd, const char *path);
/* Read what is in memory already; bytes, 0 at the end, or -errno: -EAGAIN where a device would be waited for. */
int64_t hth_os_read_now(int fd, void *bytes, size_t n_bytes, uint64_t offset);

/*
 * A queue of reads that go out in one call. NULL where the system has none or forbids it. One thread uses it. add: false
 * when the queue is full or the system does not take any more.
 *
 * wait: the user_data of a read that came back, and in *n_out its bytes or -errno. Only while a read is out. It never
 * gives up on one: as long as the system may still write into the read's memory, that must not be another's, so waiting
 * without end is the lesser harm. What the system turns out not to take comes back with -EOPNOTSUPP, unread.
 */
typedef struct hth_os_ring hth_os_ring;
hth_os_ring *hth_os_ring_open(unsigned depth);
void hth_os_ring_close(hth_os_ring *ring); /* accepts NULL */
bool hth_os_ring_add(hth_os_ring *ring, int fd, void *bytes, size_t n_bytes, uint64_t offset, void *user_data);
void hth_os_ring_submit(hth_os_ring *ring);
void *hth_os_ring_wait(hth_os_ring *ring, int64_t *n_out);

/* Bring a file's bytes and size to the device, past its volatile cache where the system can. */
int hth_os_sync_data(int fd);

#endif
