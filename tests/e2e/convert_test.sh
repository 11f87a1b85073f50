#!/bin/sh
# A checkpoint of known weights, converted, is the model that it was made of: the same tensors, tokens and logits.
. "$(dirname "$0")/lib.sh"
helpers=$build/tests
folder=$work/checkpoint
result=$work/result.gguf

# export MODEL TYPE [shards] [wide] [pieces] [order]: a checkpoint in $folder
export_as() {
  rm -rf "$folder" "$result"
  mkdir "$folder"
  "$helpers/export_checkpoint" "$1" "$folder" $2 || fail "export of $1 as $2"
}
convert() { "$hearth" convert "$folder" -o "$result" -q "$@" 2>"$work/err" || fail "convert $*: $(cat "$work/err")"; }
same() { "$helpers/compare_models" "$1" "$result" >"$work/out" || fail "$2: $(head -n 5 "$work/out")"; }

# The weights of the references are exact in all three types, so each way gives the same bits.
for shape in llama llama3 llama-bias qwen2 qwen2-yarn qwen3 gemma gemma2 gemma3; do
  "$helpers/make_reference" "$shape" "$work/$shape.gguf" "$tiny" || fail "no reference for $shape"
  export_as "$work/$shape.gguf" f32
  convert
  same "$work/$shape.gguf" "$shape, f32"
  export_as "$work/$shape.gguf" "bf16 shards"
  convert --type f32
  same "$work/$shape.gguf" "$shape, two files of bf16 as f32"
  if [ "$shape" != llama3 ] && [ "$shape" != llama-bias ] && ! expr "$shape" : qwen >/dev/null; then
    export_as "$work/$shape.gguf" "f16 pieces"
    convert --type f32
    same "$work/$shape.gguf" "$shape, f16 with a tokenizer.model as f32"
  fi
done

# In the types that others read most, a model that was trained.
export_as "$tiny" f32
convert --type q8_0
same "$tiny" "the tiny model, quantised again"
"$hearth" run "$result" --chat -p 'Tell me a story about a fox.' --temp 0 -n 20 >"$work/text" 2>/dev/null
"$hearth" run "$tiny" --chat -p 'Tell me a story about a fox.' --temp 0 -n 20 >"$work/expected" 2>/dev/null
cmp "$work/text" "$work/expected" || fail "the converted model answers: $(cat "$work/text")"

# Without a type, nothing of any matrix is lost.
export_as "$work/llama.gguf" "bf16 shards wide"
convert
same "$work/llama.gguf" "matrices of bf16 and f32"

# A mixture is the engine's own, from weights that lost nothing.
model=$("$build/bench/make_model" tiny-llama-wide --type f16 2>/dev/null) || fail "no f16 model"
mixed=$("$build/bench/make_model" tiny-llama-wide --type q4_k_m 2>/dev/null) || fail "no q4_k_m model"
export_as "$model" f16
convert --type q4_k_m
same "$mixed" "q4_k_m"
convert --force # without a type: that of the checkpoint
same "$model" "f16"

# What the numbers of config.json say is what the model computes.
changed() { # SHAPE KEY VALUE: the logits depend on it
  export_as "$work/$1.gguf" f32
  sed -i "s/\"$2\": [^,]*/\"$2\": $3/" "$folder/config.json"
  convert
  "$helpers/compare_models" "$work/$1.gguf" "$result" >"$work/out" && fail "$2 of $1 changes nothing"
  grep -q "^logits" "$work/out" || fail "$2 of $1 changes: $(head -n 3 "$work/out")"
}
changed llama rope_theta 500.0
changed llama rms_norm_eps 0.01
changed qwen2-yarn factor 2.0
changed gemma2 sliding_window 4
changed gemma2 attn_logit_softcapping 4.0
changed gemma2 final_logit_softcapping 20.0
changed gemma3 rope_local_base_freq 10000.0
changed gemma3 factor 2.0

# A mistral is a llama, whose window becomes the context.
export_as "$work/llama.gguf" bf16
sed -i 's/LlamaForCausalLM/MistralForCausalLM/; s/"head_dim"/"sliding_window": 100, "head_dim"/' "$folder/config.json"
convert --type f32
same "$work/llama.gguf" "mistral"
"$hearth" convert "$folder" --dry-run | grep -q "^context of 100 tokens" || fail "the context of a mistral is not its window"
sed -i 's/MistralForCausalLM/LlamaForCausalLM/' "$folder/config.json"
"$hearth" convert "$folder" --dry-run | grep -q "^context of 256 tokens" || fail "the context of a llama is not its own"

# Nothing is written before all is known, nothing is replaced unasked, and nothing is left behind.
export_as "$work/llama.gguf" "f32 order"
"$hearth" convert "$folder" --dry-run --type q4_k_m >"$work/out" || fail "a dry run"
grep -q "would write f32, .* and quantise it to q4_k_m" "$work/out" || fail "the plan is: $(cat "$work/out")"
[ ! -e "$result" ] || fail "a dry run wrote"
convert --require-argument-order
same "$work/llama.gguf" "llama in its argument order"
order() { strings "$result" | grep -E '^(token_embd|blk.0.attn_q|output_norm).weight$' | tr '\n' ' '; }
expect "order of tensors" "$(order)" "blk.0.attn_q.weight output_norm.weight token_embd.weight "
[ "$(ls -l "$result" | cut -c 1-10)" = "$(touch "$work/new" && ls -l "$work/new" | cut -c 1-10)" ] || fail "the mode of the result"
refuse 2 "exists already" convert "$folder" -o "$result"
refuse 2 "no type 'q9'" convert "$folder" -o "$result" --type q9
refuse 2 "needs a name for the result" convert "$folder"
refuse 2 "needs one DIR" convert -o "$result"
export_as "$work/llama.gguf" f32
refuse 1 "has no argument_order" convert "$folder" -o "$result" --require-argument-order

# What is not understood is refused, by name.
broken() { # EXIT PATTERN FILE SED-EXPRESSION: llama3's checkpoint with a change
  export_as "$work/llama3.gguf" f32
  sed -i "$4" "$folder/$3"
  refuse "$1" "$2" convert "$folder" -o "$result" -q
}
broken 1 "the architecture 'MambaForCausalLM' is not converted" config.json 's/LlamaForCausalLM/MambaForCausalLM/'
broken 1 "tensor 'model.layers.5.*' does not belong to a llama model of 5 layers" config.json \
  's/"num_hidden_layers": 6/"num_hidden_layers": 5/'
broken 1 "no tensor 'model.layers.6.input_layernorm.weight'" config.json 's/"num_hidden_layers": 6/"num_hidden_layers": 7/'
broken 1 "another shape than \[[0-9]*, 64\]" config.json 's/"vocab_size": [0-9]*/"vocab_size": 9/'
broken 1 "rope_scaling is of a type that is not converted" config.json 's/"llama3"/"longrope"/'
broken 1 "partial_rotary_factor is not converted" config.json 's/"rope_type"/"partial_rotary_factor": 0.5, "rope_type"/'
broken 1 "the tokens .* the same text, '<|endoftext|>'" tokenizer_config.json \
  's/"bos_token"/"added_tokens_decoder": {"9": {"content": "<|endoftext|>"}}, "bos_token"/'
broken 1 "no tensor 'lm_head.weight'" config.json 's/"tie_word_embeddings": true/"tie_word_embeddings": false/'
broken 1 "hidden_act is another than the engine's" config.json 's/silu/relu/'
broken 1 "rope_theta is no positive number" config.json 's/"rope_theta": [^,]*/"rope_theta": 0/'
broken 1 "rope_theta is no positive number" config.json 's/"rope_theta": [^,]*/"rope_theta": 1e-300/'
broken 1 "rms_norm_eps is no positive number" config.json 's/"rms_norm_eps": [^,]*/"rms_norm_eps": 0.0/'
broken 1 "hidden_size is missing" config.json 's/hidden_size/hidden_length/'
broken 1 "the engine has no name for the pre_tokenizer" tokenizer.json 's/{1,3}/{1,2}/'
broken 1 "'tokenizer.json' is of the type 'Unigram'" tokenizer.json 's/"BPE"/"Unigram"/'
broken 1 "merge 0 does not join" tokenizer.json 's/"h e"/"he"/'
broken 1 "bos_token is '<|x|>', which is not a token" tokenizer_config.json 's/"<|endoftext|>"/"<|x|>"/'
export_as "$work/gemma3.gguf" f32
sed -i 's/"rope_theta"/"rope_parameters": {"full_attention": {}, "sliding_attention": {"rope_type": "linear"}}, &/' "$folder/config.json"
refuse 1 "rope_parameters scale sliding_attention" convert "$folder" -o "$result"
export_as "$work/llama.gguf" "f32 shards"
sed -i 's/model-00002/..\/model-00002/' "$folder/model.safetensors.index.json"
refuse 1 "is no name of a file there" convert "$folder" -o "$result"
export_as "$work/llama.gguf" "f32 shards"
ln -sf model-00001-of-00002.safetensors "$folder/model-00002-of-00002.safetensors"
refuse 1 "the index does not place it there" convert "$folder" -o "$result"
export_as "$work/llama.gguf" f32
rm "$folder/model.safetensors"
ln -s model.safetensors "$folder/model.safetensors"
refuse 1 "model.safetensors': .*[Ll]" convert "$folder" -o "$result"
ls -A "$work" | grep -q part && fail "temporary files stay: $(ls -A "$work")"

# Ctrl-C leaves nothing behind.
export_as "$model" f16
"$hearth" convert "$folder" -o "$work/interrupted.gguf" --type q4_k_m -q 2>"$work/err" &
pid=$!
until ls -A "$work" | grep -q '^[.]interrupted.*part$' || ! kill -0 "$pid" 2>/dev/null; do :; done
kill -INT "$pid" 2>/dev/null || true
status=0
wait "$pid" || status=$?
[ "$status" = 130 ] || [ -e "$work/interrupted.gguf" ] || fail "it ends with $status: $(cat "$work/err")"
rm -f "$work/interrupted.gguf" # it was faster
ls -A "$work" | grep -e part -e interrupted && fail "files of an interrupted conversion stay"

# Files of a killed one are removed by the next into the same folder.
"$hearth" convert "$folder" -o "$work/killed.gguf" --type q4_k_m -q 2>"$work/err" &
pid=$!
until ls -A "$work" | grep -q '^[.]killed.*part$' || ! kill -0 "$pid" 2>/dev/null; do :; done
kill -KILL "$pid" 2>/dev/null || true
wait "$pid" || true
convert --force --no-check
ls -A "$work" | grep part && fail "files of a killed conversion stay"
true
