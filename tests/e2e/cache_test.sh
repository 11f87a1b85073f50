#!/bin/sh
# `hearth cache` maintains a directory while another process writes to it, and the cache options of `hearth run` take
# effect.
. "$(dirname "$0")/lib.sh"

# status WANTED COMMAND...: run it, its output in $work/out and $work/err
status() {
  wanted=$1; shift
  got=0; "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$wanted" ] || fail "exit code of '$*' is $got, expected $wanted: $(cat "$work/out" "$work/err")"
}
run() { # NAME PROMPT-FILE OPTIONS...: statistics in $work/NAME.json
  name=$1; prompt=$2; shift 2
  "$hearth" run stub: -f "$prompt" --temp 0 -n 20 --ignore-eos --json "$@" >"$work/$name.json" 2>"$work/err" ||
    fail "hearth run $*: $(cat "$work/err")"
}
is_json() { # FILE
  if command -v node >/dev/null; then
    node -e 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"))' "$1" || fail "no JSON: $(cat "$1")"
  fi
}
n_rows() { find "$cache/rows" -name '*.kvc' | wc -l; }

words 200 1 >"$work/first"
words 200 2 >"$work/second"

# Another process writes to the directory the whole time.
(
  i=10
  while [ ! -e "$work/stop" ]; do
    words 60 $i >"$work/background"
    "$hearth" run stub: -f "$work/background" --temp 0 -n 4 -q >/dev/null 2>&1 || echo "$i" >>"$work/background-failed"
    i=$((i + 1))
  done
) &
background=$!
stop_all() {
  touch "$work/stop"
  wait
}

run cold "$work/first"
run second "$work/second"
key=$(field finish_key "$work/cold.json")
prompt_key=$(field prompt_key "$work/cold.json")

# stat and ls, for people and as JSON.
status 0 "$hearth" cache stat
grep -q "^rows  *[1-9]" "$work/out" || fail "stat counts nothing: $(cat "$work/out")"
grep -q "^  stub:  [1-9][0-9]* rows, " "$work/out" || fail "stat does not tell the model: $(cat "$work/out")"
status 0 "$hearth" cache stat --json
is_json "$work/out"
grep -q '"name": "stub:"' "$work/out" || fail "stat --json does not tell the model: $(cat "$work/out")"
status 0 "$hearth" cache ls --json --key "$key"
is_json "$work/out"
expect "rows of the finish key" "$(grep -c '"key"' "$work/out")" 1
grep -q '"kind": "tail"' "$work/out" || fail "the finish key names no tail: $(cat "$work/out")"
status 0 "$hearth" cache list
grep -q " stub:$" "$work/out" || fail "ls does not tell the model: $(cat "$work/out")"
[ "$(awk '{ if (length > n) n = length } END { print n }' "$work/out")" -le 80 ] || fail "ls has long lines: $(cat "$work/out")"
status 0 "$hearth" cache ls --kind logits --limit 1
expect "lines with --limit 1" "$(wc -l <"$work/out")" 2
grep -q " logits " "$work/out" || fail "--kind logits shows something else: $(cat "$work/out")"
status 0 "$hearth" cache ls --min-hits 1000000 --json
is_json "$work/out"
expect "rows with a million hits" "$(tr -d ' \n' <"$work/out")" "[]"
run warm "$work/first"
expect "warm hit" "$(field hit "$work/warm.json")" exact
status 0 "$hearth" cache ls --min-hits 1 --key "$prompt_key" --full-keys
grep -q "$prompt_key" "$work/out" || fail "the hit was not counted: $(cat "$work/out")"

grep -q "^$(printf %.12s "$prompt_key")[0-9a-f]* " "$work/out" || fail "no row begins with the key's digits"

# Export and import: the same prompt is known in an empty cache, with the same reply.
status 0 "$hearth" cache export "$key" "$work/prefix.kvc"
status 1 "$hearth" cache export "$key" "$work/prefix.kvc"
grep -q "exists already" "$work/err" || fail "an existing file is not named: $(cat "$work/err")"
status 0 "$hearth" cache export "$key" "$work/prefix.kvc" --force
status 0 "$hearth" kvc inspect "$work/prefix.kvc"
status 0 "$hearth" cache import "$work/prefix.kvc" --cache "$work/imported"
status 0 "$hearth" cache import "$work/prefix.kvc" --cache "$work/imported" # nothing new
grep -q " 0 of them new" "$work/out" || fail "the second import: $(cat "$work/out")"
run imported "$work/first" --cache "$work/imported"
case $(field hit "$work/imported.json") in exact | prefix) ;; *) fail "an imported prefix is no hit" ;; esac
expect "reply after an import" "$(field text "$work/imported.json")" "$(field text "$work/cold.json")"
status 0 "$hearth" cache verify -q --cache "$work/imported"
status 1 "$hearth" cache export 0000000000000000000000000000000000000000000000000000000000000000 "$work/none.kvc"
[ ! -e "$work/none.kvc" ] || fail "an export of nothing left a file"
head -c 300 "$work/prefix.kvc" >"$work/cut.kvc"
status 1 "$hearth" cache import "$work/cut.kvc" --cache "$work/imported"

# A damaged row is found once.
status 0 "$hearth" cache verify -q
row=$(find "$cache/rows" -name "$key-tail.kvc")
size=$(wc -c <"$row")
printf 'x' | dd of="$row" bs=1 seek=$((size - 2)) conv=notrunc 2>/dev/null
printf 'damage' | dd of="$row" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
status 1 "$hearth" cache verify --json
is_json "$work/out"
grep -q '"quarantined": 1' "$work/out" || fail "verify did not find the damage: $(cat "$work/out")"
[ ! -e "$row" ] || fail "the damaged row is still there"
expect "quarantined files" "$(find "$cache/quarantine" -type f | wc -l)" 1
status 0 "$hearth" cache verify -q
run after "$work/first"
expect "reply after damage" "$(field text "$work/after.json")" "$(field text "$work/cold.json")"

# rm: one kind, all of a key, a whole tree.
status 0 "$hearth" cache rm "$prompt_key" --kind logits
run after "$work/first"
expect "reply without logits" "$(field text "$work/after.json")" "$(field text "$work/cold.json")"
status 0 "$hearth" cache rm "$key"
status 1 "$hearth" cache rm "$key"
root=$("$hearth" cache ls --kind block --full-keys | awk '$3 == 0 && $4 == 256 { print $1 }' | while read -r block; do
  row=$(find "$cache/rows" -name "$block-block.kvc")
  [ -z "$row" ] || "$hearth" kvc inspect "$row" >/dev/null && echo "$block"
done | head -1)
rows=$("$hearth" cache ls --json | grep -c '"key"')
status 0 "$hearth" cache rm "$root" --tree
removed=$(sed -n 's/^\([0-9]*\) rows removed$/\1/p' "$work/out")
[ "$removed" -ge 2 ] || fail "a tree of $rows rows: $(cat "$work/out")"
touch "$work/stop"
wait $background || true
[ ! -e "$work/background-failed" ] || fail "runs beside the commands failed"

# repair: without an index, with rows added and removed by hand.
run again "$work/first"
copy=$(find "$cache/rows" -name "$prompt_key-logits.kvc")
cp "$copy" "$work/kept"
rm -rf "$cache/index"
rm -f "$copy"
status 0 "$hearth" cache repair -q
grep -q "the index has $(n_rows) rows" "$work/out" || fail "$(n_rows) files, but $(cat "$work/out")"
cp "$work/kept" "$copy"
status 0 "$hearth" cache repair -q
grep -q "the index has $(n_rows) rows" "$work/out" || fail "$(n_rows) files, but $(cat "$work/out")"
run again "$work/first"
expect "hit after repair" "$(field hit "$work/again.json")" exact

# gc keeps a pinned prefix, in any process, and removes it once it is unpinned.
words 150 3 >"$work/system"
run pinned "$work/system" --prefill-only
pinned_key=$(field prompt_key "$work/pinned.json")
status 0 "$hearth" cache pin "$pinned_key"
grep -q "^1 prefix is pinned: [0-9]* rows, .* of at most " "$work/out" || fail "pin says: $(cat "$work/out")"
status 0 "$hearth" cache pin "$(printf %.12s "$pinned_key")"
status 0 "$hearth" cache ls --key "$pinned_key"
grep -q ' pinned$' "$work/out" || fail "ls does not show the pin: $(cat "$work/out")"
status 0 "$hearth" cache ls --json
grep -q '"pinned": true' "$work/out" || fail "ls --json does not show the pin"
status 0 "$hearth" cache gc --to 0
[ "$(n_rows)" -gt 0 ] || fail "gc took the pinned rows"
find "$cache/rows" -name "$pinned_key-*.kvc" | grep -q . || fail "gc took the end of the pinned prefix"
status 0 "$hearth" cache stat
grep -q '^pinned  *1 prefixes: ' "$work/out" || fail "stat does not show the pin: $(cat "$work/out")"
run again "$work/system"
expect "hit of a pinned prompt" "$(field hit "$work/again.json")" exact
status 0 "$hearth" cache rm "$pinned_key" --kind logits
status 0 "$hearth" cache ls --key "$pinned_key"
grep -q ' pinned$' "$work/out" || fail "the pin went with the logits: $(cat "$work/out")"
find "$cache/rows" -name "$pinned_key-*.kvc" -exec mv {} "$work/" \;
status 0 "$hearth" cache repair
status 0 "$hearth" cache stat
grep -q "^  broken  *$(printf %.12s "$pinned_key") " "$work/out" || fail "stat does not show the broken pin: $(cat "$work/out")"
status 0 "$hearth" cache unpin "$pinned_key"
status 1 "$hearth" cache unpin "$pinned_key"
said "is not pinned"
status 1 "$hearth" cache pin "$(printf '%064d' 7)"

# gc leaves the rows used last, then nothing.
status 0 "$hearth" cache gc --to 50K
bytes=$(find "$cache/rows" -name '*.kvc' -printf '%s\n' | awk '{s += $1} END {print s + 0}')
[ "$bytes" -le 51200 ] || fail "$bytes bytes are left of 50K"
status 0 "$hearth" cache gc --to 0
expect "rows after gc --to 0" "$(n_rows)" 0
status 0 "$hearth" cache stat
expect "an empty cache" "$(head -n 2 "$work/out")" "directory    $cache
rows         0: the cache is empty; 'hearth run' fills it"
status 0 "$hearth" cache stat --json
is_json "$work/out"
status 0 "$hearth" cache ls --json
expect "list of an empty cache" "$(tr -d ' \n' <"$work/out")" "[]"

# Every command has a help and refuses unknown arguments.
for verb in stat ls verify gc rm export import pin unpin repair; do
  status 0 "$hearth" cache $verb --help
  status 2 "$hearth" cache $verb --nonsense
  status 2 "$hearth" cache $verb one two three
done
status 0 "$hearth" cache
status 2 "$hearth" cache polish
status 2 "$hearth" cache gc
status 2 "$hearth" cache gc --to much
status 2 "$hearth" cache rm
status 2 "$hearth" cache rm abc
status 2 "$hearth" cache rm "${key}0"
status 1 "$hearth" cache rm 0000000000
grep -q "no key begins with '0000000000'" "$work/err" || fail "a key that is not there: $(cat "$work/err")"
status 0 "$hearth" cache ls
said "no such row is cached in"
status 2 "$hearth" cache rm "$key" --kind leaf
status 2 "$hearth" cache export "$key"
status 2 "$hearth" cache import
status 2 "$hearth" cache ls --limit -1
status 2 "$hearth" cache ls --key XYZ
status 2 "$hearth" cache ls --to 5
status 0 "$hearth" cache gc --to 0 --cache "$work/nowhere"
for verb in stat ls verify repair "rm $key"; do
  # shellcheck disable=SC2086
  status 1 "$hearth" cache $verb --cache "$work/nowhere"
  said "the cache in '$work/nowhere' is empty: nothing was kept yet"
done
[ ! -e "$work/nowhere" ] || fail "looking made a cache directory"

# ---- options of run ----

rm -rf "$cache"
run cold "$work/first" --ram-files "$work/memory"
run warm "$work/first" --ram-files "$work/memory"
expect "tier with --ram-files" "$(field tier "$work/warm.json")" ram_file
run warm "$work/first"
expect "tier without" "$(field tier "$work/warm.json")" disk
expect "text" "$(field text "$work/warm.json")" "$(field text "$work/cold.json")"

rm -rf "$cache"
for seed in 1 2 3 4 5 6 7 8; do
  words 80 $seed >"$work/prompt"
  run cold "$work/prompt" --more-cache "$work/more"
done
[ "$(find "$work/more/rows" -name '*.kvc' | wc -l)" -gt 0 ] || fail "no row is in the second directory"
[ "$(n_rows)" -gt 0 ] || fail "no row is in the first directory"
for seed in 1 2 3 4 5 6 7 8; do
  words 80 $seed >"$work/prompt"
  run warm "$work/prompt" --more-cache "$work/more"
  expect "hit with two directories" "$(field hit "$work/warm.json")" exact
done

rm -rf "$cache"
run cold "$work/first" --index "$work/index"
run warm "$work/first" --index "$work/index"
expect "hit with --index" "$(field hit "$work/warm.json")" exact
[ ! -e "$cache/index" ] || fail "the index is beside the rows in spite of --index"

rm -rf "$cache"
head -c 64 /dev/urandom >"$work/key"; chmod 600 "$work/key"
head -c 64 /dev/urandom >"$work/other"; chmod 600 "$work/other"
run cold "$work/first" --signing-key "$work/key"
run warm "$work/first" --signing-key "$work/key"
expect "hit with the right key" "$(field hit "$work/warm.json")" exact
row=$(find "$cache/rows" -name '*-block.kvc' | head -1)
status 0 "$hearth" kvc inspect --signing-key "$work/key" "$row"
status 1 "$hearth" kvc inspect --signing-key "$work/other" "$row"
run warm "$work/first" --signing-key "$work/other"
expect "hit with a wrong key" "$(field hit "$work/warm.json")" none
expect "text with a wrong key" "$(field text "$work/warm.json")" "$(field text "$work/cold.json")"
run warm "$work/first" --signing-key "$work/other"
expect "hit after signing anew" "$(field hit "$work/warm.json")" exact
status 1 "$hearth" run stub: -p x --signing-key "$work/no-such-key"
grep -q "no-such-key" "$work/err" || fail "the missing key is not named: $(cat "$work/err")"

rm -rf "$cache"
run cold "$work/first" --second-use
expect "blocks after the first use" "$(find "$cache/rows" -name '*-block.kvc' | wc -l)" 0

rm -rf "$cache"
run cold "$work/first" --policy min_tokens=5000 --policy cold_min_tokens=5000
expect "rows below min_tokens" "$(n_rows)" 0
status 2 "$hearth" run stub: -p x --policy min_tokens
status 2 "$hearth" run stub: -p x --policy nonsense=3
status 2 "$hearth" run stub: -p x --policy min_tokens=many
status 1 "$hearth" run stub: -p x --policy snapshot_interval=300
grep -q "snapshot_interval" "$work/err" || fail "the wrong key is not named: $(cat "$work/err")"

# A parent that is no prefix of the prompt is refused.
status 1 "$hearth" run stub: -f "$work/first" -n 1 --cache "$cache" --parent-key "$(printf '%064d' 1)"
grep -q "parent_key" "$work/err" || fail "the wrong parent is not mentioned: $(cat "$work/err")"
status 2 "$hearth" run stub: -p x --resume-wait -5
status 2 "$hearth" run stub: -p x --writers 0
status 2 "$hearth" run stub: -p x --writers 17
status 2 "$hearth" run stub: -p x --write-speed fast

# Files hold prompts only on request.
rm -rf "$cache"
printf 'The quick brown fox jumps over the lazy dog and into the river.' >"$work/private"
run cold "$work/private"
! grep -rqa "lazy dog" "$cache/rows" || fail "a prompt is in a row"
rm -rf "$cache"
run cold "$work/private" --keep-prompt-text
grep -rqa "lazy dog" "$cache/rows" || fail "--keep-prompt-text keeps no text"
