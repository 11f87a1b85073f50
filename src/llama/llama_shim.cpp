/*
 * llama_shim.cpp - calls of llama.cpp; their exceptions are caught here
 *
 * See llama_shim.h. Every function is noexcept. A function without a status returns its value for failure.
 */
#include "llama/llama_shim.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_set>

#include <build-info.h>
#include <ggml-backend.h>
#include <gguf.h>
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

template <size_t N> void copy_text(char (&to)[N], const char *from)
{
    (void)std::snprintf(to, N, "%s", from ? from : ""); /* truncated if too long */
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

/* An unsigned metadata value of a file, whatever its width; fallback when it is missing or something else. */
uint32_t file_u32(const gguf_context *file, const char *key, uint32_t fallback)
{
    int64_t id = gguf_find_key(file, key);

    if (id < 0)
        return fallback;
    switch (gguf_get_kv_type(file, id)) {
    case GGUF_TYPE_UINT8: return gguf_get_val_u8(file, id);
    case GGUF_TYPE_UINT16: return gguf_get_val_u16(file, id);
    case GGUF_TYPE_UINT32: return gguf_get_val_u32(file, id);
    case GGUF_TYPE_INT32: return gguf_get_val_i32(file, id) < 0 ? fallback : (uint32_t)gguf_get_val_i32(file, id);
    default: return fallback;
    }
}

/*
 * Does cls.weight alone produce scores? In other architectures it is a layer before them, which embedding models also
 * have.
 */
bool scores_with_cls(const gguf_context *file)
{
    int64_t id = gguf_find_key(file, "general.architecture");

    return id >= 0 && gguf_get_kv_type(file, id) == GGUF_TYPE_STRING &&
           std::strcmp(gguf_get_val_str(file, id), "jina-bert-v2") == 0;
}

/* The engine's own limit (LLAMA_MAX_LAYERS in v0.5.0). */
constexpr uint32_t n_layers_max = 512;

/* "llama.attention.layer_norm_rms_epsilon" ends with "epsilon". */
bool ends_with(const std::string &text, const char *end)
{
    size_t n = std::strlen(end);

    return text.size() >= n && text.compare(text.size() - n, n, end) == 0;
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
                 (gguf_get_val_f32(file, i) >= 0 || !ends_with(key, "epsilon"));
        else if (type == GGUF_TYPE_UINT32 && ends_with(key, ".block_count"))
            ok = gguf_get_val_u32(file, i) >= 1 && gguf_get_val_u32(file, i) <= n_layers_max;
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

struct gguf_deleter {
    void operator()(gguf_context *file) const
    {
        gguf_free(file);
    }
};

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
                            hearth_error *err)
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

hearth_status hth_shim_system_info(char *text, size_t capacity, hearth_error *err)
{
    return hth_guarded(err, "name its features", [&] {
        if ((size_t)std::snprintf(text, capacity, "%s", llama_print_system_info()) >= capacity)
            return hth_fail(err, HEARTH_ENGINE, "the engine names more features than %zu bytes hold", capacity);
        return HEARTH_OK;
    });
}

/* ---- model files ---- */

hearth_status hth_shim_file_read(const char *path, hth_shim_file *out, hearth_error *err)
{
    return hth_guarded(err, "read the model file", [&] {
        gguf_init_params params = { /* no_alloc = */ true, /* ctx = */ nullptr };
        std::unique_ptr<gguf_context, gguf_deleter> file(gguf_init_from_file(path, params));
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
        found.split_no = file_u32(file.get(), "split.no", 0);
        found.split_count = file_u32(file.get(), "split.count", 0);
        found.has_long_rope_factors = gguf_find_tensor(file.get(), "rope_factors_long.weight") >= 0 ||
                                      gguf_find_tensor(file.get(), "blk.0.rope_factors_long.weight") >= 0;
        found.has_classifier = gguf_find_tensor(file.get(), "cls.output.weight") >= 0 ||
                               (gguf_find_tensor(file.get(), "cls.weight") >= 0 && scores_with_cls(file.get()));
        *out = found;
        return HEARTH_OK;
    });
}

hearth_status hth_shim_split_path(const char *path, uint32_t split_no, uint32_t split_count, char *out, size_t capacity,
                                  hearth_error *err)
{
    return hth_guarded(err, "name the parts of the model", [&] {
        std::string prefix(std::strlen(path) + 1, '\0');

        if (llama_split_prefix(&prefix[0], prefix.size(), path, 0, (int32_t)split_count) <= 0)
            return hth_fail(err, HEARTH_CORRUPT,
                            "'%s' is the first of %u parts but is not named like it (...-00001-of-%05u.gguf)", path,
                            split_count, split_count);
        llama_split_path(out, capacity, prefix.c_str(), (int32_t)split_no, (int32_t)split_count);
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

void hth_shim_model_free(struct llama_model *model)
{
    (void)guarded_value(false, [&] {
        llama_model_free(model);
        return true;
    });
}

const char *hth_shim_rank_template(const struct llama_model *model)
{
    return guarded_value(static_cast<const char *>(nullptr),
                         [&] { return llama_model_chat_template(model, "rerank"); });
}

/* Without a vocabulary there are no special tokens, although the engine returns some. */
static void read_vocabulary_facts(const llama_vocab *vocabulary, hth_shim_model_facts *facts)
{
    facts->vocabulary_type = llama_vocab_type(vocabulary);
    facts->has_vocabulary = facts->vocabulary_type != LLAMA_VOCAB_TYPE_NONE;
    for (hearth_token &token : facts->special)
        token = LLAMA_TOKEN_NULL;
    if (!facts->has_vocabulary)
        return;
    facts->adds_bos = llama_vocab_get_add_bos(vocabulary);
    facts->adds_eos = llama_vocab_get_add_eos(vocabulary);
    facts->adds_sep = llama_vocab_get_add_sep(vocabulary);
    facts->special[HEARTH_SPECIAL_BOS] = llama_vocab_bos(vocabulary);
    facts->special[HEARTH_SPECIAL_EOS] = llama_vocab_eos(vocabulary);
    facts->special[HEARTH_SPECIAL_EOT] = llama_vocab_eot(vocabulary);
    facts->special[HEARTH_SPECIAL_SEP] = llama_vocab_sep(vocabulary);
    facts->special[HEARTH_SPECIAL_NEWLINE] = llama_vocab_nl(vocabulary);
    facts->special[HEARTH_SPECIAL_PAD] = llama_vocab_pad(vocabulary);
    facts->special[HEARTH_SPECIAL_MASK] = llama_vocab_mask(vocabulary);
    facts->special[HEARTH_SPECIAL_FIM_PREFIX] = llama_vocab_fim_pre(vocabulary);
    facts->special[HEARTH_SPECIAL_FIM_SUFFIX] = llama_vocab_fim_suf(vocabulary);
    facts->special[HEARTH_SPECIAL_FIM_MIDDLE] = llama_vocab_fim_mid(vocabulary);
    facts->special[HEARTH_SPECIAL_FIM_PAD] = llama_vocab_fim_pad(vocabulary);
    facts->special[HEARTH_SPECIAL_FIM_REPOSITORY] = llama_vocab_fim_rep(vocabulary);
    facts->special[HEARTH_SPECIAL_FIM_FILE] = llama_vocab_fim_sep(vocabulary);
}

hearth_status hth_shim_model_facts_read(const struct llama_model *model, hth_shim_model_facts *out, hearth_error *err)
{
    return hth_guarded(err, "describe the model", [&] {
        hth_shim_model_facts facts = {};

        (void)hth_shim_model_meta(model, "general.architecture", facts.architecture, sizeof(facts.architecture));
        (void)llama_model_desc(model, facts.description, sizeof(facts.description));
        facts.ftype = llama_model_ftype(model);
        facts.n_params = llama_model_n_params(model);
        facts.weight_bytes = llama_model_size(model);
        facts.n_ctx_train = llama_model_n_ctx_train(model);
        facts.n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
        facts.n_layers = llama_model_n_layer(model);
        facts.n_head = llama_model_n_head(model);
        facts.n_head_kv = llama_model_n_head_kv(model);
        facts.n_embd = llama_model_n_embd(model);
        facts.n_swa = llama_model_n_swa(model);
        facts.rope_type = llama_model_rope_type(model);
        facts.rope_freq_scale = llama_model_rope_freq_scale_train(model);
        facts.is_recurrent = llama_model_is_recurrent(model);
        facts.is_hybrid = llama_model_is_hybrid(model);
        facts.is_diffusion = llama_model_is_diffusion(model);
        facts.has_encoder = llama_model_has_encoder(model);
        facts.has_decoder = llama_model_has_decoder(model);
        facts.n_embd_out = (uint32_t)llama_model_n_embd_out(model);
        facts.n_labels = llama_model_n_cls_out(model);
        read_vocabulary_facts(llama_model_get_vocab(model), &facts);
        *out = facts;
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

hearth_status hth_shim_tokenize(const struct llama_model *model, const char *text, int32_t n_bytes, bool add_special,
                                bool parse_special, hearth_token *tokens, int32_t capacity, int32_t *n_out,
                                hearth_error *err)
{
    return hth_guarded(err, "tokenize the text", [&] {
        *n_out =
            llama_tokenize(llama_model_get_vocab(model), text, n_bytes, tokens, capacity, add_special, parse_special);
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

bool hth_shim_is_end(const struct llama_model *model, hearth_token token)
{
    return guarded_value(false, [&] { return llama_vocab_is_eog(llama_model_get_vocab(model), token); });
}

enum llama_token_attr hth_shim_token_attr(const struct llama_model *model, hearth_token token)
{
    return guarded_value(LLAMA_TOKEN_ATTR_UNDEFINED,
                         [&] { return llama_vocab_get_attr(llama_model_get_vocab(model), token); });
}

size_t hth_shim_metadata_count(const struct llama_model *model)
{
    return guarded_value((size_t)0, [&] { return (size_t)llama_model_meta_count(model); });
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

hearth_status hth_shim_context_defaults(struct llama_context_params *out, hearth_error *err)
{
    return hth_guarded(err, "give its defaults", [&] {
        *out = llama_context_default_params();
        return HEARTH_OK;
    });
}

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

void hth_shim_context_free(struct llama_context *context)
{
    (void)guarded_value(false, [&] {
        llama_free(context);
        return true;
    });
}

bool hth_shim_has_memory(const struct llama_context *context)
{
    return guarded_value(false, [&] { return llama_get_memory(context) != nullptr; });
}

void hth_shim_context_sizes(const struct llama_context *context, uint32_t *n_ctx, uint32_t *n_batch,
                            uint32_t *n_seq_max)
{
    (void)guarded_value(false, [&] {
        *n_ctx = llama_n_ctx(context);
        *n_batch = llama_n_batch(context);
        *n_seq_max = llama_n_seq_max(context);
        return true;
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

const float *hth_shim_logits(struct llama_context *context, int32_t row)
{
    return guarded_value(static_cast<const float *>(nullptr),
                         [&] { return static_cast<const float *>(llama_get_logits_ith(context, row)); });
}

void hth_shim_set_embeddings(struct llama_context *context, bool value)
{
    (void)guarded_value(false, [&] {
        llama_set_embeddings(context, value);
        return true;
    });
}

const float *hth_shim_embedding_of_row(struct llama_context *context, int32_t row)
{
    return guarded_value(static_cast<const float *>(nullptr),
                         [&] { return static_cast<const float *>(llama_get_embeddings_ith(context, row)); });
}

const float *hth_shim_embedding_of_sequence(struct llama_context *context, llama_seq_id id)
{
    return guarded_value(static_cast<const float *>(nullptr),
                         [&] { return static_cast<const float *>(llama_get_embeddings_seq(context, id)); });
}

void hth_shim_memory_clear(struct llama_context *context)
{
    (void)guarded_value(false, [&] {
        llama_memory_clear(llama_get_memory(context), /* data = */ false); /* accepts a null memory */
        return true;
    });
}

bool hth_shim_seq_remove(struct llama_context *context, llama_seq_id id, llama_pos begin, llama_pos end)
{
    return guarded_value(false, [&] { return llama_memory_seq_rm(llama_get_memory(context), id, begin, end); });
}

hearth_status hth_shim_seq_copy(struct llama_context *context, llama_seq_id from, llama_seq_id to, llama_pos begin,
                                llama_pos end, hearth_error *err)
{
    return hth_guarded(err, "copy a sequence", [&] {
        llama_memory_seq_cp(llama_get_memory(context), from, to, begin, end);
        return HEARTH_OK;
    });
}

llama_pos hth_shim_seq_pos_min(struct llama_context *context, llama_seq_id id)
{
    return guarded_value(-1, [&] { return llama_memory_seq_pos_min(llama_get_memory(context), id); });
}

llama_pos hth_shim_seq_pos_max(struct llama_context *context, llama_seq_id id)
{
    return guarded_value(-1, [&] { return llama_memory_seq_pos_max(llama_get_memory(context), id); });
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
