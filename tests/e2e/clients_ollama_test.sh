#!/bin/sh
# The official Ollama client against the server: tests/clients/ollama.mjs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/clients.sh"
clients_serve
node "$source/tests/clients/ollama.mjs" || fail "see above; the server says: $(grep -v '"msg":"request"' "$work/log" | tail -n 30)"
serve_stop
