/*
 * Times decide whether a digest belongs to the file. A file that is written later has a later modification time. A file
 * that replaces another keeps its modification time, but not its status-change time; a link that is made again has new
 * times itself. No user can set a status-change time. So the digest's must be strictly later: two changes in one clock
 * tick have the same time, and their order is unknown. For a blob, the times of the link take the place of those of the
 * digest.
 */
#include "models/trusted_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/hex.h"
#include "base/os.h"

enum { HEX = 2 * HTH_SHA256_BYTES, LINE_MAX_BYTES = HEX + NAME_MAX + 8 };

static const char *cause_of_rights(const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return "belongs to another user";
    return st->st_mode & (S_IWGRP | S_IWOTH) ? "may be written by other users; take that right away (chmod go-w)"
                                             : NULL;
}

static const char is_old[] =
    "is older than the file, or came to its place before it or with it; if it is right, 'touch -h' it";

static bool is_older(const struct stat *digest, const struct stat *file)
{
    return hth_os_mtime_ns(digest) < hth_os_mtime_ns(file) || hth_os_ctime_ns(digest) <= hth_os_ctime_ns(file);
}

/* "HEX", "HEX  NAME" or "HEX *NAME". */
static const char *cause_of_line(const char *line, const char *name, uint8_t out[HTH_SHA256_BYTES])
{
    char hex[HEX + 1];
    const char *rest = line + HEX;

    if (strlen(line) < HEX)
        return "is no line of sha256sum";
    memcpy(hex, line, HEX);
    hex[HEX] = '\0';
    if (*rest == ' ' && (rest[1] == ' ' || rest[1] == '*')) {
        if (strcmp(hth_gguf_base_name(rest + 2), name) != 0)
            return "is that of a file with another name";
    } else if (*rest)
        return "is no line of sha256sum";
    return hth_hex_decode(hex, out, HTH_SHA256_BYTES) ? NULL : "is no line of sha256sum";
}

static bool read_line(int fd, char line[LINE_MAX_BYTES + 1])
{
    const ssize_t n = read(fd, line, LINE_MAX_BYTES);
    char *end;

    if (n <= 0 || n == LINE_MAX_BYTES || memchr(line, '\0', (size_t)n))
        return false;
    line[n] = '\0';
    end = line + strcspn(line, "\r\n");
    if (end[strspn(end, "\r\n")])
        return false;
    *end = '\0';
    return true;
}

static const char *cause_of_file(int fd, const char *path, const struct stat *file, uint8_t out[HTH_SHA256_BYTES])
{
    struct stat st, link;
    char line[LINE_MAX_BYTES + 1];
    const char *cause;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return "is no regular file";
    cause = cause_of_rights(&st);
    if (cause)
        return cause;
    if (lstat(path, &link) != 0 || is_older(&st, file) || is_older(&st, &link))
        return is_old;
    return read_line(fd, line) ? cause_of_line(line, hth_gguf_base_name(path), out) : "is no line of sha256sum";
}

static const char *cause_of_link(const char *path, const struct stat *file)
{
    struct stat link;
    const char *cause = cause_of_rights(file);

    if (cause)
        return cause;
    if (lstat(path, &link) != 0 || !S_ISLNK(link.st_mode))
        return "is no link, whose time would tell whether the file changed since it got its name";
    return is_older(&link, file) ? is_old : NULL;
}

/*
 * Is it the path of a blob, "models--OWNER--REPO/blobs/HEX" or "blobs/sha256-HEX"? Truncates the path to the directory.
 */
static bool read_blob_path(char *path, uint8_t out[HTH_SHA256_BYTES])
{
    char *name = strrchr(path, '/'), *folder, *repo;
    bool is_named, is_of_repo;

    if (!name)
        return false;
    *name++ = '\0';
    is_named = strncmp(name, "sha256-", 7) == 0;
    folder = strrchr(path, '/');
    if (!folder || strcmp(folder, "/blobs") != 0 || !hth_hex_decode(is_named ? name + 7 : name, out, HTH_SHA256_BYTES))
        return false;
    *folder = '\0';
    repo = strrchr(path, '/');
    is_of_repo = repo && strncmp(repo, "/models--", 9) == 0;
    *folder = '/';
    return is_named || is_of_repo;
}

bool hth_trusted_digest(const char *path, const struct stat *file, const hth_log *log, uint8_t out[HTH_SHA256_BYTES])
{
    char beside[PATH_MAX], folder[PATH_MAX];
    uint8_t digest[HTH_SHA256_BYTES];
    struct stat st;
    const char *about = beside, *cause;
    const int n = snprintf(beside, sizeof(beside), "%s.sha256", path);
    int fd;

    if (n < 0 || (size_t)n >= sizeof(beside))
        return false;
    fd = open(beside, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        (void)snprintf(folder, sizeof(folder), "%.*s.", (int)(hth_gguf_base_name(path) - path), path); /* fits */
        cause = cause_of_file(fd, path, file, digest);
        (void)close(fd); /* only read */
    } else if (errno != ENOENT) {
        cause = errno == ELOOP ? "is a link" : "cannot be read";
    } else if (realpath(path, folder) && read_blob_path(folder, digest)) {
        about = path;
        cause = cause_of_link(path, file);
    } else
        return false;
    if (!cause) {
        about = folder;
        cause = stat(folder, &st) == 0 ? cause_of_rights(&st) : "cannot be examined";
    }
    if (cause) {
        hth_warn(log, "'%s' is hashed, because its digest is not trusted: '%s' %s", path, about, cause);
        return false;
    }
    hth_info(log, "'%s' is not hashed: its digest came with it", path);
    memcpy(out, digest, sizeof(digest));
    return true;
}
