/*
 * hub_manifest_test.c - the manifest of a registry's model is read, and refused where it lies
 */
#include "hub/ollama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define LAYER(kind, digest, size) \
    "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"sha256:" digest "\",\"size\":" size "}"
#define CONFIG "{\"digest\":\"sha256:" HEX "c\",\"size\":9}"

static hth_ollama_manifest manifest; /* large */

static hearth_status read_manifest(const char *type, const char *config, const char *layers, hearth_error *err)
{
    char text[4096];

    (void)snprintf(text, sizeof(text), "{\"mediaType\":\"%s\",\"config\":%s,\"layers\":[%s]}", type, config, layers);
    return hth_ollama_manifest_read(text, strlen(text), &manifest, err);
}

TEST(layers_have_a_digest_a_size_and_a_kind)
{
    hearth_error err = { .message = "" };

    assert_ok(read_manifest(MANIFEST, CONFIG,
                            LAYER("template", HEX "1", "7") "," LAYER("model", HEX "2", "70368744177664"), &err),
              err);
    assert_int_equal(manifest.n, 3);
    assert_int_equal(manifest.model, 1);
    assert_string_equal(manifest.layers[0].kind, "template");
    assert_string_equal(manifest.layers[0].digest, HEX "1");
    assert_int_equal(manifest.layers[0].bytes, 7);
    assert_int_equal(manifest.layers[1].bytes, INT64_C(1) << 46);
    assert_string_equal(manifest.layers[2].kind, "config");
    assert_string_equal(manifest.layers[2].digest, HEX "c");
}

TEST(a_layer_that_is_named_twice_is_one)
{
    hearth_error err = { .message = "" };

    assert_ok(read_manifest(
                  "application/vnd.oci.image.manifest.v1+json", "{\"digest\":\"sha256:" HEX "2\",\"size\":5}",
                  LAYER("license", HEX "1", "7") "," LAYER("license", HEX "1", "7") "," LAYER("model", HEX "2", "5"),
                  &err),
              err);
    assert_int_equal(manifest.n, 2);
    assert_int_equal(manifest.model, 1);
}

TEST(a_manifest_that_cannot_be_true_is_refused)
{
    static const char good[] = LAYER("model", HEX "1", "1");
    static const struct {
        const char *type, *config, *layers;
    } wrong[] = {
        { "application/vnd.docker.distribution.manifest.list.v2+json", CONFIG, good },
        { "", CONFIG, good },
        { "application", CONFIG, good },
        { MANIFEST, "{}", good },
        { MANIFEST, "7", good },
        { MANIFEST, "{\"digest\":\"sha256:" HEX "c\",\"size\":0}", good },
        { MANIFEST, CONFIG, LAYER("model", "../../../" HEX, "1") },
        { MANIFEST, CONFIG, LAYER("model", HEX, "1") },
        { MANIFEST, CONFIG, LAYER("model", HEX "G", "1") },
        { MANIFEST, CONFIG, LAYER("model", HEX "/", "1") },
        { MANIFEST, CONFIG, "{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"md5:" HEX "1\"}" },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "0") },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "-1") },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "1.5") },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "\"1\"") },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "70368744177665") },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "9223372036854775807") },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "99999999999999999999") },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "1") "," LAYER("params", HEX "1", "2") },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "1") ",{\"mediaType\":\"application/x-sh\"}" },
        { MANIFEST, CONFIG, LAYER("model", HEX "1", "1") ",7" },
    };
    hearth_error err;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (read_manifest(wrong[i].type, wrong[i].config, wrong[i].layers, &err) != HEARTH_CORRUPT)
            fail_msg("manifest %zu is taken", i);
    assert_int_equal(read_manifest(MANIFEST, CONFIG, LAYER("tensor", HEX "1", "1"), &err), HEARTH_NOT_FOUND);
    assert_int_equal(read_manifest(MANIFEST, CONFIG, "", &err), HEARTH_NOT_FOUND);
    assert_int_equal(hth_ollama_manifest_read("{}", 2, &manifest, &err), HEARTH_CORRUPT);
    assert_int_equal(hth_ollama_manifest_read("", 0, &manifest, &err), HEARTH_CORRUPT);
}

TEST(a_manifest_with_too_many_layers_is_refused)
{
    enum { N = HTH_OLLAMA_LAYERS_MAX + 1, BYTES = 256 };
    char *text = calloc(N + 1, BYTES);
    size_t n = 0;
    hearth_error err;

    assert_non_null(text);
    n += (size_t)snprintf(text, BYTES, "{\"config\":" CONFIG ",\"layers\":[");
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(text + n, BYTES,
                              "%s{\"mediaType\":\"application/vnd.ollama.image.model\",\"size\":1,\"digest\":\"sha256:"
                              "%064x\"}",
                              i > 0 ? "," : "", (unsigned)i);
    n += (size_t)snprintf(text + n, BYTES, "]}");
    assert_int_equal(hth_ollama_manifest_read(text, n, &manifest, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "257 layers"));
    free(text);
}
