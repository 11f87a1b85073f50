/*
 * export_checkpoint.c - a GGUF model as a checkpoint in the hub's layout, for tests of `hearth convert`
 *
 *   export_checkpoint MODEL.gguf FOLDER f32|f16|bf16 [shards] [wide] [pieces] [order]
 *
 * It is written from the definitions of the formats and shares no code with the conversion. A checkpoint's rotary
 * embedding of a llama turns value k of a head with value k + d/2; the engine's turns 2k with 2k + 1. gemma's norms are
 * kept less 1. shards: two files and an index; wide: the second is f32; pieces: the vocabulary as tokenizer.model
 * instead of tokenizer.json; order: an argument_order, the reverse of that in the file.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml.h>
#include <gguf.h>
#include <jansson.h>

enum { TEXT = 256, PATH_BYTES = 4096 };

static struct gguf_context *gguf;
static struct ggml_context *tensors;
static char architecture[TEXT];
static const char *folder;

static void fail(const char *message, const char *name)
{
    (void)fprintf(stderr, "export_checkpoint: %s %s\n", message, name);
    exit(1);
}

static FILE *open_file(const char *name)
{
    char path[PATH_BYTES];
    FILE *out;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    out = fopen(path, "wb");
    if (!out)
        fail("cannot write", path);
    return out;
}

static void write_json(const char *name, json_t *value)
{
    FILE *out = open_file(name);

    if (json_dumpf(value, out, JSON_INDENT(1)) != 0 || fclose(out) != 0)
        fail("cannot write", name);
    json_decref(value);
}

/* ---- keys ---- */

static int64_t own_key(const char *suffix)
{
    char name[2 * TEXT];

    (void)snprintf(name, sizeof(name), "%s.%s", architecture, suffix);
    return gguf_find_key(gguf, name);
}

static void copy_number(json_t *to, const char *name, const char *suffix)
{
    int64_t key = own_key(suffix);

    if (key < 0)
        return;
    if (gguf_get_kv_type(gguf, key) == GGUF_TYPE_FLOAT32)
        json_object_set_new(to, name, json_real((double)gguf_get_val_f32(gguf, key)));
    else
        json_object_set_new(to, name, json_integer(gguf_get_val_u32(gguf, key)));
}

static bool is(const char *name)
{
    return strcmp(architecture, name) == 0;
}

static json_t *rope_scaling(void)
{
    int64_t type = own_key("rope.scaling.type");
    json_t *scaling;

    if (gguf_find_tensor(gguf, "rope_freqs.weight") >= 0)
        return json_pack("{s:s,s:f,s:f,s:f,s:i}", "rope_type", "llama3", "factor", 4.0, "low_freq_factor", 1.0,
                         "high_freq_factor", 4.0, "original_max_position_embeddings", 64);
    if (type < 0)
        return json_null();
    scaling = json_pack("{s:s}", "rope_type", gguf_get_val_str(gguf, type));
    copy_number(scaling, "factor", "rope.scaling.factor");
    copy_number(scaling, "original_max_position_embeddings", "rope.scaling.original_context_length");
    return scaling;
}

static void write_config(uint32_t head_length)
{
    static const char *const classes[][2] = { { "llama", "LlamaForCausalLM" },   { "qwen2", "Qwen2ForCausalLM" },
                                              { "qwen3", "Qwen3ForCausalLM" },   { "gemma", "GemmaForCausalLM" },
                                              { "gemma2", "Gemma2ForCausalLM" }, { "gemma3", "Gemma3ForCausalLM" } };
    bool is_gemma = strncmp(architecture, "gemma", 5) == 0;
    json_t *config = json_object();

    for (size_t i = 0; i < 6; i++)
        if (is(classes[i][0]))
            json_object_set_new(config, "architectures", json_pack("[s]", classes[i][1]));
    copy_number(config, "num_hidden_layers", "block_count");
    copy_number(config, "hidden_size", "embedding_length");
    copy_number(config, "intermediate_size", "feed_forward_length");
    copy_number(config, "num_attention_heads", "attention.head_count");
    copy_number(config, "num_key_value_heads", "attention.head_count_kv");
    copy_number(config, "max_position_embeddings", "context_length");
    copy_number(config, "rms_norm_eps", "attention.layer_norm_rms_epsilon");
    copy_number(config, "rope_theta", "rope.freq_base");
    copy_number(config, "sliding_window", "attention.sliding_window");
    copy_number(config, "rope_local_base_freq", "rope.freq_base_swa");
    copy_number(config, "attn_logit_softcapping", "attn_logit_softcapping");
    copy_number(config, "final_logit_softcapping", "final_logit_softcapping");
    json_object_set_new(config, "head_dim", json_integer(head_length));
    json_object_set_new(config, "vocab_size",
                        json_integer((json_int_t)gguf_get_arr_n(gguf, gguf_find_key(gguf, "tokenizer.ggml.tokens"))));
    json_object_set_new(config, "hidden_act", json_string(is_gemma ? "gelu_pytorch_tanh" : "silu"));
    json_object_set_new(config, "rope_scaling", rope_scaling());
    json_object_set_new(config, "tie_word_embeddings", json_boolean(gguf_find_tensor(gguf, "output.weight") < 0));
    if (is("gemma2") || is("gemma3"))
        json_object_set_new(config, "query_pre_attn_scalar", json_integer(head_length));
    write_json("config.json", config);
}

/* ---- tensors ---- */

static void checkpoint_name(const char *from, char to[TEXT])
{
    static const char *const names[][2] = {
        { "attn_norm", "input_layernorm" },
        { "attn_q_norm", "self_attn.q_norm" },
        { "attn_k_norm", "self_attn.k_norm" },
        { "attn_q", "self_attn.q_proj" },
        { "attn_k", "self_attn.k_proj" },
        { "attn_v", "self_attn.v_proj" },
        { "attn_output", "self_attn.o_proj" },
        { "ffn_gate", "mlp.gate_proj" },
        { "ffn_up", "mlp.up_proj" },
        { "ffn_down", "mlp.down_proj" },
        { "post_attention_norm", "post_attention_layernorm" },
        { "post_ffw_norm", "post_feedforward_layernorm" },
    };
    bool has_four = is("gemma2") || is("gemma3");
    char kind[64], end[64];
    int layer;

    if (strcmp(from, "token_embd.weight") == 0)
        (void)snprintf(to, TEXT, "model.embed_tokens.weight");
    else if (strcmp(from, "output_norm.weight") == 0)
        (void)snprintf(to, TEXT, "model.norm.weight");
    else if (strcmp(from, "output.weight") == 0)
        (void)snprintf(to, TEXT, "lm_head.weight");
    else if (sscanf(from, "blk.%d.%50[^.].%50s", &layer, kind, end) != 3)
        fail("cannot name", from);
    else if (strcmp(kind, "ffn_norm") == 0)
        (void)snprintf(to, TEXT, "model.layers.%d.%s.%s", layer,
                       has_four ? "pre_feedforward_layernorm" : "post_attention_layernorm", end);
    else
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            if (strcmp(kind, names[i][0]) == 0)
                (void)snprintf(to, TEXT, "model.layers.%d.%s.%s", layer, names[i][1], end);
}

/* All values of a tensor as floats, in the order of the checkpoint. */
static float *values_of(const struct ggml_tensor *tensor, uint32_t d)
{
    size_t n = (size_t)ggml_nelements(tensor), n_columns = (size_t)tensor->ne[0], n_rows = (size_t)tensor->ne[1];
    float *engine = malloc(n * sizeof(float)), *own = malloc(n * sizeof(float));
    bool is_turned = is("llama") && (strstr(tensor->name, "attn_q.") || strstr(tensor->name, "attn_k."));

    if (!engine || !own)
        fail("no memory for", tensor->name);
    if (tensor->type == GGML_TYPE_F32)
        memcpy(engine, tensor->data, n * sizeof(float));
    else
        ggml_get_type_traits(tensor->type)->to_float(tensor->data, engine, (int64_t)n);
    memcpy(own, engine, n * sizeof(float));
    if (is_turned && ggml_n_dims(tensor) == 1) { /* a bias: its values are rows */
        n_rows = n_columns;
        n_columns = 1;
    }
    for (size_t head = 0; is_turned && head < n_rows / d; head++)
        for (size_t k = 0; k < d; k++) {
            size_t partner_first = k < d / 2 ? 2 * k : 2 * (k - d / 2) + 1;

            memcpy(own + (head * d + k) * n_columns, engine + (head * d + partner_first) * n_columns,
                   n_columns * sizeof(float));
        }
    for (size_t i = 0; strncmp(architecture, "gemma", 5) == 0 && strstr(tensor->name, "norm") && i < n; i++)
        own[i] -= 1.0f;
    free(engine);
    return own;
}

static void write_values(const float *values, size_t n, const char *type, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        ggml_fp16_t f16 = ggml_fp32_to_fp16(values[i]);
        ggml_bf16_t bf16 = ggml_fp32_to_bf16(values[i]);
        bool ok = strcmp(type, "f16") == 0  ? fwrite(&f16, 2, 1, out) == 1
                : strcmp(type, "bf16") == 0 ? fwrite(&bf16, 2, 1, out) == 1
                                            : fwrite(&values[i], 4, 1, out) == 1;

        if (!ok)
            fail("cannot write", "a tensor");
    }
}

static json_t *shape_of(const struct ggml_tensor *tensor)
{
    return ggml_n_dims(tensor) == 1 && !strstr(tensor->name, "embd")
             ? json_pack("[I]", (json_int_t)tensor->ne[0])
             : json_pack("[II]", (json_int_t)tensor->ne[1], (json_int_t)tensor->ne[0]);
}

/* Every tensor whose number is first, first + step, ... */
static void write_tensors(const char *name, const char *type, int first, int step, bool has_order, uint32_t d,
                          json_t *map)
{
    json_t *header = json_object(), *order = json_array();
    size_t value_bytes = strcmp(type, "f32") == 0 ? 4 : 2, at = 0;
    const char *upper = strcmp(type, "f32") == 0 ? "F32" : strcmp(type, "f16") == 0 ? "F16" : "BF16";
    FILE *out = open_file(name);
    char *text;
    uint64_t n_text;

    json_object_set_new(header, "__metadata__", json_pack("{s:s}", "format", "pt"));
    for (int pass = 0; pass < 2; pass++) {
        int i = 0;

        for (struct ggml_tensor *t = ggml_get_first_tensor(tensors); t; t = ggml_get_next_tensor(tensors, t)) {
            size_t n = (size_t)ggml_nelements(t);
            char own[TEXT] = "";

            if (gguf_find_tensor(gguf, t->name) < 0 || strcmp(t->name, "rope_freqs.weight") == 0 || i++ % step != first)
                continue;
            if (pass == 1) {
                float *values = values_of(t, d);

                write_values(values, n, type, out);
                free(values);
                continue;
            }
            checkpoint_name(t->name, own);
            json_object_set_new(header, own,
                                json_pack("{s:s,s:o,s:[II]}", "dtype", upper, "shape", shape_of(t), "data_offsets",
                                          (json_int_t)at, (json_int_t)(at + n * value_bytes)));
            json_object_set_new(map, own, json_string(name));
            json_array_insert_new(order, 0, json_string(own));
            at += n * value_bytes;
        }
        if (pass == 1)
            break;
        text = json_dumps(order, JSON_COMPACT);
        if (has_order)
            json_object_set_new(json_object_get(header, "__metadata__"), "argument_order", json_string(text));
        free(text);
        text = json_dumps(header, JSON_COMPACT);
        n_text = strlen(text);
        if (fwrite(&n_text, 8, 1, out) != 1 || fwrite(text, 1, n_text, out) != n_text)
            fail("cannot write", name);
        free(text);
    }
    if (fclose(out) != 0)
        fail("cannot write", name);
    json_decref(header);
    json_decref(order);
}

/* ---- the tokenizer ---- */

static const char *piece(size_t i)
{
    return gguf_get_arr_str(gguf, gguf_find_key(gguf, "tokenizer.ggml.tokens"), i);
}

static const void *list(const char *name)
{
    int64_t key = gguf_find_key(gguf, name);

    return key < 0 ? NULL : gguf_get_arr_data(gguf, key);
}

static size_t put_varint(uint8_t *to, uint64_t value)
{
    size_t n = 0;

    for (; value >= 0x80; value >>= 7)
        to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

static void write_pieces(size_t n, bool adds_space)
{
    const float *scores = list("tokenizer.ggml.scores");
    const int32_t *types = list("tokenizer.ggml.token_type");
    const uint8_t trainer[] = { 0x12, 2, 0x18, 2 }, normalizer[] = { 0x1a, 4, 0x18, adds_space, 0x20, 0 };
    FILE *out = open_file("tokenizer.model");

    for (size_t i = 0; i < n; i++) {
        uint8_t message[TEXT], head[16];
        size_t n_piece = strlen(piece(i)), n_message = 0, n_head;

        message[n_message++] = 0x0a;
        n_message += put_varint(message + n_message, n_piece);
        memcpy(message + n_message, piece(i), n_piece);
        n_message += n_piece;
        message[n_message++] = 0x15;
        memcpy(message + n_message, &scores[i], 4);
        n_message += 4;
        message[n_message++] = 0x18;
        n_message += put_varint(message + n_message, (uint64_t)types[i]);
        head[0] = 0x0a;
        n_head = 1 + put_varint(head + 1, n_message);
        (void)fwrite(head, 1, n_head, out);
        (void)fwrite(message, 1, n_message, out);
    }
    (void)fwrite(trainer, 1, sizeof(trainer), out);
    (void)fwrite(normalizer, 1, sizeof(normalizer), out);
    if (ferror(out) || fclose(out) != 0)
        fail("cannot write", "tokenizer.model");
}

typedef struct scored_merge {
    float score;
    size_t order;
    char text[TEXT];
} scored_merge;

static int compare_merges(const void *a, const void *b)
{
    const scored_merge *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* As tokenizers make them of a SentencePiece model: each way to cut a piece into two others, the best piece first. */
static json_t *merges_of_pieces(json_t *vocab)
{
    const float *scores = list("tokenizer.ggml.scores");
    const char *name;
    json_t *id, *merges = json_array();
    scored_merge *found = calloc(200000, sizeof(*found));
    size_t n = 0;

    json_object_foreach(vocab, name, id) for (size_t cut = 1; cut < strlen(name); cut++)
    {
        char left[TEXT];

        (void)snprintf(left, sizeof(left), "%.*s", (int)cut, name);
        if (name[0] == '<' || !json_object_get(vocab, left) || !json_object_get(vocab, name + cut) || n == 200000)
            continue;
        found[n].score = scores[json_integer_value(id)];
        found[n].order = n;
        (void)snprintf(found[n++].text, TEXT, "%.120s %.120s", left, name + cut);
    }
    qsort(found, n, sizeof(*found), compare_merges);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(merges, json_string(found[i].text));
    free(found);
    return merges;
}

static json_t *merges_of_bytes(void)
{
    int64_t key = gguf_find_key(gguf, "tokenizer.ggml.merges");
    json_t *merges = json_array();

    for (size_t i = 0; i < gguf_get_arr_n(gguf, key); i++)
        json_array_append_new(merges, json_string(gguf_get_arr_str(gguf, key, i)));
    return merges;
}

static json_t *cutter(const char *pre)
{
    static const char *const regexes[][2] = {
        { "llama-bpe", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
                       "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
        { "qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
                   "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
    };

    for (size_t i = 0; i < 2; i++)
        if (strcmp(pre, regexes[i][0]) == 0)
            return json_pack("{s:s,s:[{s:s,s:{s:s},s:s,s:b},{s:s,s:b,s:b,s:b}]}", "type", "Sequence", "pretokenizers",
                             "type", "Split", "pattern", "Regex", regexes[i][1], "behavior", "Isolated", "invert", 0,
                             "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0);
    return json_pack("{s:s,s:b,s:b,s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     1);
}

static void write_tokenizer(size_t n, bool is_bytes, bool adds_space, bool adds_bos, const char *bos)
{
    const char *pre = gguf_get_val_str(gguf, gguf_find_key(gguf, "tokenizer.ggml.pre"));
    const int32_t *types = list("tokenizer.ggml.token_type");
    json_t *vocab = json_object(), *added = json_array(), *steps = json_array(), *model, *tokenizer;

    for (size_t i = 0; i < n; i++) {
        if (types[i] == 3 || types[i] == 4)
            json_array_append_new(
                added, json_pack("{s:i,s:s,s:b}", "id", (int)i, "content", piece(i), "special", types[i] == 3));
        else
            json_object_set_new(vocab, piece(i), json_integer((json_int_t)i));
    }
    if (adds_space)
        json_array_append_new(steps, json_pack("{s:s,s:s}", "type", "Prepend", "prepend", "\xe2\x96\x81"));
    json_array_append_new(
        steps, json_pack("{s:s,s:{s:s},s:s}", "type", "Replace", "pattern", "String", " ", "content", "\xe2\x96\x81"));
    model = json_pack("{s:s,s:o,s:o,s:b,s:b}", "type", "BPE", "merges",
                      is_bytes ? merges_of_bytes() : merges_of_pieces(vocab), "vocab", vocab, "byte_fallback",
                      !is_bytes, "ignore_merges", strcmp(pre, "llama-bpe") == 0);
    if (!is_bytes)
        json_object_set_new(model, "unk_token", json_string("<unk>"));
    tokenizer = json_pack("{s:s,s:o,s:o}", "version", "1.0", "added_tokens", added, "model", model);
    if (is_bytes)
        json_object_set_new(tokenizer, "pre_tokenizer", cutter(pre));
    else
        json_object_set_new(tokenizer, "normalizer", json_pack("{s:s,s:O}", "type", "Sequence", "normalizers", steps));
    json_decref(steps);
    if (adds_bos)
        json_object_set_new(tokenizer, "post_processor",
                            json_pack("{s:s,s:[{s:{s:s,s:i}},{s:{s:s,s:i}}]}", "type", "TemplateProcessing", "single",
                                      "SpecialToken", "id", bos, "type_id", 0, "Sequence", "id", "A", "type_id", 0));
    write_json("tokenizer.json", tokenizer);
}

static void name_special(json_t *config, const char *name, const char *key_name)
{
    int64_t key = gguf_find_key(gguf, key_name);

    if (key >= 0)
        json_object_set_new(config, name, json_string(piece(gguf_get_val_u32(gguf, key))));
}

static bool flag_of(const char *name, bool fallback)
{
    int64_t key = gguf_find_key(gguf, name);

    return key < 0 ? fallback : gguf_get_val_bool(gguf, key);
}

static void write_vocabulary(bool as_pieces)
{
    size_t n = gguf_get_arr_n(gguf, gguf_find_key(gguf, "tokenizer.ggml.tokens"));
    bool is_bytes = gguf_find_key(gguf, "tokenizer.ggml.merges") >= 0;
    bool adds_space = flag_of("tokenizer.ggml.add_space_prefix", true);
    int64_t template = gguf_find_key(gguf, "tokenizer.chat_template");
    json_t *config = json_object();

    name_special(config, "bos_token", "tokenizer.ggml.bos_token_id");
    name_special(config, "eos_token", "tokenizer.ggml.eos_token_id");
    name_special(config, "eot_token", "tokenizer.ggml.eot_token_id");
    name_special(config, "unk_token", "tokenizer.ggml.unknown_token_id");
    name_special(config, "pad_token", "tokenizer.ggml.padding_token_id");
    if (template >= 0)
        json_object_set_new(config, "chat_template", json_string(gguf_get_val_str(gguf, template)));
    if (as_pieces) {
        write_pieces(n, adds_space);
        json_object_set_new(config, "add_bos_token", json_boolean(flag_of("tokenizer.ggml.add_bos_token", true)));
    } else {
        write_tokenizer(n, is_bytes, adds_space, flag_of("tokenizer.ggml.add_bos_token", !is_bytes),
                        json_string_value(json_object_get(config, "bos_token")));
    }
    write_json("tokenizer_config.json", config);
}

int main(int argc, char **argv)
{
    bool has_shards = false, is_wide = false, as_pieces = false, has_order = false;
    json_t *map = json_object();
    uint32_t d;

    if (argc < 4)
        fail("usage:", "export_checkpoint MODEL.gguf FOLDER f32|f16|bf16 [shards] [wide] [pieces] [order]");
    for (int i = 4; i < argc; i++) {
        has_shards |= strcmp(argv[i], "shards") == 0;
        is_wide |= strcmp(argv[i], "wide") == 0;
        as_pieces |= strcmp(argv[i], "pieces") == 0;
        has_order |= strcmp(argv[i], "order") == 0;
    }
    folder = argv[2];
    gguf = gguf_init_from_file(argv[1], (struct gguf_init_params){ .ctx = &tensors });
    if (!gguf)
        fail("cannot read", argv[1]);
    (void)snprintf(architecture, sizeof(architecture), "%s",
                   gguf_get_val_str(gguf, gguf_find_key(gguf, "general.architecture")));
    d = own_key("attention.key_length") >= 0 ? gguf_get_val_u32(gguf, own_key("attention.key_length"))
                                             : gguf_get_val_u32(gguf, own_key("embedding_length")) /
                                                   gguf_get_val_u32(gguf, own_key("attention.head_count"));
    write_config(d);
    write_vocabulary(as_pieces);
    if (has_shards) {
        write_tensors("model-00001-of-00002.safetensors", argv[3], 0, 2, has_order, d, map);
        write_tensors("model-00002-of-00002.safetensors", is_wide ? "f32" : argv[3], 1, 2, has_order, d, map);
        write_json("model.safetensors.index.json", json_pack("{s:{},s:o}", "metadata", "weight_map", map));
    } else {
        write_tensors("model.safetensors", argv[3], 0, 1, has_order, d, map);
        json_decref(map);
    }
    return 0;
}
