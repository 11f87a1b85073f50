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
/* Bytes that nobody can guess. */
void hth_os_random(void *bytes, size_t n_bytes);

/* ---- threads and memory ---- */

/* Name the calling thread, for debuggers and ps; cut at 15 bytes. */
void hth_os_thread_name(const char *name);
/* Let the calling thread run only when no other wants to; without effect where the system has no such thing. */
void hth_os_thread_background(void);
/* Let other threads run. */
void hth_os_yield(void);
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

/* ---- files ---- */

/* All return 0 or a descriptor, or -1 with errno. */

/* Open a new file without a name, for writing, mode 0600, on the device of directory. ENOTSUP where there is none. */
int hth_os_open_unnamed(const char *directory);
/* Give such a file a name that does not exist yet. */
int hth_os_link_unnamed(int fd, const char *path);
/* Bring a file's bytes and size to the device, past its volatile cache where the system can. */
int hth_os_sync_data(int fd);

#endif
