# Control vectors on the command line and over HTTP: their options, their rows, and the files that are refused.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

"$build/bench/make_control" -g 0 "$tiny" "$work/zero.gguf"
"$build/bench/make_control" -g 2 "$tiny" "$work/all.gguf"
"$build/bench/make_control" -x 32 "$tiny" "$work/wide.gguf"

# ---- on the command line ----

say() { "$hearth" run "$tiny" -p 'Once upon a time' -n 12 --temp 0 -t 1 "$@" 2>"$work/err"; }
plain=$(say)
expect "the text with a control vector of zeros" "$(say --control-vector "$work/zero.gguf")" "$plain"
expect "the text with scale 0" "$(say --control-vector "$work/all.gguf:0")" "$plain"
changed=$(say --control-vector "$work/all.gguf")
[ "$changed" != "$plain" ] || fail "a control vector changes nothing"
expect "the text with two halves" \
  "$(say --control-vector "$work/all.gguf:0.5" --control-vector "$work/all.gguf:0.5")" "$changed"
expect "the text with all layers" "$(say --control-vector "$work/all.gguf" --control-vector-layer-range 1-99999 || true)" ""
grep -q 'cannot change the layers 1 to 99999' "$work/err" || fail "a wrong range says $(cat "$work/err")"
one=$(say --control-vector "$work/all.gguf" --control-vector-layer-range 1-1)
[ -n "$one" ] && [ "$one" != "$changed" ] || fail "with a range of one layer, the text is '$one'"
expect "the text with a draft model" "$(say --control-vector "$work/all.gguf" --draft-model "$tiny")" "$changed"

embed() { "$hearth" embed "$tiny" 'a fox' -t 1 "$@" 2>"$work/err"; }
plain=$(embed)
expect "a vector with a control vector of zeros" "$(embed --control-vector "$work/zero.gguf")" "$plain"
changed=$(embed --control-vector "$work/all.gguf")
[ -n "$changed" ] && [ "$changed" != "$plain" ] || fail "with a control vector, the embedding is '$changed'"

refuse 1 "values, and the model's embeddings have" run "$tiny" -p x --control-vector "$work/wide.gguf"
refuse 1 'cannot open the control vector' run "$tiny" -p x --control-vector "$work/none.gguf"
refuse 1 "a scale behind ':' must be a number" run "$tiny" -p x --control-vector "$work/all.gguf:much"
refuse 1 'is no control vector' run "$tiny" -p x --control-vector "$tiny"
refuse 2 'is no finite number' run "$tiny" -p x --control-vector "$work/all.gguf:nan"
refuse 2 "must be START-END" run "$tiny" -p x --control-vector-layer-range 3

# Rows of a model with a control vector are its own.
cached() {
  "$hearth" run "$tiny" -p "$(words 420)" -n 1 -t 1 --cache "$work/kv" --json "$@" >"$work/answer" 2>"$work/err" ||
    fail "no reply: $(cat "$work/err")"
  sed -n 's/.*"cached_tokens":[ ]*\([0-9]*\).*/\1/p' "$work/answer" | head -n 1
}
expect "cached tokens of a first request" "$(cached)" 0
[ "$(cached)" -gt 256 ] || fail "the same request was cold"
expect "cached tokens with a control vector" "$(cached --control-vector "$work/all.gguf")" 0
[ "$(cached --control-vector "$work/all.gguf")" -gt 256 ] || fail "the same request with a control vector was cold"
expect "cached tokens with another scale" "$(cached --control-vector "$work/all.gguf:0.5")" 0
[ "$(cached --control-vector "$work/zero.gguf")" -gt 256 ] || fail "a control vector of zeros made a request cold"

# ---- over HTTP, with the flags of llama-server ----

completion() {
  curl -s -d '{"prompt":"Once upon a time","n_predict":12,"temperature":0}' "$url/completion" |
    sed -n 's/.*"content":[ ]*"\(\([^"\\]\|\\.\)*\)".*/\1/p'
}
serve -m "$tiny" -t 1
without=$(completion)
serve_stop
serve -m "$tiny" -t 1 --control-vector-scaled "$work/all.gguf" 1 \
  --control-vector-layer-range 1 1
one=$(completion)
serve_stop
mkdir "$work/etc"
cp "$work/all.gguf" "$work/etc"
cat >"$work/etc/hearth.conf" <<END

model "tiny" {
  path = "$tiny"
  threads = 1
  control_vector = ["all.gguf:1"]
  control_vector_layer_range = "1-1"
}
END
serve --config "$work/etc/hearth.conf"
[ "$(completion)" = "$one" ] || fail "the same control vector of a file gives '$(completion)', not '$one'"
[ -n "$one" ] && [ "$one" != "$without" ] || fail "with a control vector, a server says '$one'"
serve_stop
