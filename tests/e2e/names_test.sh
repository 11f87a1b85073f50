#!/bin/sh
# The names that clients give models: aliases, patterns, names that mean none, and keys that may use some models only.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

# ask CODE PATH [JSON] [CURL OPTIONS]: the reply in $work/out
ask() {
  expected=$1 path=$2 body=${3-}
  shift 2
  [ $# -eq 0 ] || shift
  code=$(curl -sS -m 60 -o "$work/out" -w '%{http_code}' ${body:+-d "$body"} "$@" "$url$path") || fail "curl $path: no answer"
  [ "$code" = "$expected" ] || fail "$path with '$body' gives $code and not $expected: $(cat "$work/out")"
}
# chat NAME: a request that names it
chat() { printf '{"model":"%s","messages":[{"role":"user","content":"Hello."}],"max_tokens":4,"temperature":0}' "$1"; }
# answers NAME MODEL: a request for NAME gets MODEL's reply, under that name
answers() {
  ask 200 /v1/chat/completions "$(chat "$1")"
  expect "the model of a reply for '$1'" "$(value r.model)" "$1"
  expect "who answers '$1'" "$(value 'r.choices[0].message.content')" "$(cat "$work/says_$2")"
}

cat >"$work/serve.conf" <<END
cache { directory = "$work/kv"; ram = 32M }
model chat { path = "$tiny"; aliases = [gpt-4o, "claude-*"]; tags = [small] }
model stub { path = "stub:"; aliases = ["claude-opus-*", gpt-4o-mini] }
END
serve --config "$work/serve.conf"
for name in chat stub; do
  ask 200 /v1/chat/completions "$(chat $name)"
  value 'r.choices[0].message.content' >"$work/says_$name"
done
cmp -s "$work/says_chat" "$work/says_stub" && fail "two models say the same, so that nobody can tell them apart"

answers chat chat
answers gpt-4o chat
answers gpt-4o-mini stub
answers claude-sonnet-4-5 chat
answers claude-opus-4-5 stub
answers org/stub:latest stub
answers stub:latest stub
answers somebody-elses chat

# The other APIs, and their streams.
ask 200 /v1/chat/completions "$(chat gpt-4o | sed 's/}$/,"stream":true}/')" -N
expect "the model of all chunks" "$(sed -n 's/^data: {.*"model":"\([^"]*\)".*/\1/p' "$work/out" | sort -u)" gpt-4o
ask 200 /v1/messages "$(chat claude-opus-1)"; expect model "$(value r.model)" claude-opus-1
ask 200 /v1/messages "$(chat claude-x | sed 's/}$/,"stream":true}/')" -N
grep -q '"model":"claude-x"' "$work/out" || fail "a stream of messages has another model: $(head -n 5 "$work/out")"
ask 200 /v1/completions '{"model":"any","prompt":"Once","max_tokens":2}'; expect model "$(value r.model)" any
ask 200 /completion '{"model":"any","prompt":"Once","n_predict":2}'; expect model "$(value r.model)" any
ask 200 /completion '{"prompt":"Once","n_predict":2}'; expect "the model where none was named" "$(value r.model)" chat
ask 200 /tokenize '{"model":"any","content":"Once"}'

# Lists.
ask 200 /v1/models
expect "the list's names" "$(value 'r.data.map((m) => m.id).join()')" chat,stub
expect aliases "$(value 'r.data[0].aliases.join()')" 'gpt-4o,claude-*'
expect tags "$(value 'r.data[0].tags.join()')" small
expect kind "$(value 'r.data[0].kind')" chat
expect "the context" "$(value 'r.data[0].context_length === r.data[0].meta.n_ctx')" true
ask 200 /v1/models/gpt-4o; expect id "$(value r.id)" gpt-4o; expect root "$(value r.root)" chat
ask 200 /v1/models/claude-opus-5; expect root "$(value r.root)" stub
ask 400 /v1/models/claude-%FF; expect param "$(value r.error.param)" model # no text
ask 200 /v1/models/stub; expect id "$(value r.id)" stub; expect root "$(value r.root)" undefined
ask 404 /v1/models/somebody-elses
ask 200 /api/tags; expect "Ollama's list" "$(value 'r.models.map((m) => m.name).join()')" chat,gpt-4o,stub,gpt-4o-mini
ask 200 /api/pull '{"name":"gpt-4o","stream":false}'; expect status "$(value r.status)" success
ask 501 /api/pull '{"model":"somebody-elses"}'
ask 200 /api/chat '{"model":"gpt-4o","stream":false,"messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":2}}'
expect model "$(value r.model)" gpt-4o
serve_stop

# An operator can have wrong names refused.
serve --config "$work/serve.conf" --default-model none
ask 404 /v1/chat/completions "$(chat somebody-elses)"; expect code "$(value r.error.code)" not_found
ask 404 /api/show '{"name":"somebody-elses"}'; expect error "$(value 'r.error.slice(0, 32)')" "model 'somebody-elses' not found"
answers gpt-4o chat
ask 200 /completion '{"prompt":"Once","n_predict":2}'; expect model "$(value r.model)" chat
serve_stop
serve --config "$work/serve.conf" --default-model stub
answers somebody-elses stub
serve_stop

# A key allows models, under any of their names.
key=$("$hearth" key new --name narrow --models stub --file "$work/keys.conf" 2>"$work/err" | head -n 1)
serve --config "$work/serve.conf" --keys "$work/keys.conf"
as() { "$@" -H "Authorization: Bearer $key"; }
as ask 200 /v1/chat/completions "$(chat somebody-elses)"
expect "who answers a key of one model" "$(value 'r.choices[0].message.content')" "$(cat "$work/says_stub")"
for name in chat gpt-4o claude-sonnet chat:latest org/chat; do
  as ask 403 /v1/chat/completions "$(chat $name)"; expect code "$(value r.error.code)" forbidden
done
as ask 404 /v1/models/gpt-4o ''
as ask 200 /v1/models ''; expect "the list of a key of one model" "$(value 'r.data.map((m) => m.id).join()')" stub
ask 401 /v1/chat/completions "$(chat stub)"
serve_stop

# No file is refused for its name: it has one that is made of it, and its own is an alias.
mkdir "$work/models" "$work/models/more"
cp "$tiny" "$work/models/with space (Q4).gguf"
cp "$tiny" "$work/models/模型.gguf"
cp "$tiny" "$work/models/tiny.gguf"
cp "$tiny" "$work/models/more/tiny.gguf"
cp "$tiny" "$work/Größe 1.gguf"
serve -m "$work/Größe 1.gguf" --models-dir "$work/models" --cache "$work/kv"
ask 200 /v1/models
expect "the names" "$(value 'r.data.map((m) => [m.id, ...m.aliases].join("=")).join()')" \
  'Gr-e-1=Größe 1,model=模型,more/tiny,tiny,with-space-Q4=with space (Q4)'
# Their families are known before they are loaded.
ask 200 /api/tags
expect "the families" \
  "$(value '[...new Set(r.models.map((m) => m.details.family + m.details.families))].join()')" llamallama
for name in 'with space (Q4)' 'with space (Q4).gguf' with-space-Q4 '模型' 'Größe 1' more/tiny; do
  ask 200 /v1/chat/completions "$(chat "$name")"
  expect "the model of a reply" "$(value r.model)" "$name"
done
ask 200 /v1/models/with%20space%20%28Q4%29; expect root "$(value r.root)" with-space-Q4
ask 200 /v1/models/%E6%A8%A1%E5%9E%8B; expect root "$(value r.root)" model
ask 200 /v1/models/more/tiny; expect id "$(value r.id)" more/tiny
serve_stop

# As in llama-server, the first alias that is no pattern is the name that clients see; its own name still works.
cp "$tiny" "$work/own.gguf"
serve -m "$work/own.gguf" --alias 'claude-*,seen,also' --cache "$work/kv"
ask 200 /completion '{"prompt":"Once","n_predict":2}'; expect "the model of a reply" "$(value r.model)" seen
ask 200 /v1/completions '{"model":"own","prompt":"Once","max_tokens":2}'; expect "the model of a reply" "$(value r.model)" own
ask 200 /v1/models
expect "the list" "$(value 'r.data.map((m) => m.id + m.aliases.join()).join()')" 'seenclaude-*,seen,also'
expect "the second list" "$(value 'r.models.map((m) => m.name + m.model).join()')" seenseen
expect "what is known of it" \
  "$(value '["vocab_type", "n_vocab", "n_ctx_train", "n_embd", "n_params", "size", "ftype"].filter((k) => r.data[0].meta[k]).length')" 7
ask 200 /props; expect model_alias "$(value r.model_alias)" seen
ask 200 /v1/models/own; expect id "$(value r.id)" own; expect root "$(value r.root)" seen
ask 200 /v1/models/seen; expect root "$(value r.root)" undefined
serve_stop
serve -m "own=$work/own.gguf" --alias seen --cache "$work/kv"
ask 200 /completion '{"prompt":"Once","n_predict":2}'; expect "the model of a reply" "$(value r.model)" own
serve_stop
