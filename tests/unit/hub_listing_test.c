/*
 * hub_listing_test.c - a hub's answer is read, and refused where it lies
 */
#include "hub/listing.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define SHA256 COMMIT "0123456789abcdef01234567"

static hearth_status read_answer(const char *siblings, hth_hub_listing *out, hearth_error *err)
{
    char text[2048];

    (void)snprintf(text, sizeof(text), "{\"sha\":\"" COMMIT "\",\"siblings\":[%s]}", siblings);
    return hth_hub_listing_read(text, strlen(text), out, err);
}

TEST(files_have_a_path_a_size_and_a_digest)
{
    hth_hub_listing listing;
    hearth_error err = { .message = "" };

    assert_ok(read_answer("{\"rfilename\":\"a/b.gguf\",\"size\":134,\"blobId\":\"" COMMIT "\"},"
                          "{\"rfilename\":\"README.md\"},"
                          "{\"rfilename\":\"c.GGUF\",\"size\":5,\"lfs\":{\"sha256\":\"" SHA256 "\",\"size\":5}}",
                          &listing, &err),
              err);
    assert_string_equal(listing.commit, COMMIT);
    assert_int_equal(listing.n, 2);
    assert_string_equal(listing.files[0].path, "a/b.gguf");
    assert_string_equal(listing.files[0].digest, COMMIT);
    assert_int_equal(listing.files[0].bytes, 134);
    assert_string_equal(listing.files[1].digest, SHA256);
    hth_hub_listing_deinit(&listing);
}

TEST(an_answer_that_cannot_be_true_is_refused)
{
    static const char *const siblings[] = {
        "{\"rfilename\":\"../a.gguf\",\"size\":1,\"lfs\":{\"sha256\":\"" SHA256 "\"}}",
        "{\"rfilename\":\"/a.gguf\",\"size\":1,\"lfs\":{\"sha256\":\"" SHA256 "\"}}",
        "{\"rfilename\":\"a.gguf\",\"size\":1,\"lfs\":{\"sha256\":\"../../" COMMIT "\"}}",
        "{\"rfilename\":\"a.gguf\",\"size\":1}",
        "{\"rfilename\":\"a.gguf\",\"size\":-1,\"lfs\":{\"sha256\":\"" SHA256 "\"}}",
        "{\"rfilename\":\"a.gguf\",\"size\":9223372036854775807,\"lfs\":{\"sha256\":\"" SHA256 "\"}}",
        "{\"rfilename\":\"a.gguf\",\"size\":1,\"lfs\":{\"sha256\":\"" SHA256 "\",\"size\":2}}",
        "{\"rfilename\":\"a.gguf\",\"lfs\":{\"sha256\":\"" SHA256 "\"}}",
        "{\"rfilename\":7}",
        "7",
    };
    hth_hub_listing listing;
    hearth_error err;

    for (size_t i = 0; i < sizeof(siblings) / sizeof(siblings[0]); i++) {
        assert_int_equal(read_answer(siblings[i], &listing, &err), HEARTH_CORRUPT);
        hth_hub_listing_deinit(&listing);
    }
    assert_int_equal(hth_hub_listing_read("<html>", 6, &listing, &err), HEARTH_CORRUPT);
    assert_int_equal(hth_hub_listing_read("{}", 2, &listing, &err), HEARTH_CORRUPT);
}
