#!/bin/sh
# Requests as front ends and agents send them: tests/clients/front_ends.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/clients.sh"
clients_serve
node "$source/tests/clients/front_ends.mjs" || fail "see above; the server says: $(grep -v '"msg":"request"' "$work/log" | tail -n 30)"
serve_stop
