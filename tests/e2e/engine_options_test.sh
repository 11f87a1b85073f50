# Options of the engine on the command line, in a configuration, and as flags of llama-server; rows of other positions.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

# ---- rows ----

cached() {
  "$hearth" run "$tiny" -p "$(words 300)" -n 1 -t 1 --json "$@" >"$work/answer" 2>"$work/err" ||
    fail "no reply with '$*': $(cat "$work/err")"
  sed -n 's/.*"cached_tokens":[ ]*\([0-9]*\).*/\1/p' "$work/answer" | head -n 1
}
cold() { expect "cached tokens with '$*'" "$(cached "$@")" 0; }
warm() { [ "$(cached "$@")" -gt 200 ] || fail "a request with '$*' was cold"; }

cold
warm --ubatch 64 --threads-batch 2 --mlock --numa distribute --split-mode row --tensor-split 3,1 --main-gpu 1 --cpu-moe
said 'no effect: split_mode, tensor_split, main_gpu, cpu_moe'
warm --flash-attn on --device none --override-tensor 'ffn_.*=CPU' --n-cpu-moe 1 --no-kv-offload
cold --rope-freq-base 20000
warm --rope-freq-base 20000
warm
cold --rope-scale 2
warm --rope-freq-scale 0.5
cold --rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 256
warm --rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 256
cold --flash-attn off
cold --override-kv llama.rope.freq_base=float:20000
warm --override-kv llama.rope.freq_base=float:20000

refuse 1 "'MOON0' is no device for a model's layers; this machine has" run "$tiny" -p x --device MOON0
refuse 1 'the buffers of this model are' run "$tiny" -p x --override-tensor a=MOON0
refuse 1 'the metadata .* is overridden by an impossible value' run "$tiny" -p x --override-kv llama.rope.scaling.type=str:foo
cold --override-kv llama.rope.freq_bass=float:20000
said "the model's file does not have llama.rope.freq_bass"
refuse 1 'is no regular expression' run "$tiny" -p x --override-tensor 'a(=CPU'
refuse 1 "is float in the model's file" run "$tiny" -p x --override-kv llama.rope.freq_base=int:2
refuse 2 'give PATTERN=BUFFER' run "$tiny" -p x --override-tensor a
refuse 2 'must be auto, on or off' run "$tiny" -p x --flash-attn maybe

# ---- vectors and needs ----

embed() { "$hearth" embed "$tiny" 'a fox saw a river' -t 1 "$@"; }
[ "$(embed --rope-freq-base 100)" != "$(embed)" ] || fail "another base of positions gives the same embedding"
needs() { "$hearth" worker --model "$tiny" --measure --ctx 1024 "$@"; }
[ "$(needs --ubatch 32)" != "$(needs)" ] || fail "a smaller --ubatch is measured the same"

# ---- over HTTP ----

completion() {
  curl -s -d '{"prompt":"Once upon a time","n_predict":12,"temperature":0}' "$url/completion" |
    sed -n 's/.*"content":[ ]*"\(\([^"\\]\|\\.\)*\)".*/\1/p'
}
serve -m "$tiny" -t 1 -ub 64 -tb 1 -fa on -sm none -mg 0 --mlock --numa isolate --rope-freq-base 100 -ot 'ffn_.*=CPU'
flags=$(completion)
serve_stop
cat >"$work/hearth.conf" <<END
preset "positions" { rope_freq_base = 100; flash_attn = on }
model "tiny" { path = "$tiny"; threads = 1; preset = "positions"; ubatch = 32; override_tensor = "ffn_.*=CPU" }
END
serve --config "$work/hearth.conf"
expect "the text with the same options of a file" "$(completion)" "$flags"
serve_stop
[ -n "$flags" ] || fail "no text with the options"
