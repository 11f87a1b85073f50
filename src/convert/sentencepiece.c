/*
 * sentencepiece.c - the few fields of a SentencePiece model that the engine needs
 */
#include "convert/tokenizer.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5, MODEL_BPE = 2, VARINT_BYTES_MAX = 10 };

typedef struct span {
    const uint8_t *at;
    const uint8_t *end;
} span;

typedef struct field {
    uint64_t number;
    unsigned wire;
    uint64_t value; /* of VARINT, FIXED32, FIXED64 */
    span bytes;     /* of BYTES */
} field;

/* Settings of the trainer and the normalizer; the defaults are the format's. */
typedef struct settings {
    uint64_t model_type, has_suffixes;
    uint64_t charsmap_bytes, adds_space, removes_spaces, escapes_spaces;
} settings;

static bool read_varint(span *from, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < VARINT_BYTES_MAX && from->at < from->end; i++) {
        uint8_t byte = *from->at++;

        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool read_fixed(span *from, unsigned n, uint64_t *out)
{
    if ((size_t)(from->end - from->at) < n)
        return false;
    *out = 0;
    for (unsigned i = 0; i < n; i++)
        *out |= (uint64_t)*from->at++ << (8 * i);
    return true;
}

/* Read the next field of a message that is not at its end. */
static bool read_field(span *from, field *out)
{
    uint64_t key, n;

    if (!read_varint(from, &key))
        return false;
    *out = (field){ .number = key >> 3, .wire = (unsigned)(key & 7) };
    switch (out->wire) {
    case VARINT: return read_varint(from, &out->value);
    case FIXED32: return read_fixed(from, 4, &out->value);
    case FIXED64: return read_fixed(from, 8, &out->value);
    case BYTES:
        if (!read_varint(from, &n) || n > (uint64_t)(from->end - from->at))
            return false;
        out->bytes = (span){ from->at, from->at + n };
        from->at += n;
        return true;
    default: return false;
    }
}

/*
 * The last value of the field with this number in a message, or the length of a bytes field; false if the message is
 * malformed.
 */
static bool find_number(span message, uint64_t number, uint64_t *value)
{
    field f;

    while (message.at < message.end) {
        if (!read_field(&message, &f))
            return false;
        if (f.number == number && f.wire == VARINT)
            *value = f.value;
        else if (f.number == number && f.wire == BYTES)
            *value = (uint64_t)(f.bytes.end - f.bytes.at);
    }
    return true;
}

static hearth_status read_piece(const char *file, span message, uint64_t id, hth_token_list *vocabulary,
                                hearth_error *err)
{
    uint64_t type = HTH_TOKEN_NORMAL;
    uint32_t score_bits = 0;
    span piece = { NULL, NULL };
    hearth_status status;
    field f;

    while (message.at < message.end) {
        if (!read_field(&message, &f))
            return hth_fail(err, HEARTH_CORRUPT, "'%s': piece %llu is damaged; get the file again", file,
                            (unsigned long long)id);
        if (f.number == 1 && f.wire == BYTES)
            piece = f.bytes;
        else if (f.number == 2 && f.wire == FIXED32)
            score_bits = (uint32_t)f.value;
        else if (f.number == 3 && f.wire == VARINT)
            type = f.value;
    }
    if (type < HTH_TOKEN_NORMAL || type > HTH_TOKEN_BYTE)
        return hth_fail(err, HEARTH_CORRUPT, "'%s': piece %llu is of no known type", file, (unsigned long long)id);
    status = hth_token_list_set(vocabulary, file, id, (const char *)piece.at, (size_t)(piece.end - piece.at),
                                (hth_token_type)type, err);
    if (status != HEARTH_OK)
        return status;
    memcpy(&vocabulary->scores[id], &score_bits, sizeof(score_bits));
    return HEARTH_OK;
}

/* The engine neither normalizes texts, nor removes spaces, nor puts them after words. */
static hearth_status check_settings(const char *file, const settings *s, hearth_error *err)
{
    const char *problem = s->charsmap_bytes > 0 ? "normalises texts (precompiled_charsmap)"
                        : s->removes_spaces     ? "removes extra spaces (remove_extra_whitespaces)"
                        : !s->escapes_spaces    ? "does not escape spaces (escape_whitespaces)"
                        : s->has_suffixes       ? "puts spaces behind words (treat_whitespace_as_suffix)"
                                                : NULL;

    if (s->model_type != MODEL_BPE)
        return hth_fail(err, HEARTH_UNSUPPORTED, "'%s' is no BPE model; others are not converted", file);
    if (problem)
        return hth_fail(err, HEARTH_UNSUPPORTED, "'%s' %s; the engine would give texts other tokens", file, problem);
    return HEARTH_OK;
}

hearth_status hth_sentencepiece_read(const char *file, const uint8_t *bytes, size_t n_bytes, hth_token_list *vocabulary,
                                     hearth_error *err)
{
    span message = { bytes, bytes + n_bytes };
    uint64_t n = 0;
    settings s = { .model_type = 1, .adds_space = 1, .removes_spaces = 1, .escapes_spaces = 1 };
    hearth_status status = HEARTH_OK;
    field f;

    while (message.at < message.end && status == HEARTH_OK) {
        bool ok = read_field(&message, &f);

        if (ok && f.number == 1 && f.wire == BYTES)
            status = read_piece(file, f.bytes, n++, vocabulary, err);
        else if (ok && f.number == 2 && f.wire == BYTES)
            ok = find_number(f.bytes, 3, &s.model_type) && find_number(f.bytes, 24, &s.has_suffixes);
        else if (ok && f.number == 3 && f.wire == BYTES)
            ok = find_number(f.bytes, 2, &s.charsmap_bytes) && find_number(f.bytes, 3, &s.adds_space) &&
                 find_number(f.bytes, 4, &s.removes_spaces) && find_number(f.bytes, 5, &s.escapes_spaces);
        if (!ok)
            return hth_fail(err, HEARTH_CORRUPT, "'%s' is no SentencePiece model, or damaged; get the file again",
                            file);
    }
    if (status != HEARTH_OK)
        return status;
    if (n == 0)
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is no SentencePiece model: it has no pieces", file);
    status = check_settings(file, &s, err);
    if (status != HEARTH_OK)
        return status;
    vocabulary->model = "llama";
    vocabulary->adds_space = s.adds_space != 0;
    vocabulary->adds_bos = true;
    return HEARTH_OK;
}
