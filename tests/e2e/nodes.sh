# nodes.sh - for a test whose servers are not started by serve.sh: all are killed with the test, and none may outlive
# it. Sourced after serve.sh.
stop_all() { for process in $(serve_processes); do kill -KILL "$process" 2>/dev/null || true; done; }
none_left() {
  left=$(serve_processes)
  [ -z "$left" ] || fail "processes outlived the servers: $left"
}
