/*
 * structs.c - see structs.h
 */
#include "base/structs.h"

#include <string.h>

#include "base/smaller.h"

static size_t size_of(const void *a_struct)
{
    size_t size;

    memcpy(&size, a_struct, sizeof(size));
    return size;
}

static void set_size(void *a_struct, size_t size)
{
    memcpy(a_struct, &size, sizeof(size));
}

void hth_struct_init(void *to, size_t struct_size, const void *defaults, size_t size)
{
    if (!to || struct_size < sizeof(size_t))
        return;
    memset(to, 0, struct_size);
    memcpy(to, defaults, hth_smaller(struct_size, size));
    set_size(to, struct_size);
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static hearth_status read_sized(void *to, size_t size, const void *from, size_t from_size, const char *name,
                                hearth_error *err)
{
    if (from_size > size && !is_zero((const unsigned char *)from + size, from_size - size))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "%s has fields that this library, version " HEARTH_VERSION
                        ", does not know; leave them zero, or "
                        "use the library that hearth.h belongs to",
                        name);
    memcpy(to, from, hth_smaller(from_size, size));
    set_size(to, size);
    return HEARTH_OK;
}

/* No version has a struct of this size: the caller never set it. */
static hearth_status check_size(size_t size, const char *name, hearth_error *err)
{
    enum { STRUCT_BYTES_MAX = 2048 };

    if (size >= sizeof(size_t) && size <= STRUCT_BYTES_MAX)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "%s.struct_size is %zu; set it to sizeof(%s)", name, size, name);
}

hearth_status hth_struct_read(void *to, size_t size, const void *from, const char *name, hearth_error *err)
{
    return hth_structs_read(to, size, from, 1, name, err);
}

hearth_status hth_structs_read(void *to, size_t size, const void *from, size_t n, const char *name, hearth_error *err)
{
    size_t stride = n > 0 ? size_of(from) : size;
    hearth_status status = check_size(stride, name, err);

    for (size_t i = 0; i < n && status == HEARTH_OK; i++)
        status = read_sized((char *)to + i * size, size, (const char *)from + i * stride, stride, name, err);
    return status;
}

void hth_struct_write(void *to, const void *from, size_t size)
{
    size_t struct_size = size_of(to);

    memcpy(to, from, hth_smaller(struct_size, size));
    set_size(to, struct_size);
}
