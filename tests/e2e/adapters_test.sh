# LoRA adapters on the command line and over HTTP: by their options, by requests, as models, and by /lora-adapters.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

"$build/bench/make_adapter" -g 0 "$tiny" "$work/zero.gguf"
"$build/bench/make_adapter" -g 1 "$tiny" "$work/all.gguf"
"$build/bench/make_adapter" -A gpt2 "$tiny" "$work/gpt2.gguf"
"$build/bench/make_adapter" -x 32 "$tiny" "$work/wide.gguf"

# ---- on the command line ----

say() { "$hearth" run "$tiny" -p 'Once upon a time' -n 12 --temp 0 -t 1 "$@" 2>"$work/err"; }
plain=$(say)
expect "the text with an adapter that changes nothing" "$(say --lora "$work/zero.gguf")" "$plain"
changed=$(say --lora "all=$work/all.gguf:0.3")
[ "$changed" != "$plain" ] || fail "an adapter that changes all changes nothing"
expect "the text with scale 0" "$(say --lora "$work/all.gguf:0")" "$plain"
expect "the text with an adapter that waits" "$(say --lora "$work/all.gguf" --lora-init-without-apply)" "$plain"

embed() { "$hearth" embed "$tiny" 'a fox' -t 1 "$@" 2>"$work/err"; }
plain=$(embed)
expect "a vector with an adapter that changes nothing" "$(embed --lora "$work/zero.gguf")" "$plain"
[ "$(embed --lora "$work/all.gguf:0.3")" != "$plain" ] || fail "an adapter that changes all leaves vectors as they are"

refuse 1 "made for the architecture 'gpt2', and the model's is 'llama'" run "$tiny" -p x --lora "$work/gpt2.gguf"
refuse 1 "does not fit the model: its pair for" run "$tiny" -p x --lora "$work/wide.gguf"
refuse 1 'cannot open the adapter' run "$tiny" -p x --lora "$work/none.gguf"
refuse 1 'is no adapter' run "$tiny" -p x --lora "$tiny"
refuse 2 'is no number' run "$tiny" -p x --lora "$work/all.gguf:nan"
refuse 2 'names no file of an adapter' run "$tiny" -p x --lora 'all=:1'

# ---- over HTTP ----

# number NAME, text_of: of the last answer
number() { sed -n "s/.*\"$1\":[ ]*\([0-9][0-9.]*\).*/\1/p" "$work/answer" | head -n 1; }
text_of() { sed -n 's/.*"content":[ ]*"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$work/answer"; }

# post PATH BODY: the answer goes to $work/answer, its status to $code
post() { code=$(curl -s -o "$work/answer" -w '%{http_code}' -d "$2" "$url$1") || fail "no answer to $1"; }

# complete MORE-FIELDS: the text and the cached tokens of a reply
complete() {
  post /completion "{\"prompt\":\"$text\",\"n_predict\":8,\"temperature\":0,\"ignore_eos\":true$1}"
  expect "the status of a completion with $1 ($(cat "$work/answer"))" "$code" 200
  said_text=$(text_of)
  cached=$(number cache_n)
}

# refused WHAT WORDS: the last answer is 400 and says so
refused() {
  expect "the status of $1" "$code" 400
  grep -q "$2" "$work/answer" || fail "$1 does not say '$2': $(cat "$work/answer")"
}

text=$(words 420)
mkdir "$work/etc" "$work/slots"
cp "$work/zero.gguf" "$work/all.gguf" "$work/etc"
cat >"$work/etc/hearth.conf" <<END
listen = "127.0.0.1:0"
slot_save_path = "$work/slots"
model "tiny" {
  path = "$tiny"
  threads = 1
  lora = ["none=zero.gguf", "all.gguf:0.3"]
  lora_init_without_apply = true
}
END
serve_listening --config "$work/etc/hearth.conf"
await_ready

curl -s "$url/lora-adapters" >"$work/answer"
grep -q '"id": *0.*"name": *"none".*"path": *"zero.gguf".*"scale": *0.0.*"id": *1.*"name": *"all"' "$work/answer" ||
  fail "the adapters are not listed: $(cat "$work/answer")"

curl -s "$url/v1/models" >"$work/answer"
grep -q '"id": *"all"[^}]*"root": *"tiny"' "$work/answer" || fail "an adapter is no model: $(cat "$work/answer")"

complete ''
plain=$said_text
expect "cached tokens of a first request" "$cached" 0
complete ''
[ "$cached" -gt 256 ] || fail "the same request had $cached cached tokens"
complete ',"lora":[{"id":1,"scale":0.3}]'
changed=$said_text
[ "$changed" != "$plain" ] || fail "the adapter of a request changes nothing"
expect "cached tokens of the first request with an adapter" "$cached" 0
complete ',"lora":[{"id":1,"scale":0.3}]'
expect "the text with the same adapter" "$said_text" "$changed"
[ "$cached" -gt 256 ] || fail "the same request with an adapter had $cached cached tokens"
complete ',"model":"all"'
expect "the text of an adapter as a model" "$said_text" "$changed"
expect "the name of an adapter as a model" "$(sed -n 's/.*"model":[ ]*"\([^"]*\)".*/\1/p' "$work/answer")" all
complete ',"lora":[]'
expect "the text without adapters" "$said_text" "$plain"
complete ',"lora":[{"id":0,"scale":1}]'
expect "the text with an adapter that changes nothing" "$said_text" "$plain"

embedding() { post /v1/embeddings "{\"model\":\"$1\",\"input\":\"a fox\"}"; sed 's/.*"embedding": *\(\[[^]]*\]\).*/\1/' "$work/answer"; }
vector=$(embedding tiny)
[ "$(embedding all)" != "$vector" ] || fail "an adapter as a model leaves vectors as they are"
expect "a vector of an adapter that changes nothing" "$(embedding none)" "$vector"
post /v1/embeddings '{"model":"tiny","input":"a fox","lora":[{"id":1,"scale":0.3}]}'
expect "a vector with the field lora" "$(sed 's/.*"embedding": *\(\[[^]]*\]\).*/\1/' "$work/answer")" "$(embedding all)"
post /v1/embeddings '{"model":"tiny","input":"a fox","lora":[{"id":9,"scale":1}]}'
refused "an unknown adapter" 'lora'

# The slot of a request is erased with its adapters.
complete ',"lora":[{"id":1,"scale":0.3}],"id_slot":0'
post '/slots/0?action=erase' ''
[ "$(number n_erased)" -gt 256 ] || fail "an erase took away $(cat "$work/answer")"
complete ',"lora":[{"id":1,"scale":0.3}]'
expect "cached tokens after an erase" "$cached" 0
complete ''
[ "$cached" -gt 256 ] || fail "an erase of a prompt with an adapter took the rows without"


# A slot without adapters keeps nothing of a slot with one, and a slot comes back under its own adapters.
complete ',"lora":[{"id":1,"scale":0.3}],"id_slot":0'
complete ',"id_slot":1'
post '/slots/0?action=save' '{"filename":"a.bin"}'
expect "the status of a save ($(cat "$work/answer"))" "$code" 200
post '/slots/0?action=erase' ''
[ "$(number n_erased)" -gt 256 ] || fail "an erase beside a slot without adapters took away $(cat "$work/answer")"
post '/slots/0?action=restore' '{"filename":"a.bin"}'
refused "a restore under the model's adapters" 'another model'
post '/slots/0?action=restore' '{"filename":"a.bin","lora":[{"id":1,"scale":0.3}]}'
expect "the status of a restore under its adapters ($(cat "$work/answer"))" "$code" 200
complete ',"lora":[{"id":1,"scale":0.3}]'
[ "$cached" -gt 256 ] || fail "a request with the adapters of a restored slot was cold"

post /completion '{"prompt":"x","lora":[{"id":7,"scale":1}]}'
refused "an unknown adapter" 'there is no adapter 7; 2 are loaded'
post /completion '{"prompt":"x","lora":[{"id":1,"scale":"much"}]}'
refused "a scale that is a text" "'lora\[0\].scale' is a text"
post /completion '{"prompt":"x","lora":[{"id":1}]}'
refused "a missing scale" "'lora\[0\].scale' is missing"
post /completion '{"prompt":"x","lora":[{"id":1,"scale":1},{"id":1,"scale":2}]}'
refused "an adapter that is named twice" 'adapter 1 is named twice'

post /lora-adapters '[{"id":1,"scale":0.3}]'
expect "the status of new scales" "$code" 200
complete ''
expect "the text after new scales" "$said_text" "$changed"
post /lora-adapters '[{"id":9,"scale":1}]'
refused "a scale of an unknown adapter" 'there is no adapter 9'
post /lora-adapters '{"id":1,"scale":1}'
refused "scales that are no list" 'must be an array'
post /lora-adapters '[]'
complete ''
expect "the text after all scales became 0" "$said_text" "$plain"

# A reload loads and unloads.
sed -i.before 's/^  lora = .*/  lora = ["all.gguf"]/' "$work/etc/hearth.conf"
reload
has_all() { curl -s "$url/lora-adapters" >"$work/answer" && grep -q '"id": *0,.*"name": *"all"' "$work/answer"; }
await "the adapter of the configuration" has_all
complete ',"lora":[{"id":0,"scale":0.3}]'
expect "the text after a reload" "$said_text" "$changed"
serve_stop
