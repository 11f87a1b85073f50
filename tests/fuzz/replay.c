/*
 * replay.c - run a fuzz target without a fuzzer
 *
 *     fuzz_<name> DIRECTORY...
 *
 * gives the target every file of the directories, and HTH_FUZZ_RUNS (default 2000) random changes of each. The seed is
 * printed; HTH_SEED=<number> in the environment repeats a run. A target that finds a fault ends the program.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { RUNS_DEFAULT = 2000, CHANGES_MAX = 8, INSERTED_BYTES_MAX = 64, FILE_BYTES_MAX = 1 << 20 };
enum { INPUT_BYTES_MAX = FILE_BYTES_MAX + CHANGES_MAX * INSERTED_BYTES_MAX };

/* An input while it is changed, in memory that is large enough for all changes. */
typedef struct input {
    uint8_t *bytes; /* [INPUT_BYTES_MAX] */
    size_t n_bytes;
} input;

/* The target sees a copy of exactly its size, so that a sanitizer sees an over-read. */
static void run_target(const uint8_t *bytes, size_t n_bytes)
{
    uint8_t *copy = n_bytes > 0 ? malloc(n_bytes) : NULL;

    if (!copy && n_bytes > 0) {
        perror("hearth: replay");
        exit(1);
    }
    if (n_bytes > 0)
        memcpy(copy, bytes, n_bytes);
    (void)LLVMFuzzerTestOneInput(copy, n_bytes); /* always 0 */
    free(copy);
}

/* A value that tends to lie at the edge of something: small, a power of two, or just below one. */
static uint64_t edge_value(uint64_t *state)
{
    uint64_t power = UINT64_C(1) << hth_test_random(state, 64);

    switch (hth_test_random(state, 4)) {
    case 0: return hth_test_random(state, 16);
    case 1: return power;
    case 2: return power - 1;
    default: return 0 - hth_test_random(state, 16);
    }
}

static void insert_bytes(input *changed, uint64_t *state)
{
    size_t at = (size_t)hth_test_random(state, changed->n_bytes + 1);
    size_t n = 1 + (size_t)hth_test_random(state, INSERTED_BYTES_MAX);

    memmove(changed->bytes + at + n, changed->bytes + at, changed->n_bytes - at);
    for (size_t i = 0; i < n; i++)
        changed->bytes[at + i] = (uint8_t)hth_test_random(state, 256);
    changed->n_bytes += n;
}

static void remove_bytes(input *changed, uint64_t *state)
{
    size_t at = (size_t)hth_test_random(state, changed->n_bytes);
    size_t n = 1 + (size_t)hth_test_random(state, changed->n_bytes - at);

    memmove(changed->bytes + at, changed->bytes + at + n, changed->n_bytes - at - n);
    changed->n_bytes -= n;
}

static void copy_bytes(input *changed, uint64_t *state)
{
    size_t from = (size_t)hth_test_random(state, changed->n_bytes);
    size_t to = (size_t)hth_test_random(state, changed->n_bytes);
    size_t n = changed->n_bytes - (from > to ? from : to);

    memmove(changed->bytes + to, changed->bytes + from, 1 + (size_t)hth_test_random(state, n));
}

static void write_value(input *changed, uint64_t *state)
{
    size_t at = (size_t)hth_test_random(state, changed->n_bytes);
    size_t width = (size_t)1 << hth_test_random(state, 4);
    uint64_t value = edge_value(state);

    for (size_t i = 0; i < width && at + i < changed->n_bytes; i++)
        changed->bytes[at + i] = (uint8_t)(value >> 8 * i);
}

static void change_once(input *changed, uint64_t *state)
{
    size_t at;

    if (changed->n_bytes == 0) {
        insert_bytes(changed, state);
        return;
    }
    switch (hth_test_random(state, 8)) {
    case 0: insert_bytes(changed, state); break;
    case 1: remove_bytes(changed, state); break;
    case 2: copy_bytes(changed, state); break;
    case 3:
    case 4: write_value(changed, state); break;
    default:
        at = (size_t)hth_test_random(state, changed->n_bytes);
        changed->bytes[at] ^= (uint8_t)(1 << hth_test_random(state, 8));
        break;
    }
}

static void run_changes(const input *original, input *changed, uint64_t n_runs, uint64_t *state)
{
    for (uint64_t i = 0; i < n_runs; i++) {
        memcpy(changed->bytes, original->bytes, original->n_bytes);
        changed->n_bytes = original->n_bytes;
        for (uint64_t n = 1 + hth_test_random(state, CHANGES_MAX); n > 0; n--)
            change_once(changed, state);
        run_target(changed->bytes, changed->n_bytes);
    }
}

/* False, with a message, for a file that cannot be read or is larger than a corpus should hold. */
static bool read_file(const char *path, input *out)
{
    FILE *file = fopen(path, "rb");
    bool whole;

    if (!file) {
        (void)fprintf(stderr, "hearth: cannot open '%s': %s\n", path, strerror(errno));
        return false;
    }
    out->n_bytes = fread(out->bytes, 1, FILE_BYTES_MAX, file);
    whole = !ferror(file) && fgetc(file) == EOF;
    (void)fclose(file); /* was only read */
    if (!whole)
        (void)fprintf(stderr, "hearth: cannot read '%s', or it is larger than %d bytes\n", path, FILE_BYTES_MAX);
    return whole;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Run all files of a directory, in the order of their names. How many; -1, with a message, when one cannot be read. */
static int run_directory(const char *directory, input *original, input *changed, uint64_t n_runs, uint64_t *state)
{
    struct dirent **entries;
    int n = scandir(directory, &entries, is_visible, alphasort);
    bool ok = true;

    if (n < 0) {
        (void)fprintf(stderr, "hearth: cannot list '%s': %s\n", directory, strerror(errno));
        return -1;
    }
    for (int i = 0; i < n; i++) {
        char path[4096];

        if (ok && snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name) < (int)sizeof(path) &&
            read_file(path, original)) {
            run_target(original->bytes, original->n_bytes);
            run_changes(original, changed, n_runs, state);
        } else {
            ok = false;
        }
        free(entries[i]);
    }
    free(entries);
    return ok ? n : -1;
}

int main(int argc, char **argv)
{
    static uint8_t original_bytes[INPUT_BYTES_MAX], changed_bytes[INPUT_BYTES_MAX];
    input original = { .bytes = original_bytes }, changed = { .bytes = changed_bytes };
    uint64_t n_runs = hth_test_number("HTH_FUZZ_RUNS", RUNS_DEFAULT);
    uint64_t state = hth_test_seed();
    int n_files = 0;

    run_target(NULL, 0);
    for (int i = 1; i < argc; i++) {
        int n = run_directory(argv[i], &original, &changed, n_runs, &state);

        if (n < 0)
            return 1;
        n_files += n;
    }
    if (n_files == 0) {
        (void)fprintf(stderr, "hearth: no inputs; give directories that hold some\n");
        return 1;
    }
    printf("%d files and %llu changes of each\n", n_files, (unsigned long long)n_runs);
    return 0;
}
