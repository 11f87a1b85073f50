/*
 * pressure_order.c - reads pressure settings in an order, with the rows of their section
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "options/config_reader.h"
#include "options/serve_config.h"

static void read_text(hth_pool *pool, const char *text, hth_pressure_settings *settings, hth_problems *problems)
{
    const hth_config_reader reader = { .directory = "", .pool = pool, .problems = problems };
    const hth_config_scope scope = { .prefix = "", .where = "that an order may change" };
    const hth_config_node *root;
    hearth_error err;

    if (hth_config_file_parse(pool, "the order", text, strlen(text), &root, &err) == HEARTH_OK)
        hth_config_read(&reader, root, &hth_serve_pressure_settings, settings, &scope);
    else
        hth_problems_add(problems, "%s", err.message);
}

hearth_status hth_serve_pressure_read(const char *text, hth_pressure_settings *settings, hearth_error *err)
{
    hth_problems *problems = calloc(1, sizeof(*problems));
    hth_pool *pool = hth_pool_new();
    hth_pressure_settings read = *settings;
    hearth_status status = HEARTH_OK;

    if (problems && pool)
        read_text(pool, text, &read, problems);
    if (!problems || !pool)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the order");
    else if (problems->n_errors > 0)
        status = hth_fail(err, HEARTH_MISUSE, "%s", hth_problems_first(problems));
    else
        *settings = read;
    hth_pool_free(pool);
    free(problems);
    return status;
}
