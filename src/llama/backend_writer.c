/*
 * backend_writer.c - the types of model files; the module's second table, which writes files in those that the engine
 * can make without extra data
 */
#include "llama/backend_inside.h"

#include <string.h>

/* The names are those of the cache key's table of types. */
static const struct file_type {
    const char *name;
    enum llama_ftype ftype;
    enum ggml_type type; /* of the matrices, for a file that is written directly */
    enum { DIRECT, MIXED, READ_ONLY } made;
} types[] = {
    { "f32", LLAMA_FTYPE_ALL_F32, GGML_TYPE_F32, DIRECT },
    { "f16", LLAMA_FTYPE_MOSTLY_F16, GGML_TYPE_F16, DIRECT },
    { "bf16", LLAMA_FTYPE_MOSTLY_BF16, GGML_TYPE_BF16, DIRECT },
    { "q8_0", LLAMA_FTYPE_MOSTLY_Q8_0, GGML_TYPE_Q8_0, DIRECT },
    { "q6_k", LLAMA_FTYPE_MOSTLY_Q6_K, GGML_TYPE_COUNT, MIXED },
    { "q5_k_m", LLAMA_FTYPE_MOSTLY_Q5_K_M, GGML_TYPE_COUNT, MIXED },
    { "q5_k_s", LLAMA_FTYPE_MOSTLY_Q5_K_S, GGML_TYPE_COUNT, MIXED },
    { "q5_1", LLAMA_FTYPE_MOSTLY_Q5_1, GGML_TYPE_COUNT, MIXED },
    { "q5_0", LLAMA_FTYPE_MOSTLY_Q5_0, GGML_TYPE_COUNT, MIXED },
    { "q4_k_m", LLAMA_FTYPE_MOSTLY_Q4_K_M, GGML_TYPE_COUNT, MIXED },
    { "q4_k_s", LLAMA_FTYPE_MOSTLY_Q4_K_S, GGML_TYPE_COUNT, MIXED },
    { "iq4_nl", LLAMA_FTYPE_MOSTLY_IQ4_NL, GGML_TYPE_COUNT, MIXED },
    { "iq4_xs", LLAMA_FTYPE_MOSTLY_IQ4_XS, GGML_TYPE_COUNT, MIXED },
    { "q4_1", LLAMA_FTYPE_MOSTLY_Q4_1, GGML_TYPE_COUNT, MIXED },
    { "q4_0", LLAMA_FTYPE_MOSTLY_Q4_0, GGML_TYPE_COUNT, MIXED },
    { "q3_k_l", LLAMA_FTYPE_MOSTLY_Q3_K_L, GGML_TYPE_COUNT, MIXED },
    { "q3_k_m", LLAMA_FTYPE_MOSTLY_Q3_K_M, GGML_TYPE_COUNT, MIXED },
    { "q3_k_s", LLAMA_FTYPE_MOSTLY_Q3_K_S, GGML_TYPE_COUNT, MIXED },
    { "q2_k", LLAMA_FTYPE_MOSTLY_Q2_K, GGML_TYPE_COUNT, MIXED },
    { "iq1_s", LLAMA_FTYPE_MOSTLY_IQ1_S, GGML_TYPE_COUNT, READ_ONLY },
    { "iq1_m", LLAMA_FTYPE_MOSTLY_IQ1_M, GGML_TYPE_COUNT, READ_ONLY },
    { "iq2_xxs", LLAMA_FTYPE_MOSTLY_IQ2_XXS, GGML_TYPE_COUNT, READ_ONLY },
    { "iq2_xs", LLAMA_FTYPE_MOSTLY_IQ2_XS, GGML_TYPE_COUNT, READ_ONLY },
    { "iq2_s", LLAMA_FTYPE_MOSTLY_IQ2_S, GGML_TYPE_COUNT, READ_ONLY },
    { "iq2_m", LLAMA_FTYPE_MOSTLY_IQ2_M, GGML_TYPE_COUNT, READ_ONLY },
    { "iq3_xxs", LLAMA_FTYPE_MOSTLY_IQ3_XXS, GGML_TYPE_COUNT, READ_ONLY },
    { "iq3_xs", LLAMA_FTYPE_MOSTLY_IQ3_XS, GGML_TYPE_COUNT, READ_ONLY },
    { "iq3_s", LLAMA_FTYPE_MOSTLY_IQ3_S, GGML_TYPE_COUNT, READ_ONLY },
    { "iq3_m", LLAMA_FTYPE_MOSTLY_IQ3_M, GGML_TYPE_COUNT, READ_ONLY },
};

enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

const char *hth_backend_llama_type_name(enum llama_ftype ftype)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if ((int)types[i].ftype == ((int)ftype & ~(int)LLAMA_FTYPE_GUESSED))
            return types[i].name;
    return "unknown";
}

/* NULL: no file of this type can be made. */
static const struct file_type *find_type(const char *name)
{
    for (size_t i = 0; name && i < N_TYPES && types[i].made != READ_ONLY; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

static bool type_find(const char *name, bool *mixed)
{
    const struct file_type *type = find_type(name);

    if (type)
        *mixed = type->made == MIXED;
    return type != NULL;
}

static const char *type_name(size_t i)
{
    return i < N_TYPES && types[i].made != READ_ONLY ? types[i].name : NULL;
}

static hearth_status write_model(const hth_new_model *model, const char *name, hth_put_fn put, void *put_user_data,
                                 uint64_t *bytes_out, hearth_error *err)
{
    const struct file_type *type = find_type(name);
    hearth_status status;

    if (!model || !type || type->made == MIXED || !bytes_out)
        return hth_fail(err, HEARTH_MISUSE, "a model cannot be written in the type '%s'", name ? name : "");
    hth_backend_llama_enter(NULL);
    status = hth_backend_llama_start(err);
    if (status == HEARTH_OK)
        status = hth_shim_model_write(model, type->type, type->ftype, put, put_user_data, bytes_out, err);
    hth_backend_llama_leave();
    return status;
}

static hearth_status quantize(const char *from, const char *to, const char *name, const hth_log *log, hearth_error *err)
{
    const struct file_type *type = find_type(name);
    bool done = false;
    hearth_status status;

    if (!from || !to || !type || type->made != MIXED || !log)
        return hth_fail(err, HEARTH_MISUSE, "a model cannot be quantised to the type '%s'", name ? name : "");
    hth_backend_llama_enter(log);
    status = hth_backend_llama_start(err);
    if (status == HEARTH_OK)
        status = hth_shim_model_quantize(from, to, type->ftype, &done, err);
    if (status == HEARTH_OK && !done)
        status = hth_fail(err, HEARTH_ENGINE, "the engine cannot quantise '%s' to %s: %s", from, name,
                          hth_backend_llama_reason("it gave no reason"));
    hth_backend_llama_leave();
    return status;
}

HEARTH_API const hth_model_writer *hearth_model_writer(void);

const hth_model_writer *hearth_model_writer(void)
{
    static const hth_model_writer writer = {
        .abi = HTH_MODEL_WRITER_ABI,
        .type_find = type_find,
        .type_name = type_name,
        .write = write_model,
        .quantize = quantize,
    };

    return &writer;
}
