/*
 * backend_stub.c - a deterministic engine without a model, for tests
 *
 * It behaves like the llama.cpp backend where the layers above can tell: one unified buffer of cells that sequences
 * share, blobs in the engine's own format, each kind's limits of cutting and rewinding, no room, aborts. What differs
 * is the arithmetic. A cell's bytes are derived from everything that the sequence held before it, its token and its
 * position; logits are derived from the bytes and positions of all cells of the sequence. So a cell that is missing,
 * altered, misplaced or taken from another prefix changes every logit that follows, and a right restore changes none.
 * What the real engine would answer with silently wrong logits (a window cut too late, a state that is missing) gives
 * wrong logits here, too: unlike the real backend, this one evaluates a sequence that is not whole.
 *
 * path is "stub:" with optional parameters, "stub:kind=window,delay_us=100":
 *
 *   n_ctx_train   4096   context that the model claims to be trained with
 *   top_k                what it claims to recommend
 *   cell_bytes    0      what it claims a cell to take
 *   free_mib      1024   MiB that it claims to be free for cells
 *   vocab         260    tokens: 256 bytes, 4 control tokens, and made-up words beyond
 *   delay_us      0      how long each row of a batch takes
 *   kind          plain  plain, window, recurrent, hybrid
 *   window        64     positions of a window; a hybrid has one where it is given
 *   fills         0      1: the bytes '<', '|' and '>' ask for what stands between two texts
 *
 * A plain one may have a script of what it replies instead of a chat template (stub_script.h).
 */
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "cache/row.h"
#include "engine/backend.h"
#include "engine/blob.h"
#include "engine/blob_part.h"
#include "engine/sampler.h"
#include "engine/sampling.h"
#include "engine/stub_chat.h"
#include "engine/stub_script.h"

#define TOKEN_BOS 256
#define TOKEN_EOS 257
#define TOKEN_TURN_BEGIN 258
#define TOKEN_TURN_END 259
#define FIRST_WORD_TOKEN 260

#define N_SEQ_MAX 256
#define N_WINDOW_DEFAULT 64
#define TYPE_F16 1 /* ggml's number */

/* Two layers, each 16 values of K and of V in f16. Window models keep the second one in their window only. */
#define N_LAYERS 2
#define ROW_BYTES ((size_t)32)
#define LAYER_BYTES (2 * ROW_BYTES)
#define CELL_BYTES (N_LAYERS * LAYER_BYTES)
#define STATE_BYTES 64          /* recurrent state of a sequence */
#define RECURRENT_HEAD_BYTES 32 /* of its section, before the state: five u32, then type and row size */

#define EMPTY_CELL UINT32_MAX

struct hth_engine_model {
    hth_model_kind kind;
    uint32_t n_ctx_train;
    uint32_t top_k; /* UINT32_MAX: it recommends nothing */
    uint32_t cell_bytes;
    uint32_t free_mib;
    uint32_t n_vocab;
    uint32_t delay_us;
    uint32_t n_window; /* 0: none */
    uint32_t fills;    /* 1: it can be asked for what stands between two texts */
    bool template_given;
    hth_stub_script *script; /* NULL: none */
    hth_texts *texts;
};

typedef struct cell_owners {
    uint64_t bits[N_SEQ_MAX / 64];
} cell_owners;

typedef struct sequence {
    uint64_t sum;      /* of the digests of its cells: both layers, or the first one of window models */
    uint32_t n_tokens; /* one more than the highest position; 0 when empty */
    uint32_t rest_end; /* one more than the position after which state is; 0: there is none */
    uint32_t last;     /* its last cell, where that cell says so */
    uint8_t state[STATE_BYTES];
} sequence;

struct hth_engine_context {
    const hth_engine_model *model;
    hth_engine_context_params params;
    hth_blob_format format;

    uint32_t *positions; /* of cells, [n_ctx]; EMPTY_CELL where there is none */
    cell_owners *owners; /* [n_ctx] */
    uint8_t (*cells)[CELL_BYTES];
    bool *in_window; /* is the window's layer of the cell there? [n_ctx] */
    uint32_t n_used;
    uint32_t first_free; /* no cell below it is free */
    uint32_t n_high;     /* no cell from here on was ever used */

    sequence *sequences; /* [n_seq_max] */

    size_t n_rows;       /* of the last decode */
    uint32_t *logits_of; /* [n_batch], index into logits; UINT32_MAX where none were asked for */
    float *logits;
    size_t n_logits_rows_max;
    hth_blob_layout layout; /* of the blob at hand */
};

/* ---- hashing ----------------------------------------------------------------------------------------------------- */

/* The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t mix2(uint64_t a, uint64_t b)
{
    return mix(mix(a) + b);
}

static uint64_t digest(const uint8_t *bytes, size_t n_bytes)
{
    uint64_t hash = n_bytes;

    for (size_t i = 0; i < n_bytes; i += 8)
        hash = mix2(hash, hth_get_u64(bytes + i));
    return hash;
}

static void expand(uint64_t seed, uint8_t *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += 8)
        hth_put_u64(bytes + i, mix2(seed, i));
}

/* ---- model ------------------------------------------------------------------------------------------------------- */

static const char *build(void)
{
    return "stub 1";
}

static hearth_status devices(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err)
{
    (void)out;
    (void)capacity;
    if (!n_out)
        return hth_fail(err, HEARTH_MISUSE, "devices need room");
    *n_out = 0; /* it computes nothing */
    return HEARTH_OK;
}

static const struct {
    const char *name;
    hth_model_kind kind;
} kinds[] = {
    { "plain", HTH_MODEL_PLAIN },
    { "window", HTH_MODEL_WINDOW },
    { "recurrent", HTH_MODEL_RECURRENT },
    { "hybrid", HTH_MODEL_HYBRID },
};

static const char *kind_name(hth_model_kind kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].kind == kind)
            return kinds[i].name;
    return "unknown";
}

static bool parse_kind(const char *text, hth_model_kind *out)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, text) == 0) {
            *out = kinds[i].kind;
            return true;
        }
    }
    return false;
}

static bool parse_number(const char *text, uint32_t low, uint32_t high, uint32_t *out)
{
    char *rest;
    unsigned long value;

    if (*text < '0' || *text > '9')
        return false;
    value = strtoul(text, &rest, 10);
    if (*rest || value < low || value > high)
        return false;
    *out = (uint32_t)value;
    return true;
}

static hearth_status parse_parameters(const char *path, hth_engine_model *model, hearth_error *err)
{
    char text[256];
    char *rest = text;
    char *item;

    if (strncmp(path, "stub:", 5) != 0)
        return hth_fail(err, HEARTH_MISUSE, "'%s' is no stub model: it must begin with 'stub:'", path);
    if ((size_t)snprintf(text, sizeof(text), "%s", path + 5) >= sizeof(text))
        return hth_fail(err, HEARTH_MISUSE, "the stub model's parameters are longer than %zu bytes", sizeof(text) - 1);
    while ((item = strtok_r(rest, ",", &rest))) {
        char *value = strchr(item, '=');
        bool ok = false;

        if (value) {
            *value++ = '\0';
            if (strcmp(item, "n_ctx_train") == 0)
                ok = parse_number(value, 1, 1u << 20, &model->n_ctx_train);
            else if (strcmp(item, "top_k") == 0)
                ok = parse_number(value, 0, 1u << 20, &model->top_k);
            else if (strcmp(item, "cell_bytes") == 0)
                ok = parse_number(value, 0, 1u << 30, &model->cell_bytes);
            else if (strcmp(item, "free_mib") == 0)
                ok = parse_number(value, 0, 1u << 20, &model->free_mib);
            else if (strcmp(item, "vocab") == 0)
                ok = parse_number(value, FIRST_WORD_TOKEN, 1u << 20, &model->n_vocab);
            else if (strcmp(item, "delay_us") == 0)
                ok = parse_number(value, 0, 10 * 1000 * 1000, &model->delay_us);
            else if (strcmp(item, "window") == 0)
                ok = parse_number(value, 1, 1u << 20, &model->n_window);
            else if (strcmp(item, "kind") == 0)
                ok = parse_kind(value, &model->kind);
            else if (strcmp(item, "fills") == 0)
                ok = parse_number(value, 0, 1, &model->fills);
        }
        if (!ok)
            return hth_fail(err, HEARTH_MISUSE,
                            "'%s' has a bad parameter '%s'; known are n_ctx_train, top_k, cell_bytes, free_mib, vocab, "
                            "delay_us, kind, fills and window",
                            path, item);
    }
    return HEARTH_OK;
}

static hearth_status text_of_token(const void *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out);
static bool ends_reply(const void *model, hearth_token token);

static hearth_status model_load(const char *path, const hth_engine_model_params *params, hth_engine_model **out,
                                hearth_error *err)
{
    hearth_status status;
    hth_engine_model *model;

    if (!path || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "a model needs a path and parameters");
    model = malloc(sizeof(*model));
    if (!model)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stub model");
    *model = (hth_engine_model){
        .kind = HTH_MODEL_PLAIN,
        .n_ctx_train = 4096,
        .free_mib = 1024,
        .top_k = UINT32_MAX,
        .n_vocab = FIRST_WORD_TOKEN,
        .template_given = params->chat_template != NULL,
    };
    status = parse_parameters(path, model, err);
    if (model->kind == HTH_MODEL_PLAIN || model->kind == HTH_MODEL_RECURRENT)
        model->n_window = 0;
    else if (model->kind == HTH_MODEL_WINDOW && model->n_window == 0)
        model->n_window = N_WINDOW_DEFAULT;
    for (int i = 0; i <= 4 && status == HEARTH_OK && params->progress; i++)
        if (!params->progress((float)i / 4, params->progress_user_data))
            status = hth_fail(err, HEARTH_CANCELLED, "loading '%s' was cancelled", path);
    if (status == HEARTH_OK) {
        model->texts = hth_texts_new(&(hth_vocabulary_source){
            .n_tokens = model->n_vocab, .piece = text_of_token, .is_end = ends_reply, .model = model });
        if (!model->texts)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stub model");
    }
    if (status == HEARTH_OK && model->kind == HTH_MODEL_PLAIN)
        model->script = hth_stub_script_new(params->chat_template);
    if (status != HEARTH_OK) {
        free(model);
        return status;
    }
    *out = model;
    return HEARTH_OK;
}

static void model_free(hth_engine_model *model)
{
    if (!model)
        return;
    hth_texts_free(model->texts);
    hth_stub_script_free(model->script);
    free(model);
}

static void model_info(const hth_engine_model *model, hth_engine_model_info *out)
{
    *out = (hth_engine_model_info){
        .kind = model->kind,
        .architecture = "stub",
        .quant_type = "unknown",
        .n_params = 1000,
        .weight_bytes = 1000,
        .n_ctx_train = model->n_ctx_train,
        .n_vocab = model->n_vocab,
        .n_layers = N_LAYERS,
        .n_window = model->n_window,
        .chat_template = "a stub's, in C",
        .vocabulary_type = HEARTH_VOCABULARY_OTHER,
        .adds_bos = true,
        .advice = { NAN, model->top_k < UINT32_MAX ? (float)model->top_k : NAN, NAN, NAN, NAN, NAN, NAN, NAN },
    };
    for (size_t i = 0; i < HEARTH_SPECIALS; i++)
        out->special[i] = HTH_NO_TOKEN;
    out->special[HEARTH_SPECIAL_BOS] = TOKEN_BOS;
    out->special[HEARTH_SPECIAL_EOS] = TOKEN_EOS;
    out->special[HEARTH_SPECIAL_EOT] = TOKEN_TURN_END;
    out->special[HEARTH_SPECIAL_NEWLINE] = '\n';
    if (model->fills) {
        out->special[HEARTH_SPECIAL_FIM_PREFIX] = '<';
        out->special[HEARTH_SPECIAL_FIM_SUFFIX] = '|';
        out->special[HEARTH_SPECIAL_FIM_MIDDLE] = '>';
    }
    (void)snprintf(out->description, sizeof(out->description), "stub %s", kind_name(model->kind)); /* fits */
    (void)snprintf(out->chat_template_kind, sizeof(out->chat_template_kind), "%s",
                   model->template_given ? "given" : "model"); /* fits */
}

/* As many cells as it is asked for cost nothing. */
static void cell_room(const hth_engine_model *model, const char *type_k, const char *type_v, hth_cell_room *out)
{
    (void)type_k;
    (void)type_v;
    *out = (hth_cell_room){
        .cell_bytes = model->cell_bytes,
        .free_bytes = (uint64_t)model->free_mib << 20,
        .total_bytes = (uint64_t)model->free_mib << 20,
    };
}

static const char *const control_names[] = { "<s>", "</s>", "<|im_start|>", "<|im_end|>" };

/* The control token whose name text begins with, or -1. */
static hearth_token control_token_at(const char *text, size_t n_bytes)
{
    for (size_t i = 0; i < sizeof(control_names) / sizeof(control_names[0]); i++) {
        size_t n = strlen(control_names[i]);

        if (n <= n_bytes && memcmp(text, control_names[i], n) == 0)
            return TOKEN_BOS + (hearth_token)i;
    }
    return -1;
}

static hearth_status tokenize(const hth_engine_model *model, const char *text, size_t n_bytes, unsigned flags,
                              hearth_token *tokens, size_t capacity, size_t *n_out, hth_tokenize_result *result,
                              hearth_error *err)
{
    size_t n = 0;

    if (!model || (!text && n_bytes > 0) || (!tokens && capacity > 0) || !n_out || !result)
        return hth_fail(err, HEARTH_MISUSE, "tokenize needs a model, a text and room");
    if (flags & HEARTH_TOKENIZE_BOS) {
        if (n < capacity)
            tokens[n] = TOKEN_BOS;
        n++;
    }
    for (size_t i = 0; i < n_bytes; n++) {
        hearth_token token = flags & HEARTH_TOKENIZE_SPECIAL ? control_token_at(text + i, n_bytes - i) : -1;

        i += token < 0 ? 1 : strlen(control_names[token - TOKEN_BOS]);
        if (token < 0)
            token = (unsigned char)text[i - 1];
        if (n < capacity)
            tokens[n] = token;
    }
    *n_out = n;
    *result = n <= capacity ? HTH_TOKENIZE_OK : HTH_TOKENIZE_MORE_ROOM;
    return HEARTH_OK;
}

static hearth_status piece(const hth_engine_model *model, hearth_token token, bool special, char *bytes,
                           size_t capacity, size_t *n_out, hearth_error *err)
{
    char text[32];
    size_t n;

    if (!model || (!bytes && capacity > 0) || !n_out || token < 0 || (uint32_t)token >= model->n_vocab)
        return hth_fail(err, HEARTH_MISUSE, "token %d is not in the vocabulary", token);
    if (token < TOKEN_BOS) {
        text[0] = (char)token;
        n = 1;
    } else if (token < FIRST_WORD_TOKEN) {
        n = special ? strlen(control_names[token - TOKEN_BOS]) : 0;
        memcpy(text, control_names[token - TOKEN_BOS], n);
    } else {
        n = (size_t)snprintf(text, sizeof(text), " w%d", token);
    }
    if (n > capacity)
        return hth_fail(err, HEARTH_MISUSE, "the text of token %d needs %zu bytes", token, n);
    if (n > 0)
        memcpy(bytes, text, n);
    *n_out = n;
    return HEARTH_OK;
}

static bool is_end(const hth_engine_model *model, hearth_token token)
{
    return model && (token == TOKEN_EOS || token == TOKEN_TURN_END);
}

static hearth_status token_flags(const hth_engine_model *model, hearth_token token, unsigned *out, hearth_error *err)
{
    if (!model || !out || token < 0 || (uint32_t)token >= model->n_vocab)
        return hth_fail(err, HEARTH_MISUSE, "token %d is not in the vocabulary", token);
    *out = token < TOKEN_BOS        ? HEARTH_TOKEN_BYTE
         : token < FIRST_WORD_TOKEN ? HEARTH_TOKEN_CONTROL
                                    : HEARTH_TOKEN_NORMAL;
    if (is_end(model, token))
        *out |= HEARTH_TOKEN_END;
    return HEARTH_OK;
}

/* The last value is no UTF-8, as a file's may be. */
static const char *const metadata_pairs[][2] = {
    { "general.architecture", "stub" },
    { "stub.block_count", "2" },
    { "stub.bytes", "\xff!" },
};
enum { N_METADATA = sizeof(metadata_pairs) / sizeof(metadata_pairs[0]) };

static size_t metadata_count(const hth_engine_model *model)
{
    (void)model;
    return N_METADATA;
}

static hearth_status copy_metadata(const char *text, char **out, hearth_error *err)
{
    char *copy = strdup(text);

    if (!copy)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for metadata");
    *out = copy;
    return HEARTH_OK;
}

static hearth_status metadata_key(const hth_engine_model *model, size_t index, char **out, hearth_error *err)
{
    (void)model;
    if (index >= N_METADATA)
        return hth_fail(err, HEARTH_NOT_FOUND, "the model's metadata has no pair of that number");
    return copy_metadata(metadata_pairs[index][0], out, err);
}

static hearth_status metadata(const hth_engine_model *model, const char *key, char **out, hearth_error *err)
{
    (void)model;
    for (size_t i = 0; i < N_METADATA; i++)
        if (strcmp(metadata_pairs[i][0], key) == 0)
            return copy_metadata(metadata_pairs[i][1], out, err);
    return hth_fail(err, HEARTH_NOT_FOUND, "the model's metadata has no %.200s", key);
}

static hearth_status chat_render(const hth_engine_model *model, const hearth_chat_message *messages, size_t n_messages,
                                 char **text_out, hearth_error *err)
{
    static const char frame[] = "<|im_start|>%s\n%s<|im_end|>\n";
    static const char prompt[] = "<|im_start|>assistant\n";
    size_t n_bytes = sizeof(prompt);
    size_t at = 0;
    char *text;

    if (!model || (!messages && n_messages > 0) || !text_out)
        return hth_fail(err, HEARTH_MISUSE, "a chat needs messages");
    for (size_t i = 0; i < n_messages; i++) {
        if (!messages[i].role || !messages[i].content)
            return hth_fail(err, HEARTH_MISUSE, "chat message %zu has no role or no content", i);
        n_bytes += sizeof(frame) + strlen(messages[i].role) + strlen(messages[i].content);
    }
    text = malloc(n_bytes);
    if (!text)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a chat of %zu bytes", n_bytes);
    for (size_t i = 0; i < n_messages; i++)
        at += (size_t)snprintf(text + at, n_bytes - at, frame, messages[i].role, messages[i].content);
    memcpy(text + at, prompt, sizeof(prompt));
    *text_out = text;
    return HEARTH_OK;
}

/* ---- context ----------------------------------------------------------------------------------------------------- */

static bool has_cells(const hth_engine_context *context)
{
    return context->format.has_attention;
}

static void context_free(hth_engine_context *context)
{
    if (!context)
        return;
    free(context->positions);
    free(context->owners);
    free(context->cells);
    free(context->in_window);
    free(context->sequences);
    free(context->logits_of);
    free(context->logits);
    free(context);
}

static hearth_status context_new(hth_engine_model *model, const hth_engine_context_params *params,
                                 hth_engine_context **out, hearth_error *err)
{
    hth_engine_context *context;
    uint32_t n_ctx;

    if (!model || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "a context needs a model and parameters");
    n_ctx = params->n_ctx ? params->n_ctx : model->n_ctx_train;
    if (n_ctx > 1u << 24)
        return hth_fail(err, HEARTH_MISUSE, "a context of %u tokens is too long; at most %u", n_ctx, 1u << 24);
    if (params->n_batch < 1 || params->n_batch > 1u << 16)
        return hth_fail(err, HEARTH_MISUSE, "n_batch is %u; it must be 1 to %u", params->n_batch, 1u << 16);
    if (params->n_seq_max < 1 || params->n_seq_max > N_SEQ_MAX)
        return hth_fail(err, HEARTH_MISUSE, "n_seq_max is %u; it must be 1 to %d", params->n_seq_max, N_SEQ_MAX);

    context = calloc(1, sizeof(*context));
    if (!context)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a stub context");
    context->model = model;
    context->params = *params;
    context->params.n_ctx = n_ctx;
    context->format = (hth_blob_format){
        .has_attention = model->kind != HTH_MODEL_RECURRENT,
        .has_window = model->n_window > 0,
        .has_recurrent = model->kind == HTH_MODEL_RECURRENT || model->kind == HTH_MODEL_HYBRID,
        .n_window = model->n_window,
    };
    context->positions = malloc(n_ctx * sizeof(context->positions[0]));
    context->owners = calloc(n_ctx, sizeof(context->owners[0]));
    context->cells = calloc(n_ctx, sizeof(context->cells[0]));
    context->in_window = calloc(n_ctx, sizeof(context->in_window[0]));
    context->sequences = calloc(params->n_seq_max, sizeof(context->sequences[0]));
    context->logits_of = malloc(params->n_batch * sizeof(context->logits_of[0]));
    if (!context->positions || !context->owners || !context->cells || !context->in_window || !context->sequences ||
        !context->logits_of) {
        context_free(context);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a stub context of %u tokens", n_ctx);
    }
    for (uint32_t i = 0; i < n_ctx; i++)
        context->positions[i] = EMPTY_CELL;
    *out = context;
    return HEARTH_OK;
}

static void context_info(const hth_engine_context *context, hth_engine_context_info *out)
{
    *out = (hth_engine_context_info){
        .n_ctx = context->params.n_ctx,
        .n_batch = context->params.n_batch,
        .n_seq_max = context->params.n_seq_max,
        .idle_cost = { .cells_max = UINT32_MAX }, /* they cost nothing */
    };
    (void)snprintf(out->params_text, sizeof(out->params_text),
                   "backend=stub build=1 rows=2 block=%u kind=%s window=%u vocab=%u", HTH_BLOCK_TOKENS,
                   kind_name(context->model->kind), context->model->n_window, context->model->n_vocab); /* fits */
}

static bool owns(const hth_engine_context *context, uint32_t cell, uint32_t id)
{
    return context->owners[cell].bits[id / 64] >> id % 64 & 1;
}

static uint64_t layer_digest(const hth_engine_context *context, uint32_t cell, int layer)
{
    uint64_t place = (uint64_t)context->positions[cell] * N_LAYERS + (uint64_t)layer;

    return mix2(place, digest(context->cells[cell] + layer * LAYER_BYTES, LAYER_BYTES));
}

/* What a cell adds to the sum of each of its sequences. */
static uint64_t cell_digest(const hth_engine_context *context, uint32_t cell)
{
    uint64_t sum = layer_digest(context, cell, 0);

    return context->format.has_window ? sum : sum + layer_digest(context, cell, 1);
}

static void own(hth_engine_context *context, uint32_t cell, uint32_t id)
{
    context->owners[cell].bits[id / 64] |= UINT64_C(1) << id % 64;
    context->sequences[id].sum += cell_digest(context, cell);
    if (context->positions[cell] >= context->sequences[id].n_tokens)
        context->sequences[id].n_tokens = context->positions[cell] + 1;
}

static void disown(hth_engine_context *context, uint32_t cell, uint32_t id)
{
    cell_owners *owners = &context->owners[cell];

    context->sequences[id].sum -= cell_digest(context, cell);
    owners->bits[id / 64] &= ~(UINT64_C(1) << id % 64);
    for (size_t i = 0; i < sizeof(owners->bits) / sizeof(owners->bits[0]); i++)
        if (owners->bits[i])
            return;
    context->positions[cell] = EMPTY_CELL;
    context->n_used--;
    if (cell < context->first_free)
        context->first_free = cell;
}

static uint32_t take_free_cell(hth_engine_context *context, uint32_t position)
{
    uint32_t cell = context->first_free;

    while (context->positions[cell] != EMPTY_CELL)
        cell++;
    context->first_free = cell + 1;
    if (context->n_high <= cell)
        context->n_high = cell + 1;
    context->positions[cell] = position;
    context->n_used++;
    return cell;
}

/* A hash of all that the sequence's next token depends on. */
static uint64_t sequence_digest(const hth_engine_context *context, uint32_t id)
{
    const sequence *seq = &context->sequences[id];
    uint64_t hash = mix2(seq->sum, seq->n_tokens);

    if (context->format.has_recurrent && seq->n_tokens > 0) /* zeros where there is none */
        hash = mix2(hash, digest(seq->state, STATE_BYTES));
    if (context->format.has_window) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < context->n_high; i++)
            if (owns(context, i, id) && context->in_window[i] &&
                context->positions[i] + context->format.n_window >= seq->n_tokens)
                sum += layer_digest(context, i, 1);
        hash = mix2(hash, sum);
    }
    return hash;
}

/* The window's layer of cells that the sequence has left behind is used for others. */
static void leave_window(hth_engine_context *context, uint32_t id)
{
    for (uint32_t i = 0; i < context->n_high; i++)
        if (owns(context, i, id) && context->positions[i] + context->format.n_window < context->sequences[id].n_tokens)
            context->in_window[i] = false;
}

/* Where in the script a sequence stands: its last cell has it. */
static void find_place(hth_engine_context *context, uint32_t id, hth_stub_place *out)
{
    sequence *seq = &context->sequences[id];

    *out = (hth_stub_place){ .where = 0 };
    if (seq->n_tokens == 0)
        return;
    for (uint32_t i = 0;
         i < context->n_high && (!owns(context, seq->last, id) || context->positions[seq->last] + 1 != seq->n_tokens);
         i++)
        seq->last = i;
    hth_stub_place_read(context->cells[seq->last], out);
}

static int script_token(hearth_token token)
{
    return token < TOKEN_BOS                             ? token
         : token == TOKEN_TURN_BEGIN                     ? HTH_STUB_TURN_BEGIN
         : token == TOKEN_TURN_END || token == TOKEN_EOS ? HTH_STUB_TURN_END
                                                         : HTH_STUB_OTHER;
}

static void append(hth_engine_context *context, const hth_batch_row *row)
{
    sequence *seq = &context->sequences[row->sequence];
    uint64_t seed = mix2(mix2(sequence_digest(context, row->sequence), (uint64_t)row->token), row->position);

    if (has_cells(context)) {
        uint32_t cell = take_free_cell(context, row->position);

        expand(seed, context->cells[cell], CELL_BYTES);
        if (context->model->script) {
            hth_stub_place place;

            find_place(context, row->sequence, &place);
            hth_stub_place_push(&place, script_token(row->token));
            hth_stub_place_write(&place, context->cells[cell]);
            seq->last = cell;
        }
        context->in_window[cell] = context->format.has_window;
        own(context, cell, row->sequence);
    }
    if (context->format.has_recurrent) {
        expand(mix(seed), seq->state, STATE_BYTES);
        seq->rest_end = row->position + 1;
    }
    seq->n_tokens = row->position + 1;
    if (context->format.has_window)
        leave_window(context, row->sequence);
}

/* Printable ASCII is far likelier than other bytes; one state in 64 ends the reply. */
static void compute_logits(hth_engine_context *context, uint32_t id, float *logits)
{
    uint64_t hash = sequence_digest(context, id);
    int scripted = HTH_STUB_OTHER;

    for (uint32_t i = 0; i < context->model->n_vocab; i++) {
        float logit = (float)(mix2(hash, i) >> 40) * (8.0f / (1 << 24)); /* 0 .. 8 */

        if (i < TOKEN_BOS)
            logits[i] = i >= ' ' && i <= '~' ? logit : logit - 12.0f;
        else
            logits[i] = i < FIRST_WORD_TOKEN ? logit - 24.0f : logit - 1.0f;
    }
    if (mix(hash) % 64 == 0)
        logits[TOKEN_EOS] = 16.0f;
    if (context->model->script) {
        hth_stub_place place;

        find_place(context, id, &place);
        scripted = hth_stub_script_next(context->model->script, &place);
    }
    if (scripted != HTH_STUB_OTHER)
        logits[scripted == HTH_STUB_TURN_END ? TOKEN_TURN_END : scripted] = 100.0f;
}

static hearth_status check_batch(const hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                                 size_t *n_wanted, hearth_error *err)
{
    uint32_t next[N_SEQ_MAX];

    for (uint32_t i = 0; i < context->params.n_seq_max; i++)
        next[i] = context->sequences[i].n_tokens;
    *n_wanted = 0;
    for (size_t i = 0; i < n_rows; i++) {
        if (rows[i].token < 0 || (uint32_t)rows[i].token >= context->model->n_vocab)
            return hth_fail(err, HEARTH_MISUSE, "row %zu has token %d, which is not in the vocabulary of %u", i,
                            rows[i].token, context->model->n_vocab);
        if (rows[i].sequence >= context->params.n_seq_max)
            return hth_fail(err, HEARTH_MISUSE, "row %zu has sequence %u; there are %u", i, rows[i].sequence,
                            context->params.n_seq_max);
        if (rows[i].position != next[rows[i].sequence])
            return hth_fail(err, HEARTH_MISUSE, "row %zu has position %u of sequence %u, whose next one is %u", i,
                            rows[i].position, rows[i].sequence, next[rows[i].sequence]);
        next[rows[i].sequence]++;
        *n_wanted += rows[i].wants_logits;
    }
    return HEARTH_OK;
}

static bool sleep_or_abort(const hth_engine_context *context)
{
    struct timespec pause = { .tv_sec = context->model->delay_us / 1000000,
                              .tv_nsec = (long)(context->model->delay_us % 1000000) * 1000 };

    if (context->params.abort && context->params.abort(context->params.abort_user_data))
        return true;
    if (context->model->delay_us > 0)
        (void)nanosleep(&pause, NULL); /* a signal only makes the stub faster */
    return false;
}

static hearth_status decode(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                            hth_decode_result *result, hearth_error *err)
{
    hearth_status status;
    size_t n_wanted;
    uint32_t n_computed = 0;

    if (!context || !rows || !result)
        return hth_fail(err, HEARTH_MISUSE, "decode needs a context and rows");
    context->n_rows = 0;
    if (n_rows < 1 || n_rows > context->params.n_batch)
        return hth_fail(err, HEARTH_MISUSE, "a batch of %zu rows; 1 to %u can be evaluated at once", n_rows,
                        context->params.n_batch);
    status = check_batch(context, rows, n_rows, &n_wanted, err);
    if (status != HEARTH_OK)
        return status;
    if (has_cells(context) && n_rows > context->params.n_ctx - context->n_used) {
        *result = HTH_DECODE_NO_ROOM;
        return HEARTH_OK;
    }
    if (n_wanted > context->n_logits_rows_max) {
        float *grown = realloc(context->logits, n_wanted * context->model->n_vocab * sizeof(*grown));

        if (!grown)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the logits of %zu rows", n_wanted);
        context->logits = grown;
        context->n_logits_rows_max = n_wanted;
    }
    for (size_t i = 0; i < n_rows; i++) {
        if (sleep_or_abort(context)) {
            *result = HTH_DECODE_ABORTED;
            return HEARTH_OK;
        }
        append(context, &rows[i]);
        context->logits_of[i] = UINT32_MAX;
        if (rows[i].wants_logits) {
            compute_logits(context, rows[i].sequence, context->logits + (size_t)n_computed * context->model->n_vocab);
            context->logits_of[i] = n_computed++;
        }
    }
    context->n_rows = n_rows;
    *result = HTH_DECODE_OK;
    return HEARTH_OK;
}

static const float *logits(hth_engine_context *context, size_t row)
{
    if (!context || row >= context->n_rows || context->logits_of[row] == UINT32_MAX)
        return NULL;
    return context->logits + (size_t)context->logits_of[row] * context->model->n_vocab;
}

static bool seq_remove(hth_engine_context *context, uint32_t id, uint32_t begin, uint32_t end)
{
    sequence *seq;

    if (!context || id >= context->params.n_seq_max)
        return false;
    seq = &context->sequences[id];
    if (begin > 0 || end < seq->n_tokens) {
        /* Window and recurrent state cannot go back, and cannot lose its past. */
        if (context->model->kind != HTH_MODEL_PLAIN)
            return begin >= end || begin >= seq->n_tokens;
    }
    if (has_cells(context)) {
        uint32_t n_tokens = 0;

        for (uint32_t i = 0; i < context->n_high; i++) {
            if (!owns(context, i, id))
                continue;
            if (context->positions[i] >= begin && context->positions[i] < end)
                disown(context, i, id);
            else if (context->positions[i] >= n_tokens)
                n_tokens = context->positions[i] + 1;
        }
        seq->n_tokens = n_tokens;
    }
    if (begin == 0 && end >= seq->n_tokens)
        *seq = (sequence){ 0 };
    return true;
}

static hearth_status seq_copy(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end,
                              hearth_error *err)
{
    if (!context || from >= context->params.n_seq_max || to >= context->params.n_seq_max || from == to)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy sequence %u to %u", from, to);
    if (!has_cells(context))
        return hth_fail(err, HEARTH_MISUSE, "sequences of a %s model have no cells to share",
                        kind_name(context->model->kind));
    if (begin >= end || end > context->sequences[from].n_tokens)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy positions %u .. %u of sequence %u, which has %u tokens", begin,
                        end, from, context->sequences[from].n_tokens);
    for (uint32_t i = 0; i < context->n_high; i++)
        if (owns(context, i, to) && context->positions[i] >= begin && context->positions[i] < end)
            return hth_fail(err, HEARTH_MISUSE, "sequence %u already has position %u", to, context->positions[i]);
    for (uint32_t i = 0; i < context->n_high; i++)
        if (owns(context, i, from) && context->positions[i] >= begin && context->positions[i] < end)
            own(context, i, to);
    /* The real engine copies the state as of now; its backend takes that away again. */
    memset(context->sequences[to].state, 0, STATE_BYTES);
    context->sequences[to].rest_end = 0;
    return HEARTH_OK;
}

/* Has the sequence all that its next token depends on? An empty one has. */
static bool is_whole(const hth_engine_context *context, uint32_t id)
{
    const sequence *seq = &context->sequences[id];
    uint32_t n_needed = seq->n_tokens < context->format.n_window ? seq->n_tokens : context->format.n_window;
    uint32_t n_cells = 0, n_in_window = 0;

    if (context->model->kind == HTH_MODEL_PLAIN)
        return true; /* as the real one: its blocks are complete as they are */
    if (context->format.has_recurrent && seq->rest_end != seq->n_tokens)
        return false;
    for (uint32_t i = 0; has_cells(context) && i < context->n_high; i++) {
        bool is_own = owns(context, i, id);

        n_cells += is_own;
        n_in_window += is_own && context->in_window[i] && context->positions[i] + n_needed >= seq->n_tokens;
    }
    return !has_cells(context) ||
           (n_cells == seq->n_tokens && (!context->format.has_window || n_in_window == n_needed));
}

static uint32_t seq_end(hth_engine_context *context, uint32_t id)
{
    return context && id < context->params.n_seq_max && is_whole(context, id) ? context->sequences[id].n_tokens : 0;
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

/* Bytes at a cursor; with bytes NULL only the size is counted. */
typedef struct writer {
    uint8_t *bytes;
    size_t n_bytes;
} writer;

static void put(writer *to, const uint8_t *bytes, size_t n_bytes)
{
    if (to->bytes)
        memcpy(to->bytes + to->n_bytes, bytes, n_bytes);
    to->n_bytes += n_bytes;
}

static void put_u32(writer *to, uint32_t value)
{
    uint8_t bytes[4];

    hth_put_u32(bytes, value);
    put(to, bytes, sizeof(bytes));
}

static void put_row_header(writer *to, uint32_t row_bytes)
{
    put_u32(to, TYPE_F16);
    put_u32(to, row_bytes); /* 64 bits, low half first */
    put_u32(to, 0);
}

/* The cells of a sequence from a position on that have the layer. */
static bool is_written(const hth_engine_context *context, uint32_t cell, uint32_t id, uint32_t from, int layer)
{
    return owns(context, cell, id) && context->positions[cell] >= from &&
           (layer == 0 || !context->format.has_window || context->in_window[cell]);
}

/* The layers [layer_begin, layer_end) of these cells. */
static void write_attention(const hth_engine_context *context, uint32_t id, uint32_t from, int layer_begin,
                            int layer_end, writer *to)
{
    uint32_t n_cells = 0;

    for (uint32_t i = 0; i < context->n_high; i++)
        n_cells += is_written(context, i, id, from, layer_begin);
    put_u32(to, 1);
    put_u32(to, n_cells);
    if (n_cells == 0)
        return;
    for (uint32_t i = 0; i < context->n_high; i++) {
        if (!is_written(context, i, id, from, layer_begin))
            continue;
        put_u32(to, context->positions[i]);
        put_u32(to, 1);
        put_u32(to, id);
    }
    put_u32(to, 0);
    put_u32(to, (uint32_t)(layer_end - layer_begin));
    for (int half = 0; half < 2; half++) {
        for (int layer = layer_begin; layer < layer_end; layer++) {
            put_row_header(to, ROW_BYTES);
            for (uint32_t i = 0; i < context->n_high; i++)
                if (is_written(context, i, id, from, layer_begin))
                    put(to, context->cells[i] + layer * LAYER_BYTES + half * ROW_BYTES, ROW_BYTES);
        }
    }
}

static uint32_t window_begin(const hth_engine_context *context, uint32_t n_tokens)
{
    return n_tokens > context->format.n_window ? n_tokens - context->format.n_window : 0;
}

static void write_recurrent(const sequence *seq, bool is_empty, writer *to)
{
    put_u32(to, !is_empty);
    if (!is_empty) {
        put_u32(to, seq->n_tokens - 1);
        put_u32(to, 0);
    }
    put_u32(to, 0);
    put_u32(to, N_LAYERS);
    put_row_header(to, STATE_BYTES);
    if (!is_empty)
        put(to, seq->state, STATE_BYTES);
}

static void write_blob(const hth_engine_context *context, uint32_t id, hth_state_part part, writer *to)
{
    hth_blob_format format = hth_blob_part_format(&context->format, part);
    const sequence *seq = &context->sequences[id];

    put_u32(to, HTH_BLOB_MAGIC);
    put_u32(to, id);
    if (format.has_attention)
        write_attention(context, id, 0, 0, format.has_window ? 1 : N_LAYERS, to);
    if (format.has_window)
        write_attention(context, id, format.window_is_empty ? UINT32_MAX : window_begin(context, seq->n_tokens), 1,
                        N_LAYERS, to);
    if (format.has_recurrent)
        write_recurrent(seq, format.recurrent_is_empty, to);
}

static bool has_part(const hth_engine_context *context, hth_state_part part)
{
    switch (part) {
    case HTH_STATE_CELLS: return has_cells(context);
    case HTH_STATE_CELLS_BARE: return context->model->kind == HTH_MODEL_WINDOW;
    case HTH_STATE_REST: return context->format.has_recurrent;
    }
    return false;
}

static size_t state_size(hth_engine_context *context, uint32_t id, hth_state_part part)
{
    writer count = { 0 };

    if (!context || id >= context->params.n_seq_max || context->sequences[id].n_tokens == 0 ||
        !has_part(context, part) || part == HTH_STATE_CELLS_BARE)
        return 0;
    write_blob(context, id, part, &count);
    return count.n_bytes;
}

static hearth_status state_get(hth_engine_context *context, uint32_t id, hth_state_part part, uint8_t *bytes,
                               size_t capacity, size_t *n_out, hearth_error *err)
{
    size_t n_bytes = state_size(context, id, part);
    writer to = { .bytes = bytes };

    if (!bytes || !n_out || n_bytes == 0)
        return hth_fail(err, HEARTH_MISUSE, "sequence %u has no state to get", id);
    if (n_bytes > capacity)
        return hth_fail(err, HEARTH_MISUSE, "the state of sequence %u needs %zu bytes, not %zu", id, n_bytes, capacity);
    write_blob(context, id, part, &to);
    assert(to.n_bytes == n_bytes);
    *n_out = n_bytes;
    return HEARTH_OK;
}

static const uint8_t *read_rows(hth_engine_context *context, const uint8_t *at, const uint32_t *places,
                                uint32_t n_cells, int layer, int half)
{
    at += 12;
    for (uint32_t i = 0; i < n_cells; i++, at += ROW_BYTES)
        memcpy(context->cells[places[i]] + layer * LAYER_BYTES + half * ROW_BYTES, at, ROW_BYTES);
    return at;
}

/* Read an attention section of a checked blob. places gives the cell for each position from begin on. */
static void read_attention(hth_engine_context *context, const uint8_t *at, const uint32_t *places, uint32_t begin,
                           uint32_t *order, int layer_begin, int layer_end)
{
    uint32_t n_cells = hth_get_u32(at + 4);

    at += 8;
    for (uint32_t i = 0; i < n_cells; i++, at += 12)
        order[i] = places[hth_get_u32(at) - begin];
    at += 8;
    for (int half = 0; half < 2; half++)
        for (int layer = layer_begin; layer < layer_end; layer++)
            at = read_rows(context, at, order, n_cells, layer, half);
}

/* Whether a parsed blob of that format has this context's layers. */
static bool layout_fits(const hth_blob_layout *layout, const hth_blob_format *format)
{
    uint32_t n_base = format->has_attention ? format->has_window ? 1 : N_LAYERS : 0;
    uint32_t n_window = format->has_window && !format->window_is_empty ? 1 : 0;
    uint32_t n_tensors = 2 * (n_base + n_window);

    if (layout->n_layers[0] != n_base || layout->v_transposed[0] || layout->n_layers[1] != n_window ||
        layout->v_transposed[1])
        return false;
    for (uint32_t i = 0; i < layout->n_tensors; i++)
        if (layout->tensors[i].type != TYPE_F16 ||
            layout->tensors[i].row_bytes != (i < n_tensors ? ROW_BYTES : STATE_BYTES))
            return false;
    return layout->n_tensors == n_tensors + format->has_recurrent;
}

/* The cell of each position from begin to end: new ones for cells, the sequence's own for what is added to them. */
static uint32_t *find_places(hth_engine_context *context, uint32_t id, hth_state_part part, uint32_t begin,
                             uint32_t end, hearth_error *err)
{
    uint32_t n_cells = has_cells(context) ? end - begin : 0;
    uint32_t *places = malloc(((size_t)n_cells * 2 + 1) * sizeof(*places)); /* by position, then in a section's order */

    if (!places) {
        (void)hth_fail(err, HEARTH_NO_MEMORY, "no memory to restore %u cells", n_cells);
        return NULL;
    }
    if (part == HTH_STATE_REST) {
        for (uint32_t i = 0; has_cells(context) && i < context->n_high; i++)
            if (owns(context, i, id))
                places[context->positions[i] - begin] = i;
        return places;
    }
    for (uint32_t i = 0; i < n_cells; i++) {
        places[i] = take_free_cell(context, begin + i);
        memset(context->cells[places[i]], 0, CELL_BYTES);
        context->in_window[places[i]] = false;
    }
    return places;
}

/* Put a checked blob into its place. */
static hearth_status read_blob(hth_engine_context *context, uint32_t id, hth_state_part part, const uint8_t *bytes,
                               uint32_t begin, uint32_t end, hearth_error *err)
{
    hth_blob_format format = hth_blob_part_format(&context->format, part);
    uint32_t n_cells = has_cells(context) ? end - begin : 0;
    uint32_t *places = find_places(context, id, part, begin, end, err);
    const size_t *offsets = context->layout.section_offsets;

    if (!places)
        return HEARTH_NO_MEMORY;
    if (format.has_attention)
        read_attention(context, bytes + offsets[0], places, begin, places + n_cells, 0,
                       format.has_window ? 1 : N_LAYERS);
    if (format.has_window && !format.window_is_empty) {
        read_attention(context, bytes + offsets[1], places, begin, places + n_cells, 1, N_LAYERS);
        for (uint32_t i = window_begin(context, end) > begin ? window_begin(context, end) - begin : 0; i < n_cells; i++)
            context->in_window[places[i]] = true;
    }
    for (uint32_t i = 0; part != HTH_STATE_REST && i < n_cells; i++)
        own(context, places[i], id);
    free(places);
    if (part == HTH_STATE_REST) {
        memcpy(context->sequences[id].state, bytes + offsets[2] + RECURRENT_HEAD_BYTES, STATE_BYTES);
        context->sequences[id].rest_end = end;
    }
    context->sequences[id].n_tokens = end;
    return HEARTH_OK;
}

/* Has the sequence the cells of all positions before end, and no others? */
static bool has_all_cells(const hth_engine_context *context, uint32_t id, uint32_t end)
{
    uint32_t n_cells = 0;

    for (uint32_t i = 0; i < context->n_high; i++)
        n_cells += owns(context, i, id);
    return n_cells == end && context->sequences[id].n_tokens == end;
}

static hearth_status state_set(hth_engine_context *context, uint32_t id, hth_state_part part, const uint8_t *bytes,
                               size_t n_bytes, uint32_t begin, uint32_t end, hearth_error *err)
{
    bool is_added = part == HTH_STATE_REST && context && has_cells(context);
    hth_blob_format format;
    hearth_status status;

    if (!context || !bytes || id >= context->params.n_seq_max || begin >= end || end > INT32_MAX)
        return hth_fail(err, HEARTH_MISUSE, "cannot set positions %u .. %u of sequence %u", begin, end, id);
    if (!has_part(context, part) || (part == HTH_STATE_REST && begin > 0) ||
        (is_added && !has_all_cells(context, id, end))) {
        seq_remove(context, id, 0, UINT32_MAX);
        return hth_fail(err, HEARTH_MISUSE, "sequence %u cannot take that part of a state of %u .. %u", id, begin, end);
    }
    if (!is_added)
        seq_remove(context, id, 0, UINT32_MAX);
    /* Bare is what is taken of a blob, not how it looks. */
    format = hth_blob_part_format(&context->format, part == HTH_STATE_CELLS_BARE ? HTH_STATE_CELLS : part);
    status = hth_blob_parse(&format, bytes, n_bytes, begin, end, &context->layout, err);
    if (status == HEARTH_OK && !layout_fits(&context->layout, &format))
        status = hth_fail(err, HEARTH_CORRUPT, "state blob has other layers than this context");
    if (status == HEARTH_OK && has_cells(context) && !is_added && end - begin > context->params.n_ctx - context->n_used)
        status = hth_fail(err, HEARTH_ENGINE, "no room to restore %u cells: %u of %u are free", end - begin,
                          context->params.n_ctx - context->n_used, context->params.n_ctx);
    if (status == HEARTH_OK)
        status = read_blob(context, id, part, bytes, begin, end, err);
    if (status != HEARTH_OK)
        seq_remove(context, id, 0, UINT32_MAX);
    return status;
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

static hearth_status text_of_token(const void *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out)
{
    return piece(model, token, false, bytes, capacity, n_out, NULL);
}

static bool ends_reply(const void *model, hearth_token token)
{
    return is_end(model, token);
}

/* The names of control tokens that stand for themselves. */
static void read_shown(const hth_engine_model *model, const hearth_sampling *sampling,
                       hth_shown_token shown[HTH_SHOWN_TOKENS_MAX], hth_sampler_parts *parts)
{
    for (size_t i = 0; i < sampling->n_shown_tokens && i < HTH_SHOWN_TOKENS_MAX; i++) {
        hth_shown_token *to = &shown[parts->n_shown];
        size_t n = 0;

        to->token = sampling->shown_tokens[i];
        if (piece(model, to->token, true, (char *)to->bytes, sizeof(to->bytes), &n, NULL) != HEARTH_OK)
            continue; /* no token, or one whose name is longer than any that matters */
        to->n_bytes = (uint32_t)n;
        parts->n_shown++;
    }
    parts->shown = shown;
}

/* The chain is every engine's. What a schema needs beyond it, a converter, this engine has not. */
static hearth_status sampler_new(const hth_engine_model *model, const hearth_sampling *sampling,
                                 hth_engine_sampler **out, hearth_error *err)
{
    hth_sampler_parts parts = { .n_vocab = model ? model->n_vocab : 0 };
    hth_shown_token shown[HTH_SHOWN_TOKENS_MAX];
    hearth_status status;

    if (!model || !sampling || !out)
        return hth_fail(err, HEARTH_MISUSE, "sampling needs a model and options");
    status = hth_sampling_check(sampling, err);
    if (status != HEARTH_OK)
        return status;
    if (sampling->json_schema)
        return hth_fail(err, HEARTH_UNSUPPORTED, "sampling: the stub engine has no json_schema; leave it out");
    read_shown(model, sampling, shown, &parts);
    status = hth_texts_ends(model->texts, &parts.ends, &parts.n_ends, err);
    if (status == HEARTH_OK && hth_sampler_needs_text(sampling))
        status = hth_texts_vocabulary(model->texts, &parts.vocabulary, err);
    if (status == HEARTH_OK && sampling->grammar)
        status = hth_gbnf_new(sampling->grammar, strlen(sampling->grammar),
                              &(hth_gbnf_outside){ .n_tokens = parts.n_vocab }, &parts.gbnf_take, err);
    return status == HEARTH_OK ? hth_sampler_new(sampling, &parts, out, err) : status;
}

const hth_backend *hth_backend_stub(void)
{
    static const hth_backend stub = {
        .abi = HTH_BACKEND_ABI,
        .name = "stub",
        .build = build,
        .devices = devices,
        .model_load = model_load,
        .model_free = model_free,
        .model_info = model_info,
        .cell_room = cell_room,
        .tokenize = tokenize,
        .piece = piece,
        .is_end = is_end,
        .token_flags = token_flags,
        .metadata_count = metadata_count,
        .metadata_key = metadata_key,
        .metadata = metadata,
        .chat_render = chat_render,
        .chat_prompt = hth_stub_chat_prompt,
        .chat_reader_new = hth_stub_chat_reader_new,
        .chat_reader_free = hth_stub_chat_reader_free,
        .chat_read = hth_stub_chat_read,
        .context_new = context_new,
        .context_free = context_free,
        .context_info = context_info,
        .decode = decode,
        .logits = logits,
        .seq_remove = seq_remove,
        .seq_copy = seq_copy,
        .seq_end = seq_end,
        .state_size = state_size,
        .state_get = state_get,
        .state_set = state_set,
        .sampler_new = sampler_new,
        .sampler_new_like = hth_sampler_new_like,
        .sampler_free = hth_sampler_free,
        .sampler_accept = hth_sampler_accept,
        .sampler_apply = hth_sampler_apply,
    };

    return &stub;
}
