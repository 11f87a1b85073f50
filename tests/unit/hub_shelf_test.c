/*
 * hub_shelf_test.c - the layout of the shared cache, and a download that goes on
 */
#include "hub/shelf.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub/partial.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define SHA256 COMMIT "0123456789abcdef01234567"

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

TEST(places_are_those_of_the_ecosystem)
{
    hth_hub_shelf shelf;
    char path[PATH_MAX];
    hearth_error err;

    assert_ok(hth_hub_shelf_init(&shelf, "/c", "Some/Model-8B", &err), err);
    assert_string_equal(shelf.folder, "/c/models--Some--Model-8B");
    assert_true(hth_hub_blob_path(&shelf, SHA256, path));
    assert_string_equal(path, "/c/models--Some--Model-8B/blobs/" SHA256);
    assert_true(hth_hub_snapshot_path(&shelf, COMMIT, "a/b.gguf", path));
    assert_string_equal(path, "/c/models--Some--Model-8B/snapshots/" COMMIT "/a/b.gguf");
    assert_true(hth_hub_lock_path(&shelf, SHA256, path));
    assert_string_equal(path, "/c/.locks/models--Some--Model-8B/" SHA256 ".lock");
}

TEST(a_revision_is_remembered_and_a_commit_is_itself)
{
    char *directory = hth_test_directory_new(), commit[HTH_HUB_COMMIT_BYTES];
    hth_hub_shelf shelf;
    hearth_error err;

    assert_ok(hth_hub_shelf_init(&shelf, directory, "o/r", &err), err);
    assert_false(hth_hub_commit_read(&shelf, "refs/pr/1", commit));
    assert_ok(hth_hub_commit_write(&shelf, "refs/pr/1", COMMIT, &err), err);
    assert_true(hth_hub_commit_read(&shelf, "refs/pr/1", commit));
    assert_string_equal(commit, COMMIT);
    assert_true(hth_hub_commit_read(&shelf, SHA256 + 24, commit)); /* 40 digits */
    assert_false(hth_hub_commit_read(&shelf, "../refs/refs/pr/1", commit));
    hth_test_directory_remove(directory);
}

TEST(a_snapshot_has_the_files_whose_blobs_are_there)
{
    char *directory = hth_test_directory_new(), path[PATH_MAX];
    hth_hub_file whole = { .path = "x/y/a.gguf", .digest = SHA256 }, gone = { .path = "b.gguf", .digest = COMMIT };
    hth_hub_listing listing;
    hth_hub_shelf shelf;
    hearth_error err;

    assert_ok(hth_hub_shelf_init(&shelf, directory, "o/r", &err), err);
    assert_true(hth_hub_blob_path(&shelf, SHA256, path));
    assert_ok(hth_hub_make_folders(path, &err), err);
    write_file(path, "GGUF");
    assert_ok(hth_hub_link(&shelf, COMMIT, &whole, &err), err);
    assert_ok(hth_hub_link(&shelf, COMMIT, &whole, &err), err); /* again */
    assert_ok(hth_hub_link(&shelf, COMMIT, &gone, &err), err);
    assert_ok(hth_hub_snapshot_read(&shelf, COMMIT, &listing, &err), err);
    assert_int_equal(listing.n, 1);
    assert_string_equal(listing.files[0].path, "x/y/a.gguf");
    assert_string_equal(listing.files[0].digest, SHA256);
    assert_int_equal(listing.files[0].bytes, 4);
    hth_hub_listing_deinit(&listing);
    hth_test_directory_remove(directory);
}

TEST(a_partial_blob_knows_its_pieces_again_and_forgets_those_of_another_size)
{
    const uint64_t bytes = 2 * (uint64_t)HTH_HUB_PIECE_BYTES + 3;
    char *directory = hth_test_directory_new(), blob[PATH_MAX], read[3] = "";
    hth_hub_partial partial;
    hearth_error err;
    struct stat st;

    (void)snprintf(blob, sizeof(blob), "%s/blob", directory);
    assert_ok(hth_hub_partial_open(&partial, blob, bytes, "HF_HUB_CACHE", &err), err);
    assert_int_equal(partial.n_pieces, 3);
    assert_int_equal(hth_hub_piece_end(&partial, 2), bytes);
    assert_ok(hth_hub_partial_write(&partial, "abc", 3, bytes - 3, &err), err);
    assert_ok(hth_hub_partial_keep(&partial, 2, &err), err);
    hth_hub_partial_close(&partial);

    assert_ok(hth_hub_partial_open(&partial, blob, bytes, "HF_HUB_CACHE", &err), err);
    assert_false(partial.marks[0]);
    assert_false(partial.marks[1]);
    assert_true(partial.marks[2]);
    assert_ok(hth_hub_partial_read(&partial, read, 3, bytes - 3, &err), err);
    assert_memory_equal(read, "abc", 3);
    hth_hub_partial_close(&partial);

    assert_ok(hth_hub_partial_open(&partial, blob, bytes + 1, "HF_HUB_CACHE", &err), err);
    assert_false(partial.marks[2]);
    assert_ok(hth_hub_partial_finish(&partial, blob, &err), err);
    assert_int_equal(stat(blob, &st), 0);
    assert_int_equal(st.st_size, bytes + 1);
    assert_int_not_equal(access(partial.path, F_OK), 0);
    hth_hub_partial_close(&partial);
    hth_test_directory_remove(directory);
}
