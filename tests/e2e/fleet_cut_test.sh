#!/bin/sh
# A node is cut off without a word: nothing is refused and nothing arrives any more. Its replies go on elsewhere, it gives
# up what it computed for others, and it is a node again when the network is whole.
#
# The network is the test's own: a bridge, and a second namespace for the other node.
. "$(dirname "$0")/own_network.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
holder= other=
stop_all() { for process in $(serve_processes) $holder; do kill -KILL "$process" 2>/dev/null || true; done; }

ip link set lo up
ip link add switch type bridge
ip address add 10.9.0.1/24 dev switch
ip link set switch up
unshare -n sleep 600 &
holder=$!
is_apart() { [ "$(readlink "/proc/$holder/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
await "the other namespace" of "$holder" is_apart
there() { nsenter -t "$holder" -n "$@"; }
ip link add port type veth peer name wire netns "$holder"
ip link set port master switch up
there ip link set lo up
there ip address add 10.9.0.2/24 dev wire
there ip link set wire up

"$hearth" fleet init --file "$work/fleet.pem" >/dev/null
fleet="--model m=stub:delay_us=20000 --fleet $work/fleet.pem --fleet-peer 10.9.0.1:9430 --fleet-peer 10.9.0.2:9430 --ram 64M"
# shellcheck disable=SC2086
nsenter -t "$holder" -n "$hearth" serve $fleet --listen 127.0.0.1:0 --fleet-name far --admin "unix:$work/far.sock" --cache "$work/far" \
  --runtime-directory "$work/run-far" 2>"$work/far.log" &
other=$!
# shellcheck disable=SC2086
serve $fleet --fleet-name near --admin "unix:$work/near.sock" --cache "$work/near"

# look: this node's page of the fleet, in $work/out
look() { curl -sf --unix-socket "$work/near.sock" -o "$work/out" http://hearth/admin/fleet; }
far_is() { look && [ "$(value 'const n = r.nodes.find(({ name }) => name == "far"); n && n.state + (n.models[0].ready ? "" : " without its model")')" = "$1" ]; }
await "the far node" of "$other" far_is up

request() { printf '{"prompt":"Prompt %s","max_tokens":%s,"temperature":0,"ignore_eos":true,"stream":%s}' "$1" "$2" "$3"; }
# A prompt that leads to the far node
n=0
until curl -s -D "$work/head" -o "$work/out" "$url/v1/completions" -d "$(request $n 1 false)" && grep -qi 'x-hearth-node: far' "$work/head"; do
  n=$((n + 1))
  [ $n -lt 64 ] || fail "no prompt leads to the far node: $(cat "$work/head")"
done
text_of() { # of a stream
  node -e 'console.log(require("fs").readFileSync(process.argv[1], "utf8").split("\n").filter((l) => l.startsWith("data: {"))
    .map((l) => JSON.parse(l.slice(6)).choices[0].text).join(""))' "$1"
}
n_events() { grep -cs '^data: ' "$work/stream" || true; }

curl -s -o "$work/out" "$url/v1/completions" -d "$(request $n 150 false)"
expected=$(value 'r.choices[0].text')
: >"$work/stream"
curl -sN -m 100 "$url/v1/completions" -d "$(request $n 150 true)" >"$work/stream" &
client=$!
await "the begin of the stream" of "$client" at_least 20 n_events
ip link set port nomaster
wait "$client" || fail "the stream broke off: $(tail -n 3 "$work/stream")"
expect "the text of the stream that was cut" "$(text_of "$work/stream")" "$expected"
tail -n 2 "$work/stream" | grep -q '^data: \[DONE\]' || fail "the stream has no end"
grep -q 'at node far broke\|moves away from node far' "$work/log" || fail "the reply was not cut: $(tail -n 5 "$work/log")"
await "the far node is down" far_is down
ask 200 "$url/v1/completions" -d "$(request $n 2 false)"
grep -qi 'x-hearth-node: near' "$work/head" || fail "who answered? $(cat "$work/head")"

# It has given up the reply, of which nobody hears.
far_idles() { there curl -sf --unix-socket "$work/far.sock" -o "$work/out" http://hearth/admin/fleet && [ "$(value 'r.self.models[0].at_work')" = 0 ]; }
await "the far node gives up" of "$other" far_idles
ip link set port master switch
await "the far node is back" of "$other" far_is up
ask 200 "$url/v1/completions" -d "$(request $n 2 false)"
grep -qi 'x-hearth-node: far' "$work/head" || fail "who answered? $(cat "$work/head")"

serve_pid=$server_pid
kill -TERM "$other" "$serve_pid"
status=0
wait "$other" || status=$?
expect "the end of the far node" "$status" 0
wait "$serve_pid" || status=$?
expect "the end of the near node" "$status" 0
server_pid=
left=$(serve_processes)
[ -z "$left" ] || fail "processes outlived the servers: $left"
