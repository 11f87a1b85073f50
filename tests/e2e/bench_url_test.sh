#!/bin/sh
# `hearth bench --url`: a load on Hearth and on other servers; errors are counted and told, the load is always the same.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
odd_pid=
cd "$work" # where a page is written
stop_all() { serve_kill; [ -z "$odd_pid" ] || kill -KILL "$odd_pid"; }

# load STATUS ARGUMENTS...: 20 requests to $1/v1/...
load() {
  expected=$1
  shift
  status=0
  "$hearth" bench --rate 200 --seconds 0.1 --json "$work/report.json" "$@" >"$work/out" 2>"$work/err" || status=$?
  expect "exit code of bench $*: $(cat "$work/err")" "$status" "$expected"
}

# report EXPRESSION: of the report r; cell(SECTION, ROW, COLUMN) is a value in it
report() {
  node -p 'const r = JSON.parse(require("fs").readFileSync(process.argv[1]))
    const cell = (name, row, column) => { const s = r.sections.find((s) => s.name === name)
      return s.rows.find((it) => it[0] === row)[s.columns.findIndex((c) => c.name === column)] }
    eval(process.argv[2])' "$work/report.json" "$1"
}

serve -m "$tiny"
load 0 --url "$url/v1" --model hearth-tiny --html "$work/page.html"
expect "sections" "$(report 'r.sections.map((s) => s.name + " " + s.rows.map((row) => row[0]).join()).join("; ")')" \
  "first_token chat,agents,prefix,all; first_token_sent chat,agents,prefix,all; reply chat,agents,prefix,all; work chat,agents,prefix,all"
expect "requests and errors" "$(report '[cell("work", "all", "requests"), cell("work", "all", "errors")].join()')" 20,0
expect "order of times" "$(report '["chat", "agents", "prefix", "all"].every((row) => 0 < cell("first_token_sent", row, "p50") &&
  cell("first_token_sent", row, "p50") < cell("first_token", row, "p50") &&
  cell("first_token", row, "p50") <= cell("first_token", row, "p99") && cell("first_token_sent", row, "max") <= cell("first_token", row, "max") &&
  cell("first_token", row, "max") <= cell("reply", row, "max"))')" true
expect "known tokens" "$(report 'cell("work", "chat", "cached") > 10')" true # the system prompts are shared
cp "$work/report.json" "$work/first.json"
grep -q 'aria-label="Time to the first token' "$work/page.html" || fail "the page has no plot"
if grep -q '<script' "$work/page.html"; then fail "the page has a script"; fi
serve_stop

node "$source/tests/support/odd_server.mjs" "$work/odd" &
odd_pid=$!
await "the port" test -s "$work/odd"
odd=http://127.0.0.1:$(cat "$work/odd")
load 0 --url "$odd/well"
page=hearth-bench-127.0.0.1-$(cat "$work/odd").html
said "the page $page has these numbers as plots"
grep -q 'aria-label="Time to the first token' "$page" || fail "$page has no plot"
[ ! -e hearth-bench.html ] || fail "the page of a server has the name of a model's"
first=$(curl -sf "$odd/digest")
"$hearth" bench --compare "$work/first.json" "$work/report.json" >"$work/out" || fail "two servers are not compared"
grep -q '^ *agents  .*  ' "$work/out" || fail "the comparison has no agents: $(cat "$work/out")"
echo mine >"$page"
load 0 --url "http://ann:sesame@${odd#http://}/well"
said "$page is not written: another file has this name"
rm "$page"
expect "the load of the same seed" "$(curl -sf "$odd/digest")" "$first"
load 0 --url "$odd/well" --seed 2
[ "$(curl -sf "$odd/digest")" != "$first" ] || fail "another seed gives the same load"

load 1 --url "$odd/refuse"
said '20 requests had no whole reply'
expect "errors" "$(report '[cell("work", "all", "requests"), cell("work", "all", "errors"), r.sections.length].join()')" 20,20,4
expect "message" "$(report 'r.facts.errors.includes("answers 503: too <busy>")')" true
load 1 --url "http://ann:sesame@${odd#http://}/refuse"
if grep -q 'sesame' "$work/report.json" "$work/out" "$work/err"; then fail "a password is shown: $(cat "$work/report.json" "$work/err")"; fi
expect "server" "$(report 'r.facts.server')" "$odd/refuse, model odd"
load 1 --url "$odd/break"
expect "errors" "$(report '0 < cell("work", "all", "errors") && cell("work", "all", "errors") < 20')" true
expect "message" "$(report '/broke|cannot read/.test(r.facts.errors)')" true

refuse 2 'choose one of its models with --model' bench --url "$odd" "$tiny"
refuse 1 'choose less' bench --url "$odd/well" --rate 1000 --seconds 100
refuse 1 'no server answers at http://127.0.0.1:1 ' bench --url "http://127.0.0.1:1"
refuse 1 'no server answers at http://127.0.0.1:1 ' bench --url "http://ann:sesame@127.0.0.1:1"

# Ctrl-C ends the wait for a server that says nothing.
"$hearth" bench --url "$odd/silent" >"$work/out" 2>"$work/err" &
pid=$!
await "the begin" of "$pid" grep -q 'sending' "$work/err"
kill -INT "$pid"
status=0; wait "$pid" || status=$?
expect "exit code after Ctrl-C" "$status" 130
expect "files after Ctrl-C" "$(ls -A "$cache" 2>/dev/null | grep bench)" ""
