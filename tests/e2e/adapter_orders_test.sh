# Orders about adapters when something comes between: other orders, a client that leaves, a worker that stands still or
# dies, a reload, a key that may not.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

mkdir "$work/etc" "$work/lora"
"$build/bench/make_adapter" -g 1 "$tiny" "$work/lora/a.gguf"
alice=$("$hearth" key new --name alice --file "$work/etc/keys.conf" 2>/dev/null)
root=$("$hearth" key new --name root --admin --file "$work/etc/keys.conf" 2>/dev/null)

# configure LIMIT MORE: the configuration, with a line for the model "one"
configure() {
  cat >"$work/etc/hearth.conf" <<END
listen = "127.0.0.1:0"
admin = "unix:$work/admin.sock"
keys = "keys.conf"
supervision { hang_ms = 0; wait_timeout_ms = $1 }
model "one" { path = "$tiny"; threads = 1; lora_dir = "$work/lora"; $2 }
model "two" { path = "$tiny"; threads = 1; lora_dir = "$work/lora" }
END
}
configure 120s ''
serve_listening --config "$work/etc/hearth.conf"
await_ready

# order STATUS PATH BODY: as an operator
order() { ask "$1" --unix-socket "$work/admin.sock" -d "$3" "http://hearth$2"; }
list() { ask 200 --unix-socket "$work/admin.sock" "http://hearth/admin/models/$1/adapters"; }
has_adapter() { list one && grep -q "\"name\": *\"$1\"" "$work/reply"; }
pid_of() {
  ask 200 --unix-socket "$work/admin.sock" http://hearth/admin/models
  sed 's/.*"name": *"'"$1"'"[^}]*"pid": *\([0-9]*\).*/\1/' "$work/reply"
}

n_orders() { grep -c " orders " "$work/log" || true; }
# begin NAME PATH BODY: an order in the background, when the server has it; its status will be in $work/NAME.status
begin() {
  n_before=$(n_orders)
  { curl -s -m 60 -o "$work/$1.reply" -w '%{http_code}' --unix-socket "$work/admin.sock" -d "$3" "http://hearth$2" || true; } >"$work/$1.status" &
  eval "$1=\$!"
  await "the order '$1'" at_least $((n_before + 1)) n_orders
}
# ended NAME STATUS
ended() {
  eval "wait \$$1"
  expect "the status of the order '$1' ($(cat "$work/$1.reply"))" "$(cat "$work/$1.status")" "$2"
}
first=/admin/models/one/adapters second=/admin/models/two/adapters

# ---- a key that may not ----

for path in "$first/load" "$first/unload" "$first/scale" /v1/load_lora_adapter /v1/unload_lora_adapter /lora-adapters; do
  ask 403 -H "x-api-key: $alice" -d '{"name":"x","file":"a.gguf"}' "$url$path"
  ask 401 -d '{"name":"x","file":"a.gguf"}' "$url$path"
done
ask 403 -H "x-api-key: $alice" "$url$first"
ask 200 -H "x-api-key: $alice" "$url/lora-adapters?model=one"
ask 200 -H "x-api-key: $root" -d '{"name":"x","file":"a.gguf"}' "$url$first/load"
ask 200 -H "x-api-key: $root" -d '{"lora_name":"x"}' "$url/v1/unload_lora_adapter"

# ---- bodies that no call reads ----

for path in "$first/load" /v1/load_lora_adapter /v1/unload_lora_adapter '/lora-adapters?model=one'; do
  order 415 "$path" 'name=x'
  has 'the body is a form'
  ask 415 --unix-socket "$work/admin.sock" -F name=x "http://hearth$path"
  ask 415 --unix-socket "$work/admin.sock" -H 'Content-Encoding: gzip' -d '{}' "http://hearth$path"
  has "Content-Encoding 'gzip'"
done

# ---- two orders: the second begins with the result of the first; another model does not wait ----

one=$(pid_of one)
kill -STOP "$one"
begin load "$first/load" '{"name":"a","file":"a.gguf"}'
begin scale "$first/scale" '{"name":"a","scale":0.5}'
order 200 "$second/load" '{"name":"b","file":"a.gguf"}'
list two
has '"name": *"b"'
order 400 "$second/load" '{"name":"a","file":"a.gguf"}'
has "an adapter 'a' is being loaded for model 'one'"
kill -CONT "$one"
ended load 200
ended scale 200
list one
has '"name": *"a".*"scale": *0.5'

# ---- a client that leaves: its order goes on ----

kill -STOP "$one"
begin left "$first/load" '{"name":"left","file":"a.gguf"}'
eval 'kill "$left"'
wait "$left" || true
kill -CONT "$one"
await "the adapter of the order" has_adapter left

# ---- the worker dies: nothing has changed ----

kill -STOP "$one"
begin lost "$first/load" '{"name":"lost","file":"a.gguf"}'
begin waits "$first/load" '{"name":"next","file":"a.gguf"}'
kill -KILL "$one"
ended lost 500
grep -q "the model's worker died with this order" "$work/lost.reply" || fail "the order says $(cat "$work/lost.reply")"
ended waits 200 # by the next worker
list one
has '"name": *"a".*"loaded": *true.*"name": *"left".*"loaded": *true.*"name": *"next".*"loaded": *true'
! grep -q '"lost"' "$work/reply" || fail "an adapter whose order failed is listed: $(cat "$work/reply")"
order 200 "$first/unload" '{"name":"next"}'

# ---- a worker that stands still: clients wait for a limited time ----

configure 1s ''
order 200 /admin/reload ''
one=$(pid_of one)
kill -STOP "$one"
begin late "$first/load" '{"name":"late","file":"a.gguf"}'
begin behind "$first/scale" '{"name":"a","scale":3}'
ended late 504
grep -q 'it may still carry out the order' "$work/late.reply" || fail "the order says $(cat "$work/late.reply")"
ended behind 504
grep -q 'it changed nothing' "$work/behind.reply" || fail "the order in the line says $(cat "$work/behind.reply")"
ask 504 --unix-socket "$work/admin.sock" "http://hearth$first" # a list waits for the worker alone
has 'has not answered within 1 s; it may be busy with files'
kill -CONT "$one"
configure 120s ''
order 200 /admin/reload ''
await "the adapter of the order" has_adapter late
has '"name": *"a".*"scale": *0.5'

# ---- a reload beside an order ----

kill -STOP "$one"
begin flying "$first/load" '{"name":"flying","file":"a.gguf"}'
configure 120s 'aliases = ["flying"]'
order 400 /admin/reload ''
has "the name 'flying' would mean model 'one'.*unload it first"
many= i=0
while [ $i -lt 61 ]; do many="$many\"f$i=../lora/a.gguf:0\", " i=$((i + 1)); done
configure 120s "lora = [$many]" # beside 'a', 'left', 'late' and the one that is being loaded
order 400 /admin/reload ''
has "model 'one' would have 65 adapters.*at most 64"
configure 120s 'aliases = ["uno"]'
order 200 /admin/reload ''
kill -CONT "$one"
ended flying 200
list one
has '"name": *"flying".*"loaded": *true'
serve_stop
