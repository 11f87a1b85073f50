/*
 * status_page.c - memory that a worker writes and the front reads, even after the worker's death
 *
 * The page is one struct of words, each written and read atomically. The numbers must be consistent with each other,
 * and so must the keys. So each group is in a pair of slots: the writer fills the slot that readers do not use and then
 * increments the pair's version, whose lowest bit selects the slot to read. A writer that dies in between leaves the
 * last published state. A reader that sees the version change after its copy reads again, a bounded number of times.
 *
 *   offset  bytes
 *        0      8  magic, with the version of this layout and of the frames: the program file may be replaced under a
 *                  running server, and a worker of another build must refuse the page
 *        8      8  size of this struct, which changes with the structs of the numbers
 *       64      8  when the evaluation in progress began, monotonic ns; 0: none
 *      128      8  time of the event loop's last turn; 0: never
 *      192         numbers: version, two slots
 *      ...         keys of rows that are being restored into the context: version, two slots
 *      ...         suspects: count, keys
 *
 * The file's size is sealed, so that no writer can remove pages that a reader has mapped. Whatever the words hold, a
 * reader gets valid text, counts within their arrays, and times that are not negative.
 */
#include "wire/status_page.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/os.h"
#include "base/status.h"
#include "wire/lines.h"

#define MAGIC UINT64_C(0x3330656761707468) /* "htpage03" */

/* A reader fails if it is overtaken more often than this. A writer publishes a few times a second. */
enum { TRIES_MAX = 16, KEY_WORDS = 4 };

typedef _Atomic uint64_t word;

static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && sizeof(word) == 8, "words work between processes");

#define WORDS_OF(type) ((sizeof(type) + 7) / 8)

typedef struct numbers {
    hearth_counters counters;
    hearth_model_info info;
    hth_tier_quotas quotas;
} numbers;

typedef struct key_list {
    uint64_t n;
    uint8_t bytes[HTH_STATUS_KEYS_MAX][32];
} key_list;

enum { NUMBERS_WORDS = WORDS_OF(numbers), KEYS_WORDS = WORDS_OF(key_list) };

struct hth_status_page {
    word magic;
    word page_bytes;
    uint8_t unused_1[48];
    word tick_begin_ns; /* each writer has a cache line of its own */
    uint8_t unused_2[56];
    word loop_turn_ns;
    uint8_t unused_3[56];
    word numbers_version;
    word numbers[2][NUMBERS_WORDS];
    word keys_version;
    word keys[2][KEYS_WORDS];
    word has_model;
    word model[HTH_STATUS_MODEL_BYTES / 8];
    word keyspace[HTH_STATUS_KEYSPACE_BYTES / 8];
    word n_suspects;
    word suspects[HTH_STATUS_SUSPECTS_MAX][KEY_WORDS];
};

static_assert(offsetof(struct hth_status_page, tick_begin_ns) == 64, "layout");
static_assert(offsetof(struct hth_status_page, loop_turn_ns) == 128, "layout");
static_assert(offsetof(struct hth_status_page, numbers_version) == 192, "layout");

/* ---- pages ---- */

/* A file for the page on systems without memory files. Its name is removed at once. */
static int plain_file_new(void)
{
    const char *folder = getenv("TMPDIR");
    char path[1024];
    int fd, n;

    n = snprintf(path, sizeof(path), "%s/hearth-page.XXXXXX", folder && *folder ? folder : "/tmp");
    if (n < 0 || (size_t)n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkstemp(path);
    if (fd < 0)
        return -1;
    (void)unlink(path);                   /* a remaining name does no harm */
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* cannot fail for a valid descriptor */
    return fd;
}

static hearth_status map(int fd, hth_status_page **out, hearth_error *err)
{
    void *memory = mmap(NULL, sizeof(hth_status_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return hth_fail_errno(err, errno, "cannot map a worker's status page of %zu bytes", sizeof(hth_status_page));
    *out = memory;
    return HEARTH_OK;
}

hearth_status hth_status_page_new(hth_status_page **out, int *fd_out, hearth_error *err)
{
    hearth_status status;
    hth_status_page *page = NULL;
    bool can_seal = true;
    int fd = hth_os_memory_file_new("hearth-status");

    if (fd < 0 && errno == ENOTSUP) {
        can_seal = false;
        fd = plain_file_new();
    }
    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot make a worker's status page");
    if (ftruncate(fd, (off_t)sizeof(hth_status_page)) != 0 || (can_seal && hth_os_memory_file_seal(fd) != 0)) {
        status = hth_fail_errno(err, errno, "cannot make a worker's status page of %zu bytes", sizeof(hth_status_page));
        goto out;
    }
    status = map(fd, &page, err);
    if (status != HEARTH_OK)
        goto out;
    atomic_store_explicit(&page->page_bytes, sizeof(*page), memory_order_relaxed);
    atomic_store_explicit(&page->magic, MAGIC, memory_order_release);
    *out = page;
    *fd_out = fd;
    fd = -1;
out:
    if (fd >= 0)
        (void)close(fd); /* holds nothing */
    return status;
}

hearth_status hth_status_page_open(int fd, hth_status_page **out, hearth_error *err)
{
    hearth_status status;
    hth_status_page *page = NULL;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return hth_fail_errno(err, errno, "cannot use descriptor %d as a status page", fd);
    if (st.st_size < (off_t)sizeof(*page))
        return hth_fail(
            err, HEARTH_CORRUPT,
            "descriptor %d is no status page of this version: it has %lld bytes, not %zu; restart the server "
            "if the program was replaced under it",
            fd, (long long)st.st_size, sizeof(*page));
    status = map(fd, &page, err);
    if (status != HEARTH_OK)
        return status;
    if (atomic_load_explicit(&page->magic, memory_order_acquire) != MAGIC ||
        atomic_load_explicit(&page->page_bytes, memory_order_relaxed) != sizeof(*page)) {
        hth_status_page_free(page);
        return hth_fail(
            err, HEARTH_CORRUPT,
            "descriptor %d is no status page of this version; restart the server if the program was replaced "
            "under it",
            fd);
    }
    *out = page;
    return HEARTH_OK;
}

void hth_status_page_free(hth_status_page *page)
{
    if (page)
        (void)munmap(page, sizeof(*page)); /* cannot fail for a valid mapping */
}

/* ---- words ---- */

/*
 * Release and acquire on every word make a fence unnecessary: a reader that sees a word of a later version also sees
 * the incremented version of the pair. (Boehm, "Can seqlocks get along with programming language memory models?", MSPC
 * 2012.)
 */
static void words_store(word *to, const void *from, size_t n_words)
{
    const uint8_t *bytes = from;

    for (size_t i = 0; i < n_words; i++) {
        uint64_t value;

        memcpy(&value, bytes + 8 * i, sizeof(value));
        atomic_store_explicit(&to[i], value, memory_order_release);
    }
}

static void words_load(void *to, const word *from, size_t n_words)
{
    uint8_t *bytes = to;

    for (size_t i = 0; i < n_words; i++) {
        uint64_t value = atomic_load_explicit(&from[i], memory_order_acquire);

        memcpy(bytes + 8 * i, &value, sizeof(value));
    }
}

/* Publish the first n_used words of a slot; the words after them are undefined. */
static void pair_publish(word *version, word *slots, size_t n_words, const void *from, size_t n_used)
{
    uint64_t next = atomic_load_explicit(version, memory_order_relaxed) + 1;

    words_store(slots + (next & 1) * n_words, from, n_used);
    atomic_store_explicit(version, next, memory_order_release);
}

/* False: nothing was published, or the writer was too fast each time. */
static bool pair_read(const word *version, const word *slots, size_t n_words, void *to)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        uint64_t before = atomic_load_explicit(version, memory_order_acquire);

        if (before == 0)
            return false;
        words_load(to, slots + (before & 1) * n_words, n_words);
        if (atomic_load_explicit(version, memory_order_relaxed) == before)
            return true;
    }
    return false;
}

/* ---- written by the worker ---- */

void hth_status_page_tick_begin(hth_status_page *page)
{
    atomic_store_explicit(&page->tick_begin_ns, hth_os_monotonic_ns(), memory_order_relaxed);
}

void hth_status_page_tick_end(hth_status_page *page)
{
    atomic_store_explicit(&page->tick_begin_ns, 0, memory_order_relaxed);
}

void hth_status_page_loop_turns(hth_status_page *page)
{
    atomic_store_explicit(&page->loop_turn_ns, hth_os_monotonic_ns(), memory_order_relaxed);
}

void hth_status_page_loop_ends(hth_status_page *page)
{
    atomic_store_explicit(&page->loop_turn_ns, 0, memory_order_relaxed);
}

void hth_status_page_restoring(hth_status_page *page, const uint8_t (*keys)[32], size_t n)
{
    key_list list;

    static_assert(sizeof(list) == 8 * (size_t)KEYS_WORDS, "no word is half a field");
    list.n = n < HTH_STATUS_KEYS_MAX ? n : HTH_STATUS_KEYS_MAX;
    if (list.n > 0)
        memcpy(list.bytes, keys, list.n * sizeof(keys[0]));
    pair_publish(&page->keys_version, page->keys[0], KEYS_WORDS, &list, 1 + list.n * KEY_WORDS);
}

void hth_status_page_numbers_set(hth_status_page *page, const hearth_counters *counters, const hearth_model_info *info,
                                 const hth_tier_quotas *quotas)
{
    numbers all = { .counters = *counters, .info = *info, .quotas = *quotas };

    static_assert(sizeof(all) == 8 * (size_t)NUMBERS_WORDS, "no word is half a field");
    pair_publish(&page->numbers_version, page->numbers[0], NUMBERS_WORDS, &all, NUMBERS_WORDS);
}

/* ---- read by the front ---- */

static void end_text(char *text, size_t capacity)
{
    text[capacity - 1] = '\0';
    hth_make_printable(text);
}

/* Replace out-of-range values, which readers cannot handle, by valid ones. */
/* Reading a bool that is neither 0 nor 1 is undefined. */
static void check_flag(bool *flag)
{
    uint8_t byte;

    memcpy(&byte, flag, 1);
    *flag = byte == 1;
}

static void check(hearth_counters *counters, hearth_model_info *info)
{
    counters->struct_size = sizeof(*counters);
    info->struct_size = sizeof(*info);
    end_text(info->name, sizeof(info->name));
    end_text(info->architecture, sizeof(info->architecture));
    end_text(info->description, sizeof(info->description));
    end_text(info->chat_template_kind, sizeof(info->chat_template_kind));
    end_text(info->quant_type, sizeof(info->quant_type));
    end_text(info->strategy, sizeof(info->strategy));
    check_flag(&info->rows_are_blocks);
    check_flag(&info->generates);
    check_flag(&info->embeds);
    check_flag(&info->ranks);
    check_flag(&info->deterministic);
    if ((uint32_t)info->activity > (uint32_t)HEARTH_UNLOADED)
        info->activity = HEARTH_IDLE;
}

/* The time since then, at least 1; 0 for a time in the future. */
static uint64_t since(uint64_t now_ns, uint64_t then_ns)
{
    return then_ns < now_ns ? now_ns - then_ns : 0;
}

void hth_status_page_read_pulse(const hth_status_page *page, uint64_t *tick_ns, uint64_t *loop_ns)
{
    uint64_t tick = atomic_load_explicit(&page->tick_begin_ns, memory_order_relaxed);
    uint64_t loop = atomic_load_explicit(&page->loop_turn_ns, memory_order_relaxed);
    uint64_t now = hth_os_monotonic_ns();

    *tick_ns = tick > 0 ? since(now, tick) : 0;
    *loop_ns = loop > 0 ? since(now, loop) : UINT64_MAX;
}

void hth_status_page_read(const hth_status_page *page, hth_status *out)
{
    numbers all;
    key_list list;

    memset(out, 0, sizeof(*out));
    hth_status_page_read_pulse(page, &out->tick_ns, &out->loop_ns);
    out->has_numbers = pair_read(&page->numbers_version, page->numbers[0], NUMBERS_WORDS, &all);
    if (out->has_numbers) {
        memcpy(&out->counters, &all.counters, sizeof(all.counters));
        memcpy(&out->info, &all.info, sizeof(all.info));
        memcpy(&out->quotas, &all.quotas, sizeof(all.quotas));
        check(&out->counters, &out->info);
    }
    if (pair_read(&page->keys_version, page->keys[0], KEYS_WORDS, &list)) {
        out->n_restoring = list.n < HTH_STATUS_KEYS_MAX ? (size_t)list.n : HTH_STATUS_KEYS_MAX;
        memcpy(out->restoring, list.bytes, out->n_restoring * sizeof(list.bytes[0]));
    }
}

void hth_status_page_model_set(hth_status_page *page, const uint8_t digest[HTH_STATUS_MODEL_BYTES],
                               const uint8_t keyspace[HTH_STATUS_KEYSPACE_BYTES])
{
    for (size_t i = 0; i < HTH_STATUS_MODEL_BYTES / 8; i++)
        atomic_store_explicit(&page->model[i], hth_get_u64(digest + 8 * i), memory_order_relaxed);
    for (size_t i = 0; i < HTH_STATUS_KEYSPACE_BYTES / 8; i++)
        atomic_store_explicit(&page->keyspace[i], hth_get_u64(keyspace + 8 * i), memory_order_relaxed);
    atomic_store_explicit(&page->has_model, 1, memory_order_release);
}

bool hth_status_page_model(const hth_status_page *page, uint8_t digest[HTH_STATUS_MODEL_BYTES],
                           uint8_t keyspace[HTH_STATUS_KEYSPACE_BYTES])
{
    if (atomic_load_explicit(&page->has_model, memory_order_acquire) == 0)
        return false;
    for (size_t i = 0; i < HTH_STATUS_MODEL_BYTES / 8; i++)
        hth_put_u64(digest + 8 * i, atomic_load_explicit(&page->model[i], memory_order_relaxed));
    for (size_t i = 0; i < HTH_STATUS_KEYSPACE_BYTES / 8; i++)
        hth_put_u64(keyspace + 8 * i, atomic_load_explicit(&page->keyspace[i], memory_order_relaxed));
    return true;
}

void hth_status_page_reset(hth_status_page *page)
{
    atomic_store_explicit(&page->tick_begin_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&page->loop_turn_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&page->numbers_version, 0, memory_order_relaxed);
    atomic_store_explicit(&page->keys_version, 0, memory_order_relaxed);
}

/* ---- suspects ---- */

static size_t n_suspects(const hth_status_page *page)
{
    uint64_t n = atomic_load_explicit(&page->n_suspects, memory_order_acquire);

    return n < HTH_STATUS_SUSPECTS_MAX ? (size_t)n : HTH_STATUS_SUSPECTS_MAX;
}

static bool contains(const uint8_t (*list)[32], size_t n, const uint8_t key[32])
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(list[i], key, 32) == 0)
            return true;
    }
    return false;
}

void hth_status_page_suspects_add(hth_status_page *page, const uint8_t (*keys)[32], size_t n)
{
    uint8_t list[HTH_STATUS_SUSPECTS_MAX][32];
    size_t n_list = hth_status_page_suspects(page, list, HTH_STATUS_SUSPECTS_MAX);

    for (size_t i = 0; i < n; i++) {
        if (contains((const uint8_t(*)[32])list, n_list, keys[i]))
            continue;
        if (n_list == HTH_STATUS_SUSPECTS_MAX)
            memmove(list[0], list[1], --n_list * sizeof(list[0]));
        memcpy(list[n_list++], keys[i], sizeof(list[0]));
    }
    for (size_t i = 0; i < n_list; i++)
        words_store(page->suspects[i], list[i], KEY_WORDS);
    atomic_store_explicit(&page->n_suspects, n_list, memory_order_release);
}

size_t hth_status_page_suspects(const hth_status_page *page, uint8_t (*keys)[32], size_t capacity)
{
    size_t n = n_suspects(page);

    if (n > capacity)
        n = capacity;
    for (size_t i = 0; i < n; i++)
        words_load(keys[i], page->suspects[i], KEY_WORDS);
    return n;
}

void hth_status_page_suspects_clear(hth_status_page *page)
{
    atomic_store_explicit(&page->n_suspects, 0, memory_order_release);
}
