/*
 * os.h - the differences between systems, and clocks
 *
 * One source file for each system implements it (os_linux.c, os_darwin.c, os_freebsd.c), with parts that two or all
 * share (os_linux_freebsd.c, os_bsd.c, os_posix.c). Code that uses it does not test for the system. Any thread may call
 * every function.
 */
#ifndef HTH_BASE_OS_H
#define HTH_BASE_OS_H

#include <signal.h>
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

/* A text of letters, digits and dashes that changes with every boot. False if it is unknown. */
bool hth_os_boot_id(char *text, size_t capacity);
/* The host's name. False, with text unchanged, if it is unknown or does not fit. */
bool hth_os_hostname(char *text, size_t capacity);
/* The memory limit of this process: the machine's or, if it is lower, the container's. */
uint64_t hth_os_memory_bytes(void);
/* Memory that is available now without swapping. */
uint64_t hth_os_memory_available_bytes(void);
/* CPUs that this process may run on, at least 1. */
unsigned hth_os_n_cpus(void);
/* The path of the running program. False, with path unchanged, if it is unknown or does not fit. */
bool hth_os_program_path(char *path, size_t capacity);
/* Unpredictable bytes. */
void hth_os_random(void *bytes, size_t n_bytes);

/* ---- processes ---- */

/* Memory of a process that is in RAM; 0 if there is no such process or it is unknown. */
uint64_t hth_os_process_resident_bytes(int pid);
/* CPU time that this process has used. */
uint64_t hth_os_process_cpu_ns(void);
/* Open descriptors of this process; 0 if unknown. */
uint32_t hth_os_n_descriptors(void);

/* ---- threads and memory ---- */

/* Name the calling thread, for debuggers and ps; cut at 15 bytes. */
void hth_os_thread_name(const char *name);
/*
 * Raise the nice value of the calling thread alone by steps, from its initial value. No effect if the system has no
 * such setting. It is for threads that hold locks for which others wait: with a few steps they yield to decoding but
 * still always get their turn.
 */
#define HTH_OS_NICE_HELPER 5
void hth_os_thread_nice(int steps);
/*
 * Sleep until a wake-up on word (four aligned bytes, perhaps in memory that processes share), until its value is not
 * expected, or for timeout_ms. May return early. False, at once, if the system cannot do that.
 */
bool hth_os_word_wait(const void *word, uint32_t expected, uint32_t timeout_ms);
void hth_os_word_wake(void *word);
/*
 * Ask for huge pages and fault in a private, writable mapping. Its contents stay. No thread may write to it meanwhile.
 */
void hth_os_memory_prefault(void *memory, size_t n_bytes);
/*
 * Give the pages of a private mapping back to the system. They stay mapped, with undefined contents. No effect if the
 * system cannot do that.
 */
void hth_os_memory_discard(void *memory, size_t n_bytes);
/* Use no more huge pages for this mapping: small pieces that are given back must not come back as large ones. */
void hth_os_memory_small_pages(void *memory, size_t n_bytes);
/* The usable size of a malloc allocation, at least as much as was requested. */
size_t hth_os_allocated_bytes(void *allocated);

/* ---- memory that outlives a process ---- */

/* All return 0 or a descriptor, or -1 with errno; ENOTSUP if the system cannot do it. */

/* A new file in memory that can grow but not shrink. It disappears with its last descriptor. */
int hth_os_memory_file_new(const char *name);
/* From now on no process can change its size, so no mapping of it can lose its pages. */
int hth_os_memory_file_seal(int fd);
/*
 * Open the file behind fd once more and lock it. The new descriptor shares nothing with fd. So the lock ends with this
 * process (or with close of the descriptor and munmap of its mappings), even if fd was inherited and stays open
 * elsewhere. EWOULDBLOCK: another process holds the lock.
 */
int hth_os_memory_file_own(int fd);
/* Allocate the pages of a range, so that writing to them through a mapping cannot fail. Their contents stay. */
int hth_os_file_allocate(int fd, uint64_t offset, uint64_t n_bytes);
/* Give the pages of a range back to the system; they read as zeros. */
int hth_os_file_punch(int fd, uint64_t offset, uint64_t n_bytes);
/* The first offset >= at that is not in a hole; UINT64_MAX: none. */
uint64_t hth_os_file_next_data(int fd, uint64_t at);

/* ---- changes of folders ---- */

/*
 * A watch: a descriptor that becomes readable when an entry in its folders is created, renamed or removed, or when a
 * file in them is written. Changes that another machine makes on a network drive are not seen.
 * -1 with errno; ENOTSUP: not supported on this system.
 */
int hth_os_watch_open(void);
int hth_os_watch_add(int watch, const char *folder);
/* Since the last call, has a folder changed, or a file whose name matters? Hidden ones are ignored. Does not wait. */
bool hth_os_watch_take(int watch, bool (*matters)(const char *name));

/* ---- sockets and pipes ---- */

/*
 * True if the peer of a connected socket will send no more: it has closed at least its writing half, although earlier
 * bytes may wait unread. Does not wait. On systems that report less, false until both directions are closed.
 */
bool hth_os_peer_has_ended(int fd);
/* True if the connection is known to be over in both directions, as after a reset. Does not wait. */
bool hth_os_peer_is_gone(int fd);
/*
 * Wait until fd is readable, with this signal mask during the wait. False, with errno, on failure; EINTR: a signal
 * arrived.
 */
bool hth_os_wait_readable(int fd, const sigset_t *mask);
/*
 * A pipe whose ends are non-blocking and close on exec; the read end comes first. On failure false with errno, and ends
 * is unchanged.
 */
bool hth_os_pipe(int ends[2]);

/* ---- processes ---- */

/* For use between fork and exec: the first three only make system calls. They leave errno undefined. */

/* From now on the calling process is killed when the thread that forked it ends. No effect if unsupported. */
void hth_os_end_with_parent(void);
/* Close every open descriptor from first to last, inclusive. */
void hth_os_close_range(unsigned first, unsigned last);
/* Ask the system to kill the calling process rather than its parent when memory runs out. It may ignore that. */
void hth_os_first_to_go(void);

/* ---- files ---- */

/* All return 0 or a descriptor, or -1 with errno. */

/* Open a new file without a name, for writing, mode 0600, on the device of directory. ENOTSUP if unsupported. */
int hth_os_open_unnamed(const char *directory);
/* Give such a file a new name. */
int hth_os_link_unnamed(int fd, const char *path);
/*
 * Read bytes that are already in memory. Returns their number, 0 at the end, or -errno; -EAGAIN: they would have to be
 * read from a device.
 */
int64_t hth_os_read_now(int fd, void *bytes, size_t n_bytes, uint64_t offset);

/*
 * A queue of reads that go out in one call. NULL if the system has none or forbids it. Used by one thread. add: false
 * if the queue is full or the system accepts no more.
 *
 * wait: returns the user_data of a completed read, with its byte count or -errno in *n_out. Call it only while a read
 * is outstanding. It never abandons a read: the system may still write into the read's memory, which therefore must not
 * be reused. Waiting forever is the lesser evil. A read that the system turns out to refuse completes with -EOPNOTSUPP.
 */
typedef struct hth_os_ring hth_os_ring;
hth_os_ring *hth_os_ring_open(unsigned depth);
void hth_os_ring_close(hth_os_ring *ring); /* accepts NULL */
bool hth_os_ring_add(hth_os_ring *ring, int fd, void *bytes, size_t n_bytes, uint64_t offset, void *user_data);
void hth_os_ring_submit(hth_os_ring *ring);
void *hth_os_ring_wait(hth_os_ring *ring, int64_t *n_out);

/* Flush a file's bytes and size to the device, including its volatile cache if the system can. */
int hth_os_sync_data(int fd);

#endif
