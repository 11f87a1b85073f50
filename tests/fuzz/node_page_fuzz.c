/*
 * node_page_fuzz.c - any bytes as the page of another node
 *
 * What must hold: a page that was read is the same when it is written and read again, and within its bounds; what was
 * refused has a reason and leaves nothing to be freed.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/node_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void compare_texts(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
    require(n_a == n_b && n_a <= HTH_NODE_NAMES_MAX);
    for (size_t i = 0; i < n_a; i++)
        require(a[i][0] != '\0' && strcmp(a[i], b[i]) == 0);
}

static void compare_models(const hth_node_model *a, const hth_node_model *b)
{
    require(a->name[0] != '\0' && strcmp(a->name, b->name) == 0);
    require(strcmp(a->digest, b->digest) == 0);
    compare_texts(a->aliases, a->n_aliases, b->aliases, b->n_aliases);
    compare_texts(a->adapters, a->n_adapters, b->adapters, b->n_adapters);
    require(a->is_ready == b->is_ready && a->is_broken == b->is_broken && !(a->is_ready && a->is_broken));
    require(a->n_at_work == b->n_at_work && a->n_waiting == b->n_waiting && a->n_parallel == b->n_parallel);
}

static void compare(const hth_node_page *a, const hth_node_page *b)
{
    require(a->protocol == HTH_FLEET_PROTOCOL && b->protocol == HTH_FLEET_PROTOCOL);
    require(strcmp(a->version, b->version) == 0 && strcmp(a->epoch, b->epoch) == 0 && a->epoch[0] != '\0');
    require(hth_node_name_is_valid(a->name) && strcmp(a->name, b->name) == 0);
    require(a->is_draining == b->is_draining);
    require(a->n_models == b->n_models && a->n_models <= HTH_NODE_MODELS_MAX);
    for (size_t i = 0; i < a->n_models; i++)
        compare_models(&a->models[i], &b->models[i]);
}

static void check_again(const hth_node_page *page)
{
    hth_buffer first = { .text = NULL }, second = { .text = NULL };
    hth_node_page again;

    hth_node_page_write(page, &first);
    require(!first.failed);
    require(hth_node_page_read(first.text, first.n, &again, NULL) == HEARTH_OK);
    compare(page, &again);
    hth_node_page_write(&again, &second);
    require(first.n == second.n && memcmp(first.text, second.text, first.n) == 0);
    hth_node_page_deinit(&again);
    hth_buffer_deinit(&first);
    hth_buffer_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hearth_error err = { .message = "" };
    hth_node_page page;
    const hearth_status status = hth_node_page_read((const char *)bytes, n_bytes, &page, &err);

    if (status == HEARTH_OK) {
        check_again(&page);
        hth_node_page_deinit(&page);
        return 0;
    }
    require(status == HEARTH_CORRUPT || status == HEARTH_UNSUPPORTED);
    require(err.message[0] != '\0');
    require(!page.json && !page.models && !page.names && page.n_models == 0);
    if (status == HEARTH_UNSUPPORTED)
        require(page.protocol != 0 && page.protocol != HTH_FLEET_PROTOCOL);
    return 0;
}
