/*
 * A rule and an origin are split into scheme, host and port, which may only have characters of names, and compared part
 * by part. So two spellings never mix up two origins. The default port of a scheme counts as none.
 */
#include "http/origin.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* A piece of a text. */
typedef struct piece {
    const char *text;
    size_t n;
} piece;

typedef struct parts {
    piece scheme;
    piece host; /* with its brackets; may be empty in a rule */
    piece port; /* digits */
} parts;

static bool is_text(piece p, const char *text)
{
    return p.n == strlen(text) && strncasecmp(p.text, text, p.n) == 0;
}

static bool is_same(piece a, piece b)
{
    return a.n == b.n && strncasecmp(a.text, b.text, a.n) == 0;
}

/* ---- parsing ---- */

static size_t n_scheme(const char *text)
{
    size_t n = 0;

    if (!isalpha((unsigned char)*text))
        return 0;
    while (isalnum((unsigned char)text[n]) || (text[n] && strchr("+-.", text[n])))
        n++;
    return n;
}

static size_t n_host(const char *text)
{
    static const char in_brackets[] = "0123456789abcdefABCDEF:.";
    size_t n = 0;

    if (*text == '[') {
        n = 1 + strspn(text + 1, in_brackets);
        return n > 1 && text[n] == ']' ? n + 1 : 0;
    }
    while (isalnum((unsigned char)text[n]) || (text[n] && strchr("-._", text[n])))
        n++;
    return n;
}

static bool is_own_port(piece scheme, piece port)
{
    return (is_text(scheme, "http") && is_text(port, "80")) || (is_text(scheme, "https") && is_text(port, "443"));
}

/* "SCHEME://HOST[:PORT]"; a host may be missing. A rule may end with a slash, like addresses copied from browsers. */
static bool take_apart(const char *text, bool is_rule, parts *out)
{
    const char *at = text;

    out->scheme = (piece){ at, n_scheme(at) };
    at += out->scheme.n;
    if (out->scheme.n == 0 || strncmp(at, "://", 3) != 0)
        return false;
    at += 3;
    out->host = (piece){ at, n_host(at) };
    at += out->host.n;
    out->port = (piece){ at, 0 };
    if (*at == ':' && out->host.n > 0) {
        out->port = (piece){ at + 1, strspn(at + 1, "0123456789") };
        if (out->port.n == 0 || out->port.n > 5)
            return false;
        at += 1 + out->port.n;
    }
    if (is_own_port(out->scheme, out->port))
        out->port.n = 0;
    if (is_rule && out->host.n > 0 && *at == '/')
        at++;
    return *at == '\0';
}

static bool is_web(piece scheme)
{
    return is_text(scheme, "http") || is_text(scheme, "https");
}

/* ---- rules ---- */

/* Schemes of programs with their own pages: desktop and mobile apps, browser extensions, editors. */
static bool is_known_scheme(piece word)
{
    static const char *const words[] = { "app",
                                         "tauri",
                                         "capacitor",
                                         "ionic",
                                         "electron",
                                         "wails",
                                         "chrome-extension",
                                         "moz-extension",
                                         "vscode-webview",
                                         "vscode-file",
                                         "safari-web-extension" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (is_text(word, words[i]))
            return true;
    return false;
}

/* The scheme of a rule that covers a whole scheme; 0 bytes: it is a rule of another kind. */
static piece scheme_of_rule(const char *rule)
{
    piece scheme = { rule, n_scheme(rule) };
    const char *rest = rule + scheme.n;

    if (strcmp(rest, "://") != 0 && strcmp(rest, "://*") != 0 && !(*rest == '\0' && is_known_scheme(scheme)))
        scheme.n = 0;
    return scheme;
}

static bool is_localhost_rule(const char *rule)
{
    return strcasecmp(rule, "localhost") == 0;
}

const char *hth_origin_rule_fault(const char *rule)
{
    const piece scheme = scheme_of_rule(rule);
    parts p;

    if (strcmp(rule, "*") == 0 || is_localhost_rule(rule))
        return NULL;
    if (strcasecmp(rule, "null") == 0 || is_text(scheme, "file"))
        return "an origin that names somebody: files, and frames of any site, all have 'null'; serve the page from "
               "http://localhost and list localhost";
    if (scheme.n > 0 && is_web(scheme))
        return "an origin with its host, such as https://app.example.com; * stands for all";
    if (scheme.n > 0 || (take_apart(rule, true, &p) && p.host.n > 0))
        return NULL;
    return "an origin such as https://app.example.com without a path, localhost, a scheme such as app:// or "
           "chrome-extension://, or *";
}

bool hth_origin_is_local(const char *origin)
{
    static const char below[] = ".localhost";
    const size_t n = sizeof(below) - 1;
    parts p;

    if (!take_apart(origin, false, &p) || !is_web(p.scheme))
        return false;
    /* Browsers resolve subdomains of localhost themselves (RFC 6761). */
    return is_text(p.host, "localhost") || is_text(p.host, "127.0.0.1") || is_text(p.host, "[::1]") ||
           (p.host.n > n && strncasecmp(p.host.text + p.host.n - n, below, n) == 0);
}

bool hth_origin_rule_has(const char *rule, const char *origin)
{
    const piece scheme = scheme_of_rule(rule);
    parts a, b;

    if (strcmp(rule, "*") == 0)
        return true;
    if (is_localhost_rule(rule))
        return hth_origin_is_local(origin);
    if (!take_apart(origin, false, &b))
        return false;
    if (scheme.n > 0)
        return is_same(scheme, b.scheme);
    return take_apart(rule, true, &a) && is_same(a.scheme, b.scheme) && is_same(a.host, b.host) &&
           is_same(a.port, b.port);
}

bool hth_origin_rule_has_host(const char *rule, const char *host, size_t n)
{
    parts p;

    if (strcmp(rule, "*") == 0)
        return true;
    return take_apart(rule, true, &p) && p.host.n > 0 && is_web(p.scheme) && is_same(p.host, (piece){ host, n });
}
