#!/bin/sh
# demo.sh - run a prompt on the model of the project, cold, then warm in a new process
set -eu
build=${1:-build}
cd "$(dirname "$0")/.."
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT

# A long system prompt, as agents send with every question.
rule='You are a kind storyteller. You tell short stories about animals, rivers and forests. You answer in plain words.'
system=
i=0
while [ $i -lt 24 ]; do system="$system$rule "; i=$((i + 1)); done

run() {
  "$build/hearth" run models/hearth-tiny.gguf --chat --system "$system" -p 'Tell me a story about a fox.' \
    --temp 0 -n 48 --cache "$cache" --json
}
field() { sed -n "s/^  \"$1\": \"\{0,1\}\(.*[^\",]\)\"\{0,1\},\{0,1\}$/\1/p" "$2"; }

echo "The same prompt, twice, in two processes, with an empty cache at the beginning:"
echo
run >"$cache/cold.json"
run >"$cache/warm.json"
sed -n 's/^  "text": "\(.*\)",$/  \1/p' "$cache/cold.json"
echo
printf '  %-6s %14s %14s %8s %6s %12s %12s %14s\n' '' 'prompt tokens' 'cached tokens' hit tier 'prefill ms' 'restore ms' 'first token ms'
for what in cold warm; do
  f=$cache/$what.json
  printf '  %-6s %14s %14s %8s %6s %12.1f %12.1f %14.1f\n' $what "$(field prompt_tokens "$f")" \
    "$(field cached_tokens "$f")" "$(field hit "$f")" "$(field tier "$f")" "$(field prefill_ms "$f")" \
    "$(field restore_ms "$f")" "$(field ttft_ms "$f")"
done
echo
[ -n "$(field text "$cache/cold.json")" ] || { echo "The model said nothing."; exit 1; }
[ "$(field text "$cache/cold.json")" = "$(field text "$cache/warm.json")" ] || { echo "The two replies differ."; exit 1; }
[ "$(field hit "$cache/warm.json")" = exact ] || { echo "The second run was not warm."; exit 1; }
[ "$(field cached_tokens "$cache/warm.json")" = "$(field prompt_tokens "$cache/cold.json")" ] ||
  { echo "The second run did not find the whole prompt."; exit 1; }
echo "The second process computed nothing before its first token, and its reply is the same."
echo
"$build/hearth" cache stat --cache "$cache"
