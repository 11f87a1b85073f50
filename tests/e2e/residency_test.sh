#!/bin/sh
# More models than may be in memory at once: each answers, the least recently used one leaves, nothing that was computed
# is lost, and no request is, whatever dies.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

state() { # MODEL: of its worker
  curl -s "$url/admin/models" -H "$admin" >"$work/out" && value "r.models.find((m) => m.name == '$1').state"
}
until_state() { await "state $2 of model $1" gives "$2" state "$1"; } # MODEL STATE
chat() { # MODEL [FIELDS]: a short reply
  ask 200 "$url/v1/chat/completions" -H "$client" -d "{\"model\":\"$1\",\"max_tokens\":4,\"temperature\":0,
    \"messages\":[{\"role\":\"user\",\"content\":\"$long\"}]${2:-}}"
}
cached() { cp "$work/reply" "$work/out" && value 'r.usage.prompt_tokens_details.cached_tokens'; }
long=$(seq -s ' ' 300)

root=$("$hearth" key new --name root --admin --file "$work/keys" 2>/dev/null)
alice=$("$hearth" key new --name alice --file "$work/keys" 2>/dev/null)
admin="x-api-key: $root" client="x-api-key: $alice"

# One file under two names, one of them in memory: what a model computed survives its absence.
serve -m "one=$tiny" -m "two=$tiny" --start on-demand --models-max 1 --cache "$work/cache" --keys "$work/keys"
chat one
chat two
until_state one stopped
chat one
[ "$(cached)" -gt 200 ] || fail "a model came back with $(cached) cached tokens"
until_state two stopped
chat two
[ "$(cached)" -gt 200 ] || fail "the other model came back with $(cached) cached tokens"
curl -s "$url/v1/models" -H "$client" >"$work/out"
expect "states in the list" "$(value 'r.data.map((m) => m.id + " " + m.status.value).join()')" "one unloaded,two loaded"

# An operator looks.
shows_numbers() {
  HEARTH_API_KEY=$root "$hearth" ps --url "$url" >"$work/ps" || fail "ps does not show the models"
  grep -q '[0-9]%$' "$work/ps"
}
await "the numbers of a worker, which it tells now and then" shows_numbers
grep -q '^one  *stopped .* - *$' "$work/ps" || fail "ps says of one: $(cat "$work/ps")"
grep -q '^two  *ready  *device  *[0-9.]* MiB  *0  *0 .* [0-9]*%$' "$work/ps" || fail "ps says of two: $(cat "$work/ps")"
grep -q '^memory: .* of .* GiB$' "$work/ps" || fail "ps says of memory: $(cat "$work/ps")"
[ "$(awk '{ if (length > n) n = length } END { print n }' "$work/ps")" -le 80 ] || fail "ps has long lines: $(cat "$work/ps")"
HEARTH_API_KEY=$root "$hearth" ps --url "$url/" --json >"$work/out" || fail "ps prints no JSON"
expect "models in JSON" "$(value 'r.models.length')" 2
refuse 1 "refuses with 403" ps --url "$url" --api-key "$alice"
refuse 1 "no server answers at http://127.0.0.1:1 (.*); start one with 'hearth serve -m MODEL'" ps --url http://127.0.0.1:1/
refuse 2 "ps takes no 'x'" ps x

# Orders: llama.cpp's router calls, and operators'.
ask 200 "$url/models/load" -H "$client" -d '{"model":"one"}'; has '"success":true'
until_state one ready
until_state two stopped
ask 403 "$url/models/unload" -H "$client" -d '{"model":"one"}'
ask 200 "$url/models/unload" -H "$admin" -d '{"model":"one"}'; has '"success":true'
until_state one stopped
ask 404 "$url/models/load" -H "$client" -d '{"model":"three"}'; has "there is no model 'three'"
ask 400 "$url/models/load" -H "$client" -d '{}'; has "the text 'model'"
ask 405 "$url/models/load" -H "$client"
ask 202 "$url/admin/models/two/load" -X POST -H "$admin"; has loading
until_state two ready
ask 202 "$url/admin/models/two/unload" -X POST -H "$admin"; has unloading
until_state two stopped
ask 404 "$url/admin/models/three/load" -X POST -H "$admin"

# Ollama's keep_alive: until the next request, as long as the last one says.
ask 200 "$url/api/chat" -H "$client" -d '{"model":"one","stream":false,"options":{"num_predict":2},"keep_alive":"10m",
  "messages":[{"role":"user","content":"hi"}]}'
ask 200 "$url/api/ps" -H "$client"; has '"name": *"one'
cp "$work/reply" "$work/out"
minutes=$(value 'Math.round((Date.parse(r.models[0].expires_at) - Date.now()) / 60000)')
[ "$minutes" -ge 8 ] && [ "$minutes" -le 10 ] || fail "expires_at is $minutes minutes away"
ask 200 "$url/api/generate" -H "$client" -d '{"model":"one","keep_alive":0}'; has '"done_reason": *"unload"'
until_state one stopped
ask 200 "$url/api/ps" -H "$client"; has '"models": *\[\]'
ask 200 "$url/models/load" -H "$client" -d '{"model":"one"}' # stays: that was the request's wish, not this one's
until_state one ready
sleep 0.6 # nothing tells that it does not leave
expect "state of a model that was loaded anew" "$(state one)" ready
ask 415 "$url/models/load" -H "$client" -H 'Content-Encoding: gzip' -d '{"model":"one"}'
ask 400 "$url/api/chat" -H "$client" -d '{"model":"one","keep_alive":"soon","messages":[{"role":"user","content":"hi"}]}'

# The next server knows the memory that a model takes before it has loaded it.
chat one
await "a measurement" grep -q '^model [0-9a-f]* [1-9]' "$work/cache/needs"
serve_stop
serve -m "one=$tiny" -m "two=$tiny" --start on-demand --models-max 1 --cache "$work/cache" --keys "$work/keys"
curl -s "$url/admin/models" -H "$admin" >"$work/out"
expect "state of a model that nobody asked for" "$(value r.models[0].state)" stopped
# That of one of the two: a process may leave before it is measured, which happens once a second.
learned=$(value 'r.models.find((m) => m.measured_bytes > 8 << 20)?.name')
[ "$learned" != undefined ] || fail "no memory of a model was learned: $(cat "$work/out" "$work/cache/needs")"
model="r.models.find((m) => m.name == '$learned')"
expect "its memory in a plan" "$(value "$model.memory_bytes >= $model.measured_bytes")" true
expect "its expected memory" "$(value '((e) => e.host_bytes ==
  e.weight_bytes + e.repacked_bytes + e.cell_bytes + e.compute_bytes + e.process_bytes)('"$model.expected)")" true
[ "$(value "$model.expected.cell_bytes")" -gt 0 ] || fail "the cells of a model take nothing"
HEARTH_API_KEY=$root "$hearth" ps --memory --url "$url" >"$work/ps" || fail "ps does not show memory"
grep -q "^$learned  *[0-9.]* [KM]iB  *[0-9.]* [KM]iB  *[0-9.]* [KM]iB  *[0-9.]* MiB  *[0-9.]* MiB\$" "$work/ps" ||
  fail "ps says of the memory of $learned: $(cat "$work/ps")"
chat one
chat two
serve_stop

# Models that take three quarters of a GPU take turns, though nothing else limits them. What was learned names the GPU,
# and with an operator's limit nobody looks at one that is not there.
sed 's/^host /device 2000000000 700000000 300000000 0 4000000000 GPU0\n&/' "$work/cache/needs" >"$work/needs"
[ "$(grep -c GPU0 "$work/needs")" = 2 ] || fail "the memory of two models is not known: $(cat "$work/needs")"
cp "$work/needs" "$work/cache/needs"
serve -m "one=$tiny" -m "two=$tiny" --start on-demand --device-memory 3600000000 --cache "$work/cache" --keys "$work/keys"
chat one
chat two
until_state one stopped
curl -s "$url/admin/models" -H "$admin" >"$work/out"
expect "memory of the GPU" "$(value 'JSON.stringify(r.memory.devices)')" \
  '[{"name":"GPU0","limit_bytes":3600000000,"used_bytes":3000000000,"pinned_bytes":0,"pinned_over_commit":false}]'
expect "memory of the host without it" "$(value 'r.memory.used_bytes < 1e9')" true
HEARTH_API_KEY=$root "$hearth" ps --memory --url "$url" >"$work/ps" || fail "ps does not show memory"
[ "$(grep -c '^  on GPU0  *1.9 GiB  *667.6 MiB  *286.1 MiB  *2.8 GiB  *-$' "$work/ps")" = 2 ] &&
  grep -q '^GPU0: 2.8 GiB of 3.4 GiB$' "$work/ps" || fail "ps says of the memory on a GPU: $(cat "$work/ps")"
serve_stop
serve -m "one=$tiny" -m "two=$tiny" --start on-demand --device-memory 6G --cache "$work/cache" --keys "$work/keys"
chat one
chat two
expect "state of a model beside another on a GPU" "$(state one)" ready
serve_stop

# Five models, two places, many clients at once, and workers that are killed: every request is answered.
serve -m a=stub: -m b=stub: -m c=stub: -m d=stub: -m e=stub: --start on-demand --models-max 2 --turn-ms 200 \
  --admin "127.0.0.1:0" --cache "$work/cache" --wait-timeout-ms 300000
admin_url=http://127.0.0.1:$(sed -n 2p "$work/port")
for worker in $(seq 6); do
  (
    for i in $(seq 7); do
      model=$(echo a b c d e | cut -d ' ' -f $(((worker * 7 + i * 3 + i / 5) % 5 + 1)))
      code=$(curl -s -m 250 -o "$work/reply-$worker" -w '%{http_code}' "$url/v1/completions" \
        -d "{\"model\":\"$model\",\"prompt\":\"p $worker $i\",\"max_tokens\":20}")
      [ "$code" = 200 ] || echo "$model $code $(cat "$work/reply-$worker")" >>"$work/wrong"
    done
  ) &
  clients="${clients:-} $!"
done
for _ in $(seq 12); do
  sleep 0.2 # workers die at any moment, and not all the time
  curl -s "$admin_url/admin/models" >"$work/out" || fail "the operators' page does not answer"
  n=$(value 'r.models.filter((m) => m.pid).length')
  [ "$n" -le 2 ] || fail "$n workers run at once"
  pid=$(value 'r.models.filter((m) => m.state == "ready").map((m) => m.pid)[0] || ""')
  if [ "$pid" ]; then kill -KILL "$pid" 2>/dev/null || true; fi
done
for client in $clients; do wait "$client"; done
[ ! -s "$work/wrong" ] || fail "requests were lost: $(cat "$work/wrong")"
curl -s "$admin_url/admin/models" >"$work/out"
[ "$(value 'r.models.reduce((n, m) => n + m.departures, 0)')" -gt 3 ] || fail "no model made room"
expect "requests at work" "$(value 'r.models.reduce((n, m) => n + m.running_requests + m.waiting_requests, 0)')" 0
serve_stop

# Orders alone move models: a request for one that is out is refused in the words of its API.
serve -m a=stub: -m b=stub: -m c=stub: --start on-demand --models-max 2 --residency external --admin "127.0.0.1:0" \
  --cache "$work/cache"
admin_url=http://127.0.0.1:$(sed -n 2p "$work/port")
order() { # STATUS PATH [BODY]
  ask "$1" -X POST "$admin_url/admin/$2" ${3:+-d "$3"}
}
residencies() { curl -s "$admin_url/admin/models" >"$work/out" && value 'r.models.map((m) => m.residency).join()'; }
until_residencies() { await "residencies $1" gives "$1" residencies; } # OF ALL MODELS
message='"messages":[{"role":"user","content":"hi"}],"max_tokens":4'
ask 503 "$url/v1/chat/completions" -d "{\"model\":\"a\",$message}"; has '"code": *"model_not_resident"'
ask 503 "$url/v1/messages" -d "{\"model\":\"a\",$message}"; has '"type": *"api_error"'
ask 503 "$url/completion" -d '{"model":"a","prompt":"x"}'; has '"type": *"unavailable_error"'
ask 503 "$url/api/chat" -d "{\"model\":\"a\",\"stream\":false,$message}"; has '"error": *"model .a. is not resident'
order 202 preload '{"models":["c","a","b"]}'; has '"loading": *\["c", *"a"\].*"no_room": *\["b"\]'
ask 200 "$url/v1/chat/completions" -d "{\"model\":\"a\",$message}" # waits for the load
until_residencies device,evicted,device
order 409 models/b/load; has "there is no room for model 'b'"
order 409 models/b/restart; has "there is no room for model 'b'"
ask 409 "$url/models/load" -d '{"model":"b"}'; has "there is no room for model 'b'"
order 400 models/a/residency '{"residency":"moon"}'; has pinned_device
order 409 models/a/residency '{"residency":"host"}'; has host_weights
order 202 models/a/residency '{"residency":"pinned_device"}'
until_residencies pinned_device,evicted,device
curl -s "$admin_url/metrics" | grep -q '^hearth_model_residency{model="a",residency="pinned_device"} 1$' ||
  fail "the metrics do not know the place"
order 202 release_all '{"rows":true}'; has '"releasing": *\["c"\]'
until_residencies pinned_device,evicted,evicted
order 202 models/a/residency '{"residency":"device"}'
ask 200 "$url/v1/chat/completions" -d "{\"model\":\"a\",$message}"
order 202 compact; has '"compacting": *\["a"\]'
ask 200 "$url/v1/chat/completions" -d "{\"model\":\"a\",$message}" # waits for the new worker, or is answered before
"$hearth" ps --watch --url "$admin_url" >"$work/watched" 2>&1 &
watcher=$!
"$hearth" models move evicted a none --url "$admin_url" >"$work/moved" 2>"$work/refused" &&
  fail "a model that does not exist was moved"
expect "the answer to an order" "$(cat "$work/moved")" "a: moving"
grep -q "refuses with 404: there is no model 'none'" "$work/refused" || fail "the refusal is $(cat "$work/refused")"
until_residencies evicted,evicted,evicted
heard "$work/watched" '^a  *stopped  *evicted '
[ "$(grep -c '^MODEL ' "$work/watched")" -le 4 ] || fail "a page without a change was shown: $(cat "$work/watched")"
if grep -q "$(printf '\033')" "$work/watched"; then fail "a file has escape codes"; fi
kill "$watcher"
HEARTH_URL=$admin_url "$hearth" models load b >/dev/null
until_residencies evicted,device,evicted
expect "the models that leave" "$("$hearth" models release --rows --url "$admin_url")" "b: releasing"
until_residencies evicted,evicted,evicted
expect "the names" "$("$hearth" ps --names --url "$admin_url" | tr '\n' ' ')" "a b c "
refuse 2 "'moon' is no place" models move moon a --url "$admin_url"
refuse 2 "takes a PLACE and the names" models move a
refuse 2 "takes the names of models" models load
refuse 2 "takes no name" models compact a
refuse 2 "watch is for people" ps --json --watch
serve_stop

# A folder of models: those in it are served when they are asked for, and a reload looks again.
mkdir -p "$work/models/sub/deep" "$work/models/.hidden"
cp "$tiny" "$work/models/first.gguf"
ln -s "$work/models/first.gguf" "$work/models/sub/deep/second.gguf"
ln -s "$work/models" "$work/models/loop"
cp "$tiny" "$work/models/.hidden/no.gguf"
cp "$tiny" "$work/models/mmproj-no.gguf"
cp "$tiny" "$work/models/sub/first.gguf"
cp "$tiny" "$work/models/split-00002-of-00002.gguf"
cp "$tiny" "$work/models/named.gguf"
echo text >"$work/models/broken.gguf"
names() { curl -s "$url/v1/models" >"$work/out" && value 'r.data.map((m) => m.id).join()'; }
serve -m "other=$work/models/named.gguf" --models-dir "$work/models" --admin 127.0.0.1:0 --cache "$work/cache"
admin_url=http://127.0.0.1:$(sed -n 2p "$work/port")
expect "models of a folder" "$(names)" other,first,second,sub/first
grep -q "broken.gguf' is no GGUF file" "$work/log" || fail "nothing is said of a broken file: $(cat "$work/log")"
ask 200 "$url/v1/completions" -d '{"model":"second","prompt":"x","max_tokens":2}'
cp "$tiny" "$work/models/third-00001-of-00001.gguf"
rm "$work/models/first.gguf"
ask 200 -X POST "$admin_url/admin/reload"
expect "models of a folder after a reload" "$(names)" other,first,third # the one in sub, and a link to nothing
ask 200 "$url/v1/completions" -d '{"model":"third","prompt":"x","max_tokens":2}'
until_names() { await "models $1" gives "$1" names; } # NAMES
mkdir "$work/models/new" # nobody asks for a reload
cp "$tiny" "$work/models/new/fourth.gguf"
until_names other,first,fourth,third
mv "$work/models/new/fourth.gguf" "$work/models/new/fifth.gguf"
until_names other,fifth,first,third
rm -r "$work/models/new"
until_names other,first,third
n=$(grep -c 'folder of models has changed' "$work/log")
: >"$work/models/notes.txt"
sleep 1.3 # longer than from a change of the folder to its reload; nothing tells that there is none
expect "reloads after a file that is no model" "$(grep -c 'folder of models has changed' "$work/log")" "$n"
curl -s "$admin_url/admin/config" >"$work/out"
expect "the folder in the configuration" "$(value r.models_dir)" "$work/models"
serve_stop
# A folder without a model is no error: a server may be installed before its models.
mkdir "$work/empty"
serve --models-dir "$work/empty" --cache "$work/cache"
grep -q "there is no model in '$work/empty' yet" "$work/log" || fail "nothing is said of an empty folder: $(cat "$work/log")"
ask 404 "$url/v1/completions" -d '{"model":"first","prompt":"x"}'
cp "$tiny" "$work/empty/first.gguf"
until_names first
ask 200 "$url/v1/completions" -d '{"model":"first","prompt":"x","max_tokens":2}'
rm "$work/empty/first.gguf"
until_names ''
serve_stop
refuse 1 "the folder of models '$work/none' cannot be read: No such file" serve --models-dir "$work/none"
