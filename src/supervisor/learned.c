#include "supervisor/learned.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os.h"
#include "rows/directory.h"
#include "supervisor/server_options.h"
#include "wire/needs_text.h"

#define FIRST_LINE "hearth-needs 1"

enum { N_MODELS_MAX = 256, LINE_BYTES = 512, MODEL_PREFIX_BYTES = 6 };

typedef struct entry {
    uint8_t key[HTH_LEARNED_KEY_BYTES];
    hth_learned_model model;
} entry;

struct hth_learned {
    char *path; /* NULL: in memory only */
    const hth_log *log;
    entry *entries; /* [n], the oldest first */
    size_t n;
    bool is_changed;
    bool has_complained;
};

/* ---- keys ---- */

bool hth_learned_key(const char *path, const char *const *options, uint8_t out[HTH_LEARNED_KEY_BYTES])
{
    uint64_t numbers[2];
    hth_sha256 *sha;
    struct stat st;

    if (!path || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    sha = hth_sha256_new();
    if (!sha)
        return false;
    numbers[0] = hth_model_files_bytes(path);
    numbers[1] = hth_os_mtime_ns(&st);
    hth_sha256_update(sha, hearth_version(), strlen(hearth_version()) + 1);
    hth_sha256_update(sha, path, strlen(path) + 1);
    hth_sha256_update(sha, numbers, sizeof(numbers));
    for (; *options; options++) {
        hth_sha256_update(sha, *options, strlen(*options) + 1);
        if (strcmp(*options, HTH_SERVER_SECRET_OPTION) == 0 && options[1])
            options++; /* the secret does not affect memory use */
    }
    hth_sha256_peek(sha, out);
    hth_sha256_free(sha);
    return true;
}

/* ---- entries ---- */

static entry *entry_of(const hth_learned *learned, const uint8_t key[HTH_LEARNED_KEY_BYTES])
{
    for (size_t i = 0; i < learned->n; i++)
        if (memcmp(learned->entries[i].key, key, HTH_LEARNED_KEY_BYTES) == 0)
            return &learned->entries[i];
    return NULL;
}

bool hth_learned_find(const hth_learned *learned, const uint8_t key[HTH_LEARNED_KEY_BYTES], hth_learned_model *out)
{
    const entry *found = entry_of(learned, key);

    if (found)
        *out = found->model;
    return found;
}

static entry *add(hth_learned *learned, const uint8_t key[HTH_LEARNED_KEY_BYTES])
{
    entry *entries;

    if (learned->n == N_MODELS_MAX) {
        learned->n--;
        memmove(learned->entries, learned->entries + 1, learned->n * sizeof(*learned->entries));
    }
    entries = realloc(learned->entries, (learned->n + 1) * sizeof(*entries));
    if (!entries)
        return NULL;
    learned->entries = entries;
    entries[learned->n] = (entry){ .model = { .bytes = 0 } };
    memcpy(entries[learned->n].key, key, HTH_LEARNED_KEY_BYTES);
    return &entries[learned->n++];
}

void hth_learned_note(hth_learned *learned, const uint8_t key[HTH_LEARNED_KEY_BYTES], const hth_learned_model *model)
{
    entry *to = entry_of(learned, key);

    if (!to)
        to = add(learned, key);
    if (!to)
        return; /* without memory, it is measured again */
    to->model = *model;
    learned->is_changed = true;
}

/* ---- the file ---- */

/* "model KEY BYTES" */
static entry *read_model(hth_learned *learned, const char *line)
{
    uint8_t key[HTH_LEARNED_KEY_BYTES];
    char hex[2 * HTH_LEARNED_KEY_BYTES + 1];
    unsigned long long bytes;
    entry *made;
    char *end;

    line += MODEL_PREFIX_BYTES;
    (void)snprintf(hex, sizeof(hex), "%.*s", (int)sizeof(hex) - 1, line);
    if (!hth_hex_decode(hex, key, sizeof(key)) || line[sizeof(hex) - 1] != ' ' || learned->n == N_MODELS_MAX)
        return NULL;
    line += sizeof(hex);
    bytes = strtoull(line, &end, 10);
    if (end == line || *end || bytes > UINT64_C(1) << 50)
        return NULL;
    made = add(learned, key);
    if (made)
        made->model.bytes = bytes;
    return made;
}

/* False: the file has another format. The entries read before the error are dropped. */
static bool read_lines(hth_learned *learned, FILE *file)
{
    char line[LINE_BYTES];
    entry *model = NULL;

    for (size_t n_lines = 0; fgets(line, sizeof(line), file); n_lines++) {
        line[strcspn(line, "\n")] = '\0';
        if (n_lines == 0) {
            if (strcmp(line, FIRST_LINE) != 0)
                return false;
        } else if (strncmp(line, "model ", MODEL_PREFIX_BYTES) == 0) {
            model = read_model(learned, line);
            if (!model)
                return false;
        } else if (!model || !hth_needs_read(line, &model->model.needs)) {
            return false;
        }
    }
    return !ferror(file);
}

static bool is_safe(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');

    return slash && snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path) < (int)sizeof(folder) &&
           hth_directory_check(hth_fs_system(), folder, NULL, NULL) == HEARTH_OK;
}

static void read_file(hth_learned *learned)
{
    FILE *file = is_safe(learned->path) ? fopen(learned->path, "re") : NULL;

    if (!file)
        return;
    if (!read_lines(learned, file)) {
        hth_warn(learned->log, "'%s' cannot be read; the memory of models is measured again", learned->path);
        learned->n = 0;
    }
    (void)fclose(file); /* it was only read */
}

static bool write_entries(const hth_learned *learned, FILE *file)
{
    hth_buffer text = { .text = NULL };
    bool ok;

    hth_buffer_add_text(&text, FIRST_LINE "\n");
    for (size_t i = 0; i < learned->n; i++) {
        const entry *e = &learned->entries[i];
        char hex[2 * HTH_LEARNED_KEY_BYTES + 1];

        hth_hex_encode(e->key, sizeof(e->key), hex);
        hth_buffer_add_format(&text, "model %s %" PRIu64 "\n", hex, e->model.bytes);
        if (e->model.needs.n_ctx > 0)
            hth_needs_write(&e->model.needs, &text);
    }
    ok = !text.failed && fwrite(hth_buffer_text(&text), 1, text.n, file) == text.n;
    hth_buffer_deinit(&text);
    return ok;
}

void hth_learned_write(hth_learned *learned)
{
    char path[PATH_MAX];
    FILE *file;
    bool ok;

    if (!learned->is_changed || !learned->path || !is_safe(learned->path) ||
        snprintf(path, sizeof(path), "%s.%d.part", learned->path, (int)getpid()) >= (int)sizeof(path))
        return; /* the first worker makes a missing folder */
    file = fopen(path, "we");
    ok = file && write_entries(learned, file);
    ok = file && fclose(file) == 0 && ok && rename(path, learned->path) == 0;
    learned->is_changed = false;
    if (!ok && !learned->has_complained)
        hth_warn(learned->log, "'%s' cannot be written: %s; the memory of models is measured again after a restart",
                 learned->path, strerror(errno));
    learned->has_complained |= !ok;
}

/* ---- open and close ---- */

hth_learned *hth_learned_open(const char *path, const hth_log *log)
{
    hth_learned *learned = calloc(1, sizeof(*learned));

    if (!learned)
        return NULL;
    learned->log = log;
    learned->path = path ? strdup(path) : NULL;
    if (learned->path)
        read_file(learned);
    return learned;
}

void hth_learned_close(hth_learned *learned)
{
    if (!learned)
        return;
    hth_learned_write(learned);
    free(learned->entries);
    free(learned->path);
    free(learned);
}
