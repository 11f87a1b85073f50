# agents.sh - what the tests with agents share: a project with notes, scripts for the stub that is their model, and what
# of each prompt was reused. Sourced after lib.sh and serve.sh.
project=$work/project
mkdir -p "$project" "$work/home" "$work/scripts"
printf 'Buy milk.\n' >"$project/notes.txt"

# reply TEXT: the next reply of a script
reply() { printf '#reply\n%s\n' "$1"; }
# Of programs that offer the one tool "look".
{
  printf '#script\n<call>look {"name":"first"}</call>\n'
  reply '<call>look {"name":"second"}</call>'
  reply 'Buy milk.'
} >"$work/scripts/library"

# A server with $work/serve.conf.
start() { serve --config "$work/serve.conf"; SERVER_URL=$url; export SERVER_URL; from=0; }

# turns STEP MIN TOKENS_MIN N: the requests since the last call, N of them, reused as much as that.
turns() {
  node "$source/tests/agents/turns.mjs" "$work/log" "$from" "$1" "$2" "$3" >"$work/turns" || { cat "$work/turns" "$work/said"; fail "$1, see above"; }
  grep -v '^turns ' "$work/turns"
  expect "requests of '$1'" "$(sed -n 's/^turns //p' "$work/turns")" "$4"
  from=$(wc -c <"$work/log")
}
