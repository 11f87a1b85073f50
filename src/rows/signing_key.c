/*
 * signing_key.c - the file of a key, and the check of its owner and mode
 *
 * The file is checked through the descriptor that it is read from, so the file that was checked is the one that is
 * read. Its bytes are on the stack from the read until the key is prepared, and are wiped before the function returns.
 * After that, only the prepared HMAC context holds them.
 */
#include "rows/signing_key.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"

enum { HEX_DIGITS = 2 * HTH_SIGNING_KEY_BYTES_MIN };

static const char remedy[] = "make one with 'umask 077; openssl rand -hex 32 >FILE'";

/*
 * Turn 64 hex digits and white space into 32 bytes, in place; other content is unchanged. Returns the length of the
 * key.
 */
static size_t decode_hex(uint8_t *bytes, size_t n_bytes)
{
    char digits[HEX_DIGITS + 1];
    size_t n = n_bytes;
    bool is_hex;

    while (n > HEX_DIGITS && isspace(bytes[n - 1]))
        n--;
    if (n != HEX_DIGITS)
        return n_bytes;
    memcpy(digits, bytes, HEX_DIGITS);
    digits[HEX_DIGITS] = '\0';
    is_hex = hth_hex_decode(digits, bytes, HTH_SIGNING_KEY_BYTES_MIN);
    hth_wipe(digits, sizeof(digits));
    return is_hex ? HTH_SIGNING_KEY_BYTES_MIN : n_bytes;
}

static hearth_status check_file(const hth_fs_stat *st, const char *path, hearth_error *err)
{
    if (!st->is_regular)
        return hth_fail(err, HEARTH_PERMISSION, "the signing key '%s' is no regular file; give the file itself", path);
    if (st->uid != (uint32_t)geteuid() && st->uid != 0)
        return hth_fail(err, HEARTH_PERMISSION,
                        "the signing key '%s' belongs to another user (uid %u); give a file of your own", path,
                        st->uid);
    if (st->permissions & 066)
        return hth_fail(err, HEARTH_PERMISSION,
                        "others can read or write the signing key '%s' (mode %03o); run 'chmod 600 %s'", path,
                        st->permissions, path);
    if (st->bytes < HTH_SIGNING_KEY_BYTES_MIN)
        return hth_fail(err, HEARTH_CORRUPT, "the signing key '%s' has %llu bytes and needs %d; %s", path,
                        (unsigned long long)st->bytes, HTH_SIGNING_KEY_BYTES_MIN, remedy);
    if (st->bytes > HTH_SIGNING_KEY_FILE_BYTES_MAX)
        return hth_fail(err, HEARTH_CORRUPT, "the signing key '%s' has %llu bytes and may have %d; %s", path,
                        (unsigned long long)st->bytes, HTH_SIGNING_KEY_FILE_BYTES_MAX, remedy);
    return HEARTH_OK;
}

static hearth_status read_key(const hth_fs *fs, int fd, const char *path, size_t n_bytes, hth_signing_key **out,
                              hearth_error *err)
{
    uint8_t bytes[HTH_SIGNING_KEY_FILE_BYTES_MAX];
    hearth_status status = HEARTH_OK;
    hth_signing_key *key;
    size_t n_read = 0;
    int rc;

    assert(n_bytes >= HTH_SIGNING_KEY_BYTES_MIN);
    assert(n_bytes <= sizeof(bytes));
    rc = hth_fs_read_full(fs, fd, bytes, n_bytes, 0, &n_read);
    if (rc != 0) {
        status = hth_fail_errno(err, -rc, "cannot read the signing key '%s'", path);
    } else if (n_read != n_bytes) {
        status = hth_fail(err, HEARTH_IO, "the signing key '%s' became shorter while it was read; try again", path);
    } else {
        key = hth_hmac_key_new(bytes, decode_hex(bytes, n_bytes));
        if (key)
            *out = key;
        else
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the signing key '%s'", path);
    }
    hth_wipe(bytes, sizeof(bytes));
    return status;
}

hearth_status hth_signing_key_load(const hth_fs *fs, const char *path, hth_signing_key **out, hearth_error *err)
{
    hth_fs_stat st = { .bytes = 0 };
    hearth_status status;
    int fd, rc;

    if (!fs)
        fs = hth_fs_system();
    fd = hth_fs_open(fs, path, HTH_FS_READ);
    if (fd == -ELOOP)
        return hth_fail(err, HEARTH_PERMISSION, "the signing key '%s' is a symbolic link; give the file itself", path);
    if (fd < 0)
        return hth_fail_errno(err, -fd, "cannot open the signing key '%s'", path);
    rc = hth_fs_stat_open(fs, fd, &st);
    status =
        rc == 0 ? check_file(&st, path, err) : hth_fail_errno(err, -rc, "cannot look at the signing key '%s'", path);
    if (status == HEARTH_OK)
        status = read_key(fs, fd, path, (size_t)st.bytes, out, err);
    hth_fs_close(fs, fd);
    return status;
}
