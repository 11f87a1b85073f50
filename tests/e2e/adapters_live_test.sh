# LoRA adapters that an operator loads and unloads while the server runs: they survive their worker, and keep to their
# folder.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

mkdir "$work/etc" "$work/lora" "$work/lora/more" "$work/elsewhere"
"$build/bench/make_adapter" -g 1 "$tiny" "$work/lora/all.gguf"
"$build/bench/make_adapter" -g 0 "$tiny" "$work/lora/more/zero.gguf"
"$build/bench/make_adapter" -A gpt2 "$tiny" "$work/lora/gpt2.gguf"
"$build/bench/make_adapter" -x 32 "$tiny" "$work/lora/wide.gguf"
cp "$work/lora/all.gguf" "$work/elsewhere/secret.gguf"
cp "$work/lora/all.gguf" "$work/etc/fixed.gguf"
ln -s ../elsewhere/secret.gguf "$work/lora/link.gguf"

cp "$tiny" "$work/model.gguf"
cat >"$work/etc/hearth.conf" <<END
listen = "127.0.0.1:0"
admin = "unix:$work/admin.sock"
default = "none"
model "tiny" {
  path = "$work/model.gguf"
  threads = 1
  lora = ["fixed.gguf:0"]
  lora_dir = "$work/lora"
  aliases = ["small"]
}
model "other" {
  path = "$tiny"
  threads = 1
  start = "on-demand"
}
END

# order STATUS PATH BODY: as an operator
order() { ask "$1" --unix-socket "$work/admin.sock" -d "$3" "http://hearth$2"; }
list() { ask 200 --unix-socket "$work/admin.sock" "http://hearth/admin/models/tiny/adapters"; }
# complete MORE-FIELDS: the text of a reply
complete() {
  ask 200 -d "{\"prompt\":\"Once upon a time\",\"n_predict\":12,\"temperature\":0,\"ignore_eos\":true$1}" "$url/completion"
  said_text=$(sed -n 's/.*"content":[ ]*"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$work/reply")
}
worker_pid() {
  ask 200 --unix-socket "$work/admin.sock" http://hearth/admin/models
  sed 's/.*"name": *"tiny"[^}]*"pid": *\([0-9]*\).*/\1/' "$work/reply"
}

serve_listening --config "$work/etc/hearth.conf"
await_ready

# ---- load, use, unload ----

list
has '"lora_dir": *"'"$work"'/lora"'
has '"id": *0, *"name": *"fixed".*"configured": *true'
has '"files": *\["all.gguf", *"gpt2.gguf", *"link.gguf", *"wide.gguf"\], *"n_entries": *7'
complete ',"model":"tiny"'
plain=$said_text

ask 404 -d '{"model":"sql","prompt":"x","n_predict":1}' "$url/completion"
order 200 /admin/models/tiny/adapters/load '{"name":"sql","file":"all.gguf"}'
has '"id": *64, *"name": *"sql", *"path": *"all.gguf", *"scale": *0.0.*"configured": *false'
ask 200 "$url/v1/models"
has '"id": *"sql"[^}]*"root": *"tiny"'
ask 200 "$url/v1/models/sql"
complete ',"model":"sql"'
changed=$said_text
[ "$changed" != "$plain" ] || fail "an adapter that was loaded changes nothing"
complete ',"model":"tiny"'
expect "the text of others beside a loaded adapter" "$said_text" "$plain"
complete ',"model":"tiny","lora":[{"id":64,"scale":1}]'
expect "the text of a request with its id" "$said_text" "$changed"

order 200 /admin/models/tiny/adapters/scale '{"name":"sql","scale":1}'
complete ',"model":"tiny"'
expect "the text of others with its scale" "$said_text" "$changed"
order 200 /admin/models/tiny/adapters/load "{\"name\":\"none\",\"file\":\"$work/lora/more/zero.gguf\",\"scale\":0.5}"
has '"id": *65, *"name": *"none", *"path": *"zero.gguf", *"scale": *0.5'

# ---- a worker dies: the next one has them again, under the same ids ----

pid=$(worker_pid)
kill -KILL "$pid"
complete ',"model":"sql"'
expect "the text of an adapter after its worker died" "$said_text" "$changed"
[ "$(worker_pid)" != "$pid" ] || fail "the worker did not die"
complete ',"model":"tiny"'
expect "the text of others after the worker died" "$said_text" "$changed"
list
has '"id": *64, *"name": *"sql".*"scale": *1.0.*"id": *65, *"name": *"none".*"scale": *0.5'

# Scales of all clients likewise.
ask 200 -d '[{"id":65,"scale":0.25}]' "$url/lora-adapters?model=tiny"
has '"success": *true'
kill -KILL "$(worker_pid)"
complete ',"model":"tiny"'
expect "the text after scales were set and the worker died" "$said_text" "$plain"
list
has '"id": *64, *"name": *"sql".*"scale": *0.0.*"id": *65, *"name": *"none".*"scale": *0.25'

# A file that is gone meanwhile: the model is served, the name is not that of the model without it.
rm "$work/lora/more/zero.gguf"
kill -KILL "$(worker_pid)"
complete ',"model":"sql"'
expect "the text after another adapter's file is gone" "$said_text" "$changed"
ask 404 -d '{"model":"none","prompt":"x","n_predict":1}' "$url/completion"
has "the adapter 'none' is not loaded any more"
grep -q "the adapter 'none', which an earlier worker had, is not loaded; the next worker tries again" "$work/log" ||
  fail "no word of the adapter that is lost: $(tail "$work/log")"
list
has '"id": *64, *"name": *"sql".*"loaded": *true, *"replaced": *false'
has '"id": *65, *"name": *"none", *"path": *"zero.gguf", *"scale": *0.25, *"configured": *false, *"loaded": *false'
has '"loaded": *false, *"error": *"cannot open the file'
ask 200 "$url/lora-adapters?model=tiny"
! grep -q '"none"\|"error"' "$work/reply" || fail "clients see the adapter that is lost: $(cat "$work/reply")"

# It stays lost beside later orders, also when its file is back, and the next worker has it again.
"$build/bench/make_adapter" -g 1 "$tiny" "$work/lora/more/zero.gguf"
order 200 /admin/models/tiny/adapters/load '{"name":"late","file":"all.gguf"}'
has '"id": *65, *"name": *"none".*"loaded": *false.*"id": *66, *"name": *"late".*"loaded": *true'
order 202 /admin/models/tiny/restart ''
ask 200 -d '{"model":"none","prompt":"x","n_predict":1}' "$url/completion"
list
has '"id": *65, *"name": *"none".*"scale": *0.25.*"loaded": *true, *"replaced": *true.*"id": *66'
grep -q "the file '.*zero.gguf' of the adapter 'none' was replaced" "$work/log" || fail "nobody tells of the other file"
order 200 /admin/models/tiny/adapters/unload '{"name":"late"}'
order 200 /admin/models/tiny/adapters/unload '{"name":"none"}'

# ---- refused, with the reason ----

order 400 /admin/models/tiny/adapters/load '{"name":"x","file":"link.gguf"}'
has "the file 'link.gguf' is not beneath the folder of adapters"
order 400 /admin/models/tiny/adapters/load '{"name":"x","file":"../elsewhere/secret.gguf"}'
has "has '..' in its path"
order 400 /admin/models/tiny/adapters/load "{\"name\":\"x\",\"file\":\"$work/elsewhere/secret.gguf\"}"
has 'is not beneath the folder'
order 400 /admin/models/tiny/adapters/load '{"name":"x","file":"more"}'
has 'is no file'
order 400 /admin/models/tiny/adapters/load '{"name":"x","file":"none.gguf"}'
has "cannot open the file 'none.gguf' in the folder of adapters"
order 400 /admin/models/tiny/adapters/load '{"name":"x","file":"gpt2.gguf"}'
has "made for the architecture 'gpt2', and the model's is 'llama'"
order 400 /admin/models/tiny/adapters/load '{"name":"x","file":"wide.gguf"}'
has 'does not fit the model: its pair for'
order 400 /admin/models/other/adapters/load '{"name":"x","file":"all.gguf"}'
has 'the model has no folder of adapters.*lora_dir'
for name in sql fixed tiny small other org/tiny:latest; do
  order 400 /admin/models/tiny/adapters/load "{\"name\":\"$name\",\"file\":\"all.gguf\"}"
  has "the name '$name' is taken"
done
order 400 /admin/models/tiny/adapters/load '{"name":"","file":"all.gguf"}'
order 400 /admin/models/tiny/adapters/load '{"name":"x","file":"all.gguf","scales":1}'
has "'scales'"
order 400 /admin/models/tiny/adapters/load '{"name":"x"}'
has "'file' is missing"
order 400 /admin/models/tiny/adapters/scale '{"name":"sql","scale":"much"}'
has "'scale' is a text"
order 404 /admin/models/tiny/adapters/unload '{"name":"x"}'
has "model 'tiny' has no adapter 'x'"
order 400 /admin/models/tiny/adapters/unload '{"name":"fixed"}'
has 'is one of the configuration'
order 404 /admin/models/no-such/adapters/load '{"name":"x","file":"all.gguf"}'
ask 405 --unix-socket "$work/admin.sock" http://hearth/admin/models/tiny/adapters/load
# On the address of clients, without a key, nobody may.
ask 403 -d '{"name":"x","file":"all.gguf"}' "$url/admin/models/tiny/adapters/load"
ask 403 -d '{"lora_name":"x","lora_path":"all.gguf"}' "$url/v1/load_lora_adapter"
ask 403 -d '{"lora_name":"sql"}' "$url/v1/unload_lora_adapter"

# ---- vLLM's calls ----

order 200 '/v1/load_lora_adapter?model=tiny' '{"lora_name":"poet","lora_path":"all.gguf"}'
has "Success: LoRA adapter 'poet' added successfully."
complete ',"model":"poet"'
expect "the text of an adapter that was loaded as vLLM does" "$said_text" "$changed"
ask 200 -d '{"prompt":"x","n_predict":1}' "$url/completion?model=poet" # outside the body, it chooses the model only
order 200 /v1/unload_lora_adapter '{"lora_name":"poet"}'
has 'removed successfully'
ask 404 -d '{"model":"poet","prompt":"x","n_predict":1}' "$url/completion"
order 404 /v1/unload_lora_adapter '{"lora_name":"poet"}'
order 400 /v1/unload_lora_adapter '{"name":"poet"}'

# ---- a request keeps its adapter; a reload keeps names apart ----

long='"prompt":"Once upon a time","n_predict":200,"temperature":0,"ignore_eos":true,"stream":true'
# streamed FILE: the text of a stream
streamed() { sed -n 's/^data: .*"content":[ ]*"\(\([^"\]\|\\.\)*\)".*/\1/p' "$1" | tr -d '\n'; }
ask 200 -N -d "{\"model\":\"tiny\",\"lora\":[{\"id\":64,\"scale\":1}],$long}" "$url/completion"
alone=$(streamed "$work/reply")
curl -s -N -d "{\"model\":\"sql\",$long}" \
  "$url/completion" >"$work/stream" &
reader=$!
await "the begin of the stream" of "$reader" grep -q content "$work/stream"
order 200 /admin/models/tiny/adapters/unload '{"name":"sql"}'
wait "$reader"
grep -q '"tokens_predicted": *200' "$work/stream" || fail "a reply ended when its adapter was unloaded: $(tail -c 600 "$work/stream")"
expect "the text of a reply whose adapter was unloaded meanwhile" "$(streamed "$work/stream")" "$alone"
[ ${#alone} -gt 200 ] || fail "the stream has no text: $(head -c 600 "$work/reply")"
ask 404 -d '{"model":"sql","prompt":"x","n_predict":1}' "$url/completion"
complete ',"model":"tiny"'
expect "the text after all were unloaded" "$said_text" "$plain"

order 200 /admin/models/tiny/adapters/load '{"name":"sql","file":"all.gguf"}'
sed -i.before 's/"small"/"sql"/' "$work/etc/hearth.conf"
order 400 /admin/reload ''
has "the name 'sql' would mean model 'tiny'.*unload it first"
sed -i.before 's/"sql"/"little"/' "$work/etc/hearth.conf"
order 200 /admin/reload ''
complete ',"model":"sql"'
expect "the text of an adapter after a reload" "$said_text" "$changed"
order 202 /admin/models/tiny/restart ''
complete ',"model":"sql"'
expect "the text of an adapter after a restart by order" "$said_text" "$changed"

# ---- without a worker, an adapter can still be taken away: it may be the reason ----

mv "$work/model.gguf" "$work/away.gguf"
kill -KILL "$(worker_pid)"
order 200 /admin/models/tiny/adapters/unload '{"name":"sql"}'
has '"adapters": *\[\]'
mv "$work/away.gguf" "$work/model.gguf"
order 202 /admin/models/tiny/restart ''
complete ',"model":"tiny"'
expect "the text after the worker was lost" "$said_text" "$plain"
ask 404 -d '{"model":"sql","prompt":"x","n_predict":1}' "$url/completion"
ask 200 --unix-socket "$work/admin.sock" http://hearth/admin/models
has '"running_requests": *0' # no order holds the worker any more
serve_stop
