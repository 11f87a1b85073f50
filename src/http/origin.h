/*
 * origin.h - origins of web pages, and the operator's rules for them
 *
 * An origin is the value of a browser's header Origin: scheme, host and port of the page, "http://localhost:5173". A
 * rule is
 *
 *     https://app.example.com   this origin
 *     localhost                 pages of this machine: http and https, any port, of localhost, its subdomains,
 *                               127.0.0.1 and [::1]
 *     tauri://                  all origins of this scheme, also with a * after it; a well-known scheme needs no "://"
 *     *                         all
 *
 * All functions work on texts only; any thread.
 */
#ifndef HTH_HTTP_ORIGIN_H
#define HTH_HTTP_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

/* The form that a valid rule must have; NULL: the text is a valid rule. */
const char *hth_origin_rule_fault(const char *rule);
/* Does a valid rule cover this origin? "null" may be a frame of any site, so only "*" covers it. */
bool hth_origin_rule_has(const char *rule, const char *origin);
/* Does the rule "localhost" cover this origin? */
bool hth_origin_is_local(const char *origin);
/* Is host, [n] and without a port, the host of the origin in the rule? */
bool hth_origin_rule_has_host(const char *rule, const char *host, size_t n);

#endif
