/*
 * anchors_property_test.c - anchors of random bodies are those of a naive reference
 *
 * A random body is written twice: as the text of its prompt, without any white space, with the places of its anchors
 * beside it; and as a request, with white space between all values and its members in random order. Each anchor must be
 * the digest of the text before it, hashed anew. Then the conversation is cut at a random place. Unless its new body is
 * larger, the longer one must have no anchor in the shorter one's text that the shorter one lacks.
 *
 * HTH_ROUNDS: how many (default 1000). HTH_SEED replays a run that printed it.
 */
#include <string.h>

#include "api/anchors.h"
#include "api/buffer.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { ROUNDS = 1000, ELEMENTS_MAX = 120, HEADS_MAX = 5 };

typedef struct element {
    size_t end; /* in the text of the growing member */
    bool has_anchor;
} element;

/* What the body says, as one text. */
typedef struct prompt {
    const char *heads[HEADS_MAX]; /* names, in the order of the digest; NULL: it is not there */
    hth_buffer head_values[HEADS_MAX];
    const char *name;
    hth_buffer growing; /* without the quote or the bracket at its end */
    element elements[ELEMENTS_MAX];
    size_t n_elements;
} prompt;

static const char *const head_names[HEADS_MAX] = { "cache_salt", "template", "system", "tools", "input_extra" };
static const char *const names[] = { "messages", "input", "input_prefix", "prompt" };

/* ---- random values ---- */

static void add_string(uint64_t *seed, size_t n_max, hth_buffer *to)
{
    static const char *const pieces[] = { "a",       "b",        "word", " ", "  ", "\\\"", "\\\\", "\\n",
                                          "\\u00e9", "\xc3\xa9", "{",    "]", ",",  ":",    "\t",   "\xff" };

    hth_buffer_add_text(to, "\"");
    for (uint64_t n = hth_test_random(seed, n_max + 1); n > 0; n--)
        hth_buffer_add_text(to, pieces[hth_test_random(seed, sizeof(pieces) / sizeof(pieces[0]))]);
    hth_buffer_add_text(to, "\"");
}

static void add_scalar(uint64_t *seed, hth_buffer *to)
{
    static const char *const words[] = { "true", "false", "null", "0", "-1.5e3", "17", "123456789" };

    hth_buffer_add_text(to, words[hth_test_random(seed, sizeof(words) / sizeof(words[0]))]);
}

/* A string, an array or an object. */
static void add_value(uint64_t *seed, size_t depth, size_t n_max, hth_buffer *to)
{
    const uint64_t kind = depth < 4 ? hth_test_random(seed, 3) : 0;

    if (kind == 0) {
        add_string(seed, n_max, to);
        return;
    }
    hth_buffer_add_text(to, kind == 1 ? "[" : "{");
    for (uint64_t n = hth_test_random(seed, 4), i = 0; i < n; i++) {
        if (i > 0)
            hth_buffer_add_text(to, ",");
        if (kind == 2) {
            add_string(seed, 3, to);
            hth_buffer_add_text(to, ":");
        }
        if (hth_test_random(seed, 3) == 0)
            add_scalar(seed, to);
        else
            add_value(seed, depth + 1, n_max, to);
    }
    hth_buffer_add_text(to, kind == 1 ? "]" : "}");
}

static void draw_growing(uint64_t *seed, prompt *p)
{
    const size_t n_max = (size_t)1 << hth_test_random(seed, 11); /* pieces of a string */
    const uint64_t kind = hth_test_random(seed, 4);

    p->name = names[hth_test_random(seed, sizeof(names) / sizeof(names[0]))];
    if (kind == 0) {
        add_string(seed, 8 * n_max, &p->growing);
        p->growing.n--; /* its closing quote */
        return;
    }
    hth_buffer_add_text(&p->growing, "[");
    p->n_elements = (size_t)hth_test_random(seed, ELEMENTS_MAX + 1);
    for (size_t i = 0; i < p->n_elements; i++) {
        element *e = &p->elements[i];

        if (i > 0)
            hth_buffer_add_text(&p->growing, ",");
        e->has_anchor = kind > 1 && hth_test_random(seed, 8) > 0;
        if (e->has_anchor)
            add_value(seed, 0, n_max, &p->growing);
        else
            add_scalar(seed, &p->growing);
        e->end = p->growing.n;
    }
}

static void draw_prompt(uint64_t *seed, prompt *p)
{
    *p = (prompt){ .n_elements = 0 };
    for (size_t i = 0; i < HEADS_MAX; i++) {
        if (hth_test_random(seed, 3) > 0)
            continue;
        p->heads[i] = head_names[i];
        add_value(seed, 1, 50, &p->head_values[i]);
    }
    draw_growing(seed, p);
}

static void prompt_deinit(prompt *p)
{
    for (size_t i = 0; i < HEADS_MAX; i++)
        hth_buffer_deinit(&p->head_values[i]);
    hth_buffer_deinit(&p->growing);
}

/* ---- the body ---- */

static void add_space(uint64_t *seed, bool is_spaced, hth_buffer *to)
{
    static const char spaces[] = " \t\r\n";

    while (is_spaced && hth_test_random(seed, 3) == 0)
        hth_buffer_add(to, &spaces[hth_test_random(seed, 4)], 1);
}

/* Add a text with white space where JSON allows it. */
static void add_spaced(uint64_t *seed, bool is_spaced, const hth_buffer *text, hth_buffer *to)
{
    bool in_string = false, is_escaped = false;

    for (size_t i = 0; i < text->n; i++) {
        const char c = text->text[i];
        const bool is_mark = !in_string && strchr("[]{},:", c);

        if (is_mark)
            add_space(seed, is_spaced, to);
        hth_buffer_add(to, &c, 1);
        if (is_mark)
            add_space(seed, is_spaced, to);
        in_string = c == '"' && !is_escaped ? !in_string : in_string;
        is_escaped = in_string && c == '\\' && !is_escaped;
    }
}

static void write_member(uint64_t *seed, bool is_spaced, const char *name, const hth_buffer *text, hth_buffer *to)
{
    if (to->n > 1)
        hth_buffer_add_text(to, ",");
    add_space(seed, is_spaced, to);
    hth_buffer_add_format(to, "\"%s\"", name);
    add_space(seed, is_spaced, to);
    hth_buffer_add_text(to, ":");
    add_space(seed, is_spaced, to);
    add_spaced(seed, is_spaced, text, to);
    add_space(seed, is_spaced, to);
}

/* Members that no prompt begins with. */
static void write_others(uint64_t *seed, bool is_spaced, hth_buffer *to)
{
    static const char *const others[] = { "model", "stream", "options", "metadata", "stop" };
    hth_buffer text = { .n = 0 };

    while (hth_test_random(seed, 2) == 0) {
        add_value(seed, 2, 20, &text);
        write_member(seed, is_spaced, others[hth_test_random(seed, sizeof(others) / sizeof(others[0]))], &text, to);
        hth_buffer_clear(&text);
    }
    hth_buffer_deinit(&text);
}

static void write_body(uint64_t *seed, const prompt *p, hth_buffer *to)
{
    const bool is_spaced = hth_test_random(seed, 2) == 0;
    const size_t first = (size_t)hth_test_random(seed, HEADS_MAX + 1);
    hth_buffer growing = { .n = 0 };

    hth_buffer_add(&growing, p->growing.text, p->growing.n);
    hth_buffer_add_text(&growing, p->growing.text[0] == '[' ? "]" : "\"");
    hth_buffer_add_text(to, "{");
    for (size_t k = 0; k <= HEADS_MAX; k++) {
        const size_t i = (first + k) % (HEADS_MAX + 1);

        write_others(seed, is_spaced, to);
        if (i == HEADS_MAX)
            write_member(seed, is_spaced, p->name, &growing, to);
        else if (p->heads[i])
            write_member(seed, is_spaced, p->heads[i], &p->head_values[i], to);
    }
    hth_buffer_add_text(to, "}");
    assert_false(to->failed || growing.failed);
    hth_buffer_deinit(&growing);
}

/* ---- the reference ---- */

static bool is_one_of_the_last_ends(const prompt *p, size_t at)
{
    size_t n_behind = 0;

    for (size_t i = p->n_elements; i > 0; i--) {
        const element *e = &p->elements[i - 1];

        if (e->end == at)
            return e->has_anchor && n_behind < HTH_ANCHOR_ENDS;
        n_behind += e->has_anchor;
    }
    return false;
}

static size_t expect(const char *scope, const prompt *p, size_t n_body, hth_anchor *out)
{
    size_t n_values = 0, n = 0, stride = 1024;
    hth_buffer text = { .n = 0 };
    uint8_t word[8];

    while (n_body / stride > 24)
        stride *= 2;
    hth_put_u64(word, strlen(scope));
    hth_buffer_add(&text, (const char *)word, sizeof(word));
    hth_buffer_add_text(&text, scope);
    for (size_t i = 0; i < HEADS_MAX; i++) {
        if (!p->heads[i])
            continue;
        hth_buffer_add_format(&text, "%s:", p->heads[i]);
        hth_buffer_add(&text, p->head_values[i].text, p->head_values[i].n);
        hth_buffer_add_text(&text, ",");
        n_values += p->head_values[i].n;
    }
    for (size_t at = 0; at <= p->growing.n; at++) {
        uint8_t sha256[HTH_SHA256_BYTES];
        const bool is_place =
            at == 0 ? n_values > 0
                    : p->growing.n > 1 && (at == p->growing.n || at % stride == 0 || is_one_of_the_last_ends(p, at));

        if (at == 1)
            hth_buffer_add_format(&text, "%s:", p->name);
        if (at > 0)
            hth_buffer_add(&text, &p->growing.text[at - 1], 1);
        if (!is_place)
            continue;
        hth_sha256_of(text.text, text.n, sha256);
        assert_true(n < HTH_ANCHORS_MAX);
        out[n++] = (hth_anchor){ .digest = hth_get_u64(sha256), .n_bytes = (uint32_t)(n_values + at) };
    }
    hth_buffer_deinit(&text);
    return n;
}

/* ---- comparisons ---- */

/* Returns the number of anchors in the scope of all comparisons, and the size of the body. */
static size_t check(uint64_t *seed, const prompt *p, hth_anchor *out, size_t *n_body_out)
{
    static const char *const scopes[] = { "", "secret", "another" };
    const char *scope = scopes[hth_test_random(seed, 3)];
    hth_buffer body = { .n = 0 };
    hth_anchor expected[HTH_ANCHORS_MAX];
    size_t n;

    write_body(seed, p, &body);
    n = hth_api_anchors(scope, strlen(scope), body.text, body.n, out);
    assert_int_equal(n, expect(scope, p, body.n, expected));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(out[i].n_bytes, expected[i].n_bytes);
        assert_true(out[i].digest == expected[i].digest);
    }
    n = hth_api_anchors("one", 3, body.text, body.n, out);
    *n_body_out = body.n;
    hth_buffer_deinit(&body);
    return n;
}

/* Cut the prompt at a random place: after an element, or within a string. Returns false if there is none. */
static bool cut(uint64_t *seed, prompt *p)
{
    size_t n_escapes = 0;

    if (p->growing.text[0] == '[') {
        if (p->n_elements < 2)
            return false;
        p->n_elements = 1 + (size_t)hth_test_random(seed, p->n_elements - 1);
        p->growing.n = p->elements[p->n_elements - 1].end;
        return true;
    }
    if (p->growing.n < 2)
        return false;
    p->growing.n = 1 + (size_t)hth_test_random(seed, p->growing.n - 1);
    while (p->growing.text[p->growing.n - 1 - n_escapes] == '\\')
        n_escapes++;
    p->growing.n -= n_escapes % 2; /* not within an escape that is cut to a bare backslash */
    return true;
}

TEST(anchors_are_digests_of_the_text_before_them)
{
    const uint64_t n_rounds = hth_test_number("HTH_ROUNDS", ROUNDS);
    uint64_t seed = hth_test_seed();
    size_t n_shared = 0, n_most = 0;

    for (uint64_t round = 0; round < n_rounds; round++) {
        hth_anchor longer[HTH_ANCHORS_MAX], shorter[HTH_ANCHORS_MAX];
        size_t n_longer, n_shorter, n_long_body, n_short_body;
        prompt p;

        draw_prompt(&seed, &p);
        n_longer = check(&seed, &p, longer, &n_long_body);
        n_most = n_longer > n_most ? n_longer : n_most;
        if (cut(&seed, &p)) {
            n_shorter = check(&seed, &p, shorter, &n_short_body);
            if (n_short_body > n_long_body) /* it has more of other members or white space, so it may lack strides */
                n_shorter = 0;
            for (size_t i = 0, k = 0; n_shorter > 0 && i < n_longer; i++) {
                if (longer[i].n_bytes > shorter[n_shorter - 1].n_bytes)
                    break;
                while (k < n_shorter && shorter[k].n_bytes < longer[i].n_bytes)
                    k++;
                assert_true(shorter[k].digest == longer[i].digest && shorter[k].n_bytes == longer[i].n_bytes);
                n_shared++;
            }
        }
        prompt_deinit(&p);
    }
    if (n_rounds >= ROUNDS) { /* the bodies were rich enough */
        assert_true(n_shared > n_rounds);
        assert_true(n_most > HTH_ANCHOR_ENDS + HTH_ANCHOR_STRIDES / 2);
    }
}
