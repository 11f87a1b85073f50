#!/bin/sh
# `hearth cache` works on the layouts that `hearth run` makes: several directories, and an index elsewhere.
. "$(dirname "$0")/lib.sh"

# The paths decide which row goes where, so they are always the same.
cd "$work"
cache=cache more=more index=index
# where COMMAND...: the command with the options for the place of the cache
where() {
  verb=$1; shift
  "$hearth" cache "$verb" --cache "$cache" --more-cache "$more" --index "$index" "$@"
}
run() {
  "$hearth" run "$tiny" --cache "$cache" --more-cache "$more" --index "$index" --disk 64M --temp 0 -n 4 -q "$@" >"$work/reply"
}
# rows [DIR...]: the number of row files
rows() { find "${@:-$work}" -name '*.kvc' ! -path '*/quarantine/*' 2>/dev/null | wc -l; }
# number NAME: of the JSON that stat prints
number() { where stat --json | sed -n "s/^  \"$1\": \(.*[^,]\),\{0,1\}$/\1/p"; }

# A command that looks creates nothing.
status=0
where stat >"$work/out" 2>"$work/err" || status=$?
expect "exit code of stat without a cache" "$status" 1
[ ! -e "$cache" ] && [ ! -e "$more" ] && [ ! -e "$index" ] || fail "looking made a directory"

# Enough prompts for rows in both directories.
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
  words 60 $i >"$work/prompt"
  run -f "$work/prompt"
done
words 700 99 >"$work/prompt"
run -f "$work/prompt"
n=$(rows "$cache" "$more")
[ "$(rows "$cache")" -gt 0 ] && [ "$(rows "$more")" -gt 0 ] || fail "the rows lie in one directory alone"
[ ! -e "$cache/index" ] || fail "there is an index beside the rows"

expect "rows that stat counts" "$(number rows)" "$n"
expect "bytes that stat sums up" "$(number bytes)" \
  "$(find "$cache" "$more" -name '*.kvc' -printf '%s\n' | awk '{s += $1} END {print s}')"
expect "quota of both" "$(number quota_bytes)" $((64 << 20))
where stat | grep -q "$more" || fail "stat does not name the second directory"
expect "rows that ls lists" "$(where ls --json | grep -c '"key"')" "$n"
where ls --json | sed -n 's/.*"last_used_time": \([0-9]*\).*/\1/p' >"$work/times"
sort -rn "$work/times" | cmp -s - "$work/times" || fail "ls does not list the most recently used first"
[ ! -e "$cache/index" ] || fail "hearth cache made an index beside the rows"
expect "places of an index" "$(find "$index" -mindepth 1 -maxdepth 1 | wc -l)" 2
where verify -q --json >"$work/out" || fail "verify: $(cat "$work/out")"
# Only logits, whose tail became a longer one with the reply, have nothing here that tells their key.
n_logits=$(where ls --kind logits --json | grep -c '"key"')
grep -q "\"sound\": $((n - n_logits)), \"unverifiable\": $n_logits, \"quarantined\": 0, \"gone\": 0" "$work/out" ||
  fail "verify of $n rows says $(cat "$work/out")"
where repair -q | grep -q "has $n rows" || fail "repair does not find $n rows"

# One directory holds a part of the rows; a missing directory is left out.
alone=$("$hearth" cache ls --cache "$more" --index "$index" --json | grep -c '"key"')
expect "rows of the second directory" "$alone" "$(rows "$more")"
"$hearth" cache ls --cache "$cache" --more-cache "$work/nowhere" --index "$index" --json >"$work/out" 2>"$work/err"
expect "rows of the first directory" "$(grep -c '"key"' "$work/out")" "$(rows "$cache")"
grep -q "nowhere.*left out" "$work/err" || fail "the missing directory is not named: $(cat "$work/err")"
[ ! -e "$work/nowhere" ] || fail "looking made a directory"

# The same directory twice counts once, under whatever name.
ln -s more "$work/link"
"$hearth" cache ls --cache "$more" --more-cache "$work/link" --index "$index" --json >"$work/out" 2>"$work/err"
expect "rows of a directory that was given twice" "$(grep -c '"key"' "$work/out")" "$(rows "$more")"
grep -q "twice" "$work/err" || fail "no warning about a directory given twice: $(cat "$work/err")"
"$hearth" run "$tiny" --cache "$work/own" --ram-files "$work/own" --more-cache "$work/own/" -p "$(words 60 3)" --temp 0 \
  -n 4 >"$work/out" 2>"$work/err"
expect "warnings about a directory given three times" "$(grep -c "own" "$work/err")" 2
[ "$(rows "$work/own")" -gt 0 ] || fail "nothing was kept in the directory that was given three times"

# Export, removal with all descendants, and import.
# key_of KIND FIRST: the key of the last listed row of that kind whose first position matches
key_of() {
  where ls --kind "$1" --json | tr -d '\n ' | tr '}' '\n' | sed -n "s/.*\"key\":\"\([^\"]*\)\".*\"first_position\":$2,.*/\1/p" |
    tail -n 1
}
key=$(key_of tail '[1-9][0-9]*') # only the long prompt has one
where export -q "$key" "$work/prefix.kvc" >"$work/out" || fail "export: $(cat "$work/out")"
where rm "$(key_of block 0)" --tree >"$work/out" || fail "rm: $(cat "$work/out")"
removed=$(sed -n 's/ rows removed//p' "$work/out")
[ "$removed" -ge 3 ] || fail "only $removed rows were removed"
expect "rows left after rm" "$(rows "$cache" "$more")" $((n - removed))
where import -q "$work/prefix.kvc" >"$work/out" || fail "import: $(cat "$work/out")"
grep -q "^$(printf %.12s "$key"):" "$work/out" || fail "import names another key: $(cat "$work/out")"
imported=$(sed -n 's/.* \([0-9]*\) rows, .*/\1/p' "$work/out")
expect "rows after import" "$(rows "$cache" "$more")" $((n - removed + imported))
run -f "$work/prompt" --json
[ "$(field cached_tokens "$work/reply")" -ge 512 ] || fail "what was imported is not used: $(cat "$work/reply")"
where verify -q >"$work/out" || fail "damage after import: $(cat "$work/out")"

# The noted quota holds for an import.
"$hearth" run "$tiny" --cache "$work/small" --disk 1M --temp 0 -n 1 -q -p "$(words 60 5)" >/dev/null
[ "$(stat -c %s "$work/prefix.kvc")" -gt $((1 << 20)) ] || fail "the exported file is too small for this test"
status=0
"$hearth" cache import -q --cache "$work/small" "$work/prefix.kvc" >"$work/out" 2>"$work/err" || status=$?
expect "exit code of an import that does not fit" "$status" 1
grep -q "does not fit the cache" "$work/err" || fail "import says '$(cat "$work/err")'"
bytes=$(find "$work/small/rows" -name '*.kvc' -printf '%s\n' | awk '{s += $1} END {print s + 0}')
[ "$bytes" -le $((1 << 20)) ] || fail "$bytes bytes lie in a cache of 1 MiB"
# With a second directory that has room, the row goes there.
"$hearth" cache import -q --cache "$work/small" --more-cache "$work/roomy" "$work/prefix.kvc" >"$work/out" 2>&1 ||
  fail "import beside a full directory: $(cat "$work/out")"
expect "rows in the directory with room" "$(rows "$work/roomy")" "$imported"

# gc counts both.
where gc --to 0 >"$work/out" || fail "gc: $(cat "$work/out")"
expect "rows after gc" "$(rows "$cache" "$more")" 0

# Wrong usage.
refuse 2 "more-cache.*directory" cache stat --more-cache ''
refuse 2 "index.*directory" cache stat --index ''
set --
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do set -- "$@" --more-cache "/tmp/$i"; done
refuse 2 "one too many; at most 15" cache stat "$@"
