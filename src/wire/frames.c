/*
 * frames.c - writes and reads frames, byte by byte
 */
#include "wire/frames.h"

#include <assert.h>
#include <string.h>

#include "api/notes.h"
#include "base/bytes.h"

enum {
    HEAD_BYTES = 8,
    STEP_BYTES = 12,
    CACHED_BYTES = 8,
    WORK_BYTES = 4,
    BROKEN_BYTES = 9,
    END_BYTES = 4 * 2 + HTH_FIGURES_BYTES,
    OUTCOME_BYTES = 4 * 4 + HTH_FIGURES_BYTES + HTH_FRAME_KEY_BYTES,
    TOKEN_BYTES = 4,
    LOGPROB_BYTES = 8,
    STATE_BYTES = 4,
    CONTENT_TYPE_MAX = 63,
    BYTES_AT_ONCE = 256 << 10, /* bytes for the client in one frame */
};

static_assert(STEP_BYTES + HTH_STEP_TOKEN_BYTES_MAX + STATE_BYTES + BYTES_AT_ONCE <= HTH_FRAME_BYTES_MAX,
              "every STEP is a frame");

static void add(hth_buffer *out, const void *bytes, size_t n)
{
    hth_buffer_add(out, bytes, n);
}

static void add_start(hth_buffer *out, hth_frame_kind kind, size_t payload_bytes)
{
    uint8_t head[HTH_FRAME_HEAD_BYTES];

    assert(payload_bytes <= HTH_FRAME_BYTES_MAX);
    hth_put_u32(head, (uint32_t)payload_bytes);
    head[4] = (uint8_t)kind;
    add(out, head, sizeof(head));
}

/* Append a whole frame. */
static void add_frame(hth_buffer *out, hth_frame_kind kind, const void *payload, size_t n)
{
    add_start(out, kind, n);
    add(out, payload, n);
}

void hth_frame_add_head(hth_buffer *out, int status, bool is_stream, uint32_t retry_after_s, const char *content_type,
                        const char *notes)
{
    uint8_t head[HEAD_BYTES] = { (uint8_t)status, (uint8_t)((unsigned)status >> 8), is_stream, 0 };
    size_t n = strnlen(content_type, CONTENT_TYPE_MAX), n_notes = notes ? strnlen(notes, HTH_API_NOTES_BYTES) : 0;

    hth_put_u32(head + 4, retry_after_s);
    add_start(out, HTH_FRAME_HEAD, sizeof(head) + n + (n_notes > 0 ? 1 + n_notes : 0));
    add(out, head, sizeof(head));
    add(out, content_type, n);
    if (n_notes > 0) {
        add(out, "", 1);
        add(out, notes, n_notes);
    }
}

size_t hth_frame_token_bytes(uint32_t n, uint32_t n_logprobs)
{
    return n * (TOKEN_BYTES + LOGPROB_BYTES * (size_t)n_logprobs);
}

static void add_token(hth_buffer *out, const hth_frame_tokens *tokens, uint32_t i)
{
    uint8_t bytes[TOKEN_BYTES + LOGPROB_BYTES * HTH_FRAME_LOGPROBS_MAX];
    const hearth_logprob *logprobs = tokens->logprobs + (size_t)i * tokens->n_logprobs;

    hth_put_u32(bytes, (uint32_t)tokens->ids[i]);
    for (uint32_t k = 0; k < tokens->n_logprobs; k++) {
        uint8_t *at = bytes + TOKEN_BYTES + (size_t)LOGPROB_BYTES * k;

        hth_put_u32(at, (uint32_t)logprobs[k].token);
        hth_put_f32(at + TOKEN_BYTES, logprobs[k].logprob);
    }
    add(out, bytes, hth_frame_token_bytes(1, tokens->n_logprobs));
}

void hth_frame_add_bytes(hth_buffer *out, const void *bytes, size_t n_bytes)
{
    const char *at = bytes;

    for (; n_bytes > BYTES_AT_ONCE; at += BYTES_AT_ONCE, n_bytes -= BYTES_AT_ONCE)
        add_frame(out, HTH_FRAME_BYTES, at, BYTES_AT_ONCE);
    if (n_bytes > 0)
        add_frame(out, HTH_FRAME_BYTES, at, n_bytes);
}

void hth_frame_add_record(hth_buffer *out, unsigned flags, const void *bytes, size_t n_bytes)
{
    const char *at = bytes;

    while (n_bytes > 0) {
        size_t n = n_bytes < BYTES_AT_ONCE ? n_bytes : BYTES_AT_ONCE;
        const uint8_t byte = (uint8_t)(flags | (n == n_bytes ? HTH_RECORD_LAST : 0u));

        add_start(out, HTH_FRAME_RECORD, sizeof(byte) + n);
        add(out, &byte, sizeof(byte));
        add(out, at, n);
        at += n;
        n_bytes -= n;
    }
}

void hth_frame_add_step(hth_buffer *out, uint32_t reply, unsigned flags, const hth_frame_tokens *tokens,
                        const void *bytes, size_t n_bytes)
{
    static const hth_frame_tokens none = { .n = 0 };
    size_t n_before = n_bytes > BYTES_AT_ONCE ? n_bytes - BYTES_AT_ONCE : 0, n_token_bytes;
    uint8_t head[STEP_BYTES] = { 0 }, state[STATE_BYTES];

    if (!tokens)
        tokens = &none;
    n_token_bytes = hth_frame_token_bytes(tokens->n, tokens->n_logprobs);
    hth_put_f32(state, tokens->state);
    assert(tokens->n_logprobs <= HTH_FRAME_LOGPROBS_MAX);
    assert(n_token_bytes <= HTH_STEP_TOKEN_BYTES_MAX);
    hth_frame_add_bytes(out, bytes, n_before);
    hth_put_u32(head, reply);
    head[4] = (uint8_t)(flags | (tokens->has_state ? HTH_STEP_STATE : 0u));
    head[5] = (uint8_t)tokens->n_logprobs;
    hth_put_u32(head + 8, tokens->n);
    add_start(out, HTH_FRAME_STEP,
              sizeof(head) + n_token_bytes + (tokens->has_state ? sizeof(state) : 0) + n_bytes - n_before);
    add(out, head, sizeof(head));
    for (uint32_t i = 0; i < tokens->n; i++)
        add_token(out, tokens, i);
    if (tokens->has_state)
        add(out, state, sizeof(state));
    if (n_bytes > 0)
        add(out, (const char *)bytes + n_before, n_bytes - n_before);
}

void hth_frame_add_cached(hth_buffer *out, uint32_t reply, uint32_t n_cached)
{
    uint8_t payload[CACHED_BYTES];

    hth_put_u32(payload, reply);
    hth_put_u32(payload + 4, n_cached);
    add_frame(out, HTH_FRAME_CACHED, payload, sizeof(payload));
}

void hth_frame_add_model(hth_buffer *out, const uint8_t model[HTH_FRAME_MODEL_BYTES])
{
    add_frame(out, HTH_FRAME_MODEL, model, HTH_FRAME_MODEL_BYTES);
}

void hth_frame_add_outcome(hth_buffer *out, uint32_t reply, const hth_frame_outcome *outcome)
{
    uint8_t payload[OUTCOME_BYTES];

    hth_put_u32(payload, reply);
    hth_put_u32(payload + 4, outcome->finish);
    hth_put_u32(payload + 8, outcome->stop_number);
    hth_put_u32(payload + 12, outcome->n_finish_tokens);
    hth_figures_put(&outcome->figures, payload + 16);
    memcpy(payload + 16 + HTH_FIGURES_BYTES, outcome->finish_key, HTH_FRAME_KEY_BYTES);
    add_frame(out, HTH_FRAME_OUTCOME, payload, sizeof(payload));
}

void hth_frame_add_work(hth_buffer *out, uint32_t n_tokens)
{
    uint8_t payload[WORK_BYTES];

    hth_put_u32(payload, n_tokens);
    add_frame(out, HTH_FRAME_WORK, payload, sizeof(payload));
}

void hth_frame_add_broken(hth_buffer *out, bool has_died, uint64_t generation)
{
    uint8_t payload[BROKEN_BYTES] = { has_died };

    hth_put_u64(payload + 1, generation);
    add_frame(out, HTH_FRAME_BROKEN, payload, sizeof(payload));
}

void hth_frame_add_end(hth_buffer *out, const hth_frame_summary *summary)
{
    uint8_t payload[END_BYTES];

    hth_put_u32(payload, summary->status);
    hth_put_u32(payload + 4, summary->finish);
    hth_figures_put(&summary->figures, payload + 8);
    add_frame(out, HTH_FRAME_END, payload, sizeof(payload));
}

/* Is there room in the frame for the tokens of this step? */
static bool has_room(const uint8_t *frame, const hth_frame *step)
{
    const uint8_t *payload = frame + HTH_FRAME_HEAD_BYTES;

    return frame[4] == HTH_FRAME_STEP && hth_get_u32(payload) == step->reply && !(payload[4] & HTH_STEP_ENDS) &&
           (step->n_tokens == 0 || payload[5] == step->n_logprobs) &&
           hth_get_u32(frame) + hth_frame_token_bytes(step->n_tokens, step->n_logprobs) + STATE_BYTES <=
               HTH_FRAME_BYTES_MAX;
}

/* Remove the state from the last frame, a STEP, because further tokens follow with their own state. */
static void drop_state(hth_buffer *out, uint8_t *frame)
{
    uint8_t *flags = frame + HTH_FRAME_HEAD_BYTES + 4;

    if (!(*flags & HTH_STEP_STATE))
        return;
    *flags = (uint8_t)(*flags & ~(unsigned)HTH_STEP_STATE);
    out->n -= STATE_BYTES;
    hth_put_u32(frame, hth_get_u32(frame) - STATE_BYTES);
}

static void add_known_step(hth_buffer *out, size_t *last, const hth_frame *step)
{
    size_t n_token_bytes = hth_frame_token_bytes(step->n_tokens, step->n_logprobs);
    uint8_t *frame, *payload;

    if (out->n == 0 || !has_room((const uint8_t *)out->text + *last, step)) {
        *last = out->n;
        hth_frame_add_step(out, step->reply, 0, &(hth_frame_tokens){ .n_logprobs = step->n_logprobs }, NULL, 0);
    }
    if (out->failed)
        return;
    if (step->n_tokens > 0)
        drop_state(out, (uint8_t *)out->text + *last);
    add(out, step->tokens, n_token_bytes);
    if (step->has_state)
        add(out, step->tokens + n_token_bytes, STATE_BYTES);
    if (out->failed)
        return;
    frame = (uint8_t *)out->text + *last;
    payload = frame + HTH_FRAME_HEAD_BYTES;
    hth_put_u32(frame, hth_get_u32(frame) + (uint32_t)n_token_bytes + (step->has_state ? STATE_BYTES : 0));
    payload[4] =
        (uint8_t)((payload[4] & (HTH_STEP_BEGINS | HTH_STEP_STATE)) | (step->reply_has_begun ? HTH_STEP_BEGINS : 0) |
                  (step->has_state ? HTH_STEP_STATE : 0) | (step->reply_has_ended ? HTH_STEP_ENDS : 0));
    hth_put_u32(payload + 8, hth_get_u32(payload + 8) + step->n_tokens);
}

void hth_frame_add_known(hth_buffer *out, size_t *last, const hth_frame *frame)
{
    size_t n_before = out->n;

    switch (frame->kind) {
    case HTH_FRAME_STEP: add_known_step(out, last, frame); return;
    case HTH_FRAME_CACHED: hth_frame_add_cached(out, frame->reply, frame->n_cached); break;
    case HTH_FRAME_MODEL: hth_frame_add_model(out, frame->model); break;
    case HTH_FRAME_OUTCOME: hth_frame_add_outcome(out, frame->reply, &frame->outcome); break;
    default: return;
    }
    *last = n_before;
}

static const uint8_t *token_at(const hth_frame *frame, uint32_t i)
{
    assert(i < frame->n_tokens);
    return frame->tokens + i * hth_frame_token_bytes(1, frame->n_logprobs);
}

hearth_token hth_frame_token(const hth_frame *frame, uint32_t i)
{
    return (hearth_token)hth_get_u32(token_at(frame, i));
}

hearth_logprob hth_frame_logprob(const hth_frame *frame, uint32_t i, uint32_t k)
{
    const uint8_t *at = token_at(frame, i) + TOKEN_BYTES + (size_t)LOGPROB_BYTES * k;

    assert(k < frame->n_logprobs);
    return (hearth_logprob){ .token = (hearth_token)hth_get_u32(at), .logprob = hth_get_f32(at + TOKEN_BYTES) };
}

static bool read_head(const uint8_t *payload, size_t n, hth_frame *out)
{
    const char *texts = (const char *)payload + HEAD_BYTES;
    size_t n_texts = n < HEAD_BYTES ? 0 : n - HEAD_BYTES, n_type = strnlen(texts, n_texts);

    if (n < HEAD_BYTES || n_type > CONTENT_TYPE_MAX)
        return false;
    if (n_type < n_texts) {
        out->notes = texts + n_type + 1;
        out->n_notes = n_texts - n_type - 1;
        if (out->n_notes == 0 || out->n_notes > HTH_API_NOTES_BYTES || memchr(out->notes, '\0', out->n_notes))
            return false;
    }
    out->status = payload[0] | payload[1] << 8;
    out->is_stream = payload[2] != 0;
    out->retry_after_s = hth_get_u32(payload + 4);
    memcpy(out->content_type, payload + HEAD_BYTES, n_type);
    return out->status >= 200 && out->status <= 599;
}

static bool read_step(const uint8_t *payload, size_t n, hth_frame *out)
{
    size_t n_token_bytes;

    if (n < STEP_BYTES || payload[5] > HTH_FRAME_LOGPROBS_MAX)
        return false;
    out->reply = hth_get_u32(payload);
    out->reply_has_ended = (payload[4] & HTH_STEP_ENDS) != 0;
    out->has_failed = (payload[4] & HTH_STEP_FAILS) != 0;
    out->reply_has_begun = (payload[4] & HTH_STEP_BEGINS) != 0;
    out->n_logprobs = payload[5];
    out->n_tokens = hth_get_u32(payload + 8);
    if (out->n_tokens > (n - STEP_BYTES) / hth_frame_token_bytes(1, out->n_logprobs))
        return false;
    n_token_bytes = hth_frame_token_bytes(out->n_tokens, out->n_logprobs);
    out->tokens = payload + STEP_BYTES;
    out->has_state = (payload[4] & HTH_STEP_STATE) != 0;
    if (out->has_state) {
        if (out->n_tokens == 0 || n - STEP_BYTES - n_token_bytes < STATE_BYTES)
            return false;
        out->state = hth_get_f32(out->tokens + n_token_bytes);
        n_token_bytes += STATE_BYTES;
    }
    out->bytes = (const char *)out->tokens + n_token_bytes;
    out->n_bytes = n - STEP_BYTES - n_token_bytes;
    return true;
}

static bool read_cached(const uint8_t *payload, size_t n, hth_frame *out)
{
    if (n != CACHED_BYTES)
        return false;
    out->reply = hth_get_u32(payload);
    out->n_cached = hth_get_u32(payload + 4);
    return true;
}

static bool read_outcome(const uint8_t *payload, size_t n, hth_frame *out)
{
    if (n != OUTCOME_BYTES)
        return false;
    out->reply = hth_get_u32(payload);
    out->outcome = (hth_frame_outcome){
        .finish = hth_get_u32(payload + 4),
        .stop_number = hth_get_u32(payload + 8),
        .n_finish_tokens = hth_get_u32(payload + 12),
        .figures = hth_figures_get(payload + 16),
    };
    memcpy(out->outcome.finish_key, payload + 16 + HTH_FIGURES_BYTES, HTH_FRAME_KEY_BYTES);
    return true;
}

static bool read_end(const uint8_t *payload, size_t n, hth_frame_summary *out)
{
    if (n != END_BYTES)
        return false;
    *out = (hth_frame_summary){
        .status = hth_get_u32(payload),
        .finish = hth_get_u32(payload + 4),
        .figures = hth_figures_get(payload + 8),
    };
    return true;
}

static bool read_payload(const uint8_t *payload, size_t n, hth_frame *frame)
{
    switch (frame->kind) {
    case HTH_FRAME_HEAD: return read_head(payload, n, frame);
    case HTH_FRAME_STEP: return read_step(payload, n, frame);
    case HTH_FRAME_CACHED: return read_cached(payload, n, frame);
    case HTH_FRAME_MODEL: frame->model = payload; return n == HTH_FRAME_MODEL_BYTES;
    case HTH_FRAME_BYTES:
        frame->bytes = (const char *)payload;
        frame->n_bytes = n;
        return true;
    case HTH_FRAME_RECORD:
        if (n < 1 || payload[0] > (HTH_RECORD_LAST | HTH_RECORD_BEGUN))
            return false;
        frame->is_last = payload[0] & HTH_RECORD_LAST;
        frame->has_begun = payload[0] & HTH_RECORD_BEGUN;
        frame->bytes = (const char *)payload + 1;
        frame->n_bytes = n - 1;
        return true;
    case HTH_FRAME_OUTCOME: return read_outcome(payload, n, frame);
    case HTH_FRAME_WORK:
        if (n != WORK_BYTES)
            return false;
        frame->n_worked = hth_get_u32(payload);
        return true;
    case HTH_FRAME_BROKEN:
        if (n != BROKEN_BYTES || payload[0] > 1)
            return false;
        frame->has_died = payload[0] != 0;
        frame->generation = hth_get_u64(payload + 1);
        return true;
    case HTH_FRAME_END: return read_end(payload, n, &frame->summary);
    }
    return false;
}

size_t hth_frame_whole_bytes(const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    size_t n_whole = 0;

    while (n - n_whole >= HTH_FRAME_HEAD_BYTES) {
        const size_t n_payload = hth_get_u32(at + n_whole);

        if (n_payload > HTH_FRAME_BYTES_MAX)
            return HTH_FRAME_BAD_BYTES;
        if (n - n_whole - HTH_FRAME_HEAD_BYTES < n_payload)
            break;
        n_whole += HTH_FRAME_HEAD_BYTES + n_payload;
    }
    return n_whole;
}

hth_frame_result hth_frame_read(const void *bytes, size_t n, hth_frame *out, size_t *used_out)
{
    const uint8_t *head = bytes;
    hth_frame frame = { .kind = 0 };
    size_t n_payload;

    if (n < HTH_FRAME_HEAD_BYTES)
        return HTH_FRAME_PART;
    n_payload = hth_get_u32(head);
    if (n_payload > HTH_FRAME_BYTES_MAX || head[4] < HTH_FRAME_HEAD || head[4] > HTH_FRAME_BROKEN)
        return HTH_FRAME_BAD;
    if (n - HTH_FRAME_HEAD_BYTES < n_payload)
        return HTH_FRAME_PART;
    frame.kind = (hth_frame_kind)head[4];
    if (!read_payload(head + HTH_FRAME_HEAD_BYTES, n_payload, &frame))
        return HTH_FRAME_BAD;
    *out = frame;
    *used_out = HTH_FRAME_HEAD_BYTES + n_payload;
    return HTH_FRAME_OK;
}
