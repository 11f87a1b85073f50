#!/bin/sh
# The defaults of a request: the operator's values, then the model's, then the documented ones. They are the same in
# every API and for `hearth run`.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

# ask PATH [JSON]: the reply in $work/out
ask() {
  code=$(curl -sS -m 60 -o "$work/out" -w '%{http_code}' ${2:+-d "$2"} "$url$1") || fail "curl $1: no answer"
  [ "$code" = 200 ] || fail "$1 with '${2:-}' gives $code: $(cat "$work/out")"
}
# param NAME [MODEL]: the value in /props
param() { ask "/props?model=${2:-}"; value "r.default_generation_settings.params.$1"; }
# used NAME: the value that a completion without options used
used() { ask /completion '{"prompt":"Once","n_predict":1}'; value "r.generation_settings.$1"; }

# Neither operator nor model has values.
serve -m "tiny=$tiny" --no-cache
expect temperature "$(used 'temperature.toFixed(3)')" 0.800
expect top_k "$(used top_k)" 40
expect top_p "$(used 'top_p.toFixed(3)')" 0.950
expect min_p "$(used 'min_p.toFixed(3)')" 0.050
expect "the length" "$(param n_predict)" -1
serve_stop

# The model has values: beside its file, and in it (as the stub's parameter).
mkdir "$work/advised"
ln -s "$tiny" "$work/advised/model.gguf"
echo '{"temperature": 0, "top_k": 7, "top_p": 3, "repetition_penalty": 1.1}' >"$work/advised/generation_config.json"
cat >"$work/serve.conf" <<END
cache { disabled = true }
defaults { top_p = 0.5; n_predict = 3; stop = ["###"]; seed = 5 }
model advised { path = "$work/advised/model.gguf" }
model own { path = "$work/advised/model.gguf"
  defaults { top_k = 9; n_predict = 6; system = "Tell stories about foxes.\nNothing else."; chat_template_kwargs = '{"a": 1}' } }
model stub { path = "stub:top_k=11" }
END
serve --config "$work/serve.conf"
expect temperature "$(used temperature)" 0
expect top_k "$(used top_k)" 7
expect "top_p, which the server says" "$(used top_p)" 0.5
expect repeat_penalty "$(used 'repeat_penalty.toFixed(3)')" 1.100
expect "the model's own top_k" "$(param top_k own)" 9
expect "the model's own length" "$(param n_predict own)" 6
expect "the server's stop texts" "$(param 'stop.join()' own)" '###'
expect "a file's own recommendation" "$(param top_k stub)" 11

# Lengths, in all APIs; the client's value wins.
hi='"messages":[{"role":"user","content":"Hello."}]'
ask /v1/chat/completions "{$hi}"; expect "tokens of a chat" "$(value r.usage.completion_tokens)" 3
ask /v1/completions '{"prompt":"Once upon a"}'; expect "tokens of a completion" "$(value r.usage.completion_tokens)" 3
ask /completion '{"prompt":"Once upon a"}'; expect "tokens of llama.cpp's" "$(value r.tokens_predicted)" 3
ask /v1/chat/completions "{\"max_tokens\":5,$hi}"; expect "tokens that were asked for" "$(value r.usage.completion_tokens)" 5
ask /completion '{"prompt":"Once","n_predict":1,"top_k":2,"temperature":1}'
expect "a client's top_k" "$(value r.generation_settings.top_k)" 2
expect "a client's temperature" "$(value r.generation_settings.temperature)" 1
expect "the server's seed" "$(value r.generation_settings.seed)" 5

# The system message for requests without one.
ask /apply-template "{\"model\":\"own\",$hi}"; value r.prompt >"$work/prompt"
grep -q 'Nothing else' "$work/prompt" || fail "the system message is not in the prompt: $(cat "$work/prompt")"
ask /apply-template '{"model":"own","messages":[{"role":"system","content":"Sing."},{"role":"user","content":"Hello."}]}'
value r.prompt >"$work/prompt"
! grep -q 'Nothing else' "$work/prompt" || fail "there are two system messages: $(cat "$work/prompt")"
ask /apply-template "{$hi}"; value r.prompt >"$work/prompt"
! grep -q 'Nothing else' "$work/prompt" || fail "a model has the system message of another"

# A reload changes defaults while the model goes on.
sed -i 's/n_predict = 3/n_predict = 4/' "$work/serve.conf"
reload
ask /v1/chat/completions "{$hi}"
expect "tokens of a chat after a reload" "$(value r.usage.completion_tokens)" 4
serve_stop

# Flags win over the file.
serve --config "$work/serve.conf" --temp 0.25 --top-k 3 --predict 2 --system 'Sing.' --reasoning off --chat-template-kwargs '{"b":2}'
expect temperature "$(used temperature)" 0.25
expect top_k "$(used top_k)" 3
ask /v1/chat/completions "{\"model\":\"own\",$hi}"; expect "tokens of a chat" "$(value r.usage.completion_tokens)" 2
ask /apply-template "{\"model\":\"own\",$hi}"; value r.prompt >"$work/prompt"
grep -q 'Sing\.' "$work/prompt" || fail "the flag's system message is not in the prompt: $(cat "$work/prompt")"
serve_stop
if "$hearth" serve -m stub: --chat-template-kwargs '{"messages":1}' --check >"$work/out" 2>&1; then fail "a reserved variable is accepted"; fi
grep -q -e '--chat-template-kwargs is' "$work/out" || fail "a reserved variable: $(cat "$work/out")"

# Built-in templates, by name; the chosen context is told.
serve -m "tiny=$tiny" --no-cache --chat-template '{% for m in messages %}[{{ m.content }}]{% endfor %}'
ask /apply-template '{"messages":[{"role":"user","content":"Hi"}]}'; expect "a template of the command line" "$(value r.prompt)" '[Hi]'
serve_stop
serve -m "tiny=$tiny" --no-cache --chat-template zephyr
ask /apply-template "{$hi}"; value r.prompt >"$work/prompt"
grep -qF '<|assistant|>' "$work/prompt" || fail "a template by name is not taken: $(cat "$work/prompt")"
ask /props; expect "the context" "$(value 'r.default_generation_settings.n_ctx >= r.n_ctx_train')" true
grep -q 'which is what it was trained with' "$work/log" || fail "the log does not say why the context is so large: $(cat "$work/log")"
serve_stop

# `hearth run` has the same values.
run() { "$hearth" run "$work/advised/model.gguf" --no-cache -q -p 'Once upon a time' -n 20 "$@" </dev/null; }
run >"$work/first"
run --top-k 1 --repeat-penalty 1.1 >"$work/greedy"
cmp -s "$work/first" "$work/greedy" || fail "a recommended temperature of 0 is not taken"
run --temp 5 --top-k 0 --top-p 1 --min-p 0 --seed 1 >"$work/hot"
cmp -s "$work/first" "$work/hot" && fail "a recommendation wins over a flag"
"$hearth" run "$tiny" --no-cache -q --chat --reasoning off --chat-template-kwargs '{"a":1}' -p Hello -n 2 >"$work/out" </dev/null ||
  fail "run does not take --reasoning"
