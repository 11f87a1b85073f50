/*
 * publish_test.c - processes are killed at every step of publishing, and nothing half-written is ever seen
 *
 * A child opens the tier, publishes, and kills itself (SIGKILL) before the n-th step: a file operation, half a write,
 * or a point inside or between transactions of the index. n goes through all steps in turn, counted from the opening or
 * from the publish; the way of naming files, the row, the quota, the number of children and the loss of the index are
 * drawn from a seed. After each round the tier is opened again and everything that is visible is checked.
 *
 * HTH_KILLS: how many children are killed, 500 by default. HTH_SEED replays a run.
 */
#include "support/cmocka_all.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/file_tier.h"
#include "rows/row_file.h"
#include "support/made_row.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { CHAINS = 6, CHAIN_ROWS = 5, IMAGE_BYTES = 1500, CHILDREN_MAX = 3, STEPS_MAX = 120 };
enum { EXIT_NOT_NEEDED = 5 }; /* the row was there, or another process was writing it */

typedef struct fixture {
    char *directory;
    uint64_t random;

    /* What was published for certain and not evicted since: it must be there, whatever is killed. */
    bool must_be_there[CHAINS][CHAIN_ROWS];
} fixture;

typedef struct plan {
    uint32_t chain;
    uint32_t row;
    uint64_t kill_at;
    bool from_opening;
    bool no_unnamed;
    bool no_link;
    uint64_t bytes_max;
    bool published; /* the child said so itself */
} plan;

static hth_file_tier_options options_of(const fixture *f, const hth_fs *fs, uint64_t bytes_max)
{
    return (hth_file_tier_options){
        .directory = f->directory,
        .bytes_max = bytes_max,
        .durable = true,
        .fs = fs,
    };
}

/* ---- the child ---- */

static void run_child(const fixture *f, const plan *p)
{
    test_step_fs step = { .fs = { 0 } };
    hth_file_tier_options options = options_of(f, &step.fs, p->bytes_max);
    hearth_status status;
    hth_file_tier *tier;
    bool published = false;
    test_row row = test_row_make(p->chain, p->row, IMAGE_BYTES);

    test_step_fs_init(&step, NULL);
    step.no_unnamed = p->no_unnamed;
    step.no_link = p->no_link;
    if (p->from_opening)
        step.kill_at = p->kill_at;
    if (hth_file_tier_open(&options, &tier, NULL) != HEARTH_OK)
        _exit(3);
    hth_file_tier_settle(tier);
    if (!p->from_opening) {
        atomic_store(&step.n_steps, 0);
        step.kill_at = p->kill_at;
    }
    status = hth_file_tier_publish(tier, &row.meta, row.bytes, row.n_bytes, &published, NULL);
    hth_file_tier_touch(tier, &row.meta.id, 1);
    hth_file_tier_maintain(tier);
    hth_file_tier_close(tier);
    test_row_free(&row);
    _exit(status != HEARTH_OK ? 4 : published ? 0 : EXIT_NOT_NEEDED);
}

/* ---- what is visible afterwards ---- */

typedef struct census {
    uint64_t rows;
    uint64_t bytes;
} census;

static uint8_t *read_file(const char *path, size_t *n_out)
{
    struct stat st;
    uint8_t *bytes;
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    bytes = malloc((size_t)st.st_size + 1);
    assert_non_null(bytes);
    *n_out = fread(bytes, 1, (size_t)st.st_size + 1, file);
    assert_int_equal(*n_out, st.st_size);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

/* Every file in the rows folder is a whole row of its name. */
static census check_files(const fixture *f)
{
    census c = { .rows = 0 };
    char path[8192];

    for (unsigned folder = 0; folder < 256; folder++) {
        const struct dirent *entry;
        DIR *directory;

        (void)snprintf(path, sizeof(path), "%s/rows/%02x", f->directory, folder);
        directory = opendir(path);
        while (directory && (entry = readdir(directory))) {
            hth_row_id id;
            uint8_t *bytes;
            size_t n;

            if (entry->d_name[0] == '.')
                continue;
            assert_true(hth_row_file_parse_name(entry->d_name, &id));
            (void)snprintf(path, sizeof(path), "%s/rows/%02x/%s", f->directory, folder, entry->d_name);
            bytes = read_file(path, &n);
            assert_true(test_row_verifies(&id, bytes, n));
            free(bytes);
            c.rows++;
            c.bytes += n;
        }
        if (directory)
            (void)closedir(directory);
    }
    return c;
}

static size_t count_names(const fixture *f, const char *name)
{
    const struct dirent *entry;
    char path[8192];
    DIR *directory;
    size_t n = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", f->directory, name);
    directory = opendir(path);
    assert_non_null(directory);
    while ((entry = readdir(directory)))
        n += entry->d_name[0] != '.';
    (void)closedir(directory);
    return n;
}

static bool has_file(const hth_row_meta *meta, void *user_data)
{
    const fixture *f = user_data;
    char rows[4096], path[8192];
    struct stat st;

    (void)snprintf(rows, sizeof(rows), "%s/rows", f->directory);
    assert_true(hth_row_file_path(rows, &meta->id, path, sizeof(path)));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, meta->bytes);
    return true;
}

static uint8_t *take_buffer(size_t n_bytes, void *user_data)
{
    uint8_t **bytes = user_data;

    return *bytes = malloc(n_bytes);
}

static void check_totals(fixture *f, hth_file_tier *tier)
{
    census files = check_files(f);
    hth_index_totals totals;

    assert_int_equal(hth_index_totals_get(hth_file_tier_index(tier), &totals, NULL), HEARTH_OK);
    assert_true(totals.complete);
    assert_int_equal(totals.rows, files.rows);
    assert_int_equal(totals.bytes, files.bytes);
    assert_int_equal(hth_index_visit(hth_file_tier_index(tier), false, has_file, f, NULL), HEARTH_OK);
}

/* Open again, check everything, and publish what the children wanted to. */
static void check_after(fixture *f, const plan *plans, unsigned n_plans)
{
    hth_file_tier_options options = options_of(f, NULL, UINT64_C(1) << 30);
    hth_file_tier *tier = NULL;
    hearth_error err = { .message = "" };

    assert_ok(hth_file_tier_open(&options, &tier, &err), err);
    hth_file_tier_settle(tier);
    check_totals(f, tier);
    for (uint32_t chain = 0; chain < CHAINS; chain++)
        for (uint32_t i = 0; i < CHAIN_ROWS; i++) {
            test_row row = test_row_make(chain, i, IMAGE_BYTES);

            if (f->must_be_there[chain][i])
                assert_true(hth_file_tier_has(tier, &row.meta.id, NULL));
            test_row_free(&row);
        }
    assert_int_equal(count_names(f, "temporary"), 0);
    assert_int_equal(count_names(f, "owners"), 1);
    assert_int_equal(count_names(f, "quarantine"), 0);
    for (unsigned i = 0; i < n_plans; i++) {
        test_row row = test_row_make(plans[i].chain, plans[i].row, IMAGE_BYTES);
        uint8_t *bytes = NULL;
        size_t n = 0;

        assert_int_equal(hth_file_tier_publish(tier, &row.meta, row.bytes, row.n_bytes, NULL, NULL), HEARTH_OK);
        assert_true(hth_file_tier_has(tier, &row.meta.id, NULL));
        assert_int_equal(hth_file_tier_read(tier, &row.meta.id, take_buffer, &bytes, &n, NULL), HEARTH_OK);
        assert_true(test_row_verifies(&row.meta.id, bytes, n));
        free(bytes);
        test_row_free(&row);
        f->must_be_there[plans[i].chain][plans[i].row] = true;
    }
    check_totals(f, tier);
    if (hth_test_random(&f->random, 4) == 0) { /* make room, so that the next rounds have something to write */
        assert_int_equal(hth_file_tier_evict_to(tier, 6 * IMAGE_BYTES, NULL, NULL), HEARTH_OK);
        memset(f->must_be_there, 0, sizeof(f->must_be_there));
    }
    hth_file_tier_close(tier);
}

/* ---- rounds ---- */

/* A reservation is for one process: no two of those that ended well have written the same row. */
static void check_published_once(const plan *plans, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < i; k++)
            if (plans[i].chain == plans[k].chain && plans[i].row == plans[k].row)
                assert_false(plans[i].published && plans[k].published);
}

static plan draw_plan(fixture *f, uint64_t kill_at)
{
    plan p = {
        .chain = (uint32_t)hth_test_random(&f->random, CHAINS),
        .row = (uint32_t)hth_test_random(&f->random, CHAIN_ROWS),
        .kill_at = kill_at,
        .from_opening = hth_test_random(&f->random, 3) == 0,
        .bytes_max = hth_test_random(&f->random, 4) == 0 ? 8 * IMAGE_BYTES : UINT64_C(1) << 30,
    };

    p.no_unnamed = hth_test_random(&f->random, 2) == 0;
    p.no_link = p.no_unnamed && hth_test_random(&f->random, 2) == 0;
    return p;
}

static void lose_index(const fixture *f)
{
    char command[8192];

    (void)snprintf(command, sizeof(command), "rm -rf %s/index", f->directory);
    assert_int_equal(system(command), 0);
}

TEST(a_kill_at_any_step_of_publishing_leaves_whole_rows_only)
{
    uint64_t n_kills_wanted = hth_test_number("HTH_KILLS", 500), n_kills = 0, n_rounds = 0, step = 0;
    fixture f = { .directory = hth_test_directory_new(), .random = hth_test_seed() };

    while (n_kills < n_kills_wanted) {
        unsigned n_children = hth_test_random(&f.random, 4) == 0 ? CHILDREN_MAX : 1;
        plan plans[CHILDREN_MAX];
        pid_t children[CHILDREN_MAX];
        bool same_row = hth_test_random(&f.random, 2) == 0;
        bool may_have_evicted = false;

        step++;
        for (unsigned i = 0; i < n_children; i++) {
            plans[i] = draw_plan(&f, i == 0 ? step : 1 + hth_test_random(&f.random, STEPS_MAX));
            if (same_row) {
                plans[i].chain = plans[0].chain;
                plans[i].row = plans[0].row;
            }
        }
        for (unsigned i = 0; i < n_children; i++) {
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (children[i] == 0)
                run_child(&f, &plans[i]);
        }
        for (unsigned i = 0; i < n_children; i++) {
            int status;

            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            if (WIFSIGNALED(status)) {
                assert_int_equal(WTERMSIG(status), SIGKILL);
                n_kills++;
            } else if (WEXITSTATUS(status) == 4) {
                /* With a small quota a row may not fit while others are being removed. */
                assert_true(plans[i].bytes_max < UINT64_C(1) << 30);
            } else {
                plans[i].published = WEXITSTATUS(status) == 0;
                if (!plans[i].published)
                    assert_int_equal(WEXITSTATUS(status), EXIT_NOT_NEEDED);
            }
            if (plans[i].bytes_max < UINT64_C(1) << 30)
                may_have_evicted = true;
        }
        if (step >= STEPS_MAX)
            step = 0; /* all steps were gone through: begin again */
        if (!may_have_evicted)
            check_published_once(plans, n_children);
        for (unsigned i = 0; i < n_children; i++)
            if (plans[i].published)
                f.must_be_there[plans[i].chain][plans[i].row] = true;
        if (may_have_evicted)
            memset(f.must_be_there, 0, sizeof(f.must_be_there));
        if (hth_test_random(&f.random, 10) == 0)
            lose_index(&f);
        check_after(&f, plans, n_children);
        n_rounds++;
    }
    printf("%llu kills in %llu rounds\n", (unsigned long long)n_kills, (unsigned long long)n_rounds);
    hth_test_directory_remove(f.directory);
}
