/*
 * llama_shim.cpp - calls of llama.cpp; their exceptions are caught here
 *
 * See llama_shim.h. Every function is noexcept. A function without a status returns its value for failure.
 */
#include "llama/llama_shim.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <unordered_set>

#include <build-info.h>
#include <log.h>

#include "llama/llama_guard.h"

namespace
{

/* The result of call; fallback if it throws. */
template <typename Value, typename Call> Value guarded_value(Value fallback, Call call) noexcept
{
    try {
        return call();
    } catch (...) {
        return fallback;
    }
}

/* A new string. write fills a buffer as snprintf does; a negative result means that there is no text. */
template <typename Write> hearth_status new_text(const char *what, Write write, char **out, hearth_error *err)
{
    return hth_guarded(err, "read its metadata", [&] {
        int32_t n = write(nullptr, (size_t)0);
        char *text;

        if (n < 0)
            return hth_fail(err, HEARTH_NOT_FOUND, "the model's metadata has no %.200s", what);
        text = static_cast<char *>(std::malloc((size_t)n + 1));
        if (!text)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the model's metadata");
        (void)write(text, (size_t)n + 1);
        *out = text;
        return HEARTH_OK;
    });
}

/*
 * The problem in metadata on which the engine would end the process instead of refusing the file: invalid numbers,
 * negative epsilons, no or too many layers, two tokens with the same name. "": none.
 */
std::string metadata_problem(const gguf_context *file)
{
    int64_t tokens = gguf_find_key(file, "tokenizer.ggml.tokens");
    std::unordered_set<std::string_view>
        seen; /* these point into the file, because tens of thousands of copies would take longer than reading it */

    for (int64_t i = 0; i < gguf_get_n_kv(file); i++) {
        std::string key = gguf_get_key(file, i);
        gguf_type type = gguf_get_kv_type(file, i);
        bool ok = true;

        if (type == GGUF_TYPE_FLOAT32)
            ok = std::isfinite(gguf_get_val_f32(file, i)) &&
                 (gguf_get_val_f32(file, i) >= 0 || !hth_ends_with(key, "epsilon"));
        else if (type == GGUF_TYPE_UINT32 && hth_ends_with(key, ".block_count"))
            ok = gguf_get_val_u32(file, i) >= 1 && gguf_get_val_u32(file, i) <= hth_layers_max;
        if (!ok)
            return "'" + key + "' has an impossible value";
    }
    if (tokens < 0 || gguf_get_kv_type(file, tokens) != GGUF_TYPE_ARRAY ||
        gguf_get_arr_type(file, tokens) != GGUF_TYPE_STRING)
        return "";
    seen.reserve(gguf_get_arr_n(file, tokens));
    for (size_t i = 0; i < gguf_get_arr_n(file, tokens); i++) {
        const char *name = gguf_get_arr_str(file, tokens, i);

        if (*name && !seen.insert(name).second) /* the engine makes up names for tokens without one */
            return "token " + std::to_string(i) + " has the name of another one";
    }
    return "";
}

bool is_iq(ggml_type type)
{
    switch (type) {
    case GGML_TYPE_IQ1_S:
    case GGML_TYPE_IQ1_M:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
    case GGML_TYPE_IQ3_XXS:
    case GGML_TYPE_IQ3_S:
    case GGML_TYPE_IQ4_XS: return true;
    default: return false;
    }
}

} /* namespace */

extern "C" {

/* ---- the engine as a whole ---- */

const char *hth_shim_version(void)
{
    static char text[96];

    return guarded_value("", [] {
        static const bool once = [] {
            (void)std::snprintf(text, sizeof(text), "%s-%s", llama_version(), llama_commit()); /* fits */
            return true;
        }();

        (void)once; /* only its initialisation matters: the language runs it exactly once */
        return static_cast<const char *>(text);
    });
}

hearth_status hth_shim_init(ggml_log_callback log, void (*aborting)(const char *message), const char *directory,
                            char *features, size_t capacity, hearth_error *err)
{
    return hth_guarded(err, "start", [&] {
        llama_log_set(log, nullptr);
        (void)ggml_set_abort_callback(aborting); /* there was none to restore */
        common_log_set_verbosity_thold(-1);      /* this log only writes to standard error */
        if (directory && ggml_backend_reg_count() == 0)
            ggml_backend_load_all_from_path(directory);
        llama_backend_init();
        if (!ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU))
            return hth_fail(err, HEARTH_ENGINE, "the engine has no CPU backend beside it in '%s'; reinstall it",
                            directory ? directory : "");
        if ((size_t)std::snprintf(features, capacity, "%s", llama_print_system_info()) >= capacity)
            return hth_fail(err, HEARTH_ENGINE, "the engine names more features than %zu bytes hold", capacity);
        return HEARTH_OK;
    });
}

bool hth_shim_numa_init(enum ggml_numa_strategy strategy)
{
    return guarded_value(false, [strategy] {
        ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
        auto is_numa = reinterpret_cast<bool (*)()>(
            ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_cpu_is_numa"));

        llama_numa_init(strategy);
        return !is_numa || is_numa();
    });
}

/* ---- model files ---- */

hearth_status hth_shim_file_read(const char *path, hth_shim_file *out, hearth_error *err)
{
    return hth_guarded(err, "read the model file", [&] {
        gguf_context_ptr file(gguf_init_from_file(path, { /* no_alloc = */ true, /* ctx = */ nullptr }));
        hth_shim_file found = {};
        std::string problem;
        uint64_t data = 0;

        if (!file)
            return hth_fail(err, HEARTH_CORRUPT, "'%s' is damaged or incomplete: its GGUF header cannot be read", path);
        problem = metadata_problem(file.get());
        if (!problem.empty())
            return hth_fail(err, HEARTH_CORRUPT, "'%s' is damaged: %s", path, problem.c_str());
        data = gguf_get_data_offset(file.get());
        found.bytes_needed = data;
        for (int64_t i = 0; i < gguf_get_n_tensors(file.get()); i++) {
            uint64_t size = gguf_get_tensor_size(file.get(), i);
            uint64_t end = 0;

            if (__builtin_add_overflow(data, gguf_get_tensor_offset(file.get(), i), &end) ||
                __builtin_add_overflow(end, size, &end))
                return hth_fail(err, HEARTH_CORRUPT, "'%s' is damaged: tensor %lld lies beyond any file", path,
                                (long long)i);
            found.bytes_needed = std::max(found.bytes_needed, end);
            found.weight_bytes += size;
            found.has_iq_experts |= std::strstr(gguf_get_tensor_name(file.get(), i), "_exps.") &&
                                    is_iq(gguf_get_tensor_type(file.get(), i));
        }
        found.split_no = hth_gguf_u32(file.get(), "split.no");
        found.split_count = hth_gguf_u32(file.get(), "split.count");
        found.has_long_rope_factors = gguf_find_tensor(file.get(), "rope_factors_long.weight") >= 0 ||
                                      gguf_find_tensor(file.get(), "blk.0.rope_factors_long.weight") >= 0;
        /* In most architectures cls.weight is a layer before the scores, which embedding models also have. */
        found.has_classifier = gguf_find_tensor(file.get(), "cls.output.weight") >= 0 ||
                               (gguf_find_tensor(file.get(), "cls.weight") >= 0 &&
                                std::strcmp(hth_gguf_text(file.get(), "general.architecture"), "jina-bert-v2") == 0);
        *out = found;
        return HEARTH_OK;
    });
}

/* ---- model ---- */

hearth_status hth_shim_model_load(const char *path, const struct llama_model_params *params, struct llama_model **out,
                                  hearth_error *err)
{
    return hth_guarded(err, "load the model", [&] {
        llama_model *model = llama_model_load_from_file(path, *params);

        if (!model)
            return hth_fail(err, HEARTH_ENGINE, "the engine refused it");
        *out = model;
        return HEARTH_OK;
    });
}

static hearth_vocabulary_type vocabulary_type_of(enum llama_vocab_type type)
{
    switch (type) {
    case LLAMA_VOCAB_TYPE_NONE: return HEARTH_VOCABULARY_NONE;
    case LLAMA_VOCAB_TYPE_SPM: return HEARTH_VOCABULARY_SPM;
    case LLAMA_VOCAB_TYPE_BPE: return HEARTH_VOCABULARY_BPE;
    case LLAMA_VOCAB_TYPE_WPM: return HEARTH_VOCABULARY_WPM;
    case LLAMA_VOCAB_TYPE_UGM: return HEARTH_VOCABULARY_UGM;
    case LLAMA_VOCAB_TYPE_RWKV: return HEARTH_VOCABULARY_RWKV;
    default: return HEARTH_VOCABULARY_OTHER;
    }
}

/* Without a vocabulary there are no special tokens, although the engine returns some. */
static void read_vocabulary(const llama_vocab *vocabulary, hth_engine_model_info *info)
{
    info->n_vocab = (uint32_t)llama_vocab_n_tokens(vocabulary);
    info->vocabulary_type = vocabulary_type_of(llama_vocab_type(vocabulary));
    for (hearth_token &token : info->special)
        token = LLAMA_TOKEN_NULL;
    if (info->vocabulary_type == HEARTH_VOCABULARY_NONE)
        return;
    info->adds_bos = llama_vocab_get_add_bos(vocabulary);
    info->adds_eos = llama_vocab_get_add_eos(vocabulary);
    info->adds_sep = llama_vocab_get_add_sep(vocabulary);
    info->special[HEARTH_SPECIAL_BOS] = llama_vocab_bos(vocabulary);
    info->special[HEARTH_SPECIAL_EOS] = llama_vocab_eos(vocabulary);
    info->special[HEARTH_SPECIAL_EOT] = llama_vocab_eot(vocabulary);
    info->special[HEARTH_SPECIAL_SEP] = llama_vocab_sep(vocabulary);
    info->special[HEARTH_SPECIAL_NEWLINE] = llama_vocab_nl(vocabulary);
    info->special[HEARTH_SPECIAL_PAD] = llama_vocab_pad(vocabulary);
    info->special[HEARTH_SPECIAL_MASK] = llama_vocab_mask(vocabulary);
    info->special[HEARTH_SPECIAL_FIM_PREFIX] = llama_vocab_fim_pre(vocabulary);
    info->special[HEARTH_SPECIAL_FIM_SUFFIX] = llama_vocab_fim_suf(vocabulary);
    info->special[HEARTH_SPECIAL_FIM_MIDDLE] = llama_vocab_fim_mid(vocabulary);
    info->special[HEARTH_SPECIAL_FIM_PAD] = llama_vocab_fim_pad(vocabulary);
    info->special[HEARTH_SPECIAL_FIM_REPOSITORY] = llama_vocab_fim_rep(vocabulary);
    info->special[HEARTH_SPECIAL_FIM_FILE] = llama_vocab_fim_sep(vocabulary);
}

hearth_status hth_shim_model_facts_read(const struct llama_model *model, hth_engine_model_info *info,
                                        hth_shim_model_facts *facts, hearth_error *err)
{
    return hth_guarded(err, "describe the model", [&] {
        (void)hth_shim_model_meta(model, "general.architecture", info->architecture, sizeof(info->architecture));
        (void)llama_model_desc(model, info->description, sizeof(info->description));
        info->n_params = llama_model_n_params(model);
        info->weight_bytes = llama_model_size(model);
        info->n_ctx_train = (uint32_t)std::max(llama_model_n_ctx_train(model), 0);
        info->n_layers = (uint32_t)llama_model_n_layer(model);
        info->n_embedding = (uint32_t)llama_model_n_embd_out(model);
        info->n_labels = llama_model_n_cls_out(model);
        info->rank_template = llama_model_chat_template(model, "rerank");
        read_vocabulary(llama_model_get_vocab(model), info);
        facts->ftype = llama_model_ftype(model);
        facts->n_head = llama_model_n_head(model);
        facts->n_head_kv = llama_model_n_head_kv(model);
        facts->n_embd = llama_model_n_embd(model);
        facts->n_swa = llama_model_n_swa(model);
        facts->rope_type = llama_model_rope_type(model);
        facts->rope_freq_scale = llama_model_rope_freq_scale_train(model);
        facts->is_recurrent = llama_model_is_recurrent(model);
        facts->is_hybrid = llama_model_is_hybrid(model);
        facts->is_diffusion = llama_model_is_diffusion(model);
        facts->has_encoder = llama_model_has_encoder(model);
        facts->has_decoder = llama_model_has_decoder(model);
        facts->has_vocabulary = info->vocabulary_type != HEARTH_VOCABULARY_NONE;
        return HEARTH_OK;
    });
}

bool hth_shim_model_meta(const struct llama_model *model, const char *key, char *text, size_t capacity)
{
    bool ok = guarded_value(false, [&] {
        int32_t n = llama_model_meta_val_str(model, key, text, capacity);

        return n >= 0 && (size_t)n < capacity;
    });

    if (!ok)
        text[0] = '\0';
    return ok;
}

hearth_status hth_shim_tokenize(const struct llama_model *model, const char *text, int32_t n_bytes,
                                hearth_token *tokens, int32_t capacity, int32_t *n_out, hearth_error *err)
{
    return hth_guarded(err, "tokenize the text", [&] {
        *n_out = llama_tokenize(llama_model_get_vocab(model), text, n_bytes, tokens, capacity,
                                /* add_special = */ false, /* parse_special = */ true);
        return HEARTH_OK;
    });
}

hearth_status hth_shim_piece(const struct llama_model *model, hearth_token token, bool special, char *bytes,
                             int32_t capacity, int32_t *n_out, hearth_error *err)
{
    return hth_guarded(err, "write a token as text", [&] {
        *n_out = llama_token_to_piece(llama_model_get_vocab(model), token, bytes, capacity, /* lstrip = */ 0, special);
        return HEARTH_OK;
    });
}

hearth_status hth_shim_metadata_key(const struct llama_model *model, size_t index, char **out, hearth_error *err)
{
    int32_t i = index < INT32_MAX ? (int32_t)index : INT32_MAX;

    return new_text(
        "pair of that number", [&](char *to, size_t n) { return llama_model_meta_key_by_index(model, i, to, n); }, out,
        err);
}

hearth_status hth_shim_metadata(const struct llama_model *model, const char *key, char **out, hearth_error *err)
{
    return new_text(
        key, [&](char *to, size_t n) { return llama_model_meta_val_str(model, key, to, n); }, out, err);
}

/* ---- context ---- */

hearth_status hth_shim_context_new(struct llama_model *model, const struct llama_context_params *params,
                                   struct llama_context **out, hearth_error *err)
{
    return hth_guarded(err, "make a context", [&] {
        llama_context *context = llama_init_from_model(model, *params);

        if (!context)
            return hth_fail(err, HEARTH_ENGINE, "the engine refused the context");
        *out = context;
        return HEARTH_OK;
    });
}

hearth_status hth_shim_decode(struct llama_context *context, struct llama_batch batch, int32_t *result,
                              hearth_error *err)
{
    return hth_guarded(err, "evaluate a batch", [&] {
        *result = llama_decode(context, batch);
        llama_synchronize(context);
        return HEARTH_OK;
    });
}

hearth_status hth_shim_seq_copy(struct llama_context *context, llama_seq_id from, llama_seq_id to, llama_pos begin,
                                llama_pos end, hearth_error *err)
{
    return hth_guarded(err, "copy a sequence", [&] {
        llama_memory_seq_cp(llama_get_memory(context), from, to, begin, end);
        return HEARTH_OK;
    });
}

size_t hth_shim_state_size(struct llama_context *context, llama_seq_id id, llama_state_seq_flags flags)
{
    return guarded_value((size_t)0, [&] { return llama_state_seq_get_size_ext(context, id, flags); });
}

size_t hth_shim_state_get(struct llama_context *context, llama_seq_id id, llama_state_seq_flags flags, uint8_t *bytes,
                          size_t capacity)
{
    return guarded_value((size_t)0, [&] { return llama_state_seq_get_data_ext(context, bytes, capacity, id, flags); });
}

size_t hth_shim_state_set(struct llama_context *context, llama_seq_id id, llama_state_seq_flags flags,
                          const uint8_t *bytes, size_t n_bytes)
{
    return guarded_value((size_t)0, [&] { return llama_state_seq_set_data_ext(context, bytes, n_bytes, id, flags); });
}

} /* extern "C" */
