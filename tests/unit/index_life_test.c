/*
 * index_life_test.c - an index that is opened again, damaged, replaced, or used by several processes
 */
#include "support/index_scene.h"

/* ---- life ---- */

IN_FIXTURE(an_index_stays_what_it_was_when_it_is_opened_again)
{
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0);
    bool rebuild = true;
    uint64_t quota = 0;

    publish(index, &meta);
    assert_int_equal(hth_index_set_quota(index, 12345, NULL), HEARTH_OK);
    hth_index_close(index);
    index = open_boot(f, NULL, &rebuild);
    assert_false(rebuild);
    assert_true(has(index, &meta));
    assert_int_equal(hth_index_quota(index, &quota, NULL), HEARTH_OK);
    assert_int_equal(quota, 12345);
    hth_index_close(index);
}

IN_FIXTURE(an_index_of_another_boot_is_made_anew)
{
    bool rebuild = false;
    hth_index *index = open_boot(f, "boot-1", &rebuild);
    hth_row_meta meta = row_at(1, 0);
    char path[8192];

    publish(index, &meta);
    assert_int_equal(hth_index_rebuilt(index, NULL), HEARTH_OK);
    hth_index_close(index);
    index = open_boot(f, "boot-2", &rebuild);
    assert_true(rebuild);
    assert_false(has(index, &meta));
    hth_index_close(index);
    (void)snprintf(path, sizeof(path), "%s/v3-boot-1", f->index);
    assert_int_equal(access(path, F_OK), -1);
}

IN_FIXTURE(a_rebuild_that_was_not_finished_is_given_to_the_next_who_opens)
{
    bool rebuild = false;
    hth_index *index = open_boot(f, NULL, &rebuild), *second;

    assert_true(rebuild);
    second = open_boot(f, NULL, &rebuild);
    assert_false(rebuild); /* somebody is at it */
    hth_index_close(second);
    hth_index_close(index);
    index = open_boot(f, NULL, &rebuild);
    assert_true(rebuild);
    assert_int_equal(hth_index_rebuilt(index, NULL), HEARTH_OK);
    assert_false(hth_index_maintain(index));
    hth_index_close(index);
}

IN_FIXTURE(a_second_open_in_one_process_shares_the_first)
{
    hth_index *first = open_complete(f), *second = open_complete(f);
    hth_row_meta meta = row_at(1, 0);

    assert_ptr_equal(first, second);
    hth_index_close(first);
    publish(second, &meta);
    assert_true(has(second, &meta));
    hth_index_close(second);
}

/* Overwrite n_bytes of the data file at offset with noise. */
static void damage(const fixture *f, off_t offset, size_t n_bytes)
{
    char command[9000], path[8192];
    uint8_t noise[65536];
    FILE *found;
    int fd;

    (void)snprintf(command, sizeof(command), "ls -d %s/v3-*", f->index);
    found = popen(command, "r");
    assert_non_null(found);
    assert_non_null(fgets(path, sizeof(path) - 16, found));
    (void)pclose(found);
    path[strcspn(path, "\n")] = '\0';
    strcat(path, "/data.mdb");
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_true(n_bytes <= sizeof(noise));
    hth_os_random(noise, n_bytes);
    assert_int_equal(pwrite(fd, noise, n_bytes, offset), n_bytes);
    close(fd);
}

IN_FIXTURE(an_index_with_damaged_meta_pages_is_made_anew_with_no_loss_but_its_rows)
{
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0);
    bool rebuild = false;

    publish(index, &meta);
    hth_index_close(index);
    damage(f, 0, 16384);
    index = open_boot(f, NULL, &rebuild);
    assert_true(rebuild);
    assert_false(has(index, &meta));
    publish(index, &meta);
    assert_true(has(index, &meta));
    hth_index_close(index);
}

static void use_damaged(fixture *f)
{
    hth_row_meta meta = row_at(1, 50), found[4];
    hth_index *index;
    bool is_there;
    size_t n;

    /* LMDB may end the process at any of these; what matters is that it does not do so for ever. */
    (void)freopen("/dev/null", "w", stderr);
    index = open_boot(f, NULL, NULL);
    (void)hth_index_get(index, &meta.id, found, &is_there, NULL);
    (void)hth_index_children(index, &meta.parent, found, 4, &n, NULL);
    (void)test_index_publish(index, &meta, 1);
    (void)hth_index_maintain(index);
    hth_index_close(index);
}

IN_FIXTURE(an_index_full_of_noise_is_given_up_after_a_few_crashes_at_most)
{
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0), rows[200];

    for (uint32_t i = 0; i < 200; i++)
        rows[i] = row_at(1, i);
    assert_int_equal(test_index_publish(index, rows, 200), HEARTH_OK);
    hth_index_close(index);
    damage(f, 8192, 49152); /* all but the two meta pages */
    for (int i = 0; i < 4; i++)
        in_child(f, use_damaged);

    index = open_complete(f);
    (void)hth_index_maintain(index);
    publish(index, &meta);
    assert_true(has(index, &meta));
    hth_index_close(index);
}

/* Pages full of zeros: what a lengthened or torn file has. */
static void zero_pages(const fixture *f, off_t from)
{
    char command[9000];

    (void)snprintf(command, sizeof(command), "truncate -s %ld %s/v3-*/data.mdb", (long)from, f->index);
    assert_int_equal(system(command), 0);
}

static hth_index *open_with_log(fixture *f, const hth_log *log)
{
    hth_index_options options = { .directory = f->index, .owners_directory = f->owners, .log = log };
    hth_index *index = NULL;

    assert_int_equal(hth_index_open(&options, &index, NULL, NULL), HEARTH_OK);
    return index;
}

static void leave(hth_index *index, const hth_log *log)
{
    hth_index_forget_log(index, log);
    hth_index_close(index);
}

/* Put a folder into the place of the environment's file, or take it away. */
static void obstruct(const fixture *f, bool with_a_folder)
{
    char command[9000];

    (void)snprintf(command, sizeof(command),
                   with_a_folder ? "cd %s && d=$(ls -d v3-*) && rm -r $d && mkdir -p $d/data.mdb"
                                 : "cd %s && rm -r v3-*",
                   f->index);
    assert_int_equal(system(command), 0);
}

static void *maintain(void *index)
{
    (void)hth_index_maintain(index);
    return NULL;
}

/* The thread sanitizer checks the second half. */
IN_FIXTURE(users_of_a_shared_index_hear_of_it_until_they_leave)
{
    fixture other = { .n_warnings = 0 };
    hth_log log = { .level = HEARTH_LOG_WARNING, .write = count_warning, .user_data = &other };
    hth_index *first = open_with_log(f, &f->log), *second = open_with_log(f, &log);
    unsigned n_warnings;
    pthread_t thread;

    leave(second, &log);
    obstruct(f, true);
    (void)maintain(first);
    assert_int_equal(other.n_warnings, 0);
    assert_true(f->n_warnings > 0);

    second = open_with_log(f, &log);
    obstruct(f, false);
    (void)maintain(second);
    obstruct(f, true);
    assert_int_equal(pthread_create(&thread, NULL, maintain, second), 0);
    leave(first, &f->log);
    n_warnings = f->n_warnings;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(f->n_warnings, n_warnings);

    obstruct(f, false);
    (void)maintain(second);
    n_warnings = other.n_warnings;
    obstruct(f, true);
    (void)maintain(second);
    assert_true(other.n_warnings > n_warnings);
    leave(second, &log);
}

IN_FIXTURE(an_index_that_lost_its_end_is_replaced_at_the_first_sign_of_damage)
{
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0), rows[100];
    bool rebuild, found;
    hth_index_totals totals;
    hearth_status status;

    for (uint32_t i = 0; i < 100; i++)
        rows[i] = row_at(2, i);
    assert_int_equal(test_index_publish(index, rows, 100), HEARTH_OK);
    hth_index_close(index);
    zero_pages(f, 8192); /* only the two meta pages are left */

    index = open_boot(f, NULL, &rebuild);
    status = hth_index_get(index, &meta.id, NULL, &found, NULL);
    assert_true(status == HEARTH_OK || status == HEARTH_CORRUPT || status == HEARTH_IO);
    if (!rebuild)
        rebuild = hth_index_maintain(index);
    assert_true(rebuild);
    assert_true(f->n_warnings <= 1);
    publish(index, &meta);
    assert_int_equal(hth_index_totals_get(index, &totals, NULL), HEARTH_OK);
    assert_int_equal(totals.rows, 1);
    hth_index_close(index);
}

/* Cut a file of the environment under open users of it. Each access behind its end would end this process. */
static void cut_in_use(fixture *f, const char *size)
{
    hth_index *index = open_complete(f);
    hth_row_meta rows[500];
    char command[9000];
    bool found;

    for (uint32_t i = 0; i < 500; i++)
        rows[i] = row_at(3, i);
    assert_int_equal(test_index_publish(index, rows, 500), HEARTH_OK);
    assert_true(has(index, &rows[499]));
    (void)snprintf(command, sizeof(command), "cd %s/v3-* && truncate -s %s", f->index, size);
    f->n_warnings = 0;
    assert_int_equal(system(command), 0);
    for (uint32_t i = 0; i < 500; i++) /* a lookup without an index goes on by file names */
        assert_int_not_equal(hth_index_get(index, &rows[i].id, NULL, &found, NULL), HEARTH_OK);
    assert_int_equal(f->n_warnings, 1);
    assert_true(hth_index_maintain(index));
    assert_int_equal(test_index_publish(index, rows, 500), HEARTH_OK);
    assert_int_equal(hth_index_rebuilt(index, NULL), HEARTH_OK);
    for (uint32_t i = 0; i < 500; i++)
        assert_true(has(index, &rows[i]));
    hth_index_close(index);
}

IN_FIXTURE(a_file_that_is_cut_while_it_is_open_is_made_anew)
{
    cut_in_use(f, "0 data.mdb");
    cut_in_use(f, "1 data.mdb");
    cut_in_use(f, "4096 data.mdb");
    cut_in_use(f, "8192 data.mdb"); /* the two meta pages */
    cut_in_use(f, "8193 data.mdb");
    cut_in_use(f, "16384 data.mdb");
    cut_in_use(f, "-4096 data.mdb");
}

IN_FIXTURE(a_lock_file_that_is_cut_while_it_is_open_is_made_anew)
{
    cut_in_use(f, "0 lock.mdb");
    cut_in_use(f, "4096 lock.mdb");
    cut_in_use(f, "-4096 lock.mdb");
}

IN_FIXTURE(a_write_into_a_file_that_was_cut_fails_until_it_is_made_anew)
{
    hth_index *index = open_complete(f);
    hth_row_meta first = row_at(1, 0), second = row_at(2, 0);

    publish(index, &first);
    zero_pages(f, 0);
    assert_int_equal(test_index_publish(index, &second, 1), HEARTH_IO);
    assert_int_equal(f->n_warnings, 1);
    assert_true(hth_index_maintain(index));
    publish(index, &second);
    assert_true(has(index, &second));
    hth_index_close(index);
}

IN_FIXTURE(a_file_in_the_place_of_the_index_leaves_one_warning_and_statuses)
{
    char path[8192], boot[64];
    hth_row_meta meta = row_at(1, 0);
    hth_reserve_result result;
    hth_index *index;
    bool rebuild = true, found;

    assert_int_equal(mkdir(f->index, 0700), 0);
    assert_true(hth_os_boot_id(boot, sizeof(boot)));
    (void)snprintf(path, sizeof(path), "%s/v3-%s", f->index, boot);
    assert_true(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);

    index = open_boot(f, NULL, &rebuild);
    assert_false(rebuild);
    assert_int_equal(hth_index_get(index, &meta.id, NULL, &found, NULL), HEARTH_IO);
    assert_int_equal(test_index_publish(index, &meta, 1), HEARTH_IO);
    assert_int_equal(hth_index_reserve(index, &meta.id, 60, &result, NULL), HEARTH_IO);
    assert_int_equal(f->n_warnings, 1);
    /* Once the cause is gone, it works. */
    assert_int_equal(unlink(path), 0);
    assert_true(hth_index_maintain(index));
    publish(index, &meta);
    assert_true(has(index, &meta));
    hth_index_close(index);
}

IN_FIXTURE(an_index_that_another_process_replaced_is_followed)
{
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(1, 0);
    char command[9000];

    publish(index, &meta);
    (void)snprintf(command, sizeof(command), "rm -r %s/v3-*", f->index);
    assert_int_equal(system(command), 0);
    assert_true(has(index, &meta)); /* the old one, which is no harm */
    assert_true(hth_index_maintain(index));
    assert_false(has(index, &meta));
    publish(index, &meta);
    assert_true(has(index, &meta));
    hth_index_close(index);
}

static void open_and_die(fixture *f)
{
    hth_index *index = open_complete(f);

    if (index)
        (void)kill(getpid(), SIGKILL);
}

IN_FIXTURE(three_processes_in_a_row_that_die_cost_the_index)
{
    hth_index *index = open_complete(f);
    bool rebuild = false;

    hth_index_close(index);
    in_child(f, open_and_die);
    in_child(f, open_and_die);
    index = open_boot(f, NULL, &rebuild);
    assert_false(rebuild);
    hth_index_close(index); /* a process that ended well begins the count anew */
    in_child(f, open_and_die);
    in_child(f, open_and_die);
    in_child(f, open_and_die);
    index = open_boot(f, NULL, &rebuild);
    assert_true(rebuild);
    hth_index_close(index);
}

static hth_index *index_of_parent;

static void use_index_of_parent(fixture *f)
{
    hth_row_meta meta = row_at(1, 0);
    hth_index *own;
    bool found;

    if (hth_index_get(index_of_parent, &meta.id, NULL, &found, NULL) != HEARTH_MISUSE ||
        test_index_publish(index_of_parent, &meta, 1) != HEARTH_MISUSE || hth_index_maintain(index_of_parent))
        _exit(1);
    own = open_complete(f);
    if (own == index_of_parent || !has(own, &meta))
        _exit(2);
    hth_index_close(own);
    hth_index_close(index_of_parent);
}

IN_FIXTURE(the_child_of_a_fork_cannot_use_its_parents_index_but_opens_its_own)
{
    hth_row_meta meta = row_at(1, 0), other = row_at(1, 1);

    index_of_parent = open_complete(f);
    publish(index_of_parent, &meta);
    in_child(f, use_index_of_parent);
    publish(index_of_parent, &other);
    assert_true(has(index_of_parent, &meta));
    hth_index_close(index_of_parent);
}

/* ---- growth and threads ---- */

enum { GROWTH_BATCHES = 260, GROWTH_BATCH_ROWS = 256 };

static void fill(hth_index *index, uint32_t chain)
{
    hth_row_meta *rows = calloc(GROWTH_BATCH_ROWS, sizeof(*rows));

    assert_non_null(rows);
    for (uint32_t batch = 0; batch < GROWTH_BATCHES; batch++) {
        for (uint32_t i = 0; i < GROWTH_BATCH_ROWS; i++)
            rows[i] = row_at(chain, batch * GROWTH_BATCH_ROWS + i);
        assert_int_equal(test_index_publish(index, rows, GROWTH_BATCH_ROWS), HEARTH_OK);
    }
    free(rows);
}

typedef struct reader {
    hth_index *index;
    _Atomic bool stop;
    size_t n_reads;
} reader;

static void *read_all_the_time(void *context)
{
    reader *r = context;
    hth_row_meta meta = row_at(77, 0), found;

    while (!atomic_load(&r->stop)) {
        bool is_there = false;
        hearth_status status = hth_index_get(r->index, &meta.id, &found, &is_there, NULL);

        if (status != HEARTH_OK || !is_there || found.bytes != meta.bytes)
            break;
        r->n_reads++;
    }
    return r;
}

IN_FIXTURE(the_map_grows_while_other_threads_read)
{
    hth_index *index = open_complete(f);
    hth_row_meta meta = row_at(77, 0);
    reader readers[3];
    pthread_t threads[3];

    publish(index, &meta);
    for (int i = 0; i < 3; i++) {
        readers[i] = (reader){ .index = index };
        assert_int_equal(pthread_create(&threads[i], NULL, read_all_the_time, &readers[i]), 0);
    }
    fill(index, 1);
    for (int i = 0; i < 3; i++) {
        atomic_store(&readers[i].stop, true);
        pthread_join(threads[i], NULL);
        assert_true(readers[i].n_reads > 0);
    }
    assert_true(has(index, &meta));
    assert_int_equal(total_bytes(index), (UINT64_C(1) + GROWTH_BATCHES * GROWTH_BATCH_ROWS) * 1000);
    assert_int_equal(f->n_warnings, 0);
    hth_index_close(index);
}

static void fill_in_child(fixture *f)
{
    hth_index *index = open_complete(f);

    fill(index, 2);
    hth_index_close(index);
}

IN_FIXTURE(a_map_that_another_process_grew_is_grown_here_too)
{
    hth_row_meta meta = row_at(1, 0), theirs = row_at(2, GROWTH_BATCHES * GROWTH_BATCH_ROWS - 1);
    hth_index *index;
    pid_t child;
    int status;

    index = open_complete(f);
    publish(index, &meta);
    child = fork();
    if (child == 0) {
        fill_in_child(f);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(has(index, &theirs)); /* a read takes the new size */
    publish(index, &theirs);          /* so does a write */
    assert_true(has(index, &meta));
    hth_index_close(index);
}

/* ---- owners ---- */

IN_FIXTURE(an_owner_lives_while_its_file_is_locked)
{
    hth_owner *first = NULL, *second = NULL;
    uint64_t token;

    assert_int_equal(hth_owner_open(hth_fs_system(), f->owners, &first, NULL), HEARTH_OK);
    assert_int_equal(hth_owner_open(hth_fs_system(), f->owners, &second, NULL), HEARTH_OK);
    token = hth_owner_token(first);
    assert_true(token != hth_owner_token(second));
    assert_true(hth_owner_lives(second, token));
    assert_true(hth_owner_lives(first, token));
    assert_int_equal(hth_owner_sweep(second), 0);
    hth_owner_close(first);
    assert_false(hth_owner_lives(second, token));
    assert_false(hth_owner_lives(second, 12345));
    hth_owner_close(second);
}

static void die_as_owner(fixture *f)
{
    hth_owner *owner;

    if (hth_owner_open(hth_fs_system(), f->owners, &owner, NULL) == HEARTH_OK)
        (void)kill(getpid(), SIGKILL);
}

IN_FIXTURE(files_of_dead_owners_are_swept)
{
    hth_owner *owner;

    in_child(f, die_as_owner);
    in_child(f, die_as_owner);
    assert_int_equal(hth_owner_open(hth_fs_system(), f->owners, &owner, NULL), HEARTH_OK);
    assert_int_equal(hth_owner_sweep(owner), 2);
    assert_int_equal(hth_owner_sweep(owner), 0);
    hth_owner_close(owner);
}
