#!/bin/sh
# A reply of any length needs little memory, and goes on in another worker when its worker dies.
. "$(dirname "$0")/lib.sh"
. "$source/tests/e2e/serve.sh"

count=160
is_instrumented && count=40
body="{\"prompt\":\"a\",\"n\":128,\"n_predict\":$count,\"n_probs\":64,\"ignore_eos\":true,\"seed\":7}"

serve -m long=stub:
worker() { for p in $(serve_processes); do if [ "$p" != "$server_pid" ]; then echo "$p"; fi; done; }
first=$(worker)

# peak PROCESS: its highest use of memory, in MiB
peak() { sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$1/status" | awk '{ print int($1 / 1024) }'; }

# Removes what differs between two requests: measured times, and what the cache knew.
without_times() { sed 's/"prompt_ms":[^}]*}/}/g; s/"cache":{[^}]*}/"cache":{}/g' "$1"; }

expect "the status of a long reply" "$(curl -s -o "$work/whole" -w '%{http_code}' "$url/completion" -d "$body")" 200
size=$(wc -c <"$work/whole")
is_instrumented || [ "$size" -gt $((64 << 20)) ] || fail "the reply is only $size bytes long"
expect "its entries" "$(grep -o '"top_logprobs"' "$work/whole" | wc -l)" $((128 * count))
expect "its end" "$(tail -c 4 "$work/whole")" "}]}]"
expect "the worker after it" "$(worker)" "$first"
if ! is_instrumented && [ -r "/proc/$server_pid/status" ]; then
  [ "$(peak "$server_pid")" -lt 64 ] || fail "the front needs $(peak "$server_pid") MiB for it"
fi

# The worker dies after a part of the reply: every byte arrives once.
: >"$work/broken"
curl -s --limit-rate 20M -o "$work/broken" -w '%{http_code}' "$url/completion" -d "$body" >"$work/status" &
reader=$!
n_broken() { wc -c <"$work/broken"; }
await "a part of the reply" of "$reader" at_least $((1 << 20)) n_broken
kill -KILL "$first"
wait "$reader" || fail "the reply is broken off"
expect "the status of a reply that goes on" "$(cat "$work/status")" 200
grep -q 'goes on in another worker' "$work/log" || fail "the reply did not go on in another worker"
without_times "$work/whole" >"$work/whole.text"
without_times "$work/broken" >"$work/broken.text"
cmp "$work/whole.text" "$work/broken.text" || fail "the reply that goes on is another"
serve_stop
