/*
 * frames.c - writing and reading of frames, byte by byte
 */
#include "server/frames.h"

#include <assert.h>
#include <string.h>

enum {
    HEAD_BYTES = 8,
    STEP_BYTES = 12,
    CACHED_BYTES = 8,
    SUMMARY_NUMBERS = 8,
    SUMMARY_TIMES = 5,
    END_BYTES = 4 * SUMMARY_NUMBERS + 8 * SUMMARY_TIMES,
    CONTENT_TYPE_MAX = 63,
    KNOWN_BYTES_MAX = 1 << 20, /* a guess: of a frame of known tokens */
};

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_f64(uint8_t *at, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_u32(at, (uint32_t)bits);
    put_u32(at + 4, (uint32_t)(bits >> 32));
}

static double get_f64(const uint8_t *at)
{
    uint64_t bits = get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void add(hth_buffer *out, const void *bytes, size_t n)
{
    hth_buffer_add(out, bytes, n);
}

static void add_start(hth_buffer *out, hth_frame_kind kind, size_t payload_bytes)
{
    uint8_t head[HTH_FRAME_HEAD_BYTES];

    assert(payload_bytes <= HTH_FRAME_BYTES_MAX);
    put_u32(head, (uint32_t)payload_bytes);
    head[4] = (uint8_t)kind;
    add(out, head, sizeof(head));
}

void hth_frame_add_head(hth_buffer *out, int status, bool is_stream, uint32_t retry_after_s, const char *content_type)
{
    uint8_t head[HEAD_BYTES] = { (uint8_t)status, (uint8_t)((unsigned)status >> 8), is_stream, 0 };
    size_t n = strnlen(content_type, CONTENT_TYPE_MAX);

    put_u32(head + 4, retry_after_s);
    add_start(out, HTH_FRAME_HEAD, sizeof(head) + n);
    add(out, head, sizeof(head));
    add(out, content_type, n);
}

void hth_frame_add_step(hth_buffer *out, uint32_t reply, unsigned flags, const hearth_token *tokens, uint32_t n,
                        const void *bytes, size_t n_bytes)
{
    uint8_t head[STEP_BYTES] = { 0 };

    put_u32(head, reply);
    head[4] = (uint8_t)flags;
    put_u32(head + 8, n);
    add_start(out, HTH_FRAME_STEP, sizeof(head) + 4 * (size_t)n + n_bytes);
    add(out, head, sizeof(head));
    for (uint32_t i = 0; i < n; i++) {
        uint8_t token[4];

        put_u32(token, (uint32_t)tokens[i]);
        add(out, token, sizeof(token));
    }
    if (n_bytes > 0)
        add(out, bytes, n_bytes);
}

void hth_frame_add_cached(hth_buffer *out, uint32_t reply, uint32_t n_cached)
{
    uint8_t payload[CACHED_BYTES];

    put_u32(payload, reply);
    put_u32(payload + 4, n_cached);
    add_start(out, HTH_FRAME_CACHED, sizeof(payload));
    add(out, payload, sizeof(payload));
}

void hth_frame_add_model(hth_buffer *out, const uint8_t model[HTH_FRAME_MODEL_BYTES])
{
    add_start(out, HTH_FRAME_MODEL, HTH_FRAME_MODEL_BYTES);
    add(out, model, HTH_FRAME_MODEL_BYTES);
}

void hth_frame_add_end(hth_buffer *out, const hth_frame_summary *summary)
{
    const uint32_t numbers[SUMMARY_NUMBERS] = { summary->status,
                                                summary->n_prompt_tokens,
                                                summary->n_cached_tokens,
                                                summary->n_reply_tokens,
                                                summary->hit,
                                                summary->tier,
                                                summary->miss,
                                                summary->finish };
    const double times[SUMMARY_TIMES] = { summary->queue_ms, summary->restore_ms, summary->prefill_ms, summary->ttft_ms,
                                          summary->decode_ms };
    uint8_t payload[END_BYTES];

    for (size_t i = 0; i < SUMMARY_NUMBERS; i++)
        put_u32(payload + 4 * i, numbers[i]);
    for (size_t i = 0; i < SUMMARY_TIMES; i++)
        put_f64(payload + (size_t)4 * SUMMARY_NUMBERS + 8 * i, times[i]);
    add_start(out, HTH_FRAME_END, sizeof(payload));
    add(out, payload, sizeof(payload));
}

/* Can the frame take so many tokens of this reply? */
static bool has_room(const uint8_t *frame, uint32_t reply, uint32_t n_tokens)
{
    const uint8_t *payload = frame + HTH_FRAME_HEAD_BYTES;

    return frame[4] == HTH_FRAME_STEP && get_u32(payload) == reply && !payload[4] &&
           get_u32(frame) + 4 * (size_t)n_tokens <= KNOWN_BYTES_MAX;
}

static void add_known_step(hth_buffer *out, size_t *last, const hth_frame *step)
{
    uint8_t *frame;

    if (out->n == 0 || !has_room((const uint8_t *)out->text + *last, step->reply, step->n_tokens)) {
        *last = out->n;
        hth_frame_add_step(out, step->reply, 0, NULL, 0, NULL, 0);
    }
    add(out, step->tokens, 4 * (size_t)step->n_tokens);
    if (out->failed)
        return;
    frame = (uint8_t *)out->text + *last;
    put_u32(frame, get_u32(frame) + 4 * step->n_tokens);
    frame[HTH_FRAME_HEAD_BYTES + 4] = step->reply_has_ended ? HTH_STEP_ENDS : 0;
    put_u32(frame + HTH_FRAME_HEAD_BYTES + 8, get_u32(frame + HTH_FRAME_HEAD_BYTES + 8) + step->n_tokens);
}

void hth_frame_add_known(hth_buffer *out, size_t *last, const hth_frame *frame)
{
    if (frame->kind == HTH_FRAME_STEP) {
        add_known_step(out, last, frame);
        return;
    }
    assert(frame->kind == HTH_FRAME_CACHED || frame->kind == HTH_FRAME_MODEL);
    *last = out->n;
    if (frame->kind == HTH_FRAME_CACHED)
        hth_frame_add_cached(out, frame->reply, frame->n_cached);
    else
        hth_frame_add_model(out, frame->model);
}

hearth_token hth_frame_token(const hth_frame *frame, uint32_t i)
{
    assert(i < frame->n_tokens);
    return (hearth_token)get_u32(frame->tokens + 4 * (size_t)i);
}

static bool read_head(const uint8_t *payload, size_t n, hth_frame *out)
{
    size_t n_type = n < HEAD_BYTES ? 0 : n - HEAD_BYTES;

    if (n < HEAD_BYTES || n_type > CONTENT_TYPE_MAX || memchr(payload + HEAD_BYTES, '\0', n_type))
        return false;
    out->status = payload[0] | payload[1] << 8;
    out->is_stream = payload[2] != 0;
    out->retry_after_s = get_u32(payload + 4);
    memcpy(out->content_type, payload + HEAD_BYTES, n_type);
    return out->status >= 200 && out->status <= 599;
}

static bool read_step(const uint8_t *payload, size_t n, hth_frame *out)
{
    if (n < STEP_BYTES)
        return false;
    out->reply = get_u32(payload);
    out->reply_has_ended = (payload[4] & HTH_STEP_ENDS) != 0;
    out->has_failed = (payload[4] & HTH_STEP_FAILS) != 0;
    out->n_tokens = get_u32(payload + 8);
    if (out->n_tokens > (n - STEP_BYTES) / 4)
        return false;
    out->tokens = payload + STEP_BYTES;
    out->bytes = (const char *)out->tokens + 4 * (size_t)out->n_tokens;
    out->n_bytes = n - STEP_BYTES - 4 * (size_t)out->n_tokens;
    return true;
}

static bool read_cached(const uint8_t *payload, size_t n, hth_frame *out)
{
    if (n != CACHED_BYTES)
        return false;
    out->reply = get_u32(payload);
    out->n_cached = get_u32(payload + 4);
    return true;
}

static bool read_end(const uint8_t *payload, size_t n, hth_frame_summary *out)
{
    const uint8_t *times = payload + (size_t)4 * SUMMARY_NUMBERS;

    if (n != END_BYTES)
        return false;
    *out = (hth_frame_summary){
        .status = get_u32(payload),
        .n_prompt_tokens = get_u32(payload + 4),
        .n_cached_tokens = get_u32(payload + 8),
        .n_reply_tokens = get_u32(payload + 12),
        .hit = get_u32(payload + 16),
        .tier = get_u32(payload + 20),
        .miss = get_u32(payload + 24),
        .finish = get_u32(payload + 28),
        .queue_ms = get_f64(times),
        .restore_ms = get_f64(times + 8),
        .prefill_ms = get_f64(times + 16),
        .ttft_ms = get_f64(times + 24),
        .decode_ms = get_f64(times + 32),
    };
    return true;
}

hth_frame_result hth_frame_read(const void *bytes, size_t n, hth_frame *out, size_t *used_out)
{
    const uint8_t *head = bytes, *payload = head + HTH_FRAME_HEAD_BYTES;
    hth_frame frame = { .kind = 0 };
    size_t n_payload;
    bool is_good;

    if (n < HTH_FRAME_HEAD_BYTES)
        return HTH_FRAME_PART;
    n_payload = get_u32(head);
    if (n_payload > HTH_FRAME_BYTES_MAX || head[4] < HTH_FRAME_HEAD || head[4] > HTH_FRAME_MODEL)
        return HTH_FRAME_BAD;
    if (n - HTH_FRAME_HEAD_BYTES < n_payload)
        return HTH_FRAME_PART;
    frame.kind = (hth_frame_kind)head[4];
    switch (frame.kind) {
    case HTH_FRAME_HEAD: is_good = read_head(payload, n_payload, &frame); break;
    case HTH_FRAME_STEP: is_good = read_step(payload, n_payload, &frame); break;
    case HTH_FRAME_CACHED: is_good = read_cached(payload, n_payload, &frame); break;
    case HTH_FRAME_MODEL:
        is_good = n_payload == HTH_FRAME_MODEL_BYTES;
        frame.model = payload;
        break;
    default: is_good = read_end(payload, n_payload, &frame.summary); break;
    }
    if (!is_good)
        return HTH_FRAME_BAD;
    *out = frame;
    *used_out = HTH_FRAME_HEAD_BYTES + n_payload;
    return HTH_FRAME_OK;
}
