/*
 * vocabulary.c - the public functions for single tokens and for the whole vocabulary of a model
 */
#include <string.h>

#include "base/structs.h"
#include "models/model_inside.h"

const char *hearth_vocabulary_type_name(hearth_vocabulary_type type)
{
    switch (type) {
    case HEARTH_VOCABULARY_NONE: return "none";
    case HEARTH_VOCABULARY_SPM: return "spm";
    case HEARTH_VOCABULARY_BPE: return "bpe";
    case HEARTH_VOCABULARY_WPM: return "wpm";
    case HEARTH_VOCABULARY_UGM: return "ugm";
    case HEARTH_VOCABULARY_RWKV: return "rwkv";
    case HEARTH_VOCABULARY_OTHER: return "other";
    }
    return "unknown";
}

hearth_status hearth_model_vocabulary(hearth_model *model, hearth_vocabulary *out, hearth_error *err)
{
    hearth_vocabulary filled;

    if (!model || !out || out->struct_size < sizeof(size_t))
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_model_vocabulary: model or out is NULL, or out->struct_size is not "
                        "sizeof(hearth_vocabulary)");
    filled = (hearth_vocabulary){
        .struct_size = sizeof(filled),
        .type = model->info.vocabulary_type,
        .n_tokens = model->info.n_vocab,
        .adds_bos = model->info.adds_bos,
        .adds_eos = model->info.adds_eos,
    };
    hth_struct_write(out, &filled, sizeof(filled));
    return HEARTH_OK;
}

hearth_status hearth_token_bytes(hearth_model *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out,
                                 hearth_error *err)
{
    char piece[HTH_PIECE_BYTES_MAX];
    hearth_status status;
    size_t n = 0;

    if ((!bytes && capacity > 0) || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_token_bytes: bytes or n_out is NULL");
    status = hth_model_enter(model, "hearth_token_bytes", err);
    if (status != HEARTH_OK)
        return status;
    status = model->backend->piece(model->engine_model, token, true, piece, sizeof(piece), &n, err);
    hth_model_leave(model);
    if (status != HEARTH_OK)
        return status;
    if (bytes && n > capacity)
        return hth_fail(err, HEARTH_TOO_LONG, "token %d is %zu bytes long, more than the %zu there is room for", token,
                        n, capacity);
    if (bytes)
        memcpy(bytes, piece, n);
    *n_out = n;
    return HEARTH_OK;
}

hearth_status hearth_token_flags(hearth_model *model, hearth_token token, unsigned *flags_out, hearth_error *err)
{
    hearth_status status;

    if (!flags_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_token_flags: flags_out is NULL");
    status = hth_model_enter(model, "hearth_token_flags", err);
    if (status != HEARTH_OK)
        return status;
    status = model->backend->token_flags(model->engine_model, token, flags_out, err);
    hth_model_leave(model);
    return status;
}

/* ---- roles ---- */

static const char *const special_names[HEARTH_SPECIALS] = {
    [HEARTH_SPECIAL_BOS] = "bos",
    [HEARTH_SPECIAL_EOS] = "eos",
    [HEARTH_SPECIAL_EOT] = "eot",
    [HEARTH_SPECIAL_SEP] = "sep",
    [HEARTH_SPECIAL_NEWLINE] = "newline",
    [HEARTH_SPECIAL_PAD] = "pad",
    [HEARTH_SPECIAL_MASK] = "mask",
    [HEARTH_SPECIAL_FIM_PREFIX] = "fim_prefix",
    [HEARTH_SPECIAL_FIM_SUFFIX] = "fim_suffix",
    [HEARTH_SPECIAL_FIM_MIDDLE] = "fim_middle",
    [HEARTH_SPECIAL_FIM_PAD] = "fim_pad",
    [HEARTH_SPECIAL_FIM_REPOSITORY] = "fim_repository",
    [HEARTH_SPECIAL_FIM_FILE] = "fim_file",
};

const char *hearth_special_name(hearth_special role)
{
    return (unsigned)role < HEARTH_SPECIALS ? special_names[role] : "unknown";
}

hearth_status hearth_special_token(hearth_model *model, hearth_special role, hearth_token *out, hearth_error *err)
{
    if (!model || !out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_special_token: model or out is NULL");
    if ((unsigned)role >= HEARTH_SPECIALS)
        return hth_fail(err, HEARTH_MISUSE, "hearth_special_token: %d is no role of hearth_special", (int)role);
    *out = model->info.special[role];
    return HEARTH_OK;
}

bool hth_model_fill_tokens(const hearth_model *model, hearth_token out[3])
{
    const hearth_token *special = model->info.special;

    if (special[HEARTH_SPECIAL_FIM_PREFIX] < 0 || special[HEARTH_SPECIAL_FIM_SUFFIX] < 0 ||
        special[HEARTH_SPECIAL_FIM_MIDDLE] < 0)
        return false;
    out[0] = special[HEARTH_SPECIAL_FIM_PREFIX];
    out[1] = special[HEARTH_SPECIAL_FIM_SUFFIX];
    out[2] = special[HEARTH_SPECIAL_FIM_MIDDLE];
    return true;
}
