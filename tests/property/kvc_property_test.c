/*
 * kvc_property_test.c - random files: what was written is read, and nothing else is
 *
 * Every file that is parsed here ends at a page that cannot be touched, so that reading one byte too many ends the
 * program. A run prints its seed; HTH_SEED=<number> in the environment repeats it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "rows/kvc.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_ROUND_TRIPS = 10000, N_MUTATED = 300, N_CUT = 100, N_PARTIAL = 100, ROUNDS_MAX = 5 };
enum { TEXT_BYTES_MAX = 70, TOKENS_MAX = 40, IMAGE_BYTES_MAX = 120 };

/* ---- chance ---- */

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    return (uint32_t)hth_test_random(&random_state, limit);
}

static bool random_bool(void)
{
    return random_below(2) == 1;
}

/* Mostly small, sometimes near the end of the type. */
static uint64_t random_number(void)
{
    switch (random_below(4)) {
    case 0: return random_below(3);
    case 1: return UINT64_MAX - random_below(3);
    default: return hth_test_random(&random_state, UINT64_MAX) >> random_below(64);
    }
}

static void random_fill(uint8_t *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)random_below(256);
}

/* ---- memory that ends at a page which cannot be touched ---- */

typedef struct guarded {
    uint8_t *map;
    size_t map_bytes;
    uint8_t *end; /* the first byte that faults */
} guarded;

static guarded guarded_init(size_t bytes_max)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t usable = (bytes_max + page - 1) / page * page + page;
    guarded memory = { .map_bytes = usable + page };

    memory.map = mmap(NULL, memory.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory.map, MAP_FAILED);
    memory.end = memory.map + usable;
    assert_int_equal(mprotect(memory.end, page, PROT_NONE), 0);
    return memory;
}

static void guarded_deinit(guarded *memory)
{
    munmap(memory->map, memory->map_bytes);
}

/* A copy of the bytes right before the end. */
static uint8_t *guarded_copy(guarded *memory, const uint8_t *bytes, size_t n_bytes)
{
    uint8_t *copy = memory->end - n_bytes;

    assert_true(copy >= memory->map);
    memcpy(copy, bytes, n_bytes);
    return copy;
}

/* ---- random files ---- */

typedef struct kvc_file {
    hth_kvc_info info; /* as given to the encoder; borrows from here */
    uint8_t prompt[TEXT_BYTES_MAX], hostname[TEXT_BYTES_MAX], version[TEXT_BYTES_MAX], detail[TEXT_BYTES_MAX];
    uint8_t build[TEXT_BYTES_MAX];
    uint8_t model[TEXT_BYTES_MAX];
    uint8_t tokens[4 * TOKENS_MAX];
    uint8_t hmac[32];
    uint8_t *bytes;
    size_t n_bytes;
    size_t n_head;
} kvc_file;

static hth_kvc_bytes random_text(uint8_t *text)
{
    uint32_t n = random_bool() ? random_below(TEXT_BYTES_MAX + 1) : 0;

    random_fill(text, n);
    return (hth_kvc_bytes){ .data = text, .n = n };
}

/* Records that make a file a row of ours, in any combination that a writer could ask for; the kind always. */
static void random_row(kvc_file *file)
{
    hth_kvc_info *info = &file->info;
    uint32_t first_position;

    info->has_kind = true;
    info->kind = (uint8_t)random_below(HTH_ROW_KINDS);
    info->has_parent = random_bool();
    random_fill(info->parent.bytes, sizeof(info->parent.bytes));
    info->has_first_position = info->has_parent && random_bool();
    info->first_position = random_bool() ? 0 : (uint32_t)random_number();
    first_position = info->has_first_position ? info->first_position : 0;
    info->has_own_key = first_position > 0 || random_bool();
    if (first_position == 0)
        assert_true(hth_key_of_bytes(&info->keyspace, info->tokens.data, info->tokens.n, &info->own_key));
    else
        random_fill(info->own_key.bytes, sizeof(info->own_key.bytes));
    info->engine_build = random_text(file->build);
    info->model = random_text(file->model);
    if (random_bool()) {
        random_fill(file->hmac, sizeof(file->hmac));
        info->hmac = (hth_kvc_bytes){ .data = file->hmac, .n = sizeof(file->hmac) };
    }
    info->has_head_crc = random_bool(); /* it is written either way */
}

/* The info points into the file, so a file stays where it was made. */
static void random_file(kvc_file *file, bool is_row)
{
    uint8_t image[IMAGE_BYTES_MAX];
    size_t n_image = random_below(IMAGE_BYTES_MAX + 1);

    memset(file, 0, sizeof(*file));
    random_fill(image, n_image);
    random_fill(file->tokens, sizeof(file->tokens));
    file->info = (hth_kvc_info){
        .quant_bits = (uint8_t)random_number(),
        .save_reason = (uint8_t)random_below(HEARTH_SAVE_FINISH + 1),
        .cached_token_count = (uint32_t)random_number(),
        .hit_count = (uint32_t)random_number(),
        .context_size = (uint32_t)random_number(),
        .creation_time = random_number(),
        .last_used_time = random_number(),
        .prompt = random_text(file->prompt),
        .keyspace.fingerprint_mode = (uint8_t)random_below(3),
        .keyspace.quant_byte = (uint8_t)random_below(30),
        .tokens = { .data = file->tokens, .n = 4 * random_below(TOKENS_MAX + 1) },
        .hostname = random_text(file->hostname),
        .writer_version = random_text(file->version),
        .save_reason_detail = random_text(file->detail),
    };
    random_fill(file->info.keyspace.fingerprint, 32);
    random_fill(file->info.keyspace.ctx_params_hash, 32);
    if (is_row)
        random_row(file);

    file->n_head = hth_kvc_head_bytes(&file->info);
    file->n_bytes = file->n_head + n_image;
    file->bytes = malloc(file->n_bytes); /* exactly, so that a sanitizer sees the encoder overrun it */
    assert_non_null(file->bytes);
    random_fill(file->bytes, file->n_head);
    hth_kvc_encode_head(&file->info, n_image, hth_crc32c(0, image, n_image), file->bytes);
    memcpy(file->bytes + file->n_head, image, n_image);
}

static void file_deinit(kvc_file *file)
{
    free(file->bytes);
}

/* ---- what was written is read ---- */

/* An optional text of no bytes is not written, so it comes back as absent. */
static void assert_same_bytes(hth_kvc_bytes read, hth_kvc_bytes given)
{
    assert_int_equal(read.n, given.n);
    if (given.n > 0)
        assert_memory_equal(read.data, given.data, given.n);
}

static void assert_same_row(const hth_kvc_info *read, const hth_kvc_info *given)
{
    assert_int_equal(read->has_parent, given->has_parent);
    assert_true(!given->has_parent || hth_key_equal(&read->parent, &given->parent));
    assert_int_equal(read->has_first_position, given->has_first_position);
    assert_true(!given->has_first_position || read->first_position == given->first_position);
    assert_int_equal(read->has_kind, given->has_kind);
    assert_true(!given->has_kind || read->kind == given->kind);
    assert_int_equal(read->has_own_key, given->has_own_key);
    assert_true(!given->has_own_key || hth_key_equal(&read->own_key, &given->own_key));
    assert_same_bytes(read->engine_build, given->engine_build);
    assert_same_bytes(read->model, given->model);
    assert_same_bytes(read->hmac, given->hmac);
    assert_int_equal(read->has_head_crc, given->has_kind);
}

static void assert_same_info(const hth_kvc_info *read, const hth_kvc_info *given)
{
    assert_int_equal(read->quant_bits, given->quant_bits);
    assert_int_equal(read->save_reason, given->save_reason);
    assert_int_equal(read->cached_token_count, given->cached_token_count);
    assert_int_equal(read->hit_count, given->hit_count);
    assert_int_equal(read->context_size, given->context_size);
    assert_true(read->creation_time == given->creation_time);
    assert_true(read->last_used_time == given->last_used_time);
    assert_same_bytes(read->prompt, given->prompt);
    assert_memory_equal(read->keyspace.fingerprint, given->keyspace.fingerprint, 32);
    assert_int_equal(read->keyspace.fingerprint_mode, given->keyspace.fingerprint_mode);
    assert_int_equal(read->keyspace.quant_byte, given->keyspace.quant_byte);
    assert_memory_equal(read->keyspace.ctx_params_hash, given->keyspace.ctx_params_hash, 32);
    assert_non_null(read->tokens.data);
    assert_same_bytes(read->tokens, given->tokens);
    assert_same_bytes(read->hostname, given->hostname);
    assert_same_bytes(read->writer_version, given->writer_version);
    assert_same_bytes(read->save_reason_detail, given->save_reason_detail);
    assert_same_row(read, given);
}

static int use_file(void **state)
{
    static kvc_file file;

    *state = &file;
    return 0;
}

#define FILE_TEST(name) TEST_IN(kvc_file, file, name, use_file, NULL)

FILE_TEST(what_was_written_is_read_and_writes_the_same_bytes_again)
{
    for (int i = 0; i < N_ROUND_TRIPS; i++) {
        bool is_row = random_bool();
        uint8_t *again;
        hth_kvc_info read;
        hth_kvc_fault fault;

        random_file(file, is_row);
        assert_true(hth_kvc_parse(file->bytes, file->n_bytes, NULL, &read, &fault));
        assert_same_info(&read, &file->info);
        assert_true(read.image_offset == file->n_head);
        assert_true(read.image_byte_count == file->n_bytes - file->n_head);

        assert_int_equal(hth_kvc_head_bytes(&read), file->n_head);
        again = malloc(file->n_head);
        assert_non_null(again);
        hth_kvc_encode_head(&read, read.image_byte_count, read.image_crc32c, again);
        assert_memory_equal(again, file->bytes, file->n_head);
        free(again);
        file_deinit(file);
    }
}

/* ---- nothing else is ---- */

/* May this byte change without the file becoming another? The HMAC's value is for the holder of its key to check. */
static bool may_change(const kvc_file *file, const hth_kvc_info *info, size_t at)
{
    size_t hmac = info->hmac.data ? (size_t)(info->hmac.data - file->bytes) : SIZE_MAX;

    return (at >= HTH_KVC_HIT_COUNT_OFFSET && at < HTH_KVC_HIT_COUNT_OFFSET + 4) ||
           (at >= HTH_KVC_LAST_USED_OFFSET && at < HTH_KVC_LAST_USED_OFFSET + 8) ||
           (at >= hmac && at < hmac + sizeof(file->hmac));
}

FILE_TEST(every_single_bit_of_a_row_that_changes_is_noticed)
{
    for (int i = 0; i < N_MUTATED; i++) {
        hth_kvc_info info, read;
        hth_kvc_fault fault;
        guarded memory;
        uint8_t *bytes;

        random_file(file, true);
        assert_true(hth_kvc_parse(file->bytes, file->n_bytes, NULL, &info, &fault));
        memory = guarded_init(file->n_bytes);
        bytes = guarded_copy(&memory, file->bytes, file->n_bytes);
        for (size_t bit = 0; bit < 8 * file->n_bytes; bit++) {
            bool sound;

            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            sound = hth_kvc_parse(bytes, file->n_bytes, NULL, &read, &fault);
            if (sound != may_change(file, &info, bit / 8))
                fail_msg("bit %zu of byte %zu of %zu changed: %s", bit % 8, bit / 8, file->n_bytes,
                         hth_kvc_reason_name(fault.reason));
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        guarded_deinit(&memory);
        file_deinit(file);
    }
}

FILE_TEST(a_file_cut_short_anywhere_is_refused)
{
    for (int i = 0; i < N_CUT; i++) {
        hth_kvc_info read;
        hth_kvc_fault fault;
        guarded memory;

        random_file(file, random_bool());
        memory = guarded_init(file->n_bytes);
        for (size_t n = 0; n < file->n_bytes; n++) {
            const uint8_t *bytes = guarded_copy(&memory, file->bytes, n);

            assert_false(hth_kvc_parse_meta(bytes, n, n, &read, &fault, NULL));
            assert_int_not_equal(fault.reason, HTH_KVC_OK);
            assert_false(hth_kvc_parse(bytes, n, NULL, &read, &fault));
            assert_int_not_equal(fault.reason, HTH_KVC_OK);
        }
        guarded_deinit(&memory);
        file_deinit(file);
    }
}

FILE_TEST(bytes_behind_a_file_are_refused)
{
    for (int i = 0; i < N_CUT; i++) {
        uint8_t longer[4096];
        hth_kvc_info read;
        hth_kvc_fault fault;
        guarded memory;
        size_t n_more = 1 + random_below(200);

        random_file(file, random_bool());
        assert_true(file->n_bytes + n_more <= sizeof(longer));
        memcpy(longer, file->bytes, file->n_bytes);
        random_fill(longer + file->n_bytes, n_more);
        memory = guarded_init(sizeof(longer));
        assert_false(hth_kvc_parse(guarded_copy(&memory, longer, file->n_bytes + n_more), file->n_bytes + n_more, NULL,
                                   &read, &fault));
        assert_int_equal(fault.reason, HTH_KVC_TRAILING_BYTES);
        guarded_deinit(&memory);
        file_deinit(file);
    }
}

FILE_TEST(a_head_can_be_read_from_any_part_of_a_file_by_asking_for_more)
{
    for (int i = 0; i < N_PARTIAL; i++) {
        guarded memory;

        random_file(file, random_bool());
        memory = guarded_init(file->n_bytes);
        for (size_t n_first = 0; n_first <= file->n_bytes; n_first++) {
            size_t n = n_first, n_rounds = 0, need;
            hth_kvc_info read;
            hth_kvc_fault fault;

            while (!hth_kvc_parse_meta(guarded_copy(&memory, file->bytes, n), n, file->n_bytes, &read, &fault, &need)) {
                assert_int_equal(fault.reason, HTH_KVC_OK);
                assert_true(need > n);
                assert_true(need <= file->n_head); /* never the image */
                n = need;
                assert_true(++n_rounds < ROUNDS_MAX);
            }
            assert_int_equal(need, 0);
            assert_same_info(&read, &file->info);
        }
        guarded_deinit(&memory);
        file_deinit(file);
    }
}

/* Damage of any extent, mostly in the lengths and positions: refused or not, nothing outside the file is touched. */
FILE_TEST(a_file_with_random_damage_is_read_within_its_bounds)
{
    static const size_t fields[] = { 40, 48, 56, 72, 76, 81 };

    for (int i = 0; i < N_ROUND_TRIPS; i++) {
        hth_kvc_info read;
        hth_kvc_fault fault;
        guarded memory;
        uint8_t *bytes;

        random_file(file, random_bool());
        memory = guarded_init(file->n_bytes);
        bytes = guarded_copy(&memory, file->bytes, file->n_bytes);
        for (uint32_t n = random_below(6); n > 0; n--) {
            if (random_bool())
                bytes[random_below((uint32_t)file->n_bytes)] = (uint8_t)random_number();
            else
                hth_put_u32(bytes + fields[random_below(6)], (uint32_t)random_number());
        }
        if (hth_kvc_parse(bytes, file->n_bytes, NULL, &read, &fault)) {
            assert_true(read.image_offset + read.image_byte_count == file->n_bytes);
            for (size_t j = 0; j < hth_kvc_n_tokens(&read); j++)
                (void)hth_kvc_token(&read, j); /* inside, or it faults */
        } else {
            assert_int_not_equal(fault.reason, HTH_KVC_OK);
        }
        guarded_deinit(&memory);
        file_deinit(file);
    }
}

static int start(void **state)
{
    (void)state;
    random_state = hth_test_seed();
    return 0;
}

GROUP(with_a_seed, start, NULL)
