/*
 * scan_fuzz.c - any names and any bytes as the files of a tier whose index is made anew
 *
 * An input is a list of files: a byte with the length of the name, the name, two bytes with the length of the contents,
 * the contents. A name of no length stands for the name that the contents would have as a row. The files exist in
 * memory only; the index is a real one. What is held: the scan ends without a crash, and the index has then exactly the
 * files that are rows by their names and heads, with totals that add up.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/scan.h"
#include "rows/row_file.h"
#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { FILES_MAX = 16, NAME_BYTES = 256 };

#define ROWS "rows"

typedef struct file {
    char folder[3];
    char name[NAME_BYTES];
    const uint8_t *bytes;
    size_t n_bytes;
} file;

typedef struct world {
    hth_fs fs;
    file files[FILES_MAX];
    size_t n_files;
} world;

/* ---- files in memory ---- */

static const file *find(const world *w, const char *path)
{
    for (size_t i = 0; i < w->n_files; i++) {
        const file *f = &w->files[i];

        if (strncmp(path, ROWS "/", 5) == 0 && strncmp(path + 5, f->folder, 2) == 0 && path[7] == '/' &&
            strcmp(path + 8, f->name) == 0)
            return f;
    }
    return NULL;
}

static int fake_open(void *context, const char *path, hth_fs_mode mode)
{
    const world *w = context;
    const file *f = find(w, path);

    assert(mode == HTH_FS_READ);
    return f ? (int)(f - w->files) : -ENOENT;
}

static int fake_close(void *context, int fd)
{
    (void)context;
    (void)fd;
    return 0;
}

static int64_t fake_read_at(void *context, int fd, void *bytes, size_t n_bytes, uint64_t offset)
{
    const file *f = &((const world *)context)->files[fd];
    size_t n = offset < f->n_bytes ? f->n_bytes - (size_t)offset : 0;

    n = n < n_bytes ? n : n_bytes;
    if (n > 0)
        memcpy(bytes, f->bytes + offset, n);
    return (int64_t)n;
}

static int fake_stat_open(void *context, int fd, hth_fs_stat *out)
{
    const file *f = &((const world *)context)->files[fd];

    *out = (hth_fs_stat){ .bytes = f->n_bytes, .is_regular = true, .mtime = 1 };
    return 0;
}

static int fake_stat(void *context, const char *path, hth_fs_stat *out)
{
    const world *w = context;
    const file *f = find(w, path);

    return f ? fake_stat_open(context, (int)(f - w->files), out) : -ENOENT;
}

/* Is it the first file of its folder? */
static bool begins_folder(const world *w, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(w->files[k].folder, w->files[i].folder) == 0)
            return false;
    return true;
}

static int fake_list(void *context, const char *path, hth_fs_visit_fn visit, void *user_data)
{
    const world *w = context;
    bool is_rows = strcmp(path, ROWS) == 0;

    for (size_t i = 0; i < w->n_files; i++) {
        const file *f = &w->files[i];

        if (is_rows ? !begins_folder(w, i) : strcmp(path + 5, f->folder) != 0)
            continue;
        if (!visit(is_rows ? f->folder : f->name, user_data))
            break;
    }
    return 0;
}

/* ---- what should be found ---- */

static bool is_row(const file *f, hth_row_id *id)
{
    hth_kvc_fault fault;
    hth_row_meta meta;
    hth_kvc_info info;
    size_t need;

    return hth_row_file_parse_name(f->name, id) && strncmp(f->name, f->folder, 2) == 0 &&
           f->n_bytes >= HTH_ROW_FILE_BYTES_MIN &&
           hth_kvc_parse_meta(f->bytes, f->n_bytes, f->n_bytes, &info, &fault, &need) &&
           hth_row_file_meta_of(&info, id, f->n_bytes, 1, &meta);
}

/* Take the next file from the input; how many bytes it was, 0 at the end. */
static size_t next_file(world *w, const uint8_t *bytes, size_t n_bytes)
{
    file f = { .name = "" };
    size_t n_name, at;

    if (n_bytes < 3 || n_bytes < (size_t)bytes[0] + 3)
        return 0;
    n_name = bytes[0];
    memcpy(f.name, bytes + 1, n_name);
    at = 1 + n_name + 2;
    f.n_bytes = (size_t)bytes[at - 2] | (size_t)bytes[at - 1] << 8;
    if (f.n_bytes > n_bytes - at)
        f.n_bytes = n_bytes - at;
    f.bytes = bytes + at;
    if (n_name == 0) {
        hth_kvc_fault fault;
        hth_kvc_info info;
        size_t need;

        if (hth_kvc_parse_meta(f.bytes, f.n_bytes, f.n_bytes, &info, &fault, &need) && info.has_own_key &&
            info.has_kind && info.kind < HTH_ROW_KINDS)
            hth_row_file_name(&(hth_row_id){ .key = info.own_key, .kind = (hth_row_kind)info.kind }, f.name);
    }
    /* A directory has no names of no length, none with a slash, and none twice. */
    if (f.name[0] != '\0' && f.name[1] != '\0' && !strchr(f.name, '/')) {
        char path[NAME_BYTES + 16];

        memcpy(f.folder, f.name, 2);
        (void)snprintf(path, sizeof(path), ROWS "/%s/%s", f.folder, f.name);
        if (!find(w, path))
            w->files[w->n_files++] = f;
    }
    return at + f.n_bytes;
}

typedef struct census {
    const world *w;
    uint64_t rows;
    uint64_t bytes;
} census;

static bool check_entry(const hth_row_meta *meta, void *user_data)
{
    census *c = user_data;
    char path[NAME_BYTES + 128];
    const file *f;
    hth_row_id id;

    assert(hth_row_file_path(ROWS, &meta->id, path, sizeof(path)));
    f = find(c->w, path);
    assert(f && is_row(f, &id) && f->n_bytes == meta->bytes);
    c->rows++;
    c->bytes += meta->bytes;
    return true;
}

/* ---- the index, one for all inputs ---- */

static char *directory;
static hth_index *fuzz_index;

static void close_index(void)
{
    hth_index_close(fuzz_index);
    hth_test_directory_remove(directory);
}

static void open_index(void)
{
    char index[4200], owners[4200];
    hth_index_options options = { .directory = index, .owners_directory = owners };
    bool rebuild;

    directory = hth_test_directory_new();
    (void)snprintf(index, sizeof(index), "%s/index", directory);
    (void)snprintf(owners, sizeof(owners), "%s/owners", directory);
    if (mkdir(owners, 0700) != 0 || hth_index_open(&options, &fuzz_index, &rebuild, NULL) != HEARTH_OK)
        abort();
    (void)atexit(close_index);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    world w = { .n_files = 0 };
    _Atomic bool stop = false;
    hth_scan scan = { .rows = { .fs = &w.fs, .rows_directory = ROWS },
                      .temporary_directory = "temporary",
                      .stop = &stop };
    census expected = { .rows = 0 }, found = { .w = &w };
    hth_index_totals totals;

    if (!fuzz_index)
        open_index();
    scan.index = fuzz_index;
    w.fs = (hth_fs){
        .context = &w,
        .open = fake_open,
        .close = fake_close,
        .read_at = fake_read_at,
        .stat = fake_stat,
        .stat_open = fake_stat_open,
        .list = fake_list,
    };
    for (size_t at = 0, n; w.n_files < FILES_MAX && (n = next_file(&w, bytes + at, n_bytes - at)) > 0; at += n)
        ;
    for (size_t i = 0; i < w.n_files; i++) {
        hth_row_id id;

        if (is_row(&w.files[i], &id)) {
            expected.rows++;
            expected.bytes += w.files[i].n_bytes;
        }
    }
    if (hth_index_clear(fuzz_index, NULL) != HEARTH_OK || !hth_scan_rebuild(&scan) ||
        hth_index_rebuilt(fuzz_index, NULL) != HEARTH_OK ||
        hth_index_totals_get(fuzz_index, &totals, NULL) != HEARTH_OK ||
        hth_index_visit(fuzz_index, false, check_entry, &found, NULL) != HEARTH_OK)
        abort();
    assert(totals.complete);
    assert(found.rows == expected.rows);
    assert(found.bytes == expected.bytes);
    assert(totals.rows == found.rows);
    assert(totals.bytes == found.bytes);
    return 0;
}
