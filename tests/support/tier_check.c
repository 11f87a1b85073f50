/*
 * tier_check.c - the folders by readdir, the index by its own functions, and both compared
 */
#include "support/cmocka_all.h"

#include "support/tier_check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "rows/row_file.h"

static void check_file(const test_forest *forest, const char *path, const char *name, test_tier_census *census)
{
    const test_forest_row *row;
    const char *difference;
    struct stat st;
    uint8_t *bytes;
    hth_row_id id;
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    bytes = malloc((size_t)st.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)st.st_size + 1, file), st.st_size);
    assert_int_equal(fclose(file), 0);
    assert_true(hth_row_file_parse_name(name, &id));
    row = test_forest_find(forest, &id);
    assert_non_null(row);
    difference = test_forest_file_difference(row, bytes, (size_t)st.st_size);
    if (difference)
        fail_msg("%s is wrong: %s", path, difference);
    free(bytes);
    census->rows++;
    census->bytes += (uint64_t)st.st_size;
}

static void check_files(const test_forest *forest, const char *directory, test_tier_census *census)
{
    char path[8192];

    for (unsigned folder = 0; folder < 256; folder++) {
        const struct dirent *entry;
        DIR *opened;

        (void)snprintf(path, sizeof(path), "%s/rows/%02x", directory, folder);
        opened = opendir(path);
        while (opened && (entry = readdir(opened))) {
            if (entry->d_name[0] == '.')
                continue;
            (void)snprintf(path, sizeof(path), "%s/rows/%02x/%s", directory, folder, entry->d_name);
            check_file(forest, path, entry->d_name, census);
        }
        if (opened)
            (void)closedir(opened);
    }
}

static size_t count_names(const char *directory, const char *name)
{
    const struct dirent *entry;
    char path[8192];
    DIR *opened;
    size_t n = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    opened = opendir(path);
    assert_non_null(opened);
    while ((entry = readdir(opened)))
        n += entry->d_name[0] != '.';
    (void)closedir(opened);
    return n;
}

static bool has_file(const hth_row_meta *meta, void *user_data)
{
    char path[8192];
    struct stat st;

    test_forest_path(user_data, &meta->id, path, sizeof(path));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, meta->bytes);
    return true;
}

void test_tier_check(const test_forest *forest, const char *directory, test_tier_census *out)
{
    hth_file_tier_options options = { .directory = directory, .bytes_max = UINT64_MAX };
    test_tier_census census = { .rows = 0 };
    hearth_error err = { .message = "" };
    hth_file_tier *tier = NULL;
    hth_index_totals totals;
    hth_row_id orphan;
    size_t n_orphans;

    assert_ok(hth_file_tier_open(&options, &tier, &err), err);
    hth_file_tier_settle(tier);
    assert_ok(hth_file_tiers_verify(&tier, 1, NULL, NULL, &census.verified, &err), err);
    check_files(forest, directory, &census);
    assert_int_equal(hth_index_totals_get(hth_file_tier_index(tier), &totals, NULL), HEARTH_OK);
    assert_true(totals.complete);
    assert_int_equal(totals.rows, census.rows);
    assert_int_equal(totals.bytes, census.bytes);
    assert_int_equal(hth_index_visit(hth_file_tier_index(tier), false, has_file, (void *)directory, NULL), HEARTH_OK);
    assert_int_equal(hth_index_orphans(hth_file_tier_index(tier), &orphan, 1, &n_orphans, NULL), HEARTH_OK);
    assert_int_equal(n_orphans, 0);
    assert_int_equal(count_names(directory, "temporary"), 0);
    assert_int_equal(count_names(directory, "owners"), 1);
    hth_file_tier_close(tier);
    *out = census;
}
