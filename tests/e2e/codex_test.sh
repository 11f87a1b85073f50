#!/bin/sh
# Codex and OpenAI's Agents SDK as people install them, on /v1/responses: with tools, with tools of an MCP server (in a
# namespace), and with a session that goes on after a restart. Each prompt reuses its known prefix. The model is the
# stub, which calls tools by a script (src/engine/stub_script.h).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/agents.sh"
HEARTH_CODEX=$("$source/scripts/npm.sh" "$source/tests/codex") || fail "Codex cannot be installed, see above"
export HEARTH_CODEX

{
  printf '#script\n<call>exec_command {"cmd":"cat notes.txt"}</call>\n'
  reply '<call>mcp__calc__add {"a":40,"b":2}</call>'
  reply 'Buy milk, 42 times.'
  reply 'Still milk.'
} >"$work/scripts/codex"
cat >"$work/serve.conf" <<EOF
cache { directory = "$work/kv"; ram = 256M }
model codex { path = "stub:n_ctx_train=262144"; context = 262144; chat_template = "$work/scripts/codex" }
model library { path = "stub:n_ctx_train=16384"; context = 16384; chat_template = "$work/scripts/library" }
EOF

# codex ARGUMENTS: run it with settings that name the server that runs.
codex() {
  cat >"$work/home/config.toml" <<EOF
model = "codex"
model_provider = "hearth"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.hearth]
name = "hearth"
base_url = "$SERVER_URL/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[mcp_servers.calc]
command = "node"
args = ["$source/tests/codex/mcp.mjs"]
EOF
  (cd "$project" && exec env HOME="$work/home" CODEX_HOME="$work/home" TMPDIR="$work/home" timeout 300 \
    "$HEARTH_CODEX/node_modules/.bin/codex" exec "$@") </dev/null >"$work/said" 2>"$work/agent.err" ||
    fail "codex: $(tail -n 20 "$work/said" "$work/agent.err" "$work/log")"
}
free='--skip-git-repo-check --dangerously-bypass-approvals-and-sandbox'

printf '%-36s %2s  %7s %7s  %7s\n' step turn tokens reused share
start
# shellcheck disable=SC2086
codex $free 'What do my notes say?'
expect "Codex's last word" "$(tail -n 1 "$work/said")" 'Buy milk, 42 times.'
grep -q 'calc/add' "$work/agent.err" || fail "Codex did not call the MCP server's tool: $(cat "$work/agent.err")"
turns Codex +0.97 5000 3
serve_stop
start
# shellcheck disable=SC2086
codex resume --last $free 'And now?'
expect "Codex's last word after a restart" "$(tail -n 1 "$work/said")" 'Still milk.'
turns 'Codex, after a restart' 0.9 5000 1

node "$source/tests/codex/agents.mjs" >"$work/said" 2>&1 || fail "the Agents SDK: $(cat "$work/said" "$work/log")"
turns '@openai/agents' +0.9 1000 6
serve_stop
