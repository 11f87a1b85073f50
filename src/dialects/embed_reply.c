/*
 * embed_reply.c - responses with embeddings or scores: a head, items, an end
 *
 * An item is an input with its vectors, or the score of a document. A piece ends after a vector.
 *
 * Numbers are written as text directly: as JSON values, each would take a hundred bytes. Nine digits identify a float
 * uniquely.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "base/bytes.h"
#include "dialects/answers.h"

bool hth_api_embed_options(const hearth_model_info *info, const hth_api_request *request, hearth_embed_request *out,
                           hth_api_error *error)
{
    bool is_native = request->kind == HTH_API_NATIVE_EMBEDDING;

    *out = request->embed->options;
    if (request->kind == HTH_API_RERANK || !info->embeds)
        return true; /* the library checks the rest */
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
        out->norm = -1; /* as in llama-server */
    return true;
}

/* ---- vectors ---- */

static void add_number(float value, hth_buffer *out)
{
    if (isfinite(value))
        hth_buffer_add_format(out, "%.9g", (double)value);
    else
        hth_buffer_add_text(out, "null");
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

static void add_string(const char *text, hth_buffer *out)
{
    hth_buffer_add_json_take(out, json_string(text));
}

/* ---- scores ---- */

typedef struct rank {
    size_t index;
    float score;
} rank;

/* Best first; equal scores in input order. NaN is the worst score. */
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

    hth_buffer_add_format(out, "{\"index\":%zu,\"%s\":", ranked->index,
                          embed->is_compact ? "score" : "relevance_score");
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

/* ---- answers ---- */

struct hth_api_embed_answer {
    const hth_api_request *request;
    const hearth_embeddings *embeddings; /* NULL: there were no inputs */
    const char *model;
    rank *ranks; /* [n_items], of scores; NULL otherwise */
    size_t n_items;
    bool has_begun;
    size_t item;     /* the next item, */
    uint32_t vector; /* and its next vector */
};

void hth_api_embed_answer_free(hth_api_embed_answer *answer)
{
    if (!answer)
        return;
    free(answer->ranks);
    free(answer);
}

static bool rank_all(hth_api_embed_answer *answer)
{
    const hearth_embeddings *embeddings = answer->embeddings;
    size_t top_n = answer->request->embed->top_n;

    answer->ranks = calloc(embeddings->n_inputs, sizeof(*answer->ranks));
    if (!answer->ranks)
        return false;
    for (size_t i = 0; i < embeddings->n_inputs; i++) /* of the first label, as in llama-server */
        answer->ranks[i] = (rank){ .index = i, .score = embeddings->vectors[i][0] };
    qsort(answer->ranks, embeddings->n_inputs, sizeof(*answer->ranks), compare);
    if (top_n > 0 && top_n < answer->n_items)
        answer->n_items = top_n;
    return true;
}

hth_api_embed_answer *hth_api_embed_answer_new(const hth_api_request *request, const hearth_embeddings *embeddings,
                                               const char *model)
{
    hth_api_embed_answer *answer = malloc(sizeof(*answer));

    if (!answer)
        return NULL;
    *answer = (hth_api_embed_answer){
        .request = request, .embeddings = embeddings, .model = model, .n_items = embeddings ? embeddings->n_inputs : 0
    };
    if (request->kind == HTH_API_OLLAMA_EMBEDDINGS && answer->n_items > 1)
        answer->n_items = 1; /* it has a single prompt */
    if (request->kind == HTH_API_RERANK && embeddings && !rank_all(answer)) {
        hth_api_embed_answer_free(answer);
        return NULL;
    }
    return answer;
}

static void add_head(const hth_api_embed_answer *answer, hth_buffer *out)
{
    switch (answer->request->kind) {
    case HTH_API_EMBEDDINGS: hth_buffer_add_text(out, "{\"object\":\"list\",\"data\":["); break;
    case HTH_API_NATIVE_EMBEDDING: hth_buffer_add_text(out, "["); break;
    case HTH_API_OLLAMA_EMBED:
        hth_buffer_add_text(out, "{\"model\":");
        add_string(answer->model, out);
        hth_buffer_add_text(out, ",\"embeddings\":[");
        break;
    case HTH_API_OLLAMA_EMBEDDINGS: hth_buffer_add_text(out, "{\"embedding\":"); break;
    default: hth_buffer_add_text(out, answer->request->embed->is_compact ? "[" : "{\"object\":\"list\",\"results\":[");
    }
}

/* The beginning of item i. */
static void add_item_head(const hth_api_embed_answer *answer, size_t i, hth_buffer *out)
{
    if (i > 0)
        hth_buffer_add_text(out, ",");
    if (answer->request->kind == HTH_API_EMBEDDINGS)
        hth_buffer_add_format(out, "{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i);
    else if (answer->request->kind == HTH_API_NATIVE_EMBEDDING)
        hth_buffer_add_format(out, "{\"index\":%zu,\"embedding\":[", i);
}

static void add_item_end(const hth_api_embed_answer *answer, hth_buffer *out)
{
    if (answer->request->kind == HTH_API_EMBEDDINGS)
        hth_buffer_add_text(out, "}");
    else if (answer->request->kind == HTH_API_NATIVE_EMBEDDING)
        hth_buffer_add_text(out, "]}");
}

/* Add the next vector, or score. */
static void add_next(hth_api_embed_answer *answer, hth_buffer *out)
{
    const hearth_embeddings *embeddings = answer->embeddings;
    const float *values;

    if (answer->vector == 0)
        add_item_head(answer, answer->item, out);
    else
        hth_buffer_add_text(out, ",");
    if (answer->ranks) {
        add_rank(answer->request->embed, &answer->ranks[answer->item++], out);
        return;
    }
    values = embeddings->vectors[answer->item] + (size_t)answer->vector * embeddings->n_values;
    if (answer->request->embed->is_base64)
        add_base64(values, embeddings->n_values, out);
    else
        add_vector(values, embeddings->n_values, out);
    /* Only /embedding returns more than one vector. */
    if (++answer->vector < embeddings->n_vectors[answer->item] && answer->request->kind == HTH_API_NATIVE_EMBEDDING)
        return;
    add_item_end(answer, out);
    answer->item++;
    answer->vector = 0;
}

static void add_ollama_end(const hearth_embeddings *embeddings, hth_buffer *out)
{
    hth_buffer_add_text(out, "]");
    if (embeddings) {
        hth_buffer_add_format(out, ",\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%llu",
                              (long long)((embeddings->queue_ms + embeddings->compute_ms) * 1e6),
                              (unsigned long long)embeddings->n_tokens_total);
    }
    hth_buffer_add_text(out, "}");
}

static void add_end(const hth_api_embed_answer *answer, hth_buffer *out)
{
    switch (answer->request->kind) {
    case HTH_API_OLLAMA_EMBED: add_ollama_end(answer->embeddings, out); return;
    case HTH_API_OLLAMA_EMBEDDINGS: hth_buffer_add_text(out, answer->embeddings ? "}" : "[]}"); return;
    case HTH_API_NATIVE_EMBEDDING: hth_buffer_add_text(out, "]"); return;
    default: break;
    }
    hth_buffer_add_text(out, "]");
    if (answer->request->embed->is_compact)
        return;
    hth_buffer_add_text(out, ",\"model\":");
    add_string(answer->model, out);
    hth_buffer_add_text(out, ",\"usage\":");
    hth_buffer_add_json_take(out, json_pack("{s:I, s:I, s:{s:I}}", "prompt_tokens",
                                            (json_int_t)answer->embeddings->n_tokens_total, "total_tokens",
                                            (json_int_t)answer->embeddings->n_tokens_total, "prompt_tokens_details",
                                            "cached_tokens", (json_int_t)answer->embeddings->n_tokens_cached));
    hth_buffer_add_text(out, "}");
}

bool hth_api_embed_answer_write(hth_api_embed_answer *answer, size_t n_bytes, hth_buffer *out)
{
    size_t n_before = out->n;

    if (!answer->has_begun)
        add_head(answer, out);
    answer->has_begun = true;
    while (answer->item < answer->n_items && out->n - n_before < n_bytes && !out->failed)
        add_next(answer, out);
    if (answer->item < answer->n_items)
        return false;
    add_end(answer, out);
    return true;
}
