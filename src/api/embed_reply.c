/*
 * embed_reply.c - see embed.h
 *
 * Numbers are written as text directly: as JSON values, each would take a hundred bytes. Nine digits tell a float from
 * every other.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/embed.h"
#include "api/request.h"
#include "base/bytes.h"

bool hth_api_embed_options(const hearth_model_info *info, const hth_api_request *request, hearth_embed_request *out,
                           hth_api_error *error)
{
    bool is_native = request->kind == HTH_API_NATIVE_EMBEDDING;

    *out = request->embed->options;
    if (request->kind == HTH_API_RERANK || !info->embeds)
        return true; /* the library knows the rest */
    if (info->pooling == HEARTH_POOLING_NONE && !is_native) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, NULL,
                     "model '%s' has pooling 'none', a vector for each token, which this endpoint cannot show; use "
                     "/embedding, or load the model with another pooling",
                     info->name);
        return false;
    }
    if (info->pooling == HEARTH_POOLING_RANK && !is_native) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, NULL,
                     "model '%s' is a reranker, which gives scores; use /v1/rerank, or load the model with another "
                     "pooling",
                     info->name);
        return false;
    }
    if (info->pooling == HEARTH_POOLING_NONE && !request->embed->has_norm)
        out->norm = -1; /* as llama-server */
    return true;
}

/* ---- vectors ---- */

static void add_number(float value, hth_buffer *out)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.9g", (double)value); /* fits */
    hth_buffer_add_text(out, isfinite(value) ? text : "null");
}

static void add_vector(const float *values, uint32_t n, hth_buffer *out)
{
    hth_buffer_add_text(out, "[");
    for (uint32_t i = 0; i < n && !out->failed; i++) {
        if (i > 0)
            hth_buffer_add_text(out, ",");
        add_number(values[i], out);
    }
    hth_buffer_add_text(out, "]");
}

/* Little-endian 32-bit floats. */
static void add_base64(const float *values, uint32_t n, hth_buffer *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n_bytes = (size_t)n * sizeof(float);
    uint8_t *bytes = calloc(n_bytes + 3, 1);

    if (!bytes) {
        out->failed = true;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof(bits));
        hth_put_u32(bytes + (size_t)i * sizeof(bits), bits);
    }
    hth_buffer_add_text(out, "\"");
    for (size_t i = 0; i < n_bytes; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        char four[4] = { digits[group >> 18], digits[group >> 12 & 63], i + 1 < n_bytes ? digits[group >> 6 & 63] : '=',
                         i + 2 < n_bytes ? digits[group & 63] : '=' };

        hth_buffer_add(out, four, sizeof(four));
    }
    hth_buffer_add_text(out, "\"");
    free(bytes);
}

static void add_index(size_t i, const char *before, const char *after, hth_buffer *out)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%zu", i); /* fits */
    hth_buffer_add_text(out, before);
    hth_buffer_add_text(out, text);
    hth_buffer_add_text(out, after);
}

static void add_string(const char *text, hth_buffer *out)
{
    hth_buffer_add_json_take(out, json_string(text));
}

static void add_usage(const hearth_embeddings *embeddings, hth_buffer *out)
{
    hth_buffer_add_json_take(out,
                             json_pack("{s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)embeddings->n_tokens_total,
                                       "total_tokens", (json_int_t)embeddings->n_tokens_total, "prompt_tokens_details",
                                       "cached_tokens", (json_int_t)embeddings->n_tokens_cached));
}

/* ---- answers ---- */

static void write_openai(const hth_api_request *request, const hearth_embeddings *embeddings, const char *model,
                         hth_buffer *out)
{
    hth_buffer_add_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < embeddings->n_inputs && !out->failed; i++) {
        add_index(i, i > 0 ? ",{\"object\":\"embedding\",\"index\":" : "{\"object\":\"embedding\",\"index\":",
                  ",\"embedding\":", out);
        if (request->embed->is_base64)
            add_base64(embeddings->vectors[i], embeddings->n_values, out);
        else
            add_vector(embeddings->vectors[i], embeddings->n_values, out);
        hth_buffer_add_text(out, "}");
    }
    hth_buffer_add_text(out, "],\"model\":");
    add_string(model, out);
    hth_buffer_add_text(out, ",\"usage\":");
    add_usage(embeddings, out);
    hth_buffer_add_text(out, "}");
}

static void write_native(const hearth_embeddings *embeddings, hth_buffer *out)
{
    hth_buffer_add_text(out, "[");
    for (size_t i = 0; i < embeddings->n_inputs && !out->failed; i++) {
        add_index(i, i > 0 ? ",{\"index\":" : "{\"index\":", ",\"embedding\":[", out);
        for (uint32_t k = 0; k < embeddings->n_vectors[i] && !out->failed; k++) {
            if (k > 0)
                hth_buffer_add_text(out, ",");
            add_vector(embeddings->vectors[i] + (size_t)k * embeddings->n_values, embeddings->n_values, out);
        }
        hth_buffer_add_text(out, "]}");
    }
    hth_buffer_add_text(out, "]");
}

static void add_ns(const char *name, double ms, hth_buffer *out)
{
    char text[64];

    (void)snprintf(text, sizeof(text), ",\"%s\":%lld", name, (long long)(ms * 1e6)); /* fits */
    hth_buffer_add_text(out, text);
}

static void write_ollama(const hearth_embeddings *embeddings, const char *model, hth_buffer *out)
{
    hth_buffer_add_text(out, "{\"model\":");
    add_string(model, out);
    hth_buffer_add_text(out, ",\"embeddings\":[");
    for (size_t i = 0; embeddings && i < embeddings->n_inputs && !out->failed; i++) {
        if (i > 0)
            hth_buffer_add_text(out, ",");
        add_vector(embeddings->vectors[i], embeddings->n_values, out);
    }
    hth_buffer_add_text(out, "]");
    if (embeddings) {
        add_ns("total_duration", embeddings->queue_ms + embeddings->compute_ms, out);
        add_ns("load_duration", 0, out);
        add_index((size_t)embeddings->n_tokens_total, ",\"prompt_eval_count\":", "", out);
    }
    hth_buffer_add_text(out, "}");
}

static void write_ollama_old(const hearth_embeddings *embeddings, hth_buffer *out)
{
    hth_buffer_add_text(out, "{\"embedding\":");
    add_vector(embeddings ? embeddings->vectors[0] : NULL, embeddings ? embeddings->n_values : 0, out);
    hth_buffer_add_text(out, "}");
}

/* ---- rerank ---- */

typedef struct rank {
    size_t index;
    float score;
} rank;

/* Best first; equal ones as they came. A score that is no number is the worst. */
static int compare(const void *a, const void *b)
{
    const rank *first = a, *second = b;
    bool is_first = first->score > second->score || (isnan(second->score) && !isnan(first->score));
    bool is_second = second->score > first->score || (isnan(first->score) && !isnan(second->score));

    if (is_first != is_second)
        return is_first ? -1 : 1;
    return first->index < second->index ? -1 : first->index > second->index;
}

static void add_rank(const hth_api_embed *embed, const rank *ranked, hth_buffer *out)
{
    const char *text = embed->options.inputs[ranked->index].text;

    add_index(ranked->index, "{\"index\":", embed->is_compact ? ",\"score\":" : ",\"relevance_score\":", out);
    add_number(ranked->score, out);
    if (embed->wants_texts && embed->is_compact) {
        hth_buffer_add_text(out, ",\"text\":");
        add_string(text, out);
    } else if (embed->wants_texts) {
        hth_buffer_add_text(out, ",\"document\":");
        hth_buffer_add_json_take(out, json_pack("{s:s}", "text", text));
    }
    hth_buffer_add_text(out, "}");
}

static void write_ranks(const hth_api_request *request, const hearth_embeddings *embeddings, const char *model,
                        hth_buffer *out)
{
    const hth_api_embed *embed = request->embed;
    size_t n = embed->top_n > 0 && embed->top_n < embeddings->n_inputs ? embed->top_n : embeddings->n_inputs;
    rank *ranks = calloc(embeddings->n_inputs, sizeof(*ranks));

    if (!ranks) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < embeddings->n_inputs; i++)
        ranks[i] = (rank){ .index = i, .score = embeddings->vectors[i][0] }; /* of the first label, as llama-server */
    qsort(ranks, embeddings->n_inputs, sizeof(*ranks), compare);
    hth_buffer_add_text(out, embed->is_compact ? "[" : "{\"object\":\"list\",\"results\":[");
    for (size_t i = 0; i < n && !out->failed; i++) {
        if (i > 0)
            hth_buffer_add_text(out, ",");
        add_rank(embed, &ranks[i], out);
    }
    hth_buffer_add_text(out, "]");
    free(ranks);
    if (embed->is_compact)
        return;
    hth_buffer_add_text(out, ",\"model\":");
    add_string(model, out);
    hth_buffer_add_text(out, ",\"usage\":");
    add_usage(embeddings, out);
    hth_buffer_add_text(out, "}");
}

void hth_api_embed_write(const hth_api_request *request, const hearth_embeddings *embeddings, const char *model,
                         hth_buffer *out)
{
    switch (request->kind) {
    case HTH_API_EMBEDDINGS: write_openai(request, embeddings, model, out); break;
    case HTH_API_NATIVE_EMBEDDING: write_native(embeddings, out); break;
    case HTH_API_OLLAMA_EMBED: write_ollama(embeddings, model, out); break;
    case HTH_API_OLLAMA_EMBEDDINGS: write_ollama_old(embeddings, out); break;
    default: write_ranks(request, embeddings, model, out); break;
    }
}
