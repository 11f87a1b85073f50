#!/bin/sh
# A killed server leaves a folder of sockets. The next server removes it, and keeps the folders of living servers.
. "$(dirname "$0")/lib.sh"
. "$source/tests/e2e/serve.sh"

killed= living=
stop_all() {
  kill -KILL $killed $living 2>/dev/null
  serve_kill
}
folders() { ls "$work/run" | wc -l | tr -d ' '; }

serve -m killed=stub:
killed=$server_pid
server_pid=
killed_folder=$(ls "$work/run")
serve -m living=stub:
living=$server_pid
living_url=$url
expect "the folders of two servers" "$(folders)" 2
kill -KILL "$killed"
wait "$killed" 2>/dev/null || true
killed=
[ -d "$work/run/$killed_folder" ] || fail "a killed server's folder goes by itself"

server_pid=
serve -m next=stub:
[ ! -e "$work/run/$killed_folder" ] || fail "the next server leaves the folder of a killed one: $(ls -R "$work/run")"
grep -q 'removed what killed servers had left .*: 1 folders' "$work/log" || fail "the log does not say so: $(cat "$work/log")"
expect "the folders then" "$(folders)" 2
curl -sf -o "$work/reply" "$living_url/completion" -d '{"prompt":"a","n_predict":2}' || fail "the living server does not answer"
kill -TERM "$living"
wait "$living" || fail "the living server ended with $?"
living=
serve_stop
expect "the folders in the end" "$(folders)" 0
