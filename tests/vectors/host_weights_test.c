/*
 * host_weights_test.c - logits are the same bits with repacked weights of the process's own, of a region that is being
 * filled, of one that is mapped, and after a region was damaged or has the weights of somebody else
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "engine/backend.h"
#include "support/child.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_TOKENS = 37, PATH_BYTES = 4096, HEADER_BYTES = 4096, AT_CRC = 12, AT_DATA_CRC = 24 };

static const hth_backend *llama;

typedef struct fixture {
    char *directory;
    char folder[PATH_BYTES];
    char path[PATH_BYTES]; /* of the model */
    char log[16384];       /* what the engine's layer said */
    hth_log sink;
    bool keep;
    bool no_mmap;
    uint8_t own[HTH_SHA256_BYTES]; /* digest of the logits without a region */
} fixture;

static void take_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;
    size_t n = strlen(f->log);

    (void)level;
    if (strcmp(source, "hearth") == 0)
        (void)snprintf(f->log + n, sizeof(f->log) - n, "%s\n", message); /* cut when too long */
}

static hth_engine_model *load(fixture *f, const char *folder)
{
    hth_engine_model_params params = {
        .log = &f->sink, .host_weights = folder, .keep_host_weights = f->keep, .no_mmap = f->no_mmap
    };
    hth_engine_model *model = NULL;
    hearth_error err = { .message = "" };

    f->log[0] = '\0';
    if (llama->model_load(f->path, &params, &model, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return model;
}

/* Logits of a chunk and of single tokens, which other kernels compute. */
static void compute(const hth_engine_model *model, uint8_t digest[HTH_SHA256_BYTES])
{
    hth_engine_context_params params = { .n_ctx = 256, .n_batch = 64, .n_seq_max = 1, .n_threads = 2 };
    hth_engine_context *context = NULL;
    hth_engine_model_info info;
    hearth_error err = { .message = "" };
    hth_sha256 *sha = hth_sha256_new();
    uint32_t done = 0;

    assert_non_null(sha);
    llama->model_info(model, &info);
    if (llama->context_new((hth_engine_model *)model, &params, &context, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    for (uint32_t n = N_TOKENS; done < N_TOKENS + 3; n = 1) {
        hth_batch_row rows[N_TOKENS] = { { .token = 0 } };
        hth_decode_result result;

        for (uint32_t i = 0; i < n; i++)
            rows[i] = (hth_batch_row){ .token = (hearth_token)(3 + (done + i) * 7 % 200), .position = done + i };
        rows[n - 1].wants_logits = true;
        assert_int_equal(llama->decode(context, rows, n, &result, &err), HEARTH_OK);
        assert_int_equal(result, HTH_DECODE_OK);
        hth_sha256_update(sha, llama->logits(context, n - 1), info.n_vocab * sizeof(float));
        done += n;
    }
    hth_sha256_peek(sha, digest);
    hth_sha256_free(sha);
    llama->context_free(context);
}

static void assert_same_logits(fixture *f, const hth_engine_model *model)
{
    uint8_t digest[HTH_SHA256_BYTES];

    compute(model, digest);
    assert_memory_equal(digest, f->own, sizeof(digest));
}

static void set_up(fixture *f)
{
    hearth_error err = { .message = "" };

    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    f->sink = (hth_log){ .level = HEARTH_LOG_INFO, .write = take_line, .user_data = f };
    f->directory = hth_test_directory_new();
    assert_true((size_t)snprintf(f->folder, sizeof(f->folder), "%s/regions", f->directory) < sizeof(f->folder));
}

static void use_model(fixture *f, const char *shape)
{
    hth_engine_model *model;

    hth_test_model(shape, f->path, sizeof(f->path));
    model = load(f, NULL);
    compute(model, f->own);
    llama->model_free(model);
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* Files in the folder, and the path of the last of them. */
static size_t n_files(const fixture *f, char path[PATH_BYTES])
{
    DIR *directory = opendir(f->folder);
    const struct dirent *entry;
    size_t n = 0;

    while (directory && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.')
            continue;
        n++;
        assert_true(snprintf(path, PATH_BYTES, "%s/%s", f->folder, entry->d_name) < PATH_BYTES);
    }
    if (directory)
        (void)closedir(directory);
    return n;
}

/* Load with the region. False, with the model in *out: the engine of this machine repacks nothing of this model. */
static bool load_filling(fixture *f, hth_engine_model **out)
{
    char path[PATH_BYTES];

    *out = load(f, f->folder);
    return n_files(f, path) > 0;
}

static void skip_without_repacking(hth_engine_model *model)
{
    llama->model_free(model);
    skip();
}

static void check_sharing(fixture *f, const char *shape)
{
    hth_engine_model *filler, *mapper;
    char path[PATH_BYTES];

    use_model(f, shape);
    if (!load_filling(f, &filler))
        skip_without_repacking(filler);
    assert_non_null(strstr(f->log, "are in"));
    mapper = load(f, f->folder);
    assert_string_equal(f->log, "");
    assert_int_equal(n_files(f, path), 1);
    assert_same_logits(f, filler);
    assert_same_logits(f, mapper);
    llama->model_free(filler);
    assert_int_equal(n_files(f, path), 1);
    assert_same_logits(f, mapper);
    llama->model_free(mapper);
    assert_int_equal(n_files(f, path), 0);
}

FIXTURE_TEST(logits_are_the_same_bits_with_a_filled_and_with_a_mapped_region)
{
    check_sharing(f, "tiny-llama-wide");
}

FIXTURE_TEST(logits_of_experts_are_the_same_bits_likewise)
{
    check_sharing(f, "tiny-experts-wide");
}

FIXTURE_TEST(logits_are_the_same_bits_where_the_file_is_not_mapped)
{
    f->no_mmap = true;
    check_sharing(f, "tiny-llama-wide");
}

/* Without computing: the engine's threads are not in the child. */
static void fill_elsewhere(void *context)
{
    hth_engine_model *model = load(context, ((fixture *)context)->folder);

    llama->model_free(model);
}

FIXTURE_TEST(a_kept_region_of_another_process_is_mapped)
{
    hth_engine_model *model;
    char path[PATH_BYTES];

    use_model(f, "tiny-llama-wide");
    f->keep = true;
    hth_test_in_child(fill_elsewhere, f);
    model = load(f, f->folder);
    if (n_files(f, path) == 0)
        skip_without_repacking(model);
    assert_string_equal(f->log, ""); /* nothing was filled */
    assert_same_logits(f, model);
    llama->model_free(model);
    assert_int_equal(n_files(f, path), 1);
}

/* Change the weights of a kept region; with_checksums: so that its checksums are right. */
static void forge(const char *path, bool with_checksums)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat st;
    uint8_t *map;
    uint64_t n_bytes;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    n_bytes = hth_get_u64(map + 16);
    for (uint64_t i = 0; i < n_bytes; i += 64)
        map[HEADER_BYTES + i] ^= 1;
    if (with_checksums) {
        hth_put_u32(map + AT_DATA_CRC, hth_crc32c(0, map + HEADER_BYTES, n_bytes));
        hth_put_u32(map + AT_CRC, hth_crc32c(0, map + 16, HEADER_BYTES - 16));
    }
    assert_int_equal(munmap(map, (size_t)st.st_size), 0);
    (void)close(fd);
}

static void check_forged(fixture *f, bool with_checksums)
{
    hth_engine_model *model;
    char path[PATH_BYTES];

    use_model(f, "tiny-llama-wide");
    f->keep = true;
    if (!load_filling(f, &model))
        skip_without_repacking(model);
    llama->model_free(model);
    assert_int_equal(n_files(f, path), 1);
    forge(path, with_checksums);
    model = load(f, f->folder);
    assert_non_null(strstr(f->log, "are in")); /* it was filled again */
    assert_int_equal(strstr(f->log, "has other weights than the model") != NULL, with_checksums);
    assert_same_logits(f, model);
    llama->model_free(model);
}

FIXTURE_TEST(damaged_weights_are_not_used)
{
    check_forged(f, false);
}

FIXTURE_TEST(other_weights_with_the_right_checksums_are_not_used)
{
    check_forged(f, true);
}

FIXTURE_TEST(without_a_folder_the_model_loads_as_ever)
{
    hth_engine_model *model;

    use_model(f, "tiny-llama-wide");
    model = load(f, "/dev/null/nowhere");
    assert_same_logits(f, model);
    llama->model_free(model);
}
