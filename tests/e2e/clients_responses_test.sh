#!/bin/sh
# The official OpenAI client's responses against the server: tests/clients/responses.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/clients.sh"
clients_serve
node "$source/tests/clients/responses.mjs" || fail "see above; the server says: $(grep -v '"msg":"request"' "$work/log" | tail -n 30)"
serve_stop
