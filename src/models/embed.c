/*
 * embed.c - turns public embedding requests into jobs of the embedder, and returns their results
 *
 * As in submit.c, a request is fully checked here, on the caller's thread: options, texts, lengths.
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/structs.h"
#include "base/utf8.h"
#include "engine/tokenize.h"
#include "models/model_inside.h"

enum {
    INPUTS_MAX = 65536,
    NORM_MAX = 64,
    TOKENS_MAX = 4 << 20,      /* per request: a query is repeated for each document, so a short body may have many */
    ENCODER_TOKENS_MAX = 2048, /* per input, unless the batch is larger: the memory of an evaluation grows with it */
};

/* A request that is being read. */
typedef struct reader {
    hearth_model *model;
    hearth_embed_request request;
    hearth_embed_input *inputs; /* [n_inputs], copies in our size */
    hearth_pooling pooling;
    const atomic_bool *is_gone; /* true: the client is gone; NULL: never */
    hth_embed_job *job;
    hearth_token *query_tokens; /* [n_query_tokens] */
    size_t n_query_tokens;
    size_t n_tokens; /* of the inputs before */
    size_t capacity;
} reader;

uint32_t hth_model_embed_tokens_max(const hth_engine_model_info *info, bool generates, uint32_t n_batch)
{
    uint32_t n = !generates && n_batch < ENCODER_TOKENS_MAX ? ENCODER_TOKENS_MAX : n_batch;

    return info->n_ctx_train > 0 && info->n_ctx_train < n ? info->n_ctx_train : n;
}

hearth_pooling hth_model_pooling(const hearth_model *model)
{
    if (model->pooling != HEARTH_POOLING_MODEL)
        return model->pooling;
    if (model->info.pooling != HEARTH_POOLING_MODEL)
        return model->info.pooling;
    return model->place.context ? HEARTH_POOLING_LAST : HEARTH_POOLING_MEAN;
}

/* ---- options ---- */

hearth_status hth_check_pooling(hearth_pooling pooling, hearth_error *err)
{
    if ((unsigned)pooling > HEARTH_POOLING_RANK)
        return hth_fail(err, HEARTH_MISUSE, "there is no pooling %d; there are model, none, mean, cls, last and rank",
                        (int)pooling);
    return HEARTH_OK;
}

/* Has the operator disabled what the request wants? */
static hearth_status check_is_on(const reader *r, hearth_error *err)
{
    const hearth_model *model = r->model;

    if (r->pooling == HEARTH_POOLING_RANK && model->no_reranking)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "model '%s' gives no scores here: its operator has switched them off (no_reranking)",
                        model->name);
    if (r->pooling != HEARTH_POOLING_RANK && model->no_embeddings)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "model '%s' makes no embeddings here: its operator has switched them off (no_embeddings)",
                        model->name);
    return HEARTH_OK;
}

static hearth_status check_options(reader *r, hearth_error *err)
{
    const hearth_embed_request *request = &r->request;
    const hth_engine_model_info *info = &r->model->info;

    if (!info->embeds)
        return hth_fail(err, HEARTH_UNSUPPORTED, "model '%s' (%s) makes no embeddings", r->model->name,
                        info->architecture);
    if (!request->inputs || request->n_inputs < 1 || request->n_inputs > INPUTS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "there are %zu inputs; there must be 1 to %d", request->n_inputs,
                        INPUTS_MAX);
    if (hth_check_pooling(request->pooling, err) != HEARTH_OK)
        return HEARTH_MISUSE;
    r->pooling = request->query && request->pooling == HEARTH_POOLING_MODEL ? HEARTH_POOLING_RANK
               : request->pooling == HEARTH_POOLING_MODEL                   ? hth_model_pooling(r->model)
                                                                            : request->pooling;
    if (request->query && r->pooling != HEARTH_POOLING_RANK)
        return hth_fail(err, HEARTH_MISUSE, "inputs are scored for a query with pooling rank, not %s",
                        hearth_pooling_name(r->pooling));
    if (r->pooling == HEARTH_POOLING_RANK && info->n_labels == 0)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "model '%s' has no classifier, so it gives no scores; use a reranker, or another pooling",
                        r->model->name);
    if (check_is_on(r, err) != HEARTH_OK)
        return HEARTH_UNSUPPORTED;
    if (request->norm < -1 || request->norm > NORM_MAX)
        return hth_fail(err, HEARTH_MISUSE, "norm is %d; it must be -1 (none), 0 (largest value) or 1 to %d",
                        request->norm, NORM_MAX);
    if (request->dimensions > 0 && r->pooling == HEARTH_POOLING_RANK)
        return hth_fail(err, HEARTH_MISUSE, "dimensions is %u, but pooling rank gives scores, which are not cut",
                        request->dimensions);
    if (request->dimensions > info->n_embedding)
        return hth_fail(err, HEARTH_MISUSE, "dimensions is %u; embeddings of model '%s' have %u values",
                        request->dimensions, r->model->name, info->n_embedding);
    return HEARTH_OK;
}

/* ---- inputs to tokens ---- */

static hearth_status add_tokens(reader *r, const hearth_token *tokens, size_t n, hearth_error *err)
{
    hearth_token *grown;

    if (n == 0)
        return HEARTH_OK;
    grown = hth_grown_by(r->job->tokens, r->n_tokens, n, &r->capacity, sizeof(*grown));
    if (!grown)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu tokens", r->n_tokens + n);
    r->job->tokens = grown;
    memcpy(grown + r->n_tokens, tokens, n * sizeof(*tokens));
    r->n_tokens += n;
    return HEARTH_OK;
}

static hearth_status add_token(reader *r, hearth_token token, hearth_error *err)
{
    return add_tokens(r, &token, 1, err);
}

static hearth_status add_text(reader *r, const char *text, size_t n_bytes, unsigned flags, hearth_error *err)
{
    hearth_token *tokens = NULL;
    size_t n = 0;
    hearth_status status =
        hth_tokenize(r->model->backend, r->model->engine_model, text, n_bytes, flags, r->is_gone, &tokens, &n, err);

    if (status == HEARTH_OK)
        status = add_tokens(r, tokens, n, err);
    free(tokens);
    return status;
}

static hearth_status add_given_tokens(reader *r, size_t i, const hearth_embed_input *input, hearth_error *err)
{
    for (size_t k = 0; k < input->n_tokens; k++)
        if (input->tokens[k] < 0 || (uint32_t)input->tokens[k] >= r->model->info.n_vocab)
            return hth_fail(err, HEARTH_MISUSE, "token %zu of input %zu is %d; this model has tokens 0 to %u", k, i,
                            input->tokens[k], r->model->info.n_vocab - 1);
    return add_tokens(r, input->tokens, input->n_tokens, err);
}

/* The template with query and document in place of their names. */
static char *fill_template(const char *template, const char *query, const char *document, size_t n_document)
{
    static const char query_name[] = "{query}", document_name[] = "{document}";
    size_t n_query = strlen(query), n = 0, n_bytes = 1;
    char *text;

    for (const char *at = template; *at; at++)
        n_bytes += *at == '{' ? n_query + n_document + 1 : 1;
    text = malloc(n_bytes);
    while (text && *template) {
        bool is_query = strncmp(template, query_name, sizeof(query_name) - 1) == 0;
        bool is_document = strncmp(template, document_name, sizeof(document_name) - 1) == 0;

        if (is_query)
            memcpy(text + n, query, n_query);
        else if (is_document)
            memcpy(text + n, document, n_document);
        else
            text[n] = *template;
        n += is_query ? n_query : is_document ? n_document : 1;
        template += is_query ? sizeof(query_name) - 1 : is_document ? sizeof(document_name) - 1 : 1;
    }
    if (text)
        text[n] = '\0';
    return text;
}

/* Join them as in llama-server: by the template, or as query, separator and document. */
static hearth_status add_joined(reader *r, const char *document, size_t n_document, hearth_error *err)
{
    const hth_engine_model_info *info = &r->model->info;
    hearth_token eos = info->special[HEARTH_SPECIAL_EOS], sep = info->special[HEARTH_SPECIAL_SEP];
    hearth_status status = HEARTH_OK;

    if (info->rank_template) {
        char *text = fill_template(info->rank_template, r->request.query, document, n_document);

        status = text ? add_text(r, text, strlen(text), HEARTH_TOKENIZE_SPECIAL, err)
                      : hth_fail(err, HEARTH_NO_MEMORY, "no memory for an input");
        free(text);
        return status;
    }
    if (eos == HTH_NO_TOKEN)
        eos = sep;
    if (info->adds_bos && info->special[HEARTH_SPECIAL_BOS] != HTH_NO_TOKEN)
        status = add_token(r, info->special[HEARTH_SPECIAL_BOS], err);
    if (status == HEARTH_OK)
        status = add_tokens(r, r->query_tokens, r->n_query_tokens, err);
    if (status == HEARTH_OK && info->adds_eos && eos != HTH_NO_TOKEN)
        status = add_token(r, eos, err);
    if (status == HEARTH_OK && info->adds_sep && sep != HTH_NO_TOKEN)
        status = add_token(r, sep, err);
    if (status == HEARTH_OK)
        status = add_text(r, document, n_document, 0, err);
    if (status == HEARTH_OK && info->adds_eos && eos != HTH_NO_TOKEN)
        status = add_token(r, eos, err);
    return status;
}

static hearth_status add_again(reader *r, size_t begin, const char *document, size_t n_document, hearth_error *err)
{
    r->n_tokens = begin;
    return add_joined(r, document, n_document, err);
}

/*
 * The position where a document may be cut: the last end of a character in (after, n], otherwise the first one after n.
 */
static size_t character_end(const char *document, size_t after, size_t n)
{
    while (n > after && hth_utf8_goes_on(document[n]))
        n--;
    if (n == after)
        n++;
    while (hth_utf8_goes_on(document[n]))
        n++;
    return n;
}

/*
 * Cut a document that is too long together with its query. The number of tokens is known only after joining and
 * tokenizing, so the length is searched for, alternating interpolation and bisection, until nearly all of the room is
 * used.
 */
static hearth_status add_cut(reader *r, size_t i, size_t begin, const char *document, hearth_error *err)
{
    const size_t n_max = r->model->embed_tokens_max, n_enough = n_max - n_max / 16;
    size_t fits = 0, too_long = strlen(document), bytes = 0; /* bytes of the document */
    size_t n_fits, n_too_long = r->n_tokens - begin;         /* tokens of the input with them */
    hearth_status status = add_again(r, begin, document, 0, err);

    n_fits = r->n_tokens - begin;
    for (unsigned step = 0; status == HEARTH_OK && n_fits < n_max && (fits == 0 || n_fits < n_enough); step++) {
        size_t more = step % 2 ? (too_long - fits) / 2 : (too_long - fits) * (n_max - n_fits) / (n_too_long - n_fits);

        bytes = character_end(document, fits, fits + more);
        if (bytes >= too_long)
            break;
        status = add_again(r, begin, document, bytes, err);
        if (r->n_tokens - begin <= n_max) {
            fits = bytes;
            n_fits = r->n_tokens - begin;
        } else {
            too_long = bytes;
            n_too_long = r->n_tokens - begin;
        }
    }
    if (status == HEARTH_OK && fits == 0)
        return hth_fail(err, HEARTH_TOO_LONG,
                        "the query leaves no room for document %zu: together they may have at most %zu tokens; shorten "
                        "the query",
                        i, n_max);
    return status == HEARTH_OK && bytes != fits ? add_again(r, begin, document, fits, err) : status;
}

static hearth_status add_pair(reader *r, size_t i, const char *document, hearth_error *err)
{
    size_t begin = r->n_tokens;
    hearth_status status = add_joined(r, document, strlen(document), err);

    if (status == HEARTH_OK && r->request.truncate && r->n_tokens - begin > r->model->embed_tokens_max)
        return add_cut(r, i, begin, document, err);
    return status;
}

static hearth_status add_input(reader *r, size_t i, const hearth_embed_input *input, hearth_error *err)
{
    size_t n_bytes;
    hearth_status status;

    if (!input->text == !input->tokens)
        return hth_fail(err, HEARTH_MISUSE, "input %zu must have either a text or tokens", i);
    if (r->request.query && !input->text)
        return hth_fail(err, HEARTH_MISUSE, "input %zu has tokens; with a query it must be a text", i);
    if (input->tokens)
        return add_given_tokens(r, i, input, err);
    n_bytes = strlen(input->text);
    if (n_bytes == 0 && r->request.query)
        return hth_fail(err, HEARTH_MISUSE, "input %zu is empty; give at least one character", i);
    status = hth_check_text("an input", input->text, n_bytes, err);
    if (status != HEARTH_OK)
        return status;
    return r->request.query ? add_pair(r, i, input->text, err)
                            : add_text(r, input->text, n_bytes, r->request.tokenize_flags, err);
}

/* Truncate an input, keeping the token that the tokenizer puts after every text. */
static void cut(reader *r, size_t begin, uint32_t n_max)
{
    const hth_engine_model_info *info = &r->model->info;
    hearth_token *tokens = r->job->tokens + begin;
    hearth_token last = r->job->tokens[r->n_tokens - 1];

    if (n_max > 1 && last != HTH_NO_TOKEN &&
        (last == info->special[HEARTH_SPECIAL_EOS] || last == info->special[HEARTH_SPECIAL_SEP]))
        tokens[n_max - 1] = last;
    r->n_tokens = begin + n_max;
}

static hearth_status read_input(reader *r, size_t i, hearth_error *err)
{
    const uint32_t n_max = r->model->embed_tokens_max;
    size_t begin = r->n_tokens, n;
    hearth_status status = add_input(r, i, &r->inputs[i], err);

    if (status != HEARTH_OK)
        return status;
    n = r->n_tokens - begin;
    if (n == 0)
        return hth_fail(err, HEARTH_MISUSE, "input %zu is empty; give at least one token", i);
    if (n > n_max && !r->request.truncate)
        return hth_fail(err, HEARTH_TOO_LONG,
                        "input %zu has %zu tokens; an input of model '%s' may have at most %u: shorten it, have it "
                        "truncated, or load the model with a larger batch (it was trained with %u tokens)",
                        i, n, r->model->name, n_max, r->model->info.n_ctx_train);
    if (n > n_max) {
        cut(r, begin, n_max);
        n = n_max;
    }
    if (r->n_tokens > TOKENS_MAX)
        return hth_fail(err, HEARTH_MISUSE,
                        "inputs 0 to %zu have %zu tokens, each with the query if there is one; a request may have at "
                        "most %d: send fewer inputs at once",
                        i, r->n_tokens, TOKENS_MAX);
    r->job->n_tokens[i] = (uint32_t)n;
    return HEARTH_OK;
}

/* The query alone must fit into an input. This bounds its cost for each document, even if inputs are truncated. */
static hearth_status read_query(reader *r, hearth_error *err)
{
    const char *query = r->request.query;
    hearth_status status = hth_check_text("the query", query, strlen(query), err);

    if (status == HEARTH_OK)
        status = hth_tokenize(r->model->backend, r->model->engine_model, query, strlen(query), 0, r->is_gone,
                              &r->query_tokens, &r->n_query_tokens, err);
    if (status == HEARTH_OK && r->n_query_tokens >= r->model->embed_tokens_max)
        return hth_fail(err, HEARTH_TOO_LONG,
                        "the query has %zu tokens; query and document of model '%s' may have at most %u together: "
                        "shorten the query",
                        r->n_query_tokens, r->model->name, r->model->embed_tokens_max);
    return status;
}

static hearth_status read_inputs(reader *r, hearth_error *err)
{
    const hearth_embed_request *request = &r->request;
    hearth_status status = HEARTH_OK;

    if (request->query)
        status = read_query(r, err);
    r->inputs = calloc(request->n_inputs, sizeof(*r->inputs));
    r->job = calloc(1, sizeof(*r->job));
    if (r->job)
        r->job->n_tokens = calloc(request->n_inputs, sizeof(*r->job->n_tokens));
    if (status == HEARTH_OK && (!r->inputs || !r->job || !r->job->n_tokens))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu inputs", request->n_inputs);
    if (status == HEARTH_OK)
        status = hth_structs_read(r->inputs, sizeof(*r->inputs), request->inputs, request->n_inputs,
                                  "hearth_embed_input", err);
    for (size_t i = 0; i < request->n_inputs && status == HEARTH_OK; i++)
        status = read_input(r, i, err);
    return status;
}

/* ---- submitting ---- */

static hearth_status make_job(reader *r, uint64_t n_values_max, hearth_error *err)
{
    const hearth_embed_request *request = &r->request;
    const hth_engine_model_info *info = &r->model->info;
    uint32_t n_values = r->pooling == HEARTH_POOLING_RANK ? info->n_labels
                      : request->dimensions > 0           ? request->dimensions
                                                          : info->n_embedding;
    hearth_status status = read_inputs(r, err);

    if (status == HEARTH_OK)
        status = hth_embeddings_new(r->pooling, n_values, r->job->n_tokens, request->n_inputs, n_values_max,
                                    &r->job->embeddings, err);
    if (status == HEARTH_OK)
        status =
            hth_adapters_choose(&r->model->adapters, request->adapters, request->n_adapters, &r->job->adapters, err);
    if (status == HEARTH_OK)
        status = hth_model_keyspace(r->model, r->job->adapters, request->cache_salt, &r->job->keyspace, err);
    if (status != HEARTH_OK)
        return status;
    r->job->n_inputs = request->n_inputs;
    r->job->norm = request->norm;
    r->job->no_cache_read = request->no_cache_read;
    r->job->on_done = request->on_done;
    r->job->user_data = request->user_data;
    return HEARTH_OK;
}

hearth_status hth_embed_submit(hearth_model *model, const hearth_embed_request *request, const hth_embed_terms *terms,
                               uint64_t *id_out, hearth_error *err)
{
    reader r = { .model = model, .request = hearth_embed_request_default(), .is_gone = terms->is_gone };
    hearth_status status;
    uint64_t id;

    if (!request)
        return hth_fail(err, HEARTH_MISUSE, "hearth_embed: request is NULL");
    status = hth_struct_read(&r.request, sizeof(r.request), request, "hearth_embed_request", err);
    if (status == HEARTH_OK)
        status = hth_model_enter(model, "hearth_embed", err);
    if (status != HEARTH_OK)
        return status;
    status = check_options(&r, err);
    if (status == HEARTH_OK)
        status = make_job(&r, terms->n_values_max, err);
    if (status == HEARTH_OK) {
        id = hth_runtime_next_request_ids(model->runtime, 1);
        r.job->id = id;
        r.job->is_gone = r.is_gone;
        r.job->counts_answer = terms->counts_answer;
        r.job->on_worked = terms->on_worked;
        if (id_out)
            *id_out = id; /* before on_done runs, which may read it */
        status = hth_embedder_submit(model->embedder, r.job, err);
    } else {
        hth_embed_job_free(r.job);
    }
    free(r.inputs);
    free(r.query_tokens);
    hth_model_leave(model);
    return status;
}

hearth_status hearth_embed_submit(hearth_model *model, const hearth_embed_request *request, uint64_t *id_out,
                                  hearth_error *err)
{
    const hth_embed_terms terms = { .n_values_max = HTH_EMBEDDINGS_VALUES_MAX };

    return hth_embed_submit(model, request, &terms, id_out, err);
}

void hth_embed_wait_idle(hearth_model *model)
{
    hth_embedder_wait_idle(model->embedder);
}

/* The blocking form waits for on_done, passing the caller's callback through. */
typedef struct waiter {
    hearth_embedded_fn on_done;
    void *user_data;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const hearth_embeddings *embeddings; /* NULL: not done yet */
} waiter;

static void take_embeddings(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    waiter *w = user_data;

    if (w->on_done)
        w->on_done(id, embeddings, w->user_data);
    pthread_mutex_lock(&w->lock);
    w->embeddings = hearth_embeddings_ref(embeddings);
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

hearth_status hearth_embed(hearth_model *model, const hearth_embed_request *request, const hearth_embeddings **out,
                           hearth_error *err)
{
    hearth_embed_request inner = hearth_embed_request_default();
    waiter w = { .embeddings = NULL };
    hearth_status status;

    if (!request || !out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_embed: request or out is NULL");
    if (hth_embedder_is_this_thread())
        return hth_fail(err, HEARTH_MISUSE, "hearth_embed was called in a callback, which its embeddings wait for");
    status = hth_struct_read(&inner, sizeof(inner), request, "hearth_embed_request", err);
    if (status != HEARTH_OK)
        return status;
    w.on_done = inner.on_done;
    w.user_data = inner.user_data;
    inner.on_done = take_embeddings;
    inner.user_data = &w;
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    status = hearth_embed_submit(model, &inner, NULL, err);
    if (status == HEARTH_OK) {
        pthread_mutex_lock(&w.lock);
        while (!w.embeddings)
            pthread_cond_wait(&w.changed, &w.lock);
        pthread_mutex_unlock(&w.lock);
        status = w.embeddings->status;
        if (status == HEARTH_OK)
            *out = w.embeddings;
        else if (err)
            *err = w.embeddings->error;
        if (status != HEARTH_OK)
            hearth_embeddings_unref(w.embeddings);
    }
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    return status;
}
