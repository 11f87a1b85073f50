#!/bin/sh
# A model with layers on RPC servers restores like any other: cold, then warm in a new process, with the same reply.
# helpers/with_rpc_servers.c runs this script and passes the servers in HTH_TEST_RPC.
. "$(dirname "$0")/lib.sh"
[ -n "${HTH_TEST_RPC:-}" ] || fail "run this with with_rpc_servers"

on_servers() { "$hearth" run "$tiny" --rpc "$HTH_TEST_RPC" "$@"; }

words 500 >"$work/prompt"
for run in cold warm; do
  on_servers -f "$work/prompt" --temp 0 -n 24 --json >"$work/$run.json" || fail "$run run"
done
expect "cold hit" "$(field hit "$work/cold.json")" none
expect "warm hit" "$(field hit "$work/warm.json")" exact
expect "warm tier" "$(field tier "$work/warm.json")" disk
expect "warm prefill evaluations" "$(field prefill_evaluations "$work/warm.json")" 0
expect "text" "$(field text "$work/warm.json")" "$(field text "$work/cold.json")"

# A longer prompt goes on from the rows that were restored into the servers' memory.
{ cat "$work/prompt"; words 100 2; } >"$work/longer"
on_servers -f "$work/longer" --temp 0 -n 24 --json >"$work/longer.json"
expect "hit of a longer prompt" "$(field hit "$work/longer.json")" prefix
on_servers -f "$work/longer" --temp 0 -n 24 --json --no-cache >"$work/alone.json"
expect "its text" "$(field text "$work/longer.json")" "$(field text "$work/alone.json")"

# Their rows are neither for the CPU nor for other servers.
"$hearth" run "$tiny" -f "$work/prompt" --temp 0 -n 1 --json >"$work/other.json"
expect "hit on the CPU" "$(field hit "$work/other.json")" none
"$hearth" run "$tiny" --rpc "${HTH_TEST_RPC%,*}" -f "$work/prompt" --temp 0 -n 1 --json >"$work/other.json"
expect "hit on one server of two" "$(field hit "$work/other.json")" none

# Without layers on them they are not asked.
"$hearth" run "$tiny" --rpc 127.0.0.1:1 --gpu-layers 0 -f "$work/prompt" --temp 0 -n 1 --json >"$work/other.json"
expect "hit without layers on servers" "$(field hit "$work/other.json")" exact

# Options that the servers' devices lack are told, or refused.
two_parts="--split-mode row --tensor-split 3,1"
# shellcheck disable=SC2086 # several options
for shares in "$two_parts" "--tensor-split 3/1"; do
  on_servers $shares -f "$work/prompt" --temp 0 -n 1 --json >"$work/other.json" 2>"$work/err" || fail "$(cat "$work/err")"
done
expect "hit with the same shares in other words" "$(field hit "$work/other.json")" exact
# shellcheck disable=SC2086 # several options
on_servers $two_parts -p x -n 1 >/dev/null 2>"$work/err"
said "split_mode row: these devices cannot take rows"
refuse 1 "with 3 shares; the model has 2 devices" run "$tiny" --rpc "$HTH_TEST_RPC" -p x --tensor-split 1,1,1
refuse 1 "the buffers of this model are CPU, RPC" run "$tiny" --rpc "$HTH_TEST_RPC" -p x --override-tensor a=MOON0
refuse 1 "the buffers of this model are CPU$" run "$tiny" --gpu-layers 0 -p x --override-tensor a=MOON0

# `hearth serve` can use them; its workers reach no other machines.
. "$source/tests/e2e/serve.sh"
ask() { curl -s -o "$work/reply" -w '%{http_code}' "$url/v1/completions" -d "{\"prompt\": \"$1\", \"max_tokens\": 8, \"temperature\": 0}"; }
serve -m "$tiny" --rpc "$HTH_TEST_RPC"
expect "status of a completion" "$(ask 'Once upon a time')" 200
grep -q '"completion_tokens": *8' "$work/reply" || fail "not a completion of 8 tokens: $(cat "$work/reply")"

# An RPC server has one client; the next one gets an error.
if on_servers -f "$work/prompt" -n 1 >"$work/busy" 2>&1; then fail "a busy server took a second client"; fi
grep -q 'one client at a time' "$work/busy" || fail "what is wrong is not said: $(cat "$work/busy")"
serve_stop
on_servers -f "$work/prompt" --temp 0 -n 1 --json >"$work/again.json" || fail "the servers are not free again"
expect "hit afterwards" "$(field hit "$work/again.json")" exact

# An RPC server that goes away ends its client with a message.
on_servers -p 'Once upon a time' -n 3000 -c 4096 --ignore-eos >"$work/out" 2>"$work/err" &
run_pid=$!
await "text" of "$run_pid" test -s "$work/out"
kill -KILL "${HTH_TEST_RPC_PIDS##* }"
status=0
wait "$run_pid" || status=$?
[ "$status" != 0 ] || fail "a run without one of its servers ended well"
grep -q 'the engine ends this process: .*RPC server' "$work/err" || fail "what is wrong is not said: $(cat "$work/err")"

# Later runs name the missing server and do not crash.
status=0
on_servers -f "$work/prompt" -n 1 >"$work/gone" 2>&1 || status=$?
expect "exit status without one of the servers" "$status" 1
grep -q "the RPC server '${HTH_TEST_RPC##*,}' cannot be reached" "$work/gone" || fail "it is not named: $(cat "$work/gone")"
