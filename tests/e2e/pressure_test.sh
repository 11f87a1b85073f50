#!/bin/sh
# When memory is short, rows leave before idle models, busy and pinned models stay, and nothing that a model computed is
# computed again. When there is memory again, models enter as before.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

request=
stop_all() {
  if [ -n "$request" ]; then kill "$request" 2>/dev/null || true; fi
  serve_kill
}
look() { curl -s $via "$admin_url$1" >"$work/out" || fail "the operators' page does not answer"; }
state() { look /admin/models && value "r.models.find((m) => m.name == '$1').state"; }
until_is() { await "'$*'" gives "$@"; } # WHAT-IT-IS COMMAND...
rows() { # MODEL: are some in its RAM tier?
  look /admin/models && value "(r.models.find((m) => m.name == '$1').cache || {ram: {bytes: 0}}).ram.bytes > 0"
}
pressed() { look /admin/pressure && value 'r.sources.command.pressed'; }
completion() { ask 200 "$url/v1/completions" -d "{\"model\":\"$1\",\"prompt\":\"$long $1\",\"max_tokens\":${2:-2}}"; }
use() { echo "$1" >"$work/use.new" && mv "$work/use.new" "$work/use"; }
long=$(seq -s ' ' 200)

use 0.10
serve -m "one=$tiny" -m "two=$tiny" -m "stay=$tiny" -m "late=$tiny" --start on-demand --admin "unix:$work/admin.sock" \
  --cache "$work/cache" --pressure-command "cat '$work/use'" --pressure-poll-ms 50 --pressure-min-evict-bytes 1K
admin_url=http://localhost
via="--unix-socket $work/admin.sock" # an order names a model
until_is false pressed
for model in one two; do completion "$model"; until_is true rows "$model"; done

# A little too much: rows of the model that was used least recently leave, and no model.
hear "$work/events" $via "$admin_url/admin/events"
curl -s $via -X POST "$admin_url/admin/pressure" -d '{"free":1}' >"$work/out" || fail "no memory is freed by order"
[ "$(value 'r.freeing > 0')" = true ] || fail "the order frees nothing: $(cat "$work/out")"
heard "$work/events" '"model":"one","tier":"ram","bytes":[1-9][0-9]*,"reason":"pressure"'
expect "state of an idle model" "$(state one)" ready
expect "state of the other" "$(state two)" ready

# Far too much: all idle models leave; the one with a request stays, and goes on.
curl -sN "$url/v1/completions" >"$work/stream" \
  -d '{"model":"stay","prompt":"x","max_tokens":4000,"ignore_eos":true,"stream":true}' &
request=$!
heard "$work/stream" '^data: '
use 1.0
until_is true pressed
until_is stopped state one
until_is stopped state two
kill -0 "$request" 2>/dev/null && expect "state of a busy model" "$(state stay)" ready
heard "$work/events" '^event: pressure$'
heard "$work/events" '"model":"one","reason":"pressure","again":false'
curl -s $via "$admin_url/metrics" >"$work/metrics"
grep -q '^hearth_memory_pressure{source="command"} 1$' "$work/metrics" || fail "the metrics say: $(grep hearth_memory_ "$work/metrics")"
grep -q '^hearth_memory_use_ratio{source="command"} 1$' "$work/metrics" || fail "the metrics say: $(grep hearth_memory_ "$work/metrics")"
kill "$request" 2>/dev/null || true
wait "$request" 2>/dev/null || true
request=
until_is stopped state stay

# A request is served all the same, alone; and memory is free again.
completion late
use 0.92 # between the marks: it stays so
until_is stopped state late
expect "pressure between the marks" "$(pressed)" true
use 0.50
until_is false pressed
completion one
cp "$work/reply" "$work/out"
[ "$(value 'r.usage.prompt_tokens_details.cached_tokens')" -gt 100 ] || fail "a model came back cold: $(cat "$work/reply")"
completion two
expect "state of a model when there is memory" "$(state one)" ready

# A command that fails is no pressure, and is told once.
rm "$work/use"
heard "$work/log" "source of memory pressure 'command' fails"
expect "lines about a command that fails" "$(grep -c "source of memory pressure 'command' fails" "$work/log")" 1
expect "pressure without a source" "$(pressed)" false
ask 400 $via -X POST "$admin_url/admin/pressure" -d '{"free":"much"}'; has "a number of bytes above 0"
kill "$listener" 2>/dev/null || true

# Marks are set while the server runs, alone or with an order to free memory; a wrong one changes nothing.
mark() { look /admin/pressure && value "r.settings.$1"; }
ordered() { look /admin/pressure && value 'r.ordered.join()'; }
order() { curl -s $via -o "$work/out" -w '%{http_code}' -X POST "$admin_url/admin/pressure" -d "$1"; }
use 0.50
until_is false pressed
expect "settings of orders at first" "$(ordered)" ""
expect "status of an order" "$(order '{"high_percent":45,"low_percent":40}')" 200
expect "the high mark in the reply" "$(value r.settings.high_percent)" 45
until_is true pressed
expect "settings of orders" "$(ordered)" high_percent,low_percent
expect "status of an order with 'free'" "$(order '{"free":1,"low_percent":30,"poll_ms":"60ms"}')" 202
expect "the time between looks" "$(mark poll_ms)" 60
for wrong in '{"high_percent":0}' '{"low_percent":20,"high":50}' '{"command":"true"}' '{"poll_ms":1,"free":1}'; do
  expect "status of $wrong" "$(order "$wrong")" 400
done
expect "the low mark after wrong orders" "$(mark low_percent)" 30
expect "status of an order to turn it off" "$(order '{"off":true}')" 200
look /admin/pressure
expect "sources that an order turned off" "$(value 'Object.keys(r.sources).length')" 0
expect "status of an order to turn it on" "$(order '{"off":false}')" 200
until_is true pressed

# A model that is named leaves them; a reload sets them back.
ask 201 $via -X POST "$admin_url/admin/models" -d "{\"name\":\"new\",\"path\":\"$tiny\"}"
expect "the high mark after a model was named" "$(mark high_percent)" 45
ask 200 $via -X POST "$admin_url/admin/reload"
expect "settings of orders after a reload" "$(ordered)" ""
expect "the high mark after a reload" "$(mark high_percent)" 95
until_is false pressed
serve_stop

serve -m "one=$tiny" --start on-demand --admin 127.0.0.1:0 --no-pressure --cache "$work/cache"
admin_url=http://127.0.0.1:$(sed -n 2p "$work/port") via=
look /admin/pressure
expect "sources that are off" "$(value 'Object.keys(r.sources).length')" 0
serve_stop

# A function of a library is a source. One that crashes or hangs harms nobody, and is told once.
library=$build/tests/memory_use.so
cp "$library" "$work/memory.so"
library_is() { echo "pressure { library = 'memory.so:$1'; poll_ms = 50 }" >"$work/h.conf"; }
of_library() { look /admin/pressure && value "r.sources.library.$1"; }
library_is full
serve -m "one=$tiny" --start on-demand --admin 127.0.0.1:0 --cache "$work/cache" --config "$work/h.conf"
admin_url=http://127.0.0.1:$(sed -n 2p "$work/port")
until_is true of_library pressed
library_is half
ask 200 $via -X POST "$admin_url/admin/reload"
until_is 0.5 of_library use
expect "pressure when the library tells less" "$(of_library pressed)" false
n_fails() { grep -c "source of memory pressure 'library' fails" "$work/log"; }
fails=0
for symbol in crashes fails hangs; do
  library_is "$symbol"
  ask 200 $via -X POST "$admin_url/admin/reload"
  fails=$((fails + 1))
  await "a line about a library that $symbol" at_least "$fails" n_fails
  expect "lines about a library that $symbol" "$(n_fails)" "$fails"
  expect "pressure of a library that $symbol" "$(of_library pressed)" false
  library_is half
  ask 200 $via -X POST "$admin_url/admin/reload"
  until_is 0.5 of_library use
done
grep -q "returned 7; it must set both numbers" "$work/log" || fail "the log does not have the number of a library that fails"
completion one
serve_stop

# By hand, and files and names that are not there.
expect "use by hand" "$("$hearth" worker --pressure-library "$work/memory.so:half")" "524288000 1048576000"
refuse 1 "has no function 'nobody'" worker --pressure-library "$work/memory.so:nobody"
refuse 1 "used bytes of" worker --pressure-library "$work/memory.so:nonsense"
refuse 1 "missing.so' cannot be read" serve -m "$tiny" --pressure-library missing.so:half --listen 127.0.0.1:0
refuse 2 "FILE:SYMBOL" serve -m "$tiny" --pressure-library memory.so --listen 127.0.0.1:0
