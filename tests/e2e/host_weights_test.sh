#!/bin/sh
# Repacked weights in a folder: the first worker writes them, the next one maps them, from within the sandbox, and the
# replies are the same. A worker that is killed leaves nothing for ever.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

model=$("$build/bench/make_model" tiny-llama-wide 2>/dev/null) || fail "no model"
regions=$work/weights
n_files() { find "$regions" -type f 2>/dev/null | wc -l; }
reply() { # a reply that the cache has no part in
  curl -s -m 60 "$url/completion" -d '{"prompt":"one two three four","n_predict":8,"temperature":0,"cache_prompt":false,
    "ignore_eos":true}' >"$work/out" && value 'r.content'
}
pid() { curl -s "$admin_url/admin/models" >"$work/out" && value 'r.models[0].pid || ""'; }
start() {
  serve -m "$model" --ctx 512 --parallel 1 --cache "$cache" --admin 127.0.0.1:0 "$@"
  admin_url=http://127.0.0.1:$(sed -n 2p "$work/port")
}

start
known=$(reply)
serve_stop

start --host-weights "$regions"
expect "reply of the filler" "$(reply)" "$known"
if [ "$(n_files)" = 0 ]; then # a processor for which the engine repacks nothing
  serve_stop
  exit 0
fi
grep -q 'the repacked weights are in' "$work/log" || fail "nobody said that the region is filled: $(cat "$work/log")"

# A killed worker holds nothing, and the next one maps the region.
file=$(ls -i "$regions")
worker=$(pid)
kill -KILL "$worker"
is_replaced() { [ -n "$(pid)" ] && [ "$(pid)" != "$worker" ]; }
await "another worker" is_replaced
await_ready
expect "file after a death" "$(ls -i "$regions")" "$file"
expect "reply after a death" "$(reply)" "$known"
serve_stop
expect "files after the last worker" "$(n_files)" 0

# Kept weights outlive the server.
start --host-weights "$regions" --keep-host-weights
serve_stop
expect "kept files" "$(n_files)" 1
start --host-weights "$regions" --keep-host-weights
expect "reply with kept weights" "$(reply)" "$known"
! grep -q 'the repacked weights are in' "$work/log" || fail "the kept region was not mapped: $(cat "$work/log")"
serve_stop

# Kept weights count as memory, and make room for another model.
memory() { curl -s "$admin_url/admin/models" >"$work/out" && value 'r.memory.used_bytes'; }
state() { curl -s "$admin_url/admin/models" >"$work/out" && value 'r.models[0].state'; }
cp "$model" "$work/copy.gguf"
kept=$(stat -c %s "$regions"/*)
start -m "other=$work/copy.gguf" --start on-demand --memory $((kept + $(stat -c %s "$model") - 1000000)) --ram 1M --host-weights "$regions" --keep-host-weights
expect "reply from kept weights" "$(reply)" "$known"
curl -s -X POST "$admin_url/admin/models/$(curl -s "$admin_url/admin/models" >"$work/out" &&
  value 'r.models[0].name')/unload" >/dev/null
await "the model's end" gives stopped state
[ "$(memory)" -ge "$kept" ] || fail "kept weights of $kept bytes count $(memory) bytes: $(tail -n 20 "$work/log")"
file=$(ls -i "$regions")
ask 200 "$url/completion" -d '{"model":"other","prompt":"one","n_predict":1}'
expect "files beside another large model" "$(n_files)" 1
[ "$(ls -i "$regions")" != "$file" ] || fail "the weights of a model that is out stay beside another one"
serve_stop

# A folder that everybody may write to is not used.
mkdir "$work/open"
chmod 777 "$work/open"
start --host-weights "$work/open"
grep -q 'everybody may write to' "$work/log" || fail "an open folder was taken: $(cat "$work/log")"
expect "reply without a region" "$(reply)" "$known"
serve_stop
