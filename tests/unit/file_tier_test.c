/*
 * file_tier_test.c - rows as files: published, found, read, evicted, set aside, and every way the system says no
 */
#include "support/cmocka_all.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "cache/directory.h"
#include "cache/file_tier.h"
#include "cache/quarantine.h"
#include "support/row_image.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { PAYLOAD_BYTES = 3000 };

typedef struct fixture {
    char *directory; /* of the test; the cache is below */
    char cache[4096];
    test_step_fs step;
    hth_log log;
    unsigned n_warnings;
    char last_warning[1024];
    hth_file_tier *tier;
} fixture;

static void keep_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)source;
    if (level > HEARTH_LOG_WARNING)
        return;
    f->n_warnings++;
    (void)snprintf(f->last_warning, sizeof(f->last_warning), "%s", message);
}

/* The way of naming files that the whole group is run with. */
static hth_publish_way forced_way;

static hth_file_tier_options options_of(fixture *f)
{
    return (hth_file_tier_options){
        .publish_way = f->step.no_unnamed ? HTH_PUBLISH_PROBED : forced_way,
        .directory = f->cache,
        .bytes_max = UINT64_C(1) << 30,
        .durable = true,
        .fs = &f->step.fs,
        .log = &f->log,
    };
}

static void open_tier(fixture *f)
{
    hth_file_tier_options options = options_of(f);
    hearth_error err = { .message = "" };

    if (hth_file_tier_open(&options, &f->tier, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    hth_file_tier_settle(f->tier);
}

static void close_tier(fixture *f)
{
    hth_file_tier_close(f->tier);
    f->tier = NULL;
}

static int fixture_setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->directory = hth_test_directory_new();
    (void)snprintf(f->cache, sizeof(f->cache), "%s/a/b", f->directory);
    f->log = (hth_log){ .level = HEARTH_LOG_WARNING, .write = keep_warning, .user_data = f };
    test_step_fs_init(&f->step, NULL);
    *state = f;
    return 0;
}

static int open_setup(void **state)
{
    (void)fixture_setup(state);
    open_tier(*state);
    return 0;
}

static int fixture_teardown(void **state)
{
    fixture *f = *state;

    hth_file_tier_close(f->tier);
    hth_test_directory_remove(f->directory);
    free(f);
    return 0;
}

static const char *below(const fixture *f, const char *name)
{
    static char path[8192];

    (void)snprintf(path, sizeof(path), "%s/%s", f->cache, name);
    return path;
}

static size_t n_regular_files; /* nftw passes no context */

static int count_file(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)path;
    (void)where;
    n_regular_files += type == FTW_F && S_ISREG(st->st_mode);
    return 0;
}

static size_t n_files(const fixture *f, const char *folder)
{
    n_regular_files = 0;
    (void)nftw(below(f, folder), count_file, 16, FTW_PHYS);
    return n_regular_files;
}

static hearth_status publish(fixture *f, const test_row *row, bool *published_out)
{
    return hth_file_tier_publish(f->tier, &row->meta, row->bytes, row->n_bytes, published_out, NULL);
}

static void assert_published(fixture *f, const test_row *row)
{
    bool published = false;

    assert_int_equal(publish(f, row, &published), HEARTH_OK);
    assert_true(published);
}

typedef struct buffer {
    uint8_t *bytes;
    size_t n_bytes;
    bool refuse;
} buffer;

static uint8_t *buffer_take(size_t n_bytes, void *user_data)
{
    buffer *b = user_data;

    if (b->refuse)
        return NULL;
    b->bytes = malloc(n_bytes);
    b->n_bytes = n_bytes;
    return b->bytes;
}

static hearth_status read_row(fixture *f, const hth_row_id *id, buffer *out)
{
    size_t n = 0;
    hearth_status status = hth_file_tier_read(f->tier, id, buffer_take, out, &n, NULL);

    if (status == HEARTH_OK)
        assert_int_equal(n, out->n_bytes);
    return status;
}

static void assert_reads_back(fixture *f, const test_row *row)
{
    buffer b = { .bytes = NULL };

    assert_int_equal(read_row(f, &row->meta.id, &b), HEARTH_OK);
    assert_int_equal(b.n_bytes, row->n_bytes);
    assert_memory_equal(b.bytes, row->bytes, row->n_bytes);
    free(b.bytes);
}

static uint64_t index_rows(fixture *f)
{
    hth_index_totals totals;

    assert_int_equal(hth_index_totals_get(hth_file_tier_index(f->tier), &totals, NULL), HEARTH_OK);
    return totals.rows;
}

static const char *row_path(fixture *f, const test_row *row)
{
    static char path[8192];

    assert_true(hth_file_tier_path(f->tier, &row->meta.id, path, sizeof(path)));
    return path;
}

static void overwrite(const char *path, long offset, const char *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "r+");

    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_new(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

/* Make the index of the closed tier vanish. */
static void lose_index(const fixture *f)
{
    char command[9000];

    (void)snprintf(command, sizeof(command), "rm -r %s/index", f->cache);
    assert_int_equal(system(command), 0);
}

/* ---- publishing and reading ---- */

static void a_published_row_is_found_and_reads_back(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 2, PAYLOAD_BYTES);
    hth_row_meta meta;

    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_published(f, &row);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, &meta));
    assert_int_equal(meta.first_position, row.meta.first_position);
    assert_int_equal(meta.n_tokens, row.meta.n_tokens);
    assert_int_equal(meta.bytes, row.n_bytes);
    assert_true(hth_key_equal(&meta.parent, &row.meta.parent));
    assert_reads_back(f, &row);
    assert_int_equal(n_files(f, "temporary"), 0);
    test_row_free(&row);
}

static void rows_outlive_the_tier_and_its_index(void **state)
{
    fixture *f = *state;
    test_row rows[4];

    for (uint32_t i = 0; i < 4; i++) {
        rows[i] = test_row_make(1, i, PAYLOAD_BYTES);
        assert_published(f, &rows[i]);
    }
    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_int_equal(index_rows(f), 4);
    for (uint32_t i = 0; i < 4; i++) {
        hth_row_meta meta;

        assert_true(hth_file_tier_has(f->tier, &rows[i].meta.id, &meta));
        assert_int_equal(meta.first_position, rows[i].meta.first_position);
        assert_true(hth_key_equal(&meta.parent, &rows[i].meta.parent));
        assert_reads_back(f, &rows[i]);
        test_row_free(&rows[i]);
    }
    assert_int_equal(f->n_warnings, 0);
}

static void publishing_a_row_that_is_there_writes_nothing(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    hth_file_tier_counts counts;
    bool published = true;

    assert_published(f, &row);
    assert_int_equal(publish(f, &row, &published), HEARTH_OK);
    assert_false(published);
    hth_file_tier_counts_get(f->tier, &counts);
    assert_int_equal(counts.rows_written, 1);
    assert_int_equal(counts.bytes_written, row.n_bytes);
    test_row_free(&row);
}

static void an_image_that_is_not_the_row_it_is_said_to_be_is_not_written(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 1, PAYLOAD_BYTES), other = test_row_make(2, 1, PAYLOAD_BYTES);

    row.bytes[row.n_bytes - 1] ^= 1;
    assert_int_equal(publish(f, &row, NULL), HEARTH_CORRUPT);
    row.bytes[row.n_bytes - 1] ^= 1;
    assert_int_equal(hth_file_tier_publish(f->tier, &other.meta, row.bytes, row.n_bytes, NULL, NULL), HEARTH_CORRUPT);
    row.meta.first_position += 16;
    assert_int_equal(publish(f, &row, NULL), HEARTH_MISUSE);
    assert_int_equal(n_files(f, "rows"), 0);
    test_row_free(&row);
    test_row_free(&other);
}

static void rows_without_tokens_are_rows_too(void **state)
{
    fixture *f = *state;
    test_row logits = test_row_make_logits(1, 1, PAYLOAD_BYTES);
    hth_row_meta found[2];

    assert_published(f, &logits);
    assert_reads_back(f, &logits);
    assert_int_equal(hth_file_tier_children(f->tier, &logits.meta.id.key, found, 2), 1);
    assert_int_equal(found[0].id.kind, HTH_ROW_LOGITS);
    test_row_free(&logits);
}

static void a_damaged_file_that_has_the_rows_name_is_replaced(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);

    assert_published(f, &row);
    overwrite(row_path(f, &row), (long)row.n_bytes - 5, "XXXX", 4);
    assert_int_equal(hth_index_remove(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL), HEARTH_OK);
    assert_published(f, &row);
    assert_reads_back(f, &row);
    assert_int_equal(n_files(f, "temporary"), 0);
    test_row_free(&row);
}

static void a_directory_that_has_a_rows_name_is_moved_out_of_the_way(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    char path[9000];

    assert_published(f, &row);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unlink(row_path(f, &row)), 0);
        assert_int_equal(mkdir(row_path(f, &row), 0700), 0);
        (void)snprintf(path, sizeof(path), "%s/file", row_path(f, &row));
        write_new(path, "x", 1);
        if (i == 0) { /* the index does not know better */
            assert_int_equal(hth_index_remove(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL), HEARTH_OK);
            assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
            assert_published(f, &row);
        } else { /* or does: eviction does not meet it again and again */
            assert_int_equal(hth_file_tier_evict_to(f->tier, 0, NULL, NULL), HEARTH_OK);
            assert_int_equal(index_rows(f), 0);
            assert_published(f, &row);
        }
        assert_reads_back(f, &row);
    }
    assert_true(n_files(f, "quarantine") > 0);
    test_row_free(&row);
}

static void a_folder_that_was_removed_and_made_again_is_durable_again(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    char folder[8192];

    (void)snprintf(folder, sizeof(folder), "%s/rows/%02x", f->cache, row.meta.id.key.bytes[0]);
    f->step.fail_only = "sync_directory"; /* counted, not failing */
    assert_published(f, &row);
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_OK);
    atomic_store(&f->step.n_steps, 0);
    assert_published(f, &row);
    assert_int_equal(atomic_load(&f->step.n_steps), 1); /* the folder; its own name is known to be there */
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_OK);
    assert_int_equal(rmdir(folder), 0);
    atomic_store(&f->step.n_steps, 0);
    assert_published(f, &row);
    assert_int_equal(atomic_load(&f->step.n_steps), 2);
    test_row_free(&row);
}

static void many_rows_are_asked_for_at_once(void **state)
{
    fixture *f = *state;
    hth_row_id ids[4];
    hth_row_meta metas[4];
    test_row rows[4];
    bool found[4];

    for (uint32_t i = 0; i < 4; i++) {
        rows[i] = test_row_make(1, i, PAYLOAD_BYTES);
        ids[i] = rows[i].meta.id;
        if (i != 2)
            assert_published(f, &rows[i]);
    }
    /* One that the index does not know is found by its name. */
    assert_int_equal(hth_index_remove(hth_file_tier_index(f->tier), &ids[1], 1, NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_has_many(f->tier, ids, 4, metas, found), 3);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(found[i], i != 2);
        if (found[i])
            assert_int_equal(metas[i].first_position, rows[i].meta.first_position);
        test_row_free(&rows[i]);
    }
    hth_file_tier_maintain(f->tier);
    assert_int_equal(index_rows(f), 3);
}

static void a_sound_file_that_the_index_does_not_know_is_adopted_when_it_is_published(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    hth_file_tier_counts counts;
    bool published = true;

    assert_published(f, &row);
    assert_int_equal(hth_index_remove(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL), HEARTH_OK);
    assert_int_equal(publish(f, &row, &published), HEARTH_OK);
    assert_false(published);
    hth_file_tier_counts_get(f->tier, &counts);
    assert_int_equal(counts.rows_written, 1);
    assert_int_equal(counts.rows_adopted, 1);
    assert_int_equal(index_rows(f), 1);
    test_row_free(&row);
}

static void a_row_found_by_its_name_is_adopted_by_the_next_maintenance(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 3, PAYLOAD_BYTES);
    hth_row_meta meta;

    assert_published(f, &row);
    assert_int_equal(hth_index_remove(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL), HEARTH_OK);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, &meta));
    assert_int_equal(meta.first_position, row.meta.first_position);
    assert_int_equal(meta.n_tokens, row.meta.n_tokens);
    assert_int_equal(index_rows(f), 0);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(index_rows(f), 1);
    test_row_free(&row);
}

static void a_row_whose_file_was_removed_is_a_miss_and_can_be_published_again(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    buffer b = { .bytes = NULL };

    assert_published(f, &row);
    assert_int_equal(unlink(row_path(f, &row)), 0);
    assert_int_equal(read_row(f, &row.meta.id, &b), HEARTH_NOT_FOUND);
    hth_file_tier_maintain(f->tier);
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_int_equal(index_rows(f), 0);
    assert_published(f, &row);

    assert_int_equal(unlink(row_path(f, &row)), 0);
    assert_published(f, &row); /* also without a reader that noticed */
    test_row_free(&row);
}

static void a_file_of_senseless_size_is_corrupt_and_a_lack_of_memory_is_said(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    buffer b = { .refuse = true };

    assert_published(f, &row);
    assert_int_equal(read_row(f, &row.meta.id, &b), HEARTH_NO_MEMORY);
    assert_int_equal(truncate(row_path(f, &row), 40), 0);
    assert_int_equal(read_row(f, &row.meta.id, &b), HEARTH_CORRUPT);
    assert_int_equal(truncate(row_path(f, &row), (off_t)5 << 30), 0);
    assert_int_equal(read_row(f, &row.meta.id, &b), HEARTH_CORRUPT);
    test_row_free(&row);
}

static void assert_tokens_are_known(fixture *f, const test_row *row)
{
    hearth_token tokens[HTH_BLOCK_TOKENS];
    hth_kvc_fault fault;
    hth_kvc_info info;

    assert_true(hth_kvc_parse_meta(row->bytes, row->n_bytes, row->n_bytes, &info, &fault, NULL));
    assert_int_equal(hth_file_tier_tokens(f->tier, &row->meta.id, tokens, HTH_BLOCK_TOKENS), row->meta.n_tokens);
    for (size_t i = 0; i < row->meta.n_tokens; i++)
        assert_int_equal(tokens[i], hth_kvc_token(&info, i));
    assert_int_equal(hth_file_tier_tokens(f->tier, &row->meta.id, tokens, 3), 3);
}

/* However it came into the index: published, adopted, put back, or found when that was made anew. */
static void the_tokens_of_a_row_are_known_without_its_file(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES), logits = test_row_make_logits(1, 0, PAYLOAD_BYTES);
    hearth_token tokens[HTH_BLOCK_TOKENS];

    assert_published(f, &row);
    assert_published(f, &logits);
    assert_tokens_are_known(f, &row);
    assert_int_equal(hth_file_tier_tokens(f->tier, &logits.meta.id, tokens, HTH_BLOCK_TOKENS), 0);

    assert_int_equal(hth_index_remove(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_tokens(f->tier, &row.meta.id, tokens, HTH_BLOCK_TOKENS), 0);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, NULL)); /* by its name */
    hth_file_tier_maintain(f->tier);
    assert_tokens_are_known(f, &row);

    f->step.fail_only = "remove";
    f->step.fail_errnum = EIO;
    f->step.fail_from_then_on = true;
    atomic_store(&f->step.fail_at, 1);
    assert_int_equal(hth_file_tier_evict_to(f->tier, 0, NULL, NULL), HEARTH_IO);
    atomic_store(&f->step.fail_at, 0);
    f->step.fail_only = NULL;
    assert_tokens_are_known(f, &row);

    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_tokens_are_known(f, &row);
    test_row_free(&row);
    test_row_free(&logits);
}

static void a_row_can_be_removed_once(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);

    assert_published(f, &row);
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_NOT_FOUND);
    assert_int_equal(n_files(f, "rows"), 0);
    assert_int_equal(index_rows(f), 0);
    test_row_free(&row);
}

/* ---- quota and eviction ---- */

static void a_full_tier_evicts_the_least_recently_used_leaf(void **state)
{
    fixture *f = *state;
    test_row rows[4], chain = test_row_make(50, 0, PAYLOAD_BYTES);
    hth_file_tier_options options = options_of(f);
    hth_row_meta meta;

    options.bytes_max = 4 * chain.n_bytes + 200;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    for (uint32_t i = 0; i < 4; i++) {
        rows[i] = test_row_make(i, 0, PAYLOAD_BYTES);
        assert_published(f, &rows[i]);
    }
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            hth_file_tier_touch(f->tier, &rows[i].meta.id, 1);
    hth_file_tier_maintain(f->tier);
    assert_true(hth_file_tier_has(f->tier, &rows[0].meta.id, &meta));
    assert_int_equal(meta.hit_count, 1);

    assert_published(f, &chain);
    assert_false(hth_file_tier_has(f->tier, &rows[2].meta.id, NULL));
    assert_int_equal(index_rows(f), 4);
    assert_int_equal(n_files(f, "rows"), 4);
    for (uint32_t i = 0; i < 4; i++)
        test_row_free(&rows[i]);
    test_row_free(&chain);
}

static void a_row_larger_than_the_quota_is_refused_and_evicts_nothing(void **state)
{
    fixture *f = *state;
    test_row small = test_row_make(1, 0, 100), large = test_row_make(2, 0, 100000);
    hth_file_tier_options options = options_of(f);

    options.bytes_max = 10000;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_published(f, &small);
    assert_int_equal(publish(f, &large, NULL), HEARTH_FULL);
    assert_true(hth_file_tier_has(f->tier, &small.meta.id, NULL));
    test_row_free(&small);
    test_row_free(&large);
}

static void a_quota_that_was_noted_holds_for_those_who_ask_for_it(void **state)
{
    fixture *f = *state;
    test_row small = test_row_make(1, 0, 100), large = test_row_make(2, 0, 100000);
    hth_file_tier_options options = options_of(f);
    uint64_t quota = 0;

    options.bytes_max = 10000;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier); /* notes it */
    hth_file_tier_close(f->tier);
    options.bytes_max = UINT64_MAX;
    options.with_noted_quota = true;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_bytes_max(f->tier), 10000);
    hth_file_tier_settle(f->tier);
    assert_int_equal(publish(f, &large, NULL), HEARTH_FULL);
    assert_published(f, &small);
    hth_file_tier_close(f->tier);
    /* Where none was, there is none. */
    (void)snprintf(f->cache, sizeof(f->cache), "%s/other", f->directory);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_published(f, &large);
    assert_int_equal(hth_index_quota(hth_file_tier_index(f->tier), &quota, NULL), HEARTH_OK);
    assert_int_equal(quota, 0);
    test_row_free(&small);
    test_row_free(&large);
}

static void a_device_that_is_nearly_full_takes_no_row(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    hearth_error err;

    f->step.no_device_space = true;
    assert_int_equal(hth_file_tier_publish(f->tier, &row.meta, row.bytes, row.n_bytes, NULL, &err), HEARTH_FULL);
    assert_non_null(strstr(err.message, f->cache));
    f->step.no_device_space = false;
    assert_published(f, &row);
    test_row_free(&row);
}

static void eviction_on_request_leaves_what_fits(void **state)
{
    fixture *f = *state;
    uint64_t n_evicted = 0;
    size_t n_bytes = 0;

    for (uint32_t i = 0; i < 100; i++) {
        test_row row = test_row_make(7, i, 500);

        assert_published(f, &row);
        n_bytes = row.n_bytes;
        test_row_free(&row);
    }
    assert_int_equal(hth_file_tier_evict_to(f->tier, 10 * n_bytes, &n_evicted, NULL), HEARTH_OK);
    assert_int_equal(n_evicted, 90);
    assert_int_equal(n_files(f, "rows"), 10);
    for (uint32_t i = 0; i < 100; i++) {
        test_row row = test_row_make(7, i, 500);

        assert_int_equal(hth_file_tier_has(f->tier, &row.meta.id, NULL), i < 10);
        test_row_free(&row);
    }
}

static void the_order_of_eviction_survives_the_loss_of_the_index(void **state)
{
    fixture *f = *state;
    test_row old = test_row_make(1, 0, 100), used = test_row_make(2, 0, 100);
    hth_row_meta meta;

    assert_published(f, &old);
    assert_published(f, &used);
    hth_file_tier_touch(f->tier, &used.meta.id, 1);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(hth_fs_set_mtime(hth_fs_system(), row_path(f, &old), 1700000005), 0);
    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_true(hth_file_tier_has(f->tier, &old.meta.id, &meta));
    assert_int_equal(meta.last_used_time, 1700000005);
    assert_int_equal(hth_file_tier_evict_to(f->tier, used.n_bytes, NULL, NULL), HEARTH_OK);
    assert_false(hth_file_tier_has(f->tier, &old.meta.id, NULL));
    assert_true(hth_file_tier_has(f->tier, &used.meta.id, NULL));
    test_row_free(&old);
    test_row_free(&used);
}

/* ---- setting aside ---- */

static void a_row_that_failed_its_checks_is_set_aside(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    hth_file_tier_counts counts;

    assert_published(f, &row);
    hth_file_tier_quarantine(f->tier, &row.meta.id, "test");
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_int_equal(index_rows(f), 0);
    assert_int_equal(n_files(f, "quarantine"), 1);
    hth_file_tier_counts_get(f->tier, &counts);
    assert_int_equal(counts.rows_quarantined, 1);
    hth_file_tier_quarantine(f->tier, &row.meta.id, "again");
    assert_int_equal(n_files(f, "quarantine"), 1);
    assert_published(f, &row);
    test_row_free(&row);
}

static void the_quarantine_keeps_its_64_newest_files(void **state)
{
    fixture *f = *state;
    char path[8192], target[8192 + 64];
    hth_row_id id = { .kind = HTH_ROW_BLOCK };

    for (uint32_t i = 0; i < 80; i++) {
        (void)snprintf(path, sizeof(path), "%s", below(f, "file"));
        write_new(path, "x", 1);
        (void)snprintf(target, sizeof(target), "%s/%012u-old-%u", below(f, "quarantine"), i, i);
        assert_int_equal(rename(path, target), 0);
    }
    write_new(path, "x", 1);
    assert_int_equal(hth_quarantine_row(hth_fs_system(), below(f, "quarantine"), path, &id), 0);
    assert_int_equal(hth_quarantine_count(hth_fs_system(), below(f, "quarantine")), HTH_QUARANTINE_FILES_MAX);
    assert_int_equal(access(below(f, "quarantine/000000000016-old-16"), F_OK), -1);
    assert_int_equal(access(below(f, "quarantine/000000000017-old-17"), F_OK), 0);
}

/* ---- what else lies in the directory ---- */

static void foreign_files_are_left_alone_with_one_warning(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES), other = test_row_make(2, 0, PAYLOAD_BYTES);
    char other_path[8192];

    assert_published(f, &row);
    (void)snprintf(other_path, sizeof(other_path), "%s", row_path(f, &other));
    close_tier(f);
    lose_index(f);
    write_new(below(f, "rows/note.txt"), "hello", 5);
    assert_int_equal(mkdir(below(f, "rows/zz"), 0700), 0);
    other_path[strlen(f->cache) + strlen("/rows/ab")] = '\0';
    (void)mkdir(other_path, 0700);
    (void)snprintf(other_path + strlen(other_path), 20, "/abc");
    write_new(other_path, "hello", 5);
    open_tier(f);
    assert_int_equal(f->n_warnings, 1);
    assert_non_null(strstr(f->last_warning, "3 files"));
    assert_int_equal(index_rows(f), 1);
    assert_int_equal(access(below(f, "rows/note.txt"), F_OK), 0);
    assert_int_equal(access(other_path, F_OK), 0);
    test_row_free(&row);
    test_row_free(&other);
}

/* Else it would lie there, counted by no quota, until somebody verifies the directory. */
static void a_row_whose_head_is_damaged_is_set_aside_when_the_index_is_made_anew(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES), cut = test_row_make(2, 0, PAYLOAD_BYTES);

    assert_published(f, &row);
    assert_published(f, &cut);
    overwrite(row_path(f, &row), 0, "XXX", 3);
    assert_int_equal(truncate(row_path(f, &cut), 20), 0);
    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_int_equal(index_rows(f), 0);
    assert_int_equal(f->n_warnings, 0);
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_int_equal(access(row_path(f, &row), F_OK), -1);
    assert_int_equal(access(row_path(f, &cut), F_OK), -1);
    assert_int_equal(hth_quarantine_count(hth_fs_system(), below(f, "quarantine")), 2);
    assert_published(f, &row);
    assert_reads_back(f, &row);
    test_row_free(&row);
    test_row_free(&cut);
}

static void a_row_of_another_version_of_the_format_is_left_to_it(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);

    assert_published(f, &row);
    overwrite(row_path(f, &row), 3, "\x7f", 1);
    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_int_equal(index_rows(f), 0);
    assert_int_equal(f->n_warnings, 1);
    assert_int_equal(access(row_path(f, &row), F_OK), 0);
    test_row_free(&row);
}

static void leftover_temporary_files_are_removed_and_files_of_others_are_not(void **state)
{
    fixture *f = *state;

    close_tier(f);
    write_new(below(f, "temporary/0123456789abcdef-1"), "of a dead owner", 15);
    write_new(below(f, "temporary/strange-and-old"), "x", 1);
    write_new(below(f, "temporary/strange-and-new"), "x", 1);
    assert_int_equal(hth_fs_set_mtime(hth_fs_system(), below(f, "temporary/strange-and-old"), 1700000000), 0);
    open_tier(f);
    assert_int_equal(access(below(f, "temporary/0123456789abcdef-1"), F_OK), -1);
    assert_int_equal(access(below(f, "temporary/strange-and-old"), F_OK), 0);
    assert_int_equal(access(below(f, "temporary/strange-and-new"), F_OK), 0);
}

/* ---- directories ---- */

/* As by `rm -r DIRECTORY/...`, which must not keep a server from storing until its next start. */
static void a_cache_that_was_removed_while_it_is_in_use_begins_anew(void **state)
{
    static const char *const parts[] = { "rows", "temporary", "quarantine", "index", "owners" };
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES), other = test_row_make(2, 0, PAYLOAD_BYTES);
    char removed[8192];

    assert_published(f, &row);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        (void)snprintf(removed, sizeof(removed), "%s-%zu", f->cache, i);
        assert_int_equal(rename(below(f, parts[i]), removed), 0);
    }
    hth_file_tier_maintain(f->tier);
    hth_file_tier_settle(f->tier);
    assert_int_equal(f->n_warnings, 1);
    assert_non_null(strstr(f->last_warning, "begins anew"));
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_published(f, &other);
    assert_reads_back(f, &other);
    assert_int_equal(index_rows(f), 1);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(f->n_warnings, 1);
    test_row_free(&row);
    test_row_free(&other);
}

static void what_is_made_belongs_to_its_owner_only(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    struct stat st;

    assert_published(f, &row);
    for (const char *const *name = (const char *const[]){ "", "rows", "index", "owners", "quarantine", NULL }; *name;
         name++) {
        assert_int_equal(stat(below(f, *name), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
    }
    assert_int_equal(stat(row_path(f, &row), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    test_row_free(&row);
}

static void a_directory_that_others_can_write_to_is_refused_with_a_remedy(void **state)
{
    fixture *f = *state;
    hth_file_tier_options options = options_of(f);
    hearth_error err;

    options.directory = f->directory;
    assert_int_equal(chmod(f->directory, 0770), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
    assert_non_null(strstr(err.message, "chmod go-w"));
    assert_int_equal(chmod(f->directory, 0755), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_OK);
    close_tier(f);
    assert_int_equal(chmod(f->directory, 0700), 0);
    (void)snprintf(f->cache, sizeof(f->cache), "%s", f->directory);
    assert_int_equal(chmod(below(f, "rows"), 0777), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
}

static void a_folder_of_rows_that_others_can_write_to_is_refused(void **state)
{
    fixture *f = *state;
    hth_file_tier_options options = options_of(f);
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES), other = test_row_make(2, 0, PAYLOAD_BYTES);
    hearth_error err = { .message = "" };
    char folder[8192];

    assert_published(f, &row);
    (void)snprintf(folder, sizeof(folder), "%s/rows/%02x", f->cache, row.meta.id.key.bytes[0]);
    assert_int_equal(chmod(folder, 0770), 0);
    close_tier(f);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
    assert_non_null(strstr(err.message, "chmod go-w"));
    assert_int_equal(chmod(folder, 0700), 0);
    open_tier(f);
    /* One that somebody made while the tier was open. */
    (void)snprintf(folder, sizeof(folder), "%s/rows/%02x", f->cache, other.meta.id.key.bytes[0]);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(publish(f, &other, NULL), HEARTH_PERMISSION);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_published(f, &other);
    test_row_free(&row);
    test_row_free(&other);
}

static void a_directory_below_one_where_everybody_renames_is_refused(void **state)
{
    fixture *f = *state;
    hth_file_tier_options options = options_of(f);
    hearth_error err = { .message = "" };

    assert_int_equal(chmod(f->directory, 0777), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
    assert_non_null(strstr(err.message, "chmod +t"));
    assert_int_equal(chmod(f->directory, 01777), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_OK);
    assert_int_equal(chmod(f->directory, 0700), 0);
}

static int stat_as_of_another_user(void *context, const char *path, hth_fs_stat *out)
{
    int rc = hth_fs_system()->stat(context, path, out);

    out->uid = (uint32_t)geteuid() + 1;
    return rc;
}

static void a_directory_of_another_user_is_refused(void **state)
{
    fixture *f = *state;
    hth_file_tier_options options = options_of(f);
    hth_fs fs = *hth_fs_system();
    hearth_error err;

    fs.stat = stat_as_of_another_user;
    options.fs = &fs;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
    assert_non_null(strstr(err.message, "another user"));
}

static void a_read_only_file_system_is_a_permission_with_a_remedy(void **state)
{
    fixture *f = *state;
    hth_file_tier_options options = options_of(f);

    /* Whatever is the first thing that fails: making the directory, or a file in one that is there. */
    for (int i = 0; i < 2; i++) {
        const char *const failing[] = { "make_directory", "open" };
        hearth_error err = { .message = "" };

        test_step_fs_init(&f->step, NULL);
        f->step.fail_only = failing[i];
        f->step.fail_errnum = EROFS;
        f->step.fail_from_then_on = true;
        atomic_store(&f->step.fail_at, 1);
        assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
        assert_null(f->tier);
        assert_non_null(strstr(err.message, "--cache"));
        test_step_fs_init(&f->step, NULL);
        open_tier(f);
        close_tier(f);
    }
}

static void two_tiers_of_one_process_share_a_directory(void **state)
{
    fixture *f = *state;
    hth_file_tier_options options = options_of(f);
    hth_file_tier *second = NULL;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);
    bool published = true;

    assert_int_equal(hth_file_tier_open(&options, &second, NULL), HEARTH_OK);
    assert_published(f, &row);
    assert_true(hth_file_tier_has(second, &row.meta.id, NULL));
    assert_int_equal(hth_file_tier_publish(second, &row.meta, row.bytes, row.n_bytes, &published, NULL), HEARTH_OK);
    assert_false(published);
    close_tier(f);
    assert_int_equal(hth_file_tier_remove(second, &row.meta.id, NULL), HEARTH_OK);
    hth_file_tier_close(second);
    test_row_free(&row);
}

static void without_a_working_index_everything_goes_on_by_names(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 1, PAYLOAD_BYTES);
    hth_row_meta meta;
    bool published = true;
    char boot[64], path[8192];

    /* A file where the index's own directory should be. */
    (void)snprintf(path, sizeof(path), "%s/a", f->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mkdir(f->cache, 0700), 0);
    assert_int_equal(mkdir(below(f, "index"), 0700), 0);
    assert_true(hth_os_boot_id(boot, sizeof(boot)));
    (void)snprintf(path, sizeof(path), "%s/index/v3-%s", f->cache, boot);
    write_new(path, "x", 1);
    open_tier(f);
    assert_int_equal(f->n_warnings, 1);

    assert_published(f, &row);
    assert_int_equal(publish(f, &row, &published), HEARTH_OK);
    assert_false(published);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, &meta));
    assert_int_equal(meta.first_position, 16);
    assert_reads_back(f, &row);
    hth_file_tier_touch(f->tier, &row.meta.id, 1);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(f->n_warnings, 1);

    /* When the cause is gone, the index comes back, filled. */
    assert_int_equal(unlink(path), 0);
    hth_file_tier_maintain(f->tier);
    hth_file_tier_settle(f->tier);
    assert_int_equal(index_rows(f), 1);
    hth_file_tier_quarantine(f->tier, &row.meta.id, "test");
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    test_row_free(&row);
}

static void the_quota_holds_without_an_index_too(void **state)
{
    fixture *f = *state;
    test_row a = test_row_make(1, 0, PAYLOAD_BYTES), b = test_row_make(2, 0, PAYLOAD_BYTES);
    hth_file_tier_options options = options_of(f);
    char boot[64], path[8192];

    open_tier(f);
    assert_published(f, &a);
    close_tier(f);
    lose_index(f);
    assert_int_equal(mkdir(below(f, "index"), 0700), 0);
    assert_true(hth_os_boot_id(boot, sizeof(boot)));
    (void)snprintf(path, sizeof(path), "%s/index/v3-%s", f->cache, boot);
    write_new(path, "x", 1);
    options.bytes_max = a.n_bytes + 100;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_int_equal(publish(f, &b, NULL), HEARTH_FULL);
    test_row_free(&a);
    test_row_free(&b);
}

/* ---- ways of giving a file its name ---- */

static void publish_and_replace(fixture *f)
{
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES), other = test_row_make(1, 1, PAYLOAD_BYTES);

    open_tier(f);
    assert_published(f, &row);
    assert_published(f, &other);
    overwrite(row_path(f, &row), (long)row.n_bytes - 5, "XXXX", 4);
    assert_int_equal(hth_index_remove(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL), HEARTH_OK);
    assert_published(f, &row);
    assert_reads_back(f, &row);
    assert_reads_back(f, &other);
    assert_int_equal(n_files(f, "rows"), 2);
    assert_int_equal(n_files(f, "temporary"), 0);
    test_row_free(&row);
    test_row_free(&other);
}

static void rows_are_published_where_there_are_no_unnamed_files(void **state)
{
    fixture *f = *state;

    f->step.no_unnamed = true;
    publish_and_replace(f);
}

static void rows_are_published_where_there_are_no_links(void **state)
{
    fixture *f = *state;

    f->step.no_unnamed = true;
    f->step.no_link = true;
    publish_and_replace(f);
}

static void a_way_that_does_not_work_here_is_refused_when_it_is_asked_for(void **state)
{
    fixture *f = *state;
    hth_file_tier_options options = options_of(f);
    hearth_error err = { .message = "" };

    f->step.no_unnamed = true;
    options.publish_way = HTH_PUBLISH_UNNAMED;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, "without a name"));
    f->step.no_link = true;
    options.publish_way = HTH_PUBLISH_LINK;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, "linked"));
    options.publish_way = HTH_PUBLISH_RENAME;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_OK);
}

/* A rename that is carried out, and whose answer is lost: as on a network, it is then tried again. */
static int rename_and_forget(void *context, const char *from, const char *to)
{
    int rc = hth_fs_system()->rename(context, from, to);

    return rc == 0 ? hth_fs_system()->rename(context, from, to) : rc;
}

static int link_and_forget(void *context, const char *from, const char *to)
{
    int rc = hth_fs_system()->link(context, from, to);

    return rc == 0 ? hth_fs_system()->link(context, from, to) : rc;
}

static void a_lost_answer_of_the_network_loses_no_row(void **state)
{
    fixture *f = *state;
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES);

    for (int i = 0; i < 2; i++) {
        hth_file_tier_options options = options_of(f);
        hth_fs fs = *hth_fs_system();

        fs.rename = rename_and_forget;
        options.fs = &fs;
        options.publish_way = i == 0 ? HTH_PUBLISH_LINK : HTH_PUBLISH_RENAME;
        (void)snprintf(f->cache, sizeof(f->cache), "%s/lost-%d", f->directory, i);
        assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
        hth_file_tier_settle(f->tier);
        fs.link = link_and_forget;
        assert_int_equal(publish(f, &row, NULL), HEARTH_OK);
        assert_reads_back(f, &row);
        assert_int_equal(index_rows(f), 1);
        assert_int_equal(n_files(f, "rows"), 1);
        assert_int_equal(n_files(f, "temporary"), 0);
        close_tier(f);
    }
    test_row_free(&row);
}

static void the_index_may_lie_elsewhere(void **state)
{
    fixture *f = *state;
    hth_file_tier_options options = options_of(f);
    test_row row = test_row_make(1, 0, PAYLOAD_BYTES), other = test_row_make(2, 0, PAYLOAD_BYTES);
    hth_file_tier *second = NULL;
    char here[4096], there[4096];

    /* Two machines, with an index each, and rows that they share. */
    (void)snprintf(here, sizeof(here), "%s/here", f->directory);
    (void)snprintf(there, sizeof(there), "%s/there", f->directory);
    options.index_directory = here;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    options.index_directory = there;
    assert_int_equal(hth_file_tier_open(&options, &second, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    hth_file_tier_settle(second);
    assert_int_equal(access(below(f, "index"), F_OK), -1);
    assert_int_equal(access(below(f, "owners"), F_OK), -1);
    assert_ptr_not_equal(hth_file_tier_index(f->tier), hth_file_tier_index(second));

    assert_published(f, &row);
    assert_true(hth_file_tier_has(second, &row.meta.id, NULL)); /* by its name */
    hth_file_tier_maintain(second);
    assert_int_equal(hth_file_tier_publish(second, &other.meta, other.bytes, other.n_bytes, NULL, NULL), HEARTH_OK);
    assert_reads_back(f, &other);
    /* What one removes, the other finds gone. */
    assert_int_equal(hth_file_tier_remove(second, &row.meta.id, NULL), HEARTH_OK);
    assert_int_equal(read_row(f, &row.meta.id, &(buffer){ .refuse = true }), HEARTH_NOT_FOUND);
    hth_file_tier_maintain(f->tier);
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    hth_file_tier_close(second);
    test_row_free(&row);
    test_row_free(&other);
}

static void a_temporary_file_of_another_machine_is_left_alone_for_a_day(void **state)
{
    fixture *f = *state;
    hth_file_tier_options options = options_of(f);
    char here[4096], young[8192], old[8192];

    (void)snprintf(here, sizeof(here), "%s/here", f->directory);
    options.index_directory = here;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    close_tier(f);
    (void)snprintf(young, sizeof(young), "%s", below(f, "temporary/00000000000000aa-1"));
    (void)snprintf(old, sizeof(old), "%s", below(f, "temporary/00000000000000aa-2"));
    write_new(young, "x", 1);
    write_new(old, "x", 1);
    assert_int_equal(hth_fs_set_mtime(hth_fs_system(), old, hth_os_unix_seconds() - 2 * 86400), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_int_equal(access(young, F_OK), 0);
    assert_int_equal(access(old, F_OK), -1);
}

static void short_reads_and_writes_are_no_matter(void **state)
{
    fixture *f = *state;

    f->step.short_io = true;
    publish_and_replace(f);
}

/* ---- every call fails in turn ---- */

/*
 * One error at each step of publishing, in turn, until the publish goes through untouched. Whatever happens: a status,
 * no half-written row, no temporary file once the tier was opened again, and the same row can be published afterwards.
 */
static void publish_with_each_step_failing(fixture *f, int errnum, bool from_then_on)
{
    uint64_t n_last = 0, n_evicted = 0; /* rows that went because a device had no room for another one */

    for (uint64_t n = 1;; n++) {
        test_row row = test_row_make((uint32_t)n, 0, PAYLOAD_BYTES);
        hth_file_tier_counts counts;
        hearth_error err = { .message = "" };
        hearth_status status;
        bool published = false;
        buffer b = { .bytes = NULL };

        open_tier(f);
        atomic_store(&f->step.n_steps, 0);
        f->step.fail_errnum = errnum;
        f->step.fail_from_then_on = from_then_on;
        atomic_store(&f->step.fail_at, n);
        status = hth_file_tier_publish(f->tier, &row.meta, row.bytes, row.n_bytes, &published, &err);
        n_last = atomic_load(&f->step.n_steps);
        atomic_store(&f->step.fail_at, 0);
        if (status != HEARTH_OK)
            assert_true(err.message[0] != '\0');
        if (read_row(f, &row.meta.id, &b) == HEARTH_OK)
            assert_true(test_row_verifies(&row.meta.id, b.bytes, b.n_bytes));
        free(b.bytes);
        hth_file_tier_maintain(f->tier);
        assert_int_equal(publish(f, &row, &published), HEARTH_OK);
        assert_reads_back(f, &row);
        test_row_free(&row);
        hth_file_tier_counts_get(f->tier, &counts);
        n_evicted += counts.rows_evicted;
        assert_true(n_evicted == 0 || errnum == ENOSPC);
        assert_int_equal(index_rows(f), n - n_evicted);
        close_tier(f);
        open_tier(f);
        assert_int_equal(n_files(f, "temporary"), 0);
        assert_int_equal(n_files(f, "rows"), n - n_evicted);
        close_tier(f);
        if (n_last < n)
            break;
        assert_true(n < 200);
    }
    assert_true(n_last > 8);
}

static void an_error_at_any_step_of_publishing_leaves_nothing_half_done(void **state)
{
    fixture *f = *state;
    const int errnums[] = { EIO, ENOSPC, EACCES, ENOMEM, EINTR };

    for (size_t i = 0; i < sizeof(errnums) / sizeof(errnums[0]); i++) {
        (void)snprintf(f->cache, sizeof(f->cache), "%s/once-%d", f->directory, errnums[i]);
        publish_with_each_step_failing(f, errnums[i], false);
    }
}

static void a_device_that_fails_for_good_leaves_nothing_half_done(void **state)
{
    fixture *f = *state;
    const int errnums[] = { EIO, ENOSPC, EROFS };

    for (size_t i = 0; i < sizeof(errnums) / sizeof(errnums[0]); i++) {
        (void)snprintf(f->cache, sizeof(f->cache), "%s/all-%d", f->directory, errnums[i]);
        publish_with_each_step_failing(f, errnums[i], true);
    }
}

static void an_error_at_any_step_with_temporary_names_leaves_nothing_half_done(void **state)
{
    fixture *f = *state;

    f->step.no_unnamed = true;
    (void)snprintf(f->cache, sizeof(f->cache), "%s/link", f->directory);
    publish_with_each_step_failing(f, EIO, false);
    f->step.no_link = true;
    (void)snprintf(f->cache, sizeof(f->cache), "%s/rename", f->directory);
    publish_with_each_step_failing(f, EIO, false);
}

static void an_error_at_any_step_of_opening_is_a_status_or_no_matter(void **state)
{
    fixture *f = *state;
    const int errnums[] = { EIO, ENOSPC, EACCES, EINTR };

    for (size_t i = 0; i < sizeof(errnums) / sizeof(errnums[0]); i++) {
        for (uint64_t n = 1; n < 60; n++) {
            hth_file_tier_options options = options_of(f);
            hearth_error err = { .message = "" };
            hearth_status status;

            (void)snprintf(f->cache, sizeof(f->cache), "%s/open-%d-%u", f->directory, errnums[i], (unsigned)n);
            atomic_store(&f->step.n_steps, 0);
            f->step.fail_errnum = errnums[i];
            atomic_store(&f->step.fail_at, n);
            status = hth_file_tier_open(&options, &f->tier, &err);
            if (status == HEARTH_OK)
                hth_file_tier_settle(f->tier);
            else
                assert_true(err.message[0] != '\0' && err.status == status);
            atomic_store(&f->step.fail_at, 0);
            close_tier(f);
            open_tier(f);
            hth_file_tier_maintain(f->tier);
            hth_file_tier_settle(f->tier);
            assert_int_equal(index_rows(f), 0);
            close_tier(f);
        }
    }
}

/* ---- many at once ---- */

enum { RACERS = 4, RACE_ROWS = 60 };

typedef struct racer {
    hth_file_tier *tier;
    unsigned n_published;
    bool failed;
} racer;

static void *race(void *context)
{
    racer *r = context;

    for (uint32_t i = 0; i < RACE_ROWS; i++) {
        test_row row = test_row_make(3, i, 200);
        bool published = false;
        buffer b = { .bytes = NULL };
        size_t n;

        if (hth_file_tier_publish(r->tier, &row.meta, row.bytes, row.n_bytes, &published, NULL) != HEARTH_OK)
            r->failed = true;
        r->n_published += published;
        if (hth_file_tier_has(r->tier, &row.meta.id, NULL)) {
            hearth_status status = hth_file_tier_read(r->tier, &row.meta.id, buffer_take, &b, &n, NULL);

            if (status != HEARTH_OK || !test_row_verifies(&row.meta.id, b.bytes, n))
                r->failed = true;
            free(b.bytes);
        }
        hth_file_tier_touch(r->tier, &row.meta.id, 1);
        if (i % 16 == 0)
            hth_file_tier_maintain(r->tier);
        test_row_free(&row);
    }
    return NULL;
}

static void threads_that_publish_the_same_rows_write_each_once(void **state)
{
    fixture *f = *state;
    racer racers[RACERS];
    pthread_t threads[RACERS];
    unsigned n_published = 0;

    for (int i = 0; i < RACERS; i++) {
        racers[i] = (racer){ .tier = f->tier };
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(racers[i].failed);
        n_published += racers[i].n_published;
    }
    assert_int_equal(n_published, RACE_ROWS);
    assert_int_equal(index_rows(f), RACE_ROWS);
    assert_int_equal(n_files(f, "rows"), RACE_ROWS);
}

static void processes_that_publish_the_same_rows_write_each_once(void **state)
{
    fixture *f = *state;
    pid_t children[RACERS];

    for (int i = 0; i < RACERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            racer r = { .failed = false };

            open_tier(f);
            r.tier = f->tier;
            (void)race(&r);
            hth_file_tier_close(f->tier);
            _exit(r.failed ? 1 : 0);
        }
    }
    for (int i = 0; i < RACERS; i++) {
        int status;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    open_tier(f);
    assert_int_equal(index_rows(f), RACE_ROWS);
    assert_int_equal(n_files(f, "rows"), RACE_ROWS);
}

/* ---- the default directory ---- */

static void the_default_directory_follows_the_environment(void **state)
{
    char path[256] = "unchanged";

    (void)state;
    unsetenv("HEARTH_CACHE");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/home/x", 1);
    assert_true(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/home/x/.cache/hearth/kv");
    setenv("XDG_CACHE_HOME", "/var/xdg", 1);
    assert_true(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/var/xdg/hearth/kv");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_true(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/home/x/.cache/hearth/kv");
    setenv("HEARTH_CACHE", "/mnt/kv", 1);
    assert_true(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/mnt/kv");
    assert_false(hth_cache_default_directory(path, 3));
    setenv("HEARTH_CACHE", "", 1);
    unsetenv("HOME");
    assert_false(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/mnt/kv");
}

#define CLOSED(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
#define OPEN(test) cmocka_unit_test_setup_teardown(test, open_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN(a_published_row_is_found_and_reads_back),
        OPEN(rows_outlive_the_tier_and_its_index),
        OPEN(publishing_a_row_that_is_there_writes_nothing),
        OPEN(an_image_that_is_not_the_row_it_is_said_to_be_is_not_written),
        OPEN(rows_without_tokens_are_rows_too),
        OPEN(a_damaged_file_that_has_the_rows_name_is_replaced),
        OPEN(a_sound_file_that_the_index_does_not_know_is_adopted_when_it_is_published),
        OPEN(a_directory_that_has_a_rows_name_is_moved_out_of_the_way),
        OPEN(a_folder_that_was_removed_and_made_again_is_durable_again),
        OPEN(many_rows_are_asked_for_at_once),
        OPEN(a_row_found_by_its_name_is_adopted_by_the_next_maintenance),
        OPEN(a_row_whose_file_was_removed_is_a_miss_and_can_be_published_again),
        OPEN(a_file_of_senseless_size_is_corrupt_and_a_lack_of_memory_is_said),
        OPEN(the_tokens_of_a_row_are_known_without_its_file),
        OPEN(a_row_can_be_removed_once),
        CLOSED(a_full_tier_evicts_the_least_recently_used_leaf),
        CLOSED(a_row_larger_than_the_quota_is_refused_and_evicts_nothing),
        CLOSED(a_quota_that_was_noted_holds_for_those_who_ask_for_it),
        OPEN(a_device_that_is_nearly_full_takes_no_row),
        OPEN(eviction_on_request_leaves_what_fits),
        OPEN(the_order_of_eviction_survives_the_loss_of_the_index),
        OPEN(a_row_that_failed_its_checks_is_set_aside),
        OPEN(the_quarantine_keeps_its_64_newest_files),
        OPEN(foreign_files_are_left_alone_with_one_warning),
        OPEN(a_row_whose_head_is_damaged_is_set_aside_when_the_index_is_made_anew),
        OPEN(a_row_of_another_version_of_the_format_is_left_to_it),
        OPEN(leftover_temporary_files_are_removed_and_files_of_others_are_not),
        OPEN(a_cache_that_was_removed_while_it_is_in_use_begins_anew),
        OPEN(what_is_made_belongs_to_its_owner_only),
        CLOSED(a_directory_that_others_can_write_to_is_refused_with_a_remedy),
        OPEN(a_folder_of_rows_that_others_can_write_to_is_refused),
        CLOSED(a_directory_below_one_where_everybody_renames_is_refused),
        CLOSED(a_directory_of_another_user_is_refused),
        CLOSED(a_read_only_file_system_is_a_permission_with_a_remedy),
        OPEN(two_tiers_of_one_process_share_a_directory),
        CLOSED(without_a_working_index_everything_goes_on_by_names),
        CLOSED(the_quota_holds_without_an_index_too),
        CLOSED(rows_are_published_where_there_are_no_unnamed_files),
        CLOSED(rows_are_published_where_there_are_no_links),
        CLOSED(a_way_that_does_not_work_here_is_refused_when_it_is_asked_for),
        CLOSED(a_lost_answer_of_the_network_loses_no_row),
        CLOSED(the_index_may_lie_elsewhere),
        CLOSED(a_temporary_file_of_another_machine_is_left_alone_for_a_day),
        CLOSED(short_reads_and_writes_are_no_matter),
        CLOSED(an_error_at_any_step_of_publishing_leaves_nothing_half_done),
        CLOSED(a_device_that_fails_for_good_leaves_nothing_half_done),
        CLOSED(an_error_at_any_step_with_temporary_names_leaves_nothing_half_done),
        CLOSED(an_error_at_any_step_of_opening_is_a_status_or_no_matter),
        OPEN(threads_that_publish_the_same_rows_write_each_once),
        CLOSED(processes_that_publish_the_same_rows_write_each_once),
        cmocka_unit_test(the_default_directory_follows_the_environment),
    };

    const struct {
        const char *name;
        hth_publish_way way;
    } groups[] = {
        { "the best way of naming files", HTH_PUBLISH_PROBED },
        { "files linked by name", HTH_PUBLISH_LINK },
        { "files renamed", HTH_PUBLISH_RENAME },
    };
    int n_failed = 0;

    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        forced_way = groups[i].way;
        n_failed += cmocka_run_group_tests_name(groups[i].name, tests, NULL, NULL);
    }
    return n_failed;
}
