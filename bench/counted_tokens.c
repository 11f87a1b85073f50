/*
 * counted_tokens.c - hot paths of each drawn token: sampling, grammars, text, and the scheduler's tick
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counted.h"
#include "grammar/grammar.h"
#include "sampling/sampler.h"
#include "schema/schema.h"
#include "report.h"
#include "sched/text_stream.h"
#include "support/stage.h"

enum { N_VOCABULARY = 32000, N_WORDS = 4096, N_DRAWN = 8, N_PIECES = 256, N_REPLIES = 8, N_TICKS = 32 };

static void draw(hth_engine_sampler *sampler, const float *logits, uint64_t position)
{
    hearth_error err = { .message = "" };
    const hth_candidate *candidates;
    size_t n;

    for (unsigned i = 0; i < N_DRAWN; i++) {
        hth_sample_at at = { .position = position + i };

        hth_report_check(hth_sampler_apply(sampler, logits, &at, &candidates, &n, &err), &err);
        hth_report_check(hth_sampler_accept(sampler, candidates[0].token, true, &err), &err);
    }
}

static void count_sampler(void)
{
    hearth_sampling sampling = hearth_sampling_default();
    hth_sampler_parts parts = { .n_vocab = N_VOCABULARY };
    float *logits = malloc(N_VOCABULARY * sizeof(*logits));
    hth_engine_sampler *sampler;
    hearth_error err = { .message = "" };

    if (!logits)
        hth_report_die("no memory for logits");
    for (unsigned i = 0; i < N_VOCABULARY; i++)
        logits[i] = (float)(i * 2654435761u % 100003u) / 10000;
    sampling.temperature = 0.8f;
    sampling.top_k = 40;
    sampling.top_p = 0.95f;
    sampling.min_p = 0.05f;
    sampling.repeat_penalty = 1.1f;
    hth_report_check(hth_sampler_new(&sampling, &parts, &sampler, &err), &err);
    draw(sampler, logits, 0);
    hth_count_begin();
    draw(sampler, logits, N_DRAWN);
    hth_count_end("draw 8 tokens of 32000");
    hth_sampler_free(sampler);
    free(logits);
}

/* Bytes, then numbers and words in quotes. */
static hearth_status piece(const void *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out)
{
    (void)model;
    if (token < 256) {
        bytes[0] = (char)token;
        *n_out = 1;
    } else {
        *n_out = (size_t)snprintf(bytes, capacity, token % 2 ? "\"w%d" : "%d", token * 37);
    }
    return HEARTH_OK;
}

static bool is_end(const void *model, hearth_token token)
{
    (void)model;
    return token == 0;
}

static void count_grammar(void)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
        "\"integer\"}},\"required\":[\"name\",\"age\"]}";
    static const char begun[] = "{\"name\":\"w";
    static bool allowed[N_WORDS];
    hth_vocabulary_source source = { .n_tokens = N_WORDS, .piece = piece, .is_end = is_end };
    hth_vocabulary *vocabulary;
    hth_grammar *grammar;
    hth_gbnf *gbnf;
    hearth_error err = { .message = "" };

    hth_report_check(hth_vocabulary_new(&source, &vocabulary, &err), &err);
    hth_report_check(hth_schema_compile(schema, sizeof(schema) - 1, NULL, &gbnf, NULL, &err), &err);
    hth_report_check(hth_grammar_new(gbnf, vocabulary, &grammar, &err), &err);
    for (size_t i = 0; i < sizeof(begun) - 1; i++) {
        hth_grammar_begin_choice(grammar);
        hth_report_check(hth_grammar_mask(grammar, allowed, &err), &err);
        if (i == sizeof(begun) - 2)
            hth_count_begin();
        hth_grammar_begin_choice(grammar);
        hth_report_check(hth_grammar_mask(grammar, allowed, &err), &err);
        hth_report_check(hth_grammar_accept(grammar, (hearth_token)begun[i], &err), &err);
    }
    hth_count_end("mask of a schema over 4096 tokens");
    hth_grammar_free(grammar);
    hth_vocabulary_free(vocabulary);
}

static void feed(hth_text_stream *stream)
{
    static const char word[] = " w\xC3\xA4rm";
    const char *text;
    size_t n;
    bool stopped;

    for (unsigned i = 0; i < N_PIECES; i++)
        if (!hth_text_stream_feed(stream, word, sizeof(word) - 1, &text, &n, &stopped) || stopped)
            hth_report_die("the text stopped");
}

static void count_text(void)
{
    const char *stop[] = { "\n\nUser:", "</s>" };
    hth_text_stream *stream = hth_text_stream_new(stop, 2);

    if (!stream)
        hth_report_die("no memory for a text");
    feed(stream);
    hth_count_begin();
    feed(stream);
    hth_count_end("text of 256 tokens with two stops");
    hth_text_stream_free(stream);
}

/* The stub's evaluation counts, too. */
static void count_ticks(void)
{
    test_stage_options options = test_stage_options_default();
    hearth_token tokens[N_REPLIES];
    test_reply *replies[N_REPLIES];
    hearth_error err = { .message = "" };
    test_stage stage;

    options.n_parallel = N_REPLIES;
    options.n_ctx = N_REPLIES * 256;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < N_REPLIES; i++) {
        hearth_request request;

        tokens[i] = (hearth_token)('0' + i);
        request = test_request(&tokens[i], 1, 2 * N_TICKS);
        replies[i] = test_stage_submit(&stage, &request, NULL, &err);
        if (!replies[i])
            hth_report_die("%s", err.message);
    }
    for (unsigned i = 0; i < N_TICKS; i++)
        (void)hth_batcher_tick(stage.batcher);
    hth_count_begin();
    for (unsigned i = 0; i < N_TICKS / 2; i++)
        (void)hth_batcher_tick(stage.batcher);
    hth_count_end("16 ticks of 8 replies on the stub");
    test_stage_run(&stage);
    for (unsigned i = 0; i < N_REPLIES; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

void hth_count_tokens(void)
{
    count_sampler();
    count_grammar();
    count_text();
    count_ticks();
}
