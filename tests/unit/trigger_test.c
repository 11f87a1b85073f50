/*
 * trigger_test.c - what triggers say of all tokens is what they say of each, and nobody waits for them long
 *
 * The vocabulary is made up: all bytes, and pieces of a few letters in which patterns find much to go on with.
 */
#include <stdlib.h>
#include <string.h>

#include "grammar/trigger.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_PIECES = 3000, N_TOKENS = 256 + N_PIECES, PIECE_BYTES_MAX = 24 };

static hth_vocabulary *vocabulary;

/* The text of a token: of 24 bytes at most, from an alphabet of four. */
static hearth_status piece(const void *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out)
{
    uint64_t seed = (uint64_t)token * UINT64_C(0x9E3779B97F4A7C15);

    (void)model;
    (void)capacity;
    bytes[0] = (char)token;
    *n_out = 1;
    if (token < 256)
        return HEARTH_OK;
    *n_out = 2 + (seed >> 60) % (PIECE_BYTES_MAX - 2);
    for (size_t i = 0; i < *n_out; i++)
        bytes[i] = "ab<\xC3"[seed >> (2 * i % 60) & 3];
    return HEARTH_OK;
}

static bool is_end(const void *model, hearth_token token)
{
    (void)model;
    (void)token;
    return false;
}

static int open_vocabulary(void **state)
{
    (void)state;
    return hth_vocabulary_new(&(hth_vocabulary_source){ .n_tokens = N_TOKENS, .piece = piece, .is_end = is_end },
                              &vocabulary, NULL) != HEARTH_OK;
}

static int close_vocabulary(void **state)
{
    (void)state;
    hth_vocabulary_free(vocabulary);
    return 0;
}

static hearth_status make(const hearth_trigger *triggers, size_t n, hth_triggers **out, hearth_error *err)
{
    hearth_sampling sampling = hearth_sampling_default();

    sampling.triggers = triggers;
    sampling.n_triggers = n;
    return hth_triggers_new(&sampling, out, err);
}

/* Something that depends on all of the text. */
static bool may_begin(void *user_data, const uint8_t *bytes, size_t n_bytes)
{
    uint32_t sum = 0;

    (void)user_data;
    for (size_t i = 0; i < n_bytes; i++)
        sum = sum * 31 + bytes[i];
    return sum % 3 != 0;
}

TEST(what_is_said_of_all_tokens_is_what_is_said_of_each)
{
    static const char *const patterns[] = {
        "a+b", "[\\s\\S]*?(<a)", "^b", "(a|b)<$", "<(?:a|b){3}(a)", "aab$|<<<b", "b"
    };
    enum { N_PATTERNS = sizeof(patterns) / sizeof(patterns[0]) };
    static bool allowed[N_TOKENS];
    size_t n_refused = 0;

    for (unsigned set = 1; set < 1u << (N_PATTERNS + 1); set += 3) {
        hearth_trigger list[N_PATTERNS + 1];
        hth_triggers *triggers = NULL;
        size_t n = 0;

        for (size_t i = 0; i < N_PATTERNS; i++)
            if (set >> i & 1)
                list[n++] = (hearth_trigger){ .struct_size = sizeof(hearth_trigger),
                                              .kind = HEARTH_TRIGGER_PATTERN,
                                              .text = patterns[i] };
        if (set >> N_PATTERNS & 1)
            list[n++] =
                (hearth_trigger){ .struct_size = sizeof(hearth_trigger), .kind = HEARTH_TRIGGER_WORD, .text = "ba<" };
        assert_int_equal(make(list, n, &triggers, NULL), HEARTH_OK);
        for (size_t step = 0; step < 4; step++) {
            const uint8_t *text;
            size_t n_text;
            bool fires = false;

            hth_triggers_begin_choice(triggers);
            assert_int_equal(hth_triggers_mask(triggers, vocabulary, allowed, may_begin, NULL, NULL), HEARTH_OK);
            assert_false(hth_triggers_is_too_much(triggers));
            for (hearth_token token = 0; token < N_TOKENS; token++) {
                const hth_piece *one = &vocabulary->pieces[token];

                hth_triggers_begin_choice(triggers);
                hth_triggers_try(triggers, one->bytes, one->n_bytes, &fires, &text, &n_text);
                n_refused += !allowed[token];
                if (allowed[token] != (!fires || may_begin(NULL, text, n_text)))
                    fail_msg("set %u, step %zu, token %d", set, step, token);
            }
            assert_int_equal(
                hth_triggers_read(triggers, (const uint8_t *)&"ba<x"[step], 1, &fires, &text, &n_text, NULL),
                HEARTH_OK);
            if (fires)
                break;
        }
        hth_triggers_free(triggers);
    }
    assert_true(n_refused > 1000);
}

TEST(patterns_without_hope_are_refused_before_they_run)
{
    static const struct {
        const char *pattern;
        size_t n;
        const char *why;
    } cases[] = {
        { "(?:\x01?\x02?){1000}\x03", 64, "steps when compiled" },
        { "(?:\x01?\x02?){1000}\x03", 1, "can begin in" },
        { "(?:x?){600}", 1, "can begin in" },
        { "[\\s\\S]*?(<function=name>)[\\s\\S]*", 64, NULL },
        { "x{1000}", 8, NULL },
        { "x{1000}", 9, "steps when compiled" },
    };
    hearth_trigger list[64];
    hearth_error err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hth_triggers *triggers = NULL;
        hearth_status status;

        for (size_t j = 0; j < cases[i].n; j++)
            list[j] = (hearth_trigger){ .struct_size = sizeof(hearth_trigger),
                                        .kind = HEARTH_TRIGGER_PATTERN,
                                        .text = cases[i].pattern };
        status = make(list, cases[i].n, &triggers, &err);
        assert_int_equal(status, cases[i].why ? HEARTH_MISUSE : HEARTH_OK);
        if (cases[i].why)
            assert_non_null(strstr(err.message, cases[i].why));
        hth_triggers_free(triggers);
    }
}

/* Every byte is the beginning of hundreds of ways to match, of which none ends. */
TEST(patterns_that_become_too_much_are_counted)
{
    hearth_trigger one = { .struct_size = sizeof(hearth_trigger),
                           .kind = HEARTH_TRIGGER_PATTERN,
                           .text = "(?:[^q]?[^r]?){200}[^s]{1000}\x03" };
    static bool allowed[N_TOKENS];
    hth_triggers *triggers = NULL;
    const uint8_t *text;
    size_t n;
    bool fires;

    assert_int_equal(make(&one, 1, &triggers, NULL), HEARTH_OK);
    hth_triggers_begin_choice(triggers);
    assert_int_equal(hth_triggers_mask(triggers, vocabulary, allowed, may_begin, NULL, NULL), HEARTH_OK);
    assert_true(hth_triggers_is_too_much(triggers));
    hth_triggers_begin_choice(triggers);
    for (hearth_token token = 256; token < N_TOKENS && !hth_triggers_is_too_much(triggers); token++)
        hth_triggers_try(triggers, vocabulary->pieces[token].bytes, vocabulary->pieces[token].n_bytes, &fires, &text,
                         &n);
    assert_true(hth_triggers_is_too_much(triggers));
    hth_triggers_free(triggers);
}

GROUP(with_a_vocabulary, open_vocabulary, close_vocabulary)
