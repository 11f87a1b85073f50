/*
 * power_loss_test.c - the power goes at every step, and what was not synced is lost or torn
 *
 * A table of file operations passes everything on to real files and keeps a model beside them: which bytes of which
 * inode were synced, and which names in which directories. At step n the device stops: every later operation fails.
 * Then another directory is made from the model, as a device might look after the power came back: synced bytes as they
 * were; other files empty, torn or whole; synced names there; others there or not, drawn from a seed. The index is
 * gone, since the boot is another one. The tier is opened there, and
 *
 *   - a final name never refers to bytes that were not synced (checked when the name is given, and afterwards by
 *     reading every file in full),
 *   - a row whose publish succeeded before step n is there, also when everything that may be lost is lost.
 *
 * HTH_SEED replays a run.
 */
#include "support/cmocka_all.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file_tier.h"
#include "rows/row_file.h"
#include "support/made_row.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { INODES_MAX = 256, NAMES_MAX = 256, PATH_BYTES = 1024, IMAGE_BYTES = 9000, ROWS = 3 };

/* ---- the model ---- */

typedef struct inode {
    uint64_t device;
    uint64_t number;
    uint8_t *bytes; /* written so far */
    size_t n_bytes;
    size_t n_synced; /* SIZE_MAX: never synced at all */
    bool is_directory;
} inode;

typedef struct name {
    char path[PATH_BYTES];
    int now;     /* inode that the name has now, -1: none */
    int durable; /* and after a loss of power */
} name;

typedef struct model {
    hth_fs fs;
    char root[PATH_BYTES];
    /* Guards all below: the tier has a thread of its own. */
    pthread_mutex_t lock;
    inode inodes[INODES_MAX];
    int n_inodes;
    name names[NAMES_MAX];
    int n_names;
    unsigned n_violations; /* a final name was given to bytes that were not synced */
} model;

static int inode_of_stat(model *m, const hth_fs_stat *st)
{
    for (int i = m->n_inodes; i-- > 0;) /* the newest first: numbers are used again */
        if (m->inodes[i].device == st->device && m->inodes[i].number == st->inode)
            return i;
    return -1;
}

static int inode_new(model *m, const hth_fs_stat *st)
{
    if (m->n_inodes == INODES_MAX)
        abort();
    m->inodes[m->n_inodes] = (inode){
        .device = st->device,
        .number = st->inode,
        .n_synced = SIZE_MAX,
        .is_directory = st->is_directory,
    };
    return m->n_inodes++;
}

static int inode_of_fd(model *m, int fd)
{
    hth_fs_stat st;

    if (hth_fs_stat_open(hth_fs_system(), fd, &st) != 0)
        abort();
    return inode_of_stat(m, &st);
}

static name *name_of(model *m, const char *path)
{
    for (int i = 0; i < m->n_names; i++)
        if (strcmp(m->names[i].path, path) == 0)
            return &m->names[i];
    if (m->n_names == NAMES_MAX)
        abort();
    (void)snprintf(m->names[m->n_names].path, PATH_BYTES, "%s", path);
    m->names[m->n_names].now = m->names[m->n_names].durable = -1;
    return &m->names[m->n_names++];
}

static bool is_final(const char *path)
{
    return strstr(path, "/rows/") && strstr(path, ".kvc");
}

static void give_name(model *m, const char *path, int number)
{
    const inode *node = &m->inodes[number];

    if (is_final(path) && node->n_synced != node->n_bytes)
        m->n_violations++;
    name_of(m, path)->now = number;
}

static int model_open(void *context, const char *path, hth_fs_mode mode)
{
    model *m = context;
    int fd = hth_fs_system()->open(NULL, path, mode);
    hth_fs_stat st;

    if (fd >= 0 && mode == HTH_FS_CREATE && hth_fs_stat_open(hth_fs_system(), fd, &st) == 0) {
        pthread_mutex_lock(&m->lock);
        give_name(m, path, inode_new(m, &st));
        pthread_mutex_unlock(&m->lock);
    }
    return fd;
}

static int model_open_unnamed(void *context, const char *directory)
{
    model *m = context;
    int fd = hth_fs_system()->open_unnamed(NULL, directory);
    hth_fs_stat st;

    if (fd >= 0 && hth_fs_stat_open(hth_fs_system(), fd, &st) == 0) {
        pthread_mutex_lock(&m->lock);
        (void)inode_new(m, &st);
        pthread_mutex_unlock(&m->lock);
    }
    return fd;
}

static int64_t model_write(void *context, int fd, const void *bytes, size_t n_bytes)
{
    model *m = context;
    int64_t n = hth_fs_system()->write(NULL, fd, bytes, n_bytes);
    int number;

    if (n <= 0)
        return n;
    pthread_mutex_lock(&m->lock);
    number = inode_of_fd(m, fd);
    if (number >= 0) {
        inode *node = &m->inodes[number];

        node->bytes = realloc(node->bytes, node->n_bytes + (size_t)n);
        if (!node->bytes)
            abort();
        memcpy(node->bytes + node->n_bytes, bytes, (size_t)n);
        node->n_bytes += (size_t)n;
    }
    pthread_mutex_unlock(&m->lock);
    return n;
}

static int model_sync_data(void *context, int fd)
{
    model *m = context;
    int number;

    /* The real files need no sync: the model is the device. */
    pthread_mutex_lock(&m->lock);
    number = inode_of_fd(m, fd);
    if (number >= 0)
        m->inodes[number].n_synced = m->inodes[number].n_bytes;
    pthread_mutex_unlock(&m->lock);
    return 0;
}

static int model_sync_directory(void *context, const char *path)
{
    model *m = context;
    size_t n = strlen(path);

    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->n_names; i++)
        if (strncmp(m->names[i].path, path, n) == 0 && m->names[i].path[n] == '/' &&
            !strchr(m->names[i].path + n + 1, '/'))
            m->names[i].durable = m->names[i].now;
    pthread_mutex_unlock(&m->lock);
    return 0;
}

static int model_link_unnamed(void *context, int fd, const char *path)
{
    model *m = context;
    int rc = hth_fs_system()->link_unnamed(NULL, fd, path);

    if (rc == 0) {
        pthread_mutex_lock(&m->lock);
        give_name(m, path, inode_of_fd(m, fd));
        pthread_mutex_unlock(&m->lock);
    }
    return rc;
}

static int model_link(void *context, const char *from, const char *to)
{
    model *m = context;
    int rc = hth_fs_system()->link(NULL, from, to);

    if (rc == 0) {
        pthread_mutex_lock(&m->lock);
        give_name(m, to, name_of(m, from)->now);
        pthread_mutex_unlock(&m->lock);
    }
    return rc;
}

static int model_rename(void *context, const char *from, const char *to)
{
    model *m = context;
    int rc = hth_fs_system()->rename(NULL, from, to);

    if (rc == 0) {
        pthread_mutex_lock(&m->lock);
        if (name_of(m, from)->now >= 0)
            give_name(m, to, name_of(m, from)->now);
        name_of(m, from)->now = -1;
        pthread_mutex_unlock(&m->lock);
    }
    return rc;
}

static int model_remove(void *context, const char *path)
{
    model *m = context;
    int rc = hth_fs_system()->remove(NULL, path);

    if (rc == 0) {
        pthread_mutex_lock(&m->lock);
        name_of(m, path)->now = -1;
        pthread_mutex_unlock(&m->lock);
    }
    return rc;
}

static int model_make_directory(void *context, const char *path)
{
    model *m = context;
    int rc = hth_fs_system()->make_directory(NULL, path);
    hth_fs_stat st;

    if (rc == 0 && hth_fs_stat_path(hth_fs_system(), path, &st) == 0) {
        pthread_mutex_lock(&m->lock);
        name_of(m, path)->now = inode_new(m, &st);
        pthread_mutex_unlock(&m->lock);
    }
    return rc;
}

static void model_init(model *m, const char *root)
{
    memset(m, 0, sizeof(*m));
    pthread_mutex_init(&m->lock, NULL);
    (void)snprintf(m->root, sizeof(m->root), "%s", root);
    m->fs = *hth_fs_system();
    m->fs.context = m;
    m->fs.open = model_open;
    m->fs.open_unnamed = model_open_unnamed;
    m->fs.write = model_write;
    m->fs.sync_data = model_sync_data;
    m->fs.sync_directory = model_sync_directory;
    m->fs.link_unnamed = model_link_unnamed;
    m->fs.link = model_link;
    m->fs.rename = model_rename;
    m->fs.remove = model_remove;
    m->fs.make_directory = model_make_directory;
}

static void model_deinit(model *m)
{
    for (int i = 0; i < m->n_inodes; i++)
        free(m->inodes[i].bytes);
    pthread_mutex_destroy(&m->lock);
}

/* ---- after the loss ---- */

typedef enum loss { LOSE_ALL, LOSE_SOME } loss;

static void write_survivor(const inode *node, const char *path, loss how, uint64_t *random)
{
    size_t n_synced = node->n_synced == SIZE_MAX ? 0 : node->n_synced;
    size_t n_rest = node->n_bytes - n_synced;
    FILE *file = fopen(path, "w");

    if (!file)
        return; /* its directory was lost */
    if (n_synced > 0)
        assert_int_equal(fwrite(node->bytes, 1, n_synced, file), n_synced);
    if (how == LOSE_SOME && n_rest > 0) {
        size_t n_kept = (size_t)hth_test_random(random, n_rest + 1);

        /* Torn: some of the bytes, then the length without the bytes. */
        assert_int_equal(fwrite(node->bytes + n_synced, 1, n_kept, file), n_kept);
        if (hth_test_random(random, 2) == 0)
            for (size_t i = n_kept; i < n_rest; i++)
                assert_true(fputc(0, file) == 0);
    }
    assert_int_equal(fclose(file), 0);
}

/* Make the directory tree as the device may have it after the loss. Names were noted parents first. */
static void restore(const model *m, const char *root, loss how, uint64_t *random)
{
    for (int i = 0; i < m->n_names; i++) {
        const name *entry = &m->names[i];
        char path[2 * PATH_BYTES];
        int number = entry->durable;

        if (how == LOSE_SOME && entry->now != entry->durable && hth_test_random(random, 2) == 0)
            number = entry->now;
        if (number < 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s%s", root, entry->path + strlen(m->root));
        if (m->inodes[number].is_directory)
            (void)mkdir(path, 0700); /* not when the one above was lost */
        else
            write_survivor(&m->inodes[number], path, how, random);
    }
}

static uint8_t *take_buffer(size_t n_bytes, void *user_data)
{
    uint8_t **bytes = user_data;

    return *bytes = malloc(n_bytes);
}

/* Open the tier after the loss; every visible row must verify, and those of done[] must be there. */
static void check_restored(const char *cache, const test_row *rows, const bool *done)
{
    hth_file_tier_options options = { .directory = cache, .bytes_max = UINT64_C(1) << 30 };
    hth_file_tier *tier = NULL;
    hth_index_totals totals;
    uint64_t n_found = 0;

    assert_int_equal(hth_file_tier_open(&options, &tier, NULL), HEARTH_OK);
    hth_file_tier_settle(tier);
    for (int i = 0; i < ROWS; i++) {
        uint8_t *bytes = NULL;
        size_t n = 0;
        char path[4096];

        assert_true(hth_file_tier_path(tier, &rows[i].meta.id, path, sizeof(path)));
        if (access(path, F_OK) == 0) {
            n_found++;
            assert_true(hth_file_tier_has(tier, &rows[i].meta.id, NULL));
            assert_int_equal(hth_file_tier_read(tier, &rows[i].meta.id, take_buffer, &bytes, &n, NULL), HEARTH_OK);
            assert_true(test_row_verifies(&rows[i].meta.id, bytes, n));
            free(bytes);
        }
        assert_true(!done[i] || n > 0);
    }
    assert_int_equal(hth_index_totals_get(hth_file_tier_index(tier), &totals, NULL), HEARTH_OK);
    assert_int_equal(totals.rows, n_found);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(hth_file_tier_publish(tier, &rows[i].meta, rows[i].bytes, rows[i].n_bytes, NULL, NULL),
                         HEARTH_OK);
    hth_file_tier_close(tier);
}

/* ---- one run up to step n ---- */

typedef struct way {
    bool no_unnamed;
    bool no_link;
    bool damaged_before; /* the first row's name is taken by a file that is no row */
    bool takes_away;     /* rows that are durable are evicted and set aside, and written again by a second opening */
} way;

static void put_damaged_file(const model *m, hth_file_tier *tier, const test_row *row)
{
    char path[4096], folder[4096];
    FILE *file;

    assert_true(hth_file_tier_path(tier, &row->meta.id, path, sizeof(path)));
    (void)snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    (void)hth_fs_make_directory(&m->fs, folder);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("no row", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void publish_rows(hth_file_tier *tier, const test_row *rows, bool *done)
{
    for (int i = 0; i < ROWS; i++)
        done[i] = hth_file_tier_publish(tier, &rows[i].meta, rows[i].bytes, rows[i].n_bytes, NULL, NULL) == HEARTH_OK;
}

/* Evict all but the first row, set that aside, open the tier again and write all once more. */
static void take_away_and_begin_anew(const hth_file_tier_options *options, hth_file_tier **tier, const test_row *rows,
                                     bool *done)
{
    done[1] = done[2] = false;
    (void)hth_file_tier_evict_to(*tier, rows[0].n_bytes, NULL, NULL); /* from some step on it fails */
    done[0] = false;
    hth_file_tier_quarantine(*tier, &rows[0].meta.id, "test");
    hth_file_tier_close(*tier);
    *tier = NULL;
    if (hth_file_tier_open(options, tier, NULL) != HEARTH_OK)
        return;
    hth_file_tier_settle(*tier);
    publish_rows(*tier, rows, done);
}

/* Open and publish until the device stops at step n; true when it never did. */
static bool run_until(model *m, const char *cache, const way *w, uint64_t n, const test_row *rows, bool *done)
{
    test_step_fs step;
    hth_file_tier_options options = {
        .directory = cache,
        .bytes_max = UINT64_C(1) << 30,
        .durable = true,
        .fs = &step.fs,
    };
    hth_file_tier *tier = NULL;
    uint64_t n_steps;

    test_step_fs_init(&step, &m->fs);
    step.no_unnamed = w->no_unnamed;
    step.no_link = w->no_link;
    step.fail_errnum = EIO;
    step.fail_from_then_on = true;
    atomic_store(&step.fail_at, n);
    if (hth_file_tier_open(&options, &tier, NULL) == HEARTH_OK) {
        hth_file_tier_settle(tier);
        if (w->damaged_before)
            put_damaged_file(m, tier, &rows[0]);
        publish_rows(tier, rows, done);
        if (w->takes_away)
            take_away_and_begin_anew(&options, &tier, rows, done);
    }
    n_steps = atomic_load(&step.n_steps);
    if (n_steps < n)
        atomic_store(&step.fail_at, n_steps + 1); /* the power goes now: closing removes nothing */
    hth_file_tier_close(tier);
    return n_steps < n;
}

static void lose_power_at_every_step(const way *w)
{
    uint64_t random = hth_test_seed();
    test_row rows[ROWS] = {
        test_row_make(1, 0, IMAGE_BYTES),
        test_row_make(1, 1, IMAGE_BYTES),
        test_row_make_logits(1, 1, 100),
    };
    bool finished = false;
    uint64_t n;

    for (n = 1; !finished; n++) {
        for (int attempt = 0; attempt < 3; attempt++) {
            char *before = hth_test_directory_new(), *after = hth_test_directory_new();
            char cache[PATH_BYTES];
            bool done[ROWS] = { false };
            model m;

            model_init(&m, before);
            (void)snprintf(cache, sizeof(cache), "%s/kv", before);
            finished = run_until(&m, cache, w, n, rows, done);
            assert_int_equal(m.n_violations, 0);
            restore(&m, after, attempt == 0 ? LOSE_ALL : LOSE_SOME, &random);
            (void)snprintf(cache, sizeof(cache), "%s/kv", after);
            check_restored(cache, rows, done);
            model_deinit(&m);
            hth_test_directory_remove(before);
            hth_test_directory_remove(after);
        }
        assert_true(n < 500);
    }
    assert_true(n > 40);
    for (int i = 0; i < ROWS; i++)
        test_row_free(&rows[i]);
}

TEST(a_loss_of_power_leaves_whole_rows_where_files_are_unnamed_until_linked)
{
    lose_power_at_every_step(&(way){ .no_unnamed = false });
}

TEST(a_loss_of_power_leaves_whole_rows_where_files_have_temporary_names)
{
    lose_power_at_every_step(&(way){ .no_unnamed = true });
}

TEST(a_loss_of_power_leaves_whole_rows_where_there_are_no_links)
{
    lose_power_at_every_step(&(way){ .no_unnamed = true, .no_link = true });
}

TEST(a_loss_of_power_leaves_whole_rows_where_a_damaged_file_is_replaced)
{
    lose_power_at_every_step(&(way){ .damaged_before = true });
}

TEST(a_loss_of_power_leaves_whole_rows_where_rows_are_taken_away_and_written_again)
{
    lose_power_at_every_step(&(way){ .takes_away = true });
}
