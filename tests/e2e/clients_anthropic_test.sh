#!/bin/sh
# The official Anthropic client against the server: tests/clients/anthropic.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/clients.sh"
clients_serve
node "$source/tests/clients/anthropic.mjs" || fail "see above; the server's log: $(tail -n 30 "$work/log")"
serve_stop
