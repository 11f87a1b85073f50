#!/bin/sh
# Agents as people install them, over several turns with tools and a restart: each prompt reuses its known prefix.
#
# The model is the stub, which calls tools by a script (src/engine/stub_script.h). The agents run unchanged; their own
# variables switch off their calls to other servers. The printed table counts tokens of the stub, which are bytes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/agents.sh"
HEARTH_AGENTS=$("$source/scripts/npm.sh" "$source/tests/agents") || fail "the agents cannot be installed, see above"
export HEARTH_AGENTS
modules=$HEARTH_AGENTS/node_modules

# The task of each agent, with the agent's own names of tools.
{
  printf '#script\n<think>Notes, then.</think>I look.<call>Bash {"command":"cat notes.txt","description":"Show the notes"}</call>\n'
  reply "<call>Read {\"file_path\":\"$project/notes.txt\"}</call>"
  reply 'Buy milk.'
  reply '<call>Bash {"command":"ls","description":"List"}</call>'
  reply 'Still milk.'
} >"$work/scripts/claude"
{
  printf '#script\n<call>bash {"command":"cat notes.txt","description":"Show the notes"}</call>\n'
  reply "<call>read {\"filePath\":\"$project/notes.txt\"}</call>"
  reply 'Buy milk.'
  reply 'Still milk.'
} >"$work/scripts/opencode"

cat >"$work/serve.conf" <<EOF
cache { directory = "$work/kv"; ram = 256M }
model claude { path = "stub:n_ctx_train=262144"; context = 262144; chat_template = "$work/scripts/claude" }
model opencode { path = "stub:n_ctx_train=262144"; context = 262144; chat_template = "$work/scripts/opencode" }
model library { path = "stub:n_ctx_train=16384"; context = 16384; chat_template = "$work/scripts/library" }
EOF

# Agents write today's date into their prompts. Where it is noon now, no day ends during the test.
TZ=$(printf 'Etc/GMT%+d' $(($(date -u +%-H) - 12)))
export TZ
agent() {
  (cd "$project" && exec env HOME="$work/home" XDG_CONFIG_HOME="$work/home/config" XDG_DATA_HOME="$work/home/data" XDG_CACHE_HOME="$work/home/cache" \
    XDG_STATE_HOME="$work/home/state" TMPDIR="$work/home" timeout 300 "$@") </dev/null >"$work/said" 2>"$work/agent.err" ||
    fail "$1: $(tail -n 20 "$work/said" "$work/agent.err")"
}

# ---- Claude Code ----

claude_binary=$(ls "$modules"/@anthropic-ai/claude-code-*/claude 2>/dev/null | head -n 1)
claude() {
  agent env ANTHROPIC_BASE_URL="$SERVER_URL" ANTHROPIC_API_KEY=none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1 \
    DISABLE_ERROR_REPORTING=1 DISABLE_AUTOUPDATER=1 "$claude_binary" --model claude --allowedTools 'Bash(*)' Read --output-format json "$@"
}
session() { sed -n 's/.*"session_id":"\([^"]*\)".*/\1/p' "$work/said" | head -n 1; }

printf '%-36s %2s  %7s %7s  %7s\n' step turn tokens reused share
start
[ -n "$claude_binary" ] || fail "Claude Code has no program for this system in '$modules'"
claude -p 'What do my notes say?'
grep -q '"result":"Buy milk."' "$work/said" || fail "Claude Code did not get there: $(cat "$work/said")"
first=$(session)
turns 'Claude Code' +0.99 5000 3
claude -p 'Quite another question: what is in the notes?'
turns 'Claude Code, another session' 0.7 5000 3
serve_stop
start
claude -p 'And now?' --resume "$first"
grep -q '"result":"Still milk."' "$work/said" || fail "Claude Code did not go on: $(cat "$work/said")"
turns 'Claude Code, after a restart' 0.97 5000 2

# ---- opencode ----

opencode_binary=$modules/opencode-linux-x64-baseline/bin/opencode
if [ -x "$opencode_binary" ]; then
  cat >"$project/opencode.json" <<EOF
{ "model": "hearth/opencode", "small_model": "hearth/opencode", "autoupdate": false, "share": "disabled",
  "provider": { "hearth": { "npm": "@ai-sdk/openai-compatible", "options": { "baseURL": "$SERVER_URL/v1", "apiKey": "none" },
    "models": { "opencode": { "limit": { "context": 200000, "output": 4000 } } } } } }
EOF
  opencode() {
    agent env OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1 "$opencode_binary" run "$@"
  }
  opencode 'What do my notes say?'
  grep -q 'Buy milk.' "$work/said" || fail "opencode did not get there: $(cat "$work/said")"
  turns 'opencode' +0.97 5000 3
  serve_stop
  start
  sed -i "s|\"baseURL\": \"[^\"]*\"|\"baseURL\": \"$SERVER_URL/v1\"|" "$project/opencode.json"
  opencode --continue 'And now?'
  grep -q 'Still milk.' "$work/said" || fail "opencode did not go on: $(cat "$work/said")"
  turns 'opencode, after a restart' 0.95 5000 1
else
  echo "opencode has no program for this system; it is left out"
fi

# ---- libraries ----

agent node "$source/tests/agents/libraries.mjs" ai
turns 'ai' +0.9 1000 3
serve_stop
start
agent node "$source/tests/agents/libraries.mjs" langchain
turns '@langchain/openai' +0.9 1000 3
serve_stop
