/*
 * mapped_file.c - map a file, and read a file as JSON
 */
#include "convert/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_bounds.h"

/* A tokenizer has about a million values; merges that are pairs, two million more. */
enum { JSON_BYTES_MAX = 512 << 20, JSON_DEPTH_MAX = 32, JSON_VALUES_MAX = 16000000 };

hearth_status hth_mapped_file_open(const char *folder, const char *name, uint64_t bytes_max, hth_mapped_file *out,
                                   hearth_error *err)
{
    const char *path = out->path;
    struct stat st;
    void *map = MAP_FAILED;
    hearth_status status = HEARTH_OK;
    int fd;

    if ((size_t)snprintf(out->path, sizeof(out->path), "%s/%s", folder, name) >= sizeof(out->path))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", folder);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block */
    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0)
        status = hth_fail_errno(err, errno, "cannot look at '%s'", path);
    else if (!S_ISREG(st.st_mode) || st.st_size <= 0)
        status = hth_fail(err, HEARTH_CORRUPT, "'%s' is empty, or no file", path);
    else if ((uint64_t)st.st_size > bytes_max || (uint64_t)st.st_size > SIZE_MAX)
        status = hth_fail(err, HEARTH_CORRUPT, "'%s' is too large, %lld bytes", path, (long long)st.st_size);
    if (status == HEARTH_OK) {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            status = hth_fail_errno(err, errno, "cannot map '%s'", path);
    }
    (void)close(fd); /* it was only read */
    if (status != HEARTH_OK)
        return status;
    out->bytes = map;
    out->n_bytes = (uint64_t)st.st_size;
    return HEARTH_OK;
}

void hth_mapped_file_close(const uint8_t *bytes, uint64_t n_bytes)
{
    (void)munmap((void *)(uintptr_t)bytes, (size_t)n_bytes); /* it was mapped */
}

void hth_mapped_file_release(const uint8_t *bytes, uint64_t n_bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)bytes + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)bytes + n_bytes) / page * page;

    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* if it fails, they stay a little longer */
}

hearth_status hth_json_file_read(const char *folder, const char *name, json_t **out, hearth_error *err)
{
    hth_mapped_file file;
    json_error_t problem = { .line = 0 };
    hearth_status status = hth_mapped_file_open(folder, name, JSON_BYTES_MAX, &file, err);
    json_t *read = NULL;

    if (status != HEARTH_OK)
        return status;
    if (!hth_json_is_within((const char *)file.bytes, (size_t)file.n_bytes, JSON_DEPTH_MAX, JSON_VALUES_MAX))
        status = hth_fail(err, HEARTH_CORRUPT, "'%s' is nested too deeply, or has too many values", file.path);
    else
        read = json_loadb((const char *)file.bytes, (size_t)file.n_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (status == HEARTH_OK && !read)
        status = hth_fail(err, HEARTH_CORRUPT, "'%s', line %d: %s", file.path, problem.line, problem.text);
    if (status == HEARTH_OK && !json_is_object(read)) {
        json_decref(read);
        status = hth_fail(err, HEARTH_CORRUPT, "'%s' is no JSON object", file.path);
    }
    hth_mapped_file_close(file.bytes, file.n_bytes);
    if (status == HEARTH_OK)
        *out = read;
    return status;
}

bool hth_json_size(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}
