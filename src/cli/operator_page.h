/*
 * operator_page.h - requests to a running server's operator pages, for commands
 */
#ifndef HTH_CLI_OPERATOR_PAGE_H
#define HTH_CLI_OPERATOR_PAGE_H

#include "api/buffer.h"
#include "options/option_table.h"

/* If NULL: $HEARTH_URL or the default address; $HEARTH_API_KEY or none. */
typedef struct hth_operator {
    const char *url;
    const char *key;
} hth_operator;

extern const hth_option_table hth_operator_options; /* in an hth_operator: --url, --api-key */

/*
 * GET the page at path, or POST json to it (NULL: GET). Returns HTH_EXIT_OK, with the response appended to out;
 * otherwise a message was printed to standard error.
 */
int hth_operator_ask(const hth_operator *server, const char *path, const char *json, hth_buffer *out);
/* The same with DELETE. */
int hth_operator_delete(const hth_operator *server, const char *path, hth_buffer *out);

#endif
