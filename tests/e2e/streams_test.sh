#!/bin/sh
# Long prompts and kept streams, with curl: clients that leave and come back, while workers are killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

key=$("$hearth" key new --name alice --file "$work/keys.conf")
other=$("$hearth" key new --name bob --file "$work/keys.conf")
serve -m slow=stub:delay_us=20000 --keys "$work/keys.conf" --cache "$work/kv" --ram 32M
auth="Authorization: Bearer $key"

# A reply of at least five seconds, always the same.
body='{"prompt":"Once upon a time","n_predict":250,"ignore_eos":true,"temperature":0,"stream":true}'
# The text of a stream, without numbers and signs of life.
texts() { sed -n 's/^data: {/{/p' "$1" | node -e '
  const lines = require("fs").readFileSync(0, "utf8").trimEnd().split("\n")
  console.log(lines.map((line) => JSON.parse(line).content).join(""))'; }
ids() { sed -n 's/^id: //p' "$1"; }

curl -sSN -m 120 -H "$auth" -d "$body" -o "$work/whole" "$url/completion" || fail "curl: no stream"
[ -z "$(ids "$work/whole")" ] || fail "a stream has numbers that nobody asked for"

worker=$(serve_processes | grep -vx "$server_pid")
# The client leaves, and the worker is killed.
curl -sSN -m 120 -H "$auth" -H 'x-hearth-resume: 1' -d "$body" -D "$work/head" "$url/completion" >"$work/first" 2>"$work/err" &
client=$!
await "ten events" of "$client" grep -qs '^id: 10$' "$work/first"
kill -KILL "$worker"
kill -KILL "$client" || fail "the client ended: $(cat "$work/err")"
wait "$client" 2>/dev/null || true
id=$(tr -d '\r' <"$work/head" | sed -n 's/^x-hearth-stream: //p')
[ -n "$id" ] || fail "no id: $(cat "$work/head")"

# Whole events of the first part; the rest by number.
node -e '
  const text = require("fs").readFileSync(process.argv[1], "utf8")
  process.stdout.write(text.slice(0, text.lastIndexOf("\n\n") + 2))' "$work/first" >"$work/seen"
last=$(ids "$work/seen" | tail -n 1)
code=$(curl -sS -o "$work/out" -w '%{http_code}' -H "Authorization: Bearer $other" "$url/v1/streams/$id?after=$last")
expect "another key" "$code" 404
code=$(curl -sS -o "$work/out" -w '%{http_code}' "$url/v1/streams/$id?after=$last")
expect "no key" "$code" 401
curl -sSN -m 120 -H "$auth" -H "Last-Event-ID: $last" -o "$work/rest" "$url/v1/streams/$id" || fail "curl: the stream does not go on"
cat "$work/seen" "$work/rest" >"$work/joined"
expect "the numbers" "$(ids "$work/joined")" "$(seq "$(ids "$work/joined" | wc -l)")"
expect "both parts" "$(texts "$work/joined")" "$(texts "$work/whole")"
curl -sSN -m 120 -H "$auth" -o "$work/again" "$url/v1/streams/$id" || fail "curl: the stream is not kept"
expect "the kept stream" "$(cat "$work/again")" "$(cat "$work/joined")"

# Ollama's lines: the number counts whole lines.
body_of_lines='{"model":"slow","prompt":"Once upon a time","raw":true,"options":{"num_predict":40,"ignore_eos":true,"temperature":0}}'
curl -sSN -m 120 -H "$auth" -H 'x-hearth-resume: 1' -d "$body_of_lines" -D "$work/head" -o "$work/whole" "$url/api/generate" || fail "curl: no lines"
id=$(tr -d '\r' <"$work/head" | sed -n 's/^x-hearth-stream: //p')
[ -n "$id" ] || fail "no id for a stream of lines: $(cat "$work/head")"
n_lines=$(wc -l <"$work/whole")
[ "$n_lines" -gt 9 ] || fail "only $n_lines lines: $(cat "$work/whole")"
curl -sSN -m 120 -H "$auth" -D "$work/head" -o "$work/rest" "$url/v1/streams/$id?after=9" || fail "curl: lines are not kept"
grep -qi '^content-type: application/x-ndjson' "$work/head" || fail "the rest is no lines: $(cat "$work/head")"
expect "lines in two parts" "$(head -n 9 "$work/whole" && cat "$work/rest")" "$(cat "$work/whole")"

# A deleted stream ends its request.
rm -f "$work/first" "$work/head" # of the one before
curl -sSN -m 120 -H "$auth" -H 'x-hearth-resume: 1' -d "$body" -D "$work/head" "$url/completion" >"$work/first" 2>"$work/err" &
client=$!
await "three events" of "$client" grep -qs '^id: 3$' "$work/first"
id=$(tr -d '\r' <"$work/head" | sed -n 's/^x-hearth-stream: //p')
code=$(curl -sS -o "$work/out" -w '%{http_code}' -X DELETE -H "$auth" "$url/v1/streams/$id")
expect "giving it up" "$code" 204
wait "$client" 2>/dev/null && fail "the connection of a stream that was given up ends well"
is_idle() { curl -sS -H "$auth" "$url/slots?model=slow" >"$work/slots" && ! grep -q '"is_processing":true' "$work/slots"; }
await "the end of its request" is_idle
code=$(curl -sS -o "$work/out" -w '%{http_code}' -H "$auth" "$url/v1/streams/$id")
expect "a stream that was given up" "$code" 404
serve_stop
