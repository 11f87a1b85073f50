#!/bin/sh
# `hearth bench`: every section has numbers, the page stands alone, two runs are compared, and no file is left behind.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
mkdir "$cache" "$work/shm"
cd "$work" # where a page is written
set -- --cache "$cache" --ram-files "$work/shm" --lengths 64,300 --sequences 2,1 --reps 1 --seconds 600

# numbers FILE: names of the sections with their rows and columns; each value is a number
numbers() {
  node -e 'const report = JSON.parse(require("fs").readFileSync(process.argv[1]))
    for (const { name, columns, rows } of report.sections) {
      for (const row of rows) if (row.length !== columns.length || row.some((cell) => typeof cell !== "number" && cell !== null)) throw new Error(name + row)
      console.log(name, rows.map((row) => row[0]).join(), columns.map((column) => column.name).join())
    }' "$1"
}

# stands_alone PAGE: well-formed, a plot for each section, nothing that runs or is loaded
stands_alone() {
  node -e 'const text = require("fs").readFileSync(process.argv[1], "utf8")
    if (/<script|<link|<img|<iframe|https?:|url\(|@import|\bon[a-z]+=|NaN|[^a-z]nan[^a-z]/i.test(text)) throw new Error("the page reaches out: " + text)
    const open = []
    for (const [, end, tag, self] of text.replace(/<!DOCTYPE html>/, "").matchAll(/<(\/?)([a-z0-9]+)(?:[^<>"]|"[^"]*")*?(\/?)>/g)) {
      if (tag === "meta" || self) continue
      if (!end) open.push(tag)
      else if (open.pop() !== tag) throw new Error("</" + tag + "> is alone")
    }
    if (open.length) throw new Error(open + " stay open")
    const count = (tag) => text.split("<" + tag).length - 1
    if (count("svg") !== count("section>") || count("svg") !== Number(process.argv[2])) throw new Error(count("svg") + " plots of " + count("section>") + " sections")' "$1" "$2"
}

nothing_left() { expect "files left behind" "$(ls -A "$cache" "$work/shm" | grep bench)" ""; }

"$hearth" bench "$tiny" "$@" --json "$work/a.json" --html "$work/a.html" >"$work/out" 2>"$work/err" || fail "bench: $(cat "$work/err")"
expect "lines of progress" "$(cat "$work/err")" "hearth: measuring: cold prompt of 64 tokens, without a cache
hearth: measuring: cold prompt of 300 tokens, without a cache
hearth: measuring: prompt of 64 tokens, cold and from each tier
hearth: measuring: prompt of 300 tokens, cold and from each tier
hearth: measuring: replies at once: 1
hearth: measuring: replies at once: 2"
grep -q "^model .*hearth-tiny.gguf (llama, 1.37 M parameters, Q8_0, " "$work/out" || fail "the model is not described: $(cat "$work/out")"
expect "sections" "$(numbers "$work/a.json")" "first_token 64,300 tokens,cold,context,ram,tmpfs,disk,speedup
restore 64,300 tokens,size,pack,ram,tmpfs,disk,memcpy,ratio
decode 1,2 sequences,rate,rate_each
prefill 64,300 tokens,rate,rate_without,time,time_without,cost"
stands_alone "$work/a.html" 4
grep -q "^command  hearth bench $tiny --cache" "$work/out" || fail "the command is not shown: $(cat "$work/out")"
grep -q '^300 tokens: first token after .* from disk' "$work/out" || fail "there is no summary: $(cat "$work/out")"
nothing_left

[ "$(awk 'length > 80' "$work/out" | grep -v '^command')" = '' ] || fail "lines are too long: $(awk 'length > 80' "$work/out")"
[ ! -e hearth-bench.html ] || fail "a page is written beside the one that was asked for"

"$hearth" bench "$tiny" "$@" --lengths 300,5000,9000 --sequences 1 --json "$work/b.json" --no-html >"$work/out" 2>"$work/err" || fail "bench: $(cat "$work/err")"
said 'the longest prompt has 2047 tokens'
! grep -q 'was trained with' "$work/err" || fail "the context is too long: $(cat "$work/err")"
expect "lengths" "$(numbers "$work/b.json" | head -n 1)" "first_token 300,2047 tokens,cold,context,ram,tmpfs,disk,speedup"
[ ! -e hearth-bench.html ] || fail "a page is written in spite of --no-html"
"$hearth" bench "$tiny" "$@" --lengths 300,1000 --sequences 1 --seconds 0.1 >"$work/out" 2>"$work/err" || fail "bench: $(cat "$work/err")"
said 'the page hearth-bench.html has these numbers as plots'
stands_alone hearth-bench.html 4
said 'prompts of 1000 tokens and more are left out'
"$hearth" bench --compare "$work/a.json" "$work/b.json" --json "$work/c.json" --html "$work/c.html" >"$work/out" || fail "bench --compare"
grep -q '^A machine [A-Za-z0-9]' "$work/out" || fail "labels run into their texts: $(cat "$work/out")"
numbers "$work/c.json" | grep -q '^first_token.disk 300 tokens,a,b,ratio' || fail "the comparison has $(numbers "$work/c.json")"
stands_alone "$work/c.html" "$(numbers "$work/c.json" | wc -l)"


# The page of no name replaces an older one, and no other file; a reader that leaves is no reason for a message.
echo mine >hearth-bench.html
"$hearth" bench "$tiny" "$@" --lengths 64 --sequences 1 -q 2>"$work/err" >"$work/out" || fail "bench: $(cat "$work/err")"
said 'hearth-bench.html is not written: another file has this name'
expect "the other file" "$(cat hearth-bench.html)" mine
rm hearth-bench.html
mkfifo hearth-bench.html # which nobody writes
"$hearth" bench "$tiny" "$@" --lengths 64 --sequences 1 -q 2>"$work/err" >"$work/out" || fail "bench: $(cat "$work/err")"
said 'hearth-bench.html is not written: another file has this name'
rm hearth-bench.html
cp "$work/a.html" hearth-bench.html
"$hearth" bench "$tiny" "$@" --lengths 64 --sequences 1 -q 2>"$work/err" | true
expect "messages about a closed pipe" "$(cat "$work/err")" ""
cmp -s "$work/a.html" hearth-bench.html && fail "an older page stays"

refuse 2 'exclude each other' bench "$tiny" --no-html --html x.html
refuse 2 'needs one MODEL' bench
refuse 2 "must be a whole number" bench "$tiny" --lengths 1,x
refuse 2 'needs two files' bench --compare "$work/a.json"
refuse 1 'is no JSON' bench --compare "$work/a.json" "$work/a.html"
refuse 1 'cannot make a folder for the rows' bench "$tiny" --lengths 64 --sequences 1 --cache "$work/a.json"
refuse 1 'no-such.gguf' bench "$work/no-such.gguf"
! grep -q measuring "$work/err" || fail "a measure comes before the error: $(cat "$work/err")"

# Ctrl-C in the middle of it.
"$hearth" bench "$tiny" "$@" --lengths 256 --reps 100 >"$work/out" 2>"$work/err" &
pid=$!
await "the second part" of "$pid" grep -q 'from each tier' "$work/err"
kill -INT "$pid"
status=0; wait "$pid" || status=$?
expect "exit code after Ctrl-C" "$status" 130
nothing_left
