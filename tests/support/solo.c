#include "support/solo.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

enum { PIECE_BYTES = 64 };

/* The finaliser of SplitMix64. */
static uint64_t finalised(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

hearth_token test_solo_draw(const hth_backend *backend, hth_engine_sampler *sampler, const float *logits,
                            uint64_t position, uint64_t seed)
{
    hth_sample_at at = { .position = position };
    double where = (double)(finalised(finalised(seed) ^ position) >> 11) / 9007199254740992.0;
    const hth_candidate *candidates;
    hearth_error err;
    double sum = 0;
    size_t n, i = 0;

    assert_ok(backend->sampler_apply(sampler, logits, &at, &candidates, &n, &err), err);
    while (i + 1 < n && (sum += candidates[i].probability) <= where)
        i++;
    return candidates[i].token;
}

static const float *evaluate(const hth_backend *backend, hth_engine_context *context, const hearth_token *tokens,
                             uint32_t position, uint32_t n)
{
    hth_batch_row *rows = calloc(n, sizeof(*rows));
    hth_decode_result result;
    hearth_error err;
    const float *logits;

    assert_non_null(rows);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (hth_batch_row){ .token = tokens[i], .position = position + i, .wants_logits = i == n - 1 };
    assert_ok(backend->decode(context, rows, n, &result, &err), err);
    assert_int_equal(result, HTH_DECODE_OK);
    free(rows);
    logits = backend->logits(context, n - 1);
    assert_non_null(logits);
    return logits;
}

void test_solo_chain(const hth_backend *backend, hth_engine_model *model, const hearth_token *prompt, size_t n_prompt,
                     const hearth_sampling *sampling, uint32_t n, uint32_t n_batch, hearth_token *out)
{
    test_solo_chain_with(backend, model, NULL, prompt, n_prompt, sampling, n, n_batch, out);
}

void test_solo_chain_with(const hth_backend *backend, hth_engine_model *model, const hth_adapter_set *adapters,
                          const hearth_token *prompt, size_t n_prompt, const hearth_sampling *sampling, uint32_t n,
                          uint32_t n_batch, hearth_token *out)
{
    hth_engine_context_params params = {
        .n_ctx = (uint32_t)n_prompt + n + 1, .n_batch = n_batch, .n_seq_max = 1, .n_threads = 2
    };
    hth_engine_context *context = NULL;
    hth_engine_sampler *sampler = NULL;
    const float *logits = NULL;
    hearth_error err;

    if (backend->context_new(model, &params, &context, &err) != HEARTH_OK ||
        hth_adapter_set_apply(adapters, backend, context, &err) != HEARTH_OK ||
        backend->sampler_new(model, sampling, &sampler, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < n_prompt; i++)
        assert_int_equal(backend->sampler_accept(sampler, prompt[i], false, &err), HEARTH_OK);
    for (size_t at = 0; at < n_prompt;) {
        size_t n_now = n_prompt - at < n_batch ? n_prompt - at : n_batch;

        logits = evaluate(backend, context, prompt + at, (uint32_t)at, (uint32_t)n_now);
        at += n_now;
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = test_solo_draw(backend, sampler, logits, n_prompt + i, sampling->seed);
        assert_int_equal(backend->sampler_accept(sampler, out[i], true, &err), HEARTH_OK);
        if (i + 1 < n)
            logits = evaluate(backend, context, &out[i], (uint32_t)n_prompt + i, 1);
    }
    backend->sampler_free(sampler);
    backend->context_free(context);
}

static size_t append_piece(const hth_backend *backend, const hth_engine_model *model, hearth_token token, char *text,
                           size_t n)
{
    size_t n_piece = 0;
    hearth_error err;

    assert_ok(backend->piece(model, token, false, text + n, PIECE_BYTES, &n_piece, &err), err);
    text[n + n_piece] = '\0';
    return n + n_piece;
}

/* The text of tokens, control tokens aside; released with free. */
static char *text_of(const hth_backend *backend, const hth_engine_model *model, const hearth_token *tokens, size_t n)
{
    char *text = calloc(n + 1, PIECE_BYTES);
    size_t n_bytes = 0;

    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        n_bytes = append_piece(backend, model, tokens[i], text, n_bytes);
    return text;
}

static bool ends_reply(const hth_backend *backend, const hth_engine_model *model, const hearth_request *request,
                       hearth_token token)
{
    for (size_t i = 0; i < request->n_stop_tokens; i++)
        if (request->stop_tokens[i] == token)
            return true;
    return !request->ignore_eos && backend->is_end(model, token);
}

/* The first stop text that begins in text; NULL: none. */
static char *find_stop(const hearth_request *request, char *text)
{
    char *first = NULL;

    for (size_t i = 0; i < request->n_stop; i++) {
        char *found = strstr(text, request->stop[i]);

        if (found && (!first || found < first))
            first = found;
    }
    return first;
}

test_solo_reply test_solo_finish(const hth_backend *backend, const hth_engine_model *model,
                                 const hearth_request *request, uint32_t n_max, const hearth_token *chain,
                                 uint32_t n_chain)
{
    char *prompt = request->echo ? text_of(backend, model, request->tokens, request->n_tokens) : strdup("");
    size_t n_prompt = strlen(prompt);
    char *text = realloc(prompt, n_prompt + ((size_t)n_max + 1) * PIECE_BYTES);
    test_solo_reply reply = { .reason = HEARTH_FINISH_LENGTH, .n_bytes = n_prompt };

    assert_non_null(text);
    while (reply.n_tokens < n_max && reply.reason == HEARTH_FINISH_LENGTH) {
        hearth_token token;
        char *stop;

        assert_true(reply.n_tokens < n_chain);
        token = chain[reply.n_tokens++];
        if (ends_reply(backend, model, request, token)) {
            reply.reason = HEARTH_FINISH_STOP;
            break;
        }
        reply.n_bytes = append_piece(backend, model, token, text, reply.n_bytes);
        stop = find_stop(request, text + n_prompt);
        if (stop) {
            *stop = '\0';
            reply.n_bytes = (size_t)(stop - text);
            reply.reason = HEARTH_FINISH_STOP;
        }
    }
    reply.text = text;
    return reply;
}
