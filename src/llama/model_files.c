/*
 * model_files.c - checks that a GGUF file is whole, and that all parts of a split model exist
 *
 * The engine maps a file and trusts its header. So the header is read first, and the file must be as long as its
 * tensors need.
 */
#include "llama/backend_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gguf_name.h"

/* Check the first bytes of a model, before anything else reads it. */
static hearth_status check_magic(const char *path, uint64_t *n_bytes, hearth_error *err)
{
    uint8_t magic[4] = { 0 };
    hearth_status status = HEARTH_OK;
    struct stat st;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */

    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot open the model '%s'", path);
    if (fstat(fd, &st) != 0) {
        status = hth_fail_errno(err, errno, "cannot examine the model '%s'", path);
        goto out;
    }
    if (S_ISDIR(st.st_mode)) {
        status = hth_fail(err, HEARTH_IO, "'%s' is a directory; name the GGUF file in it", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        status = hth_fail(err, HEARTH_IO, "'%s' is no regular file", path);
        goto out;
    }
    n = pread(fd, magic, sizeof(magic), 0);
    if (n < 0)
        status = hth_fail_errno(err, errno, "cannot read the model '%s'", path);
    else if (st.st_size == 0)
        status = hth_fail(err, HEARTH_CORRUPT, "'%s' is empty", path);
    else if (n < 4 || memcmp(magic, "GGUF", 4) != 0)
        status = hth_fail(err, HEARTH_CORRUPT, "'%s' is no GGUF model: it begins with %02x%02x%02x%02x, not 'GGUF'",
                          path, magic[0], magic[1], magic[2], magic[3]);
    *n_bytes = (uint64_t)st.st_size;
out:
    (void)close(fd); /* only read from */
    return status;
}

static hearth_status check_file(const char *path, hth_shim_file *file, hearth_error *err)
{
    uint64_t n_bytes = 0;
    hearth_status status = check_magic(path, &n_bytes, err);

    if (status == HEARTH_OK)
        status = hth_shim_file_read(path, file, err);
    if (status == HEARTH_OK && file->bytes_needed > n_bytes)
        status = hth_fail(err, HEARTH_CORRUPT, "'%s' is incomplete: %llu bytes, its tensors need %llu; fetch it again",
                          path, (unsigned long long)n_bytes, (unsigned long long)file->bytes_needed);
    return status;
}

hearth_status hth_model_files_check(const char *path, hth_shim_file *total, hearth_error *err)
{
    hearth_status status = check_file(path, total, err);
    hth_gguf_part named;

    if (status != HEARTH_OK || total->split_count <= 1)
        return status;
    if (total->split_no != 0)
        return hth_fail(err, HEARTH_MISUSE, "'%s' is part %u of %u; name the first part", path, total->split_no + 1,
                        total->split_count);
    if (!hth_gguf_part_read(path, &named) || named.number != 1 || named.n_parts != total->split_count)
        return hth_fail(err, HEARTH_CORRUPT,
                        "'%s' is the first of %u parts but is not named like it (...-00001-of-%05u.gguf)", path,
                        total->split_count, total->split_count);
    for (uint32_t i = 2; i <= total->split_count && status == HEARTH_OK; i++) {
        char part_path[HTH_GGUF_PATH_BYTES];
        hth_shim_file part = { 0 };

        hth_gguf_part_path(path, &named, i, part_path, sizeof(part_path));
        status = check_file(part_path, &part, err);
        total->weight_bytes += part.weight_bytes;
        total->has_long_rope_factors |= part.has_long_rope_factors;
        total->has_iq_experts |= part.has_iq_experts;
    }
    return status;
}

hearth_status hth_whole_file_check(const char *path, const char *kind, hth_shim_file *out, hearth_error *err)
{
    hearth_status status = check_file(path, out, err);

    if (status == HEARTH_OK && out->split_count > 1)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "'%s' is part %u of %u of %s, and only a whole file is used; join the parts with "
                        "'llama-gguf-split --merge' and name the result",
                        path, out->split_no + 1, out->split_count, kind);
    return status;
}
