# agents.sh - for the tests with agents: a project with notes, scripts for the stub, and the reused part of each prompt.
# Sourced after lib.sh and serve.sh.
project=$work/project
mkdir -p "$project" "$work/home" "$work/scripts"
printf 'Buy milk.\n' >"$project/notes.txt"

# reply TEXT: the next reply of a script
reply() { printf '#reply\n%s\n' "$1"; }
# For programs that offer only the tool "look".
{
  printf '#script\n<call>look {"name":"first"}</call>\n'
  reply '<call>look {"name":"second"}</call>'
  reply 'Buy milk.'
} >"$work/scripts/library"

# A server with $work/serve.conf.
start() { serve --config "$work/serve.conf"; SERVER_URL=$url; export SERVER_URL; from=0; }

# turns STEP MIN TOKENS_MIN N: since the last call there were N requests, and each reused at least that much.
turns() {
  node "$source/tests/agents/turns.mjs" "$work/log" "$from" "$1" "$2" "$3" >"$work/turns" || { cat "$work/turns" "$work/said"; fail "$1, see above"; }
  grep -v '^turns ' "$work/turns"
  expect "requests of '$1'" "$(sed -n 's/^turns //p' "$work/turns")" "$4"
  from=$(wc -c <"$work/log")
}
