/*
 * origin.h - origins of pages, and the rules that an operator lists them by
 *
 * An origin is what a browser's header Origin says: scheme, host and port of the page, "http://localhost:5173". A rule is
 *
 *     https://app.example.com   this origin
 *     localhost                 pages of this machine: http and https, any port, of localhost, names below it,
 *                               127.0.0.1 and [::1]
 *     tauri://                  all origins of this scheme, also with a * behind it; of well-known schemes the word alone
 *     *                         all
 *
 * Texts alone; any thread.
 */
#ifndef HTH_SERVER_ORIGIN_H
#define HTH_SERVER_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

/* What a text would have to be as a rule; NULL: it is one. */
const char *hth_origin_rule_fault(const char *rule);
/* Does a valid rule name this origin? Never "null", which frames of any site may be; that is in "*" alone. */
bool hth_origin_rule_has(const char *rule, const char *origin);
/* Is it a page of this machine, as the rule "localhost" has it? */
bool hth_origin_is_local(const char *origin);
/* Is this the host, n bytes and without a port, of the origin that a rule names? */
bool hth_origin_rule_has_host(const char *rule, const char *host, size_t n);

#endif
