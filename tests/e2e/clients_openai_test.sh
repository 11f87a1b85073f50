#!/bin/sh
# The official OpenAI client against the server: tests/clients/openai.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/clients.sh"
clients_serve
node "$source/tests/clients/openai.mjs" || fail "see above; the server says: $(grep -v '"msg":"request"' "$work/log" | tail -n 30)"
serve_stop
