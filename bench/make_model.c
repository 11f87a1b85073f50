/*
 * make_model.c - write a GGUF model of random weights in a named shape
 *
 * Tests and benchmarks need models of every kind that the cache treats differently, on machines that cannot download
 * any. What they measure (prefill, restore, bit-exact continuation) depends on the shape of a model and not on what it
 * knows, so this program makes one out of a seed:
 *
 *   1. declare the keys, the vocabulary and the tensors that the architecture needs
 *   2. write them to a temporary file, tensor by tensor, so that memory does not grow with the model
 *   3. quantise that file into a second one with libllama, where the type asks for it
 *   4. sync the result and rename it to its final name
 *
 * random_model.h tells the parts: model_vocab.c has the vocabulary, model_tensors.c the keys and tensors,
 * model_weights.c the values.
 *
 * Every weight is a function of seed, tensor name and position, and the vocabulary is a function of its size. The same
 * seed, shape and type give the same bytes; for quantised types that holds within one build of the engine, because the
 * quantiser's rounding follows its compiler flags. Whatever changes the bytes must raise GENERATOR_VERSION, which is
 * part of the file's name.
 *
 * A kill half-way leaves temporary files only. Each is locked by the process that writes it; the next run in the same
 * directory removes those that nobody holds. Two at once write the same bytes to files of their own, and either rename
 * may win.
 *
 * Invariant: a final name never refers to a file that is not whole and synced.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* mkstemp and flock, where the C library hides them from C11 */
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "random_model.h"

static const char temporary_prefix[] = ".make_model-";

bool fail(const char *format, ...)
{
    va_list arguments;

    fputs("make_model: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return false;
}

void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n, size);

    if (!memory) {
        fail("no memory for %zu elements of %zu bytes; end other programs and try again", n, size);
        exit(1);
    }
    return memory;
}

/*
 * Shapes and types
 */

static const struct shape shapes[] = {
    { "llama-1.1b", "plain attention, the benchmark's size", "q4_k_m", KIND_LLAMA, .n_vocab = 32000, .n_ctx = 32768,
      .n_layers = 22, .n_embd = 2048, .n_heads = 32, .n_heads_kv = 4, .n_ff = 5632 },
    { "llama-8b", "plain attention, for GPUs", "q8_0", KIND_LLAMA, .n_vocab = 32000, .n_ctx = 32768, .n_layers = 32,
      .n_embd = 4096, .n_heads = 32, .n_heads_kv = 8, .n_ff = 14336 },
    { "llama-15m", "plain attention, quick to run", "q8_0", KIND_LLAMA, .n_vocab = 32000, .n_ctx = 32768, .n_layers = 6,
      .n_embd = 288, .n_heads = 6, .n_heads_kv = 6, .n_ff = 768 },
    { "tiny-llama", "plain attention", "f16", KIND_LLAMA, .n_vocab = 4096, .n_ctx = 8192, .n_layers = 4, .n_embd = 128,
      .n_heads = 4, .n_heads_kv = 2, .n_ff = 256 },
    { "tiny-llama-wide", "plain attention, wide enough for k-quants", "q4_k_m", KIND_LLAMA, .n_vocab = 4096,
      .n_ctx = 8192, .n_layers = 4, .n_embd = 256, .n_heads = 4, .n_heads_kv = 2, .n_ff = 512 },
    { "tiny-experts", "plain attention, 8 experts", "f16", KIND_LLAMA, .n_vocab = 4096, .n_ctx = 8192, .n_layers = 4,
      .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256, .n_experts = 8 },
    { "tiny-experts-wide", "plain attention, 8 experts, wide enough for k-quants", "q4_k_m", KIND_LLAMA,
      .n_vocab = 4096, .n_ctx = 8192, .n_layers = 2, .n_embd = 256, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256,
      .n_experts = 8 },
    { "tiny-experts-iq", "the same with weights of an i-quant", "iq4_xs", KIND_LLAMA, .n_vocab = 4096, .n_ctx = 8192,
      .n_layers = 2, .n_embd = 256, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256, .n_experts = 8 },
    { "tiny-grok", "grok, 8 experts, no flash attention", "f16", KIND_GROK, .n_vocab = 4096, .n_ctx = 8192,
      .n_layers = 2, .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256, .n_experts = 8 },
    { "tiny-window", "cohere2, window 64, every 4th layer full", "f16", KIND_COHERE2, .n_vocab = 4096, .n_ctx = 8192,
      .n_layers = 4, .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256, .n_window = 64 },
    { "tiny-window600", "cohere2, window 600, every 4th layer full", "f16", KIND_COHERE2, .n_vocab = 4096,
      .n_ctx = 8192, .n_layers = 4, .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256, .n_window = 600 },
    { "tiny-recurrent", "mamba, no attention", "f16", KIND_MAMBA, .n_vocab = 4096, .n_ctx = 8192, .n_layers = 4,
      .n_embd = 128 },
    { "tiny-hybrid", "lfm2, every 2nd layer attention", "f16", KIND_LFM2, .n_vocab = 4096, .n_ctx = 8192, .n_layers = 4,
      .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256 },
    { "tiny-hybrid-window", "lfm2, every 2nd layer attention, window 64", "f16", KIND_LFM2, .n_vocab = 4096,
      .n_ctx = 8192, .n_layers = 4, .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256, .n_window = 64 },
    { "tiny-qwen35", "gated delta net and M-RoPE, every 4th layer attention", "f16", KIND_QWEN35, .n_vocab = 4096,
      .n_ctx = 8192, .n_layers = 4, .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256 },
    { "bert-33m", "an encoder, the benchmark's size", "q8_0", KIND_BERT, .n_vocab = 32000, .n_ctx = 512, .n_layers = 12,
      .n_embd = 384, .n_heads = 12, .n_heads_kv = 12, .n_ff = 1536 },
    { "tiny-bert", "an encoder", "f16", KIND_BERT, .n_vocab = 4096, .n_ctx = 600, .n_layers = 3, .n_embd = 128,
      .n_heads = 4, .n_heads_kv = 4, .n_ff = 256 },
    { "tiny-reranker", "an encoder with a classifier", "f16", KIND_BERT, .n_vocab = 4096, .n_ctx = 600, .n_layers = 3,
      .n_embd = 128, .n_heads = 4, .n_heads_kv = 4, .n_ff = 256, .n_labels = 1 },
};

static const size_t n_shapes = sizeof(shapes) / sizeof(shapes[0]);

struct type {
    const char *name;
    enum llama_ftype ftype;
    uint32_t block;         /* weights per quantised block; row widths must be multiples of it */
    double bits_per_weight; /* of a whole model, about */
};

static const struct type types[] = {
    { "f32", LLAMA_FTYPE_ALL_F32, 1, 32.0 },           { "f16", LLAMA_FTYPE_MOSTLY_F16, 1, 16.0 },
    { "q8_0", LLAMA_FTYPE_MOSTLY_Q8_0, 32, 8.5 },      { "q5_0", LLAMA_FTYPE_MOSTLY_Q5_0, 32, 5.6 },
    { "q4_0", LLAMA_FTYPE_MOSTLY_Q4_0, 32, 4.7 },      { "q6_k", LLAMA_FTYPE_MOSTLY_Q6_K, 256, 6.6 },
    { "q5_k_m", LLAMA_FTYPE_MOSTLY_Q5_K_M, 256, 5.7 }, { "q4_k_m", LLAMA_FTYPE_MOSTLY_Q4_K_M, 256, 4.9 },
    { "q4_k_s", LLAMA_FTYPE_MOSTLY_Q4_K_S, 256, 4.7 }, { "iq4_xs", LLAMA_FTYPE_MOSTLY_IQ4_XS, 256, 4.5 },
};

static const size_t n_types = sizeof(types) / sizeof(types[0]);

static const struct shape *shape_find(const char *name)
{
    for (size_t i = 0; i < n_shapes; i++) {
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    }
    return NULL;
}

static const struct type *type_find(const char *name)
{
    for (size_t i = 0; i < n_types; i++) {
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    }
    return NULL;
}

static bool type_needs_quantiser(const struct type *type)
{
    return type->ftype != LLAMA_FTYPE_ALL_F32 && type->ftype != LLAMA_FTYPE_MOSTLY_F16;
}

/* Without this, libllama would put another type in place of the one that the file's name promises. */
static bool type_fits(const struct type *type, const struct shape *shape)
{
    return shape->n_embd % type->block == 0 && shape->n_ff % type->block == 0;
}

/*
 * Quantising
 */

struct watch {
    struct progress *progress; /* NULL while nothing is being quantised */
    double part_min;           /* the part of the whole work done before */
    char error[256];           /* the engine's last error line */
};

/* A ggml_log_callback that keeps the engine's last error and reads its progress, which v0.5.0 gives in no other way. */
static void watch_log(enum ggml_log_level level, const char *text, void *user_data)
{
    struct watch *watch = user_data;
    int n, n_max;

    if (level == GGML_LOG_LEVEL_ERROR) {
        (void)snprintf(watch->error, sizeof(watch->error), "%s", text); /* the beginning is enough */
        watch->error[strcspn(watch->error, "\n")] = '\0';
    }
    if (watch->progress && sscanf(text, "[%d/%d]", &n, &n_max) == 2 && n_max > 0)
        progress_show(watch->progress, watch->part_min + (1.0 - watch->part_min) * (n - 1) / n_max);
}

static bool quantise(const char *from, const char *to, const struct type *type, struct watch *watch)
{
    struct llama_model_quantize_params params = llama_model_quantize_default_params();
    uint32_t status;

    params.ftype = type->ftype;
    watch->error[0] = '\0';
    status = llama_model_quantize(from, to, &params);
    if (status != 0) {
        progress_end(watch->progress);
        return fail("cannot quantise '%s' to %s: %s; try another --type, or see that its directory has room", from,
                    type->name, watch->error[0] ? watch->error : "the engine gave no reason");
    }
    return true;
}

/*
 * Files
 */

/* A file that is being written. Its lock tells other runs that it is in use. */
struct temporary {
    int fd; /* -1 when there is none */
    char path[PATH_BYTES];
};

static bool temporary_open(struct temporary *temporary, const char *directory)
{
    struct stat status;

    for (;;) {
        int n = snprintf(temporary->path, PATH_BYTES, "%s/%sXXXXXX", directory, temporary_prefix);

        temporary->fd = -1;
        if (n < 0 || n >= PATH_BYTES)
            return fail("the path of '%s' is too long; name a shorter one with --dir", directory);
        temporary->fd = mkstemp(temporary->path);
        if (temporary->fd < 0)
            return fail("cannot write in '%s': %s; name another directory with --dir or --out", directory,
                        strerror(errno));

        /* A sweep may have come between; then the file has no name any more. A file system without locks has no
         * sweeps either, so failing to lock does no harm. */
        (void)flock(temporary->fd, LOCK_EX);
        if (fstat(temporary->fd, &status) == 0 && status.st_nlink > 0)
            return true;
        close(temporary->fd);
    }
}

static void temporary_remove(struct temporary *temporary)
{
    if (temporary->fd < 0)
        return;
    (void)unlink(temporary->path); /* what stays behind is swept by the next run */
    close(temporary->fd);
    temporary->fd = -1;
}

/* Remove the temporary files of runs that were killed. Failing to is no reason to stop. */
static void sweep(const char *directory)
{
    DIR *entries = opendir(directory);
    struct dirent *entry;
    char path[PATH_BYTES];

    if (!entries)
        return;
    while ((entry = readdir(entries))) {
        int n = snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        int fd;

        if (strncmp(entry->d_name, temporary_prefix, sizeof(temporary_prefix) - 1) != 0 || n < 0 || n >= PATH_BYTES)
            continue;
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlink(path); /* the next run tries again */
        close(fd);
    }
    closedir(entries);
}

/* Sync a temporary file and give it its final name. On success it is closed. */
static bool temporary_publish(struct temporary *temporary, const char *path, const char *directory)
{
    int directory_fd;

    if (fchmod(temporary->fd, 0644) != 0 || fsync(temporary->fd) != 0)
        return fail("cannot finish '%s': %s; see that its disk has room and works", temporary->path, strerror(errno));
    if (rename(temporary->path, path) != 0)
        return fail("cannot rename '%s' to '%s': %s; name another place with --dir or --out", temporary->path, path,
                    strerror(errno));
    close(temporary->fd);
    temporary->fd = -1;

    /* Without this the name may be lost in a power cut. The model is made again then, so failing is no error. */
    directory_fd = open(directory, O_RDONLY | O_CLOEXEC);
    if (directory_fd >= 0) {
        (void)fsync(directory_fd);
        close(directory_fd);
    }
    return true;
}

/* Create a directory and those above it. */
static bool make_directories(const char *path)
{
    char part[PATH_BYTES];
    size_t n = strlen(path);

    for (size_t i = 1; i <= n && n < PATH_BYTES; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return fail("cannot create '%s': %s; name another directory with --dir or HEARTH_MODEL_CACHE", part,
                        strerror(errno));
    }
    return true;
}

/* Whether the file at a path is the model of this name, to its last byte. */
static bool model_is_whole(const char *path, const char *name)
{
    struct gguf_context *gguf = gguf_init_from_file(path, (struct gguf_init_params){ .no_alloc = true });
    struct stat status;
    bool is_whole = false;

    if (!gguf)
        return false;
    int64_t key = gguf_find_key(gguf, "general.name");
    int64_t last = gguf_get_n_tensors(gguf) - 1;
    if (last >= 0 && key >= 0 && gguf_get_kv_type(gguf, key) == GGUF_TYPE_STRING && stat(path, &status) == 0) {
        uint64_t end =
            gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, last) + gguf_get_tensor_size(gguf, last);

        is_whole = strcmp(gguf_get_val_str(gguf, key), name) == 0 && (uint64_t)status.st_size >= end;
    }
    gguf_free(gguf);
    return is_whole;
}

static bool has_room(const char *directory, uint64_t bytes)
{
    struct statvfs status;

    if (statvfs(directory, &status) != 0)
        return fail("cannot use '%s': %s; name a directory that exists with --dir or --out", directory,
                    strerror(errno));
    uint64_t bytes_free = (uint64_t)status.f_bavail * status.f_frsize;
    if (bytes_free < bytes)
        return fail("'%s' has %" PRIu64 " MB free and %" PRIu64 " MB are needed; free some, or name another place with"
                    " --dir or --out",
                    directory, bytes_free / 1000000, bytes / 1000000 + 1);
    return true;
}

/*
 * The program
 */

struct request {
    const struct shape *shape;
    const struct type *type;
    uint64_t seed;
    bool is_print_only;
    const char *out; /* NULL: a file of the usual name in the directory */
    const char *dir; /* NULL: the cache directory */

    /* Derived by resolve_paths(). */
    char name[NAME_BYTES];
    char directory[PATH_BYTES];
    char path[PATH_BYTES];
};

static double about_bytes(const struct type *type, uint64_t n_parameters)
{
    return type->bits_per_weight / 8.0 * (double)n_parameters;
}

static bool build_in(const struct request *request, struct model *model, struct watch *watch, struct temporary *plain,
                     struct temporary *quantised)
{
    bool needs_quantiser = type_needs_quantiser(request->type);
    uint64_t bytes = model_bytes(model);
    double part_max = needs_quantiser ? 0.125 : 1.0; /* measured: writing takes an eighth of the time */
    FILE *file;
    int errnum;

    if (needs_quantiser)
        bytes += (uint64_t)about_bytes(request->type, model_n_parameters(model));
    if (!has_room(request->directory, bytes) || !temporary_open(plain, request->directory))
        return false;

    /* A descriptor of its own, because closing the stream must not drop the lock. */
    file = fopen(plain->path, "wb");
    if (!file)
        return fail("cannot open '%s': %s; name another place with --dir or --out", plain->path, strerror(errno));
    errnum = model_write(model, request->seed, file, watch->progress, part_max) ? 0 : errno;
    if (fclose(file) != 0 && errnum == 0)
        errnum = errno;
    if (errnum != 0) {
        progress_end(watch->progress);
        return fail("cannot write '%s': %s; free %" PRIu64 " MB or name another place with --dir or --out", plain->path,
                    strerror(errnum), bytes / 1000000 + 1);
    }
    if (!needs_quantiser)
        return temporary_publish(plain, request->path, request->directory);

    watch->part_min = part_max;
    if (!temporary_open(quantised, request->directory) || !quantise(plain->path, quantised->path, request->type, watch))
        return false;
    progress_show(watch->progress, 1.0);
    return temporary_publish(quantised, request->path, request->directory);
}

static bool build(const struct request *request, struct watch *watch)
{
    struct temporary plain = { .fd = -1 };
    struct temporary quantised = { .fd = -1 };
    struct progress progress = { .label = request->name, .is_terminal = isatty(STDERR_FILENO), .percent_shown = -1 };
    bool is_f32 = request->type->ftype == LLAMA_FTYPE_ALL_F32;
    struct model *model = allocate(1, sizeof(*model));
    bool is_built;

    sweep(request->directory);
    model_init(model, request->shape, is_f32 ? GGML_TYPE_F32 : GGML_TYPE_F16, request->name);
    watch->progress = &progress;
    is_built = build_in(request, model, watch, &plain, &quantised);
    watch->progress = NULL;
    progress_end(&progress);

    temporary_remove(&plain);
    temporary_remove(&quantised);
    model_deinit(model);
    free(model);
    return is_built;
}

static bool join(char path[PATH_BYTES], const char *first, const char *second)
{
    int n = snprintf(path, PATH_BYTES, "%s%s", first, second);

    if (n < 0 || n >= PATH_BYTES)
        return fail("the path '%.64s...' is too long; name a shorter one with --dir or --out", first);
    return true;
}

static bool cache_directory(char directory[PATH_BYTES])
{
    const char *chosen = getenv("HEARTH_MODEL_CACHE");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (chosen && *chosen)
        return join(directory, chosen, "");
    if (cache && *cache)
        return join(directory, cache, "/hearth/models");
    if (home && *home)
        return join(directory, home, "/.cache/hearth/models");
    return fail("no place to keep models, as HOME is not set; set HEARTH_MODEL_CACHE or give --dir");
}

static bool resolve_paths(struct request *request)
{
    char file_name[NAME_BYTES + 8];
    const char *slash;

    /* Names of shapes and types are short, so the name always fits. */
    (void)snprintf(request->name, NAME_BYTES, "%s-%s-seed%" PRIu64 "-v%d", request->shape->name, request->type->name,
                   request->seed, GENERATOR_VERSION);
    (void)snprintf(file_name, sizeof(file_name), "/%s.gguf", request->name);

    if (!request->out) {
        bool is_known = request->dir ? join(request->directory, request->dir, "") : cache_directory(request->directory);

        return is_known && join(request->path, request->directory, file_name);
    }
    slash = strrchr(request->out, '/');
    if (!join(request->path, request->out, "") || !join(request->directory, slash ? request->out : ".", ""))
        return false;
    if (slash)
        request->directory[slash == request->out ? 1 : slash - request->out] = '\0';
    return true;
}

static bool answer(struct request *request, struct watch *watch)
{
    struct stat status;

    if (!resolve_paths(request))
        return false;
    if (!request->is_print_only && !model_is_whole(request->path, request->name)) {
        /* In the cache the name is ours, and a damaged file is made again. Elsewhere it may be somebody's. */
        if (request->out && stat(request->path, &status) == 0)
            return fail("'%s' exists and is not %s; remove it or name another file with --out", request->path,
                        request->name);
        if (!request->out && !make_directories(request->directory))
            return false;
        if (!build(request, watch))
            return false;
    }
    printf("%s\n", request->path); /* main() finds out whether it could be written */
    return true;
}

static void list_shapes(void)
{
    struct model *model = allocate(1, sizeof(*model));

    printf("%-20s %-8s %10s %10s  %s\n", "SHAPE", "TYPE", "WEIGHTS", "FILE", "");
    for (size_t i = 0; i < n_shapes; i++) {
        uint64_t n;

        model_init(model, &shapes[i], GGML_TYPE_F16, shapes[i].name);
        n = model_n_parameters(model);
        printf("%-20s %-8s %8.1f M %7.1f MB  %s\n", shapes[i].name, shapes[i].default_type, (double)n / 1e6,
               about_bytes(type_find(shapes[i].default_type), n) / 1e6, shapes[i].summary);
        model_deinit(model);
    }
    free(model);
}

static void print_help(void)
{
    printf("Usage: make_model [OPTION]... SHAPE\n"
           "Write a GGUF model of random weights and print its path. A model that is there already is not made again.\n"
           "\n"
           "  --seed N      another N gives other weights (default 1)\n"
           "  --type TYPE   weight type instead of the shape's own: f32, f16, q8_0, q5_0, q4_0,\n"
           "                q6_k, q5_k_m, q4_k_m, q4_k_s, iq4_xs\n"
           "  --out FILE    write FILE instead of a file in the cache directory\n"
           "  --dir DIR     use DIR as the cache directory\n"
           "  --print       print the path and make nothing\n"
           "  --list        list the shapes with their usual types and sizes\n"
           "  --help        print this text\n"
           "\n"
           "The cache directory is $HEARTH_MODEL_CACHE, else $XDG_CACHE_HOME/hearth/models, else\n"
           "~/.cache/hearth/models. Exits with 0, with 1 when it failed, with 2 when it was called wrongly.\n");
}

enum parsed { PARSED_REQUEST, PARSED_LIST, PARSED_HELP, PARSED_WRONG };

static bool parse_seed(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    uintmax_t value = strtoumax(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > UINT64_MAX)
        return fail("seed '%s' is not a whole number from 0 to %" PRIu64 "; see make_model --help", text, UINT64_MAX);
    *out = value;
    return true;
}

/* Find out what the shape and type names mean and whether they go together. */
static enum parsed parse_model(struct request *request, const char *shape_name, const char *type_name)
{
    request->shape = shape_find(shape_name);
    if (!request->shape) {
        fail("there is no shape '%s'; make_model --list names them", shape_name);
        return PARSED_WRONG;
    }
    request->type = type_find(type_name ? type_name : request->shape->default_type);
    if (!request->type) {
        fail("there is no type '%s'; make_model --help names them", type_name);
        return PARSED_WRONG;
    }
    if (!type_fits(request->type, request->shape)) {
        fail("type %s needs widths that %" PRIu32 " divides, and %s has %" PRIu32 " and %" PRIu32 "; give another"
             " --type",
             request->type->name, request->type->block, request->shape->name, request->shape->n_embd,
             request->shape->n_ff);
        return PARSED_WRONG;
    }
    return PARSED_REQUEST;
}

static enum parsed parse(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        { "seed", required_argument, NULL, 's' }, { "type", required_argument, NULL, 't' },
        { "out", required_argument, NULL, 'o' },  { "dir", required_argument, NULL, 'd' },
        { "print", no_argument, NULL, 'p' },      { "list", no_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },       { NULL, 0, NULL, 0 },
    };
    const char *type_name = NULL;
    int option;

    opterr = 0; /* the messages here end in a remedy */
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        switch (option) {
        case 's':
            if (!parse_seed(optarg, &request->seed))
                return PARSED_WRONG;
            break;
        case 't': type_name = optarg; break;
        case 'o': request->out = optarg; break;
        case 'd': request->dir = optarg; break;
        case 'p': request->is_print_only = true; break;
        case 'l': return PARSED_LIST;
        case 'h': return PARSED_HELP;
        case ':': fail("option '%s' needs a value; see make_model --help", argv[optind - 1]); return PARSED_WRONG;
        default: fail("there is no option '%s'; see make_model --help", argv[optind - 1]); return PARSED_WRONG;
        }
    }
    if (argc - optind != 1) {
        fail("one shape must be named and there are %d; make_model --list names them", argc - optind);
        return PARSED_WRONG;
    }
    if ((request->out && !*request->out) || (request->dir && !*request->dir) || (request->out && request->dir)) {
        fail("--out and --dir need a path and exclude each other; see make_model --help");
        return PARSED_WRONG;
    }
    return parse_model(request, argv[optind], type_name);
}

int main(int argc, char **argv)
{
    struct request request = { .seed = 1 };
    struct watch watch = { .progress = NULL };
    int exit_code = 0;

    llama_log_set(watch_log, &watch);
    switch (parse(argc, argv, &request)) {
    case PARSED_WRONG: return 2;
    case PARSED_HELP: print_help(); break;
    case PARSED_LIST: list_shapes(); break;
    case PARSED_REQUEST:
        llama_backend_init();
        if (!answer(&request, &watch))
            exit_code = 1;
        llama_backend_free();
        break;
    }
    if (exit_code == 0 && (fflush(stdout) != 0 || ferror(stdout))) {
        fail("cannot write to standard output: %s; see where it leads", strerror(errno));
        exit_code = 1;
    }
    return exit_code;
}
