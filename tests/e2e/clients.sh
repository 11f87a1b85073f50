# clients.sh - the server for the tests with official clients. Sourced after lib.sh and serve.sh.
#
# It has four models: hearth-tiny with its own template, with a template for tools, with a template that makes it think,
# and the slow stub. It has five keys: for everything, for one model, for few requests a minute, for one request at a
# time, and for the operator.
HEARTH_CLIENTS=$("$source/scripts/npm.sh" "$source/tests/clients") ||
  fail "the official clients cannot be installed, see above"

new_key() { "$hearth" key new --name "$@" --file "$work/keys.conf" 2>>"$work/keys.err" | head -n 1; }

clients_serve() {
  SERVER_KEY=$(new_key all)
  SERVER_KEY_NARROW=$(new_key narrow --models slow)
  SERVER_KEY_SELDOM=$(new_key seldom --requests-per-minute 3)
  SERVER_KEY_ONE_AT_A_TIME=$(new_key one-at-a-time --concurrency 1)
  SERVER_KEY_ADMIN=$(new_key operator --admin)
  [ -n "$SERVER_KEY_ADMIN" ] || fail "keys are not made: $(cat "$work/keys.err")"
  tools=$(template CohereForAI-c4ai-command-r-plus-tool_use.jinja)
  think=$(template deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja)
  cat >"$work/serve.conf" <<EOF
keys = "$work/keys.conf"
cache { directory = "$work/kv"; ram = 64M }
model tiny { path = "$tiny" }
model tools { path = "$tiny"; context = 8192; chat_template = "$tools" }
model think { path = "$tiny"; context = 8192; chat_template = "$think" }
model slow { path = "stub:delay_us=20000" }
EOF
  serve --config "$work/serve.conf"
  SERVER_URL=$url
  export HEARTH_CLIENTS SERVER_URL SERVER_KEY SERVER_KEY_NARROW SERVER_KEY_SELDOM SERVER_KEY_ONE_AT_A_TIME SERVER_KEY_ADMIN
}
