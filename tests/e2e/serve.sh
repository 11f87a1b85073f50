# serve.sh - a `hearth serve` of an end-to-end test: started on a free port, stopped by its id. Sourced after lib.sh.
server_pid=
stop_all() { serve_kill; }
templates=$(sed -n 's/^HEARTH_ENGINE:[^=]*=//p' "$build/CMakeCache.txt")
templates=$(ls -d "$templates/../source-v"*/models/templates 2>/dev/null | head -n 1)

serve_kill() { if [ -n "$server_pid" ]; then kill -KILL "$server_pid" 2>/dev/null || true; server_pid=; fi; }

# A Jinja template of the engine's source tree.
template() { [ -f "$templates/$1" ] || fail "the engine's source has no template '$1' in '$templates'"; echo "$templates/$1"; }

# Instrumented code needs more time and memory.
is_instrumented() { grep -q '^HEARTH_SANITIZE:[^=]*=..*' "$build/CMakeCache.txt"; }

# serve_listening OPTIONS: start a server and wait until it listens. Sets server_pid, port and url; its log is in
# $work/log.
serve_listening() {
  refuse_reports # of a log that the new server's replaces
  rm -f "$work/port"
  "$hearth" serve --port-file "$work/port" --runtime-directory "$work/run" "$@" 2>"$work/log" &
  server_pid=$!
  await "the server's port" of "$server_pid" test -s "$work/port"
  port=$(head -n 1 "$work/port")
  url=http://127.0.0.1:$port
}

# serve OPTIONS: the same on its own address, until the server is ready.
serve() {
  serve_listening --listen 127.0.0.1:0 "$@"
  await_ready
}
await_ready() { await "a server that is ready" of "$server_pid" curl -sf -o "$work/ready" "$url/ready"; }

# reload: the server has read its configuration anew
n_reloads() { grep -c 'the configuration was read anew' "$work/log"; }
reload() {
  reloads=$(n_reloads || true)
  kill -HUP "$server_pid"
  await "a reload" at_least $((reloads + 1)) n_reloads
}

# Processes that have this test's directory in their command line, but for shells: the server and its workers.
serve_processes() {
  for directory in /proc/[0-9]*; do
    { tr '\0' ' ' <"$directory/cmdline"; } 2>/dev/null | grep -q "^$hearth .*$work" && echo "${directory#/proc/}"
  done
  true
}

# Stop the server as an operator does. It must end with 0 and leave no worker.
serve_stop() {
  kill -TERM "$server_pid"
  status=0
  wait "$server_pid" || status=$?
  server_pid=
  [ "$status" = 0 ] || fail "the server ended with $status: $(tail -n 20 "$work/log")"
  left=$(serve_processes)
  [ -z "$left" ] || fail "processes outlived the server: $left"
}

# ask STATUS CURL-ARGUMENTS...: the reply in $work/reply, its head in $work/head
ask() {
  expected=$1; shift
  code=$(curl -s -m 60 -o "$work/reply" -D "$work/head" -w '%{http_code}' "$@") || true
  [ "$code" = "$expected" ] || fail "$* gives $code and not $expected: $(cat "$work/reply")"
}
# has PATTERN: that reply has it
has() { grep -q -e "$1" "$work/reply" || fail "the reply has no '$1': $(cat "$work/reply")"; }
# value EXPRESSION: its value, with the reply in $work/out as `r`
value() { node -e 'const r = JSON.parse(require("fs").readFileSync(process.argv[1])); console.log(eval(process.argv[2]))' "$work/out" "$1"; }
# hear FILE CURL-ARGUMENTS...: write the events of a server into the file, in the background, from a first event on that
# is there already. Sets listener.
hear() {
  events=$1; shift
  : >"$events"
  curl -sN "$@" >"$events" &
  listener=$!
  heard "$events" '^event: '
}
# heard FILE PATTERN: the file has it, or has it soon
heard() { await "'$2' in ${1##*/}" grep -qs -e "$2" "$1"; }
