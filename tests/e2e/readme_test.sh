#!/bin/sh
# The commands of the README that need no network and no browser do what it says.
. "$(dirname "$0")/lib.sh"
export HOME="$work/home" XDG_DATA_HOME="$work/data" HEARTH_CACHE="$work/cache"
mkdir "$HOME"
for name in models examples; do ln -s "$source/$name" "$work/$name"; done
mkdir "$work/build"
ln -s "$hearth" "$work/build/hearth"
cd "$work"

# block N HEADING [FILE]: the lines of the N-th block of code below a heading of the README, or of another page
block() {
  awk -v heading="## $2" -v n="$1" '
    /^## / { inside = $0 == heading }
    inside && /^```/ { fences++; next }
    inside && fences == 2 * n - 1' "$source/${3:-README.md}"
}

block 1 "Use it" >commands
expect "commands" "$(grep -c '^build/hearth ' commands)" 6
while read -r command; do
  sh -c "$command" >>out 2>>err </dev/null || fail "'$command' ends with $?: $(tail -n 3 err)"
done <commands
grep -q '"cached_tokens": 699' out || fail "the text of 699 tokens is not known: $(cat out)"
grep -q 'all 699 tokens are known' out || fail "cache why knows less: $(cat out)"

# The demo prints what the README and docs/cache.md show, but for numbers, names, and the story, which is cut.
alike() { sed -E '3d; s/^directory .*/directory/; s/^  [0-9a-f]{12}  /  KEY  /; s/[0-9]+(\.[0-9]+)?/N/g; s/ +/ /g' "$1"; }
"$source/scripts/demo.sh" "$build" >out 2>err || fail "the demo ends with $?: $(cat out err)"
alike out >printed
block 2 Start >commands
{ echo; block 1 "Watching it" docs/cache.md; } >>commands
alike commands >shown
diff shown printed >differences || fail "the README shows another demo: $(cat differences)"
story=$(sed -n '3s/ \[\.\.\.\]$//p' commands)
case $(sed -n 3p out) in "${story:?}"*) ;; *) fail "the README's story is '$story': $(sed -n 3p out)" ;; esac

block 1 Chat >commands
grep -q "^build/hearth bench .* --quick" commands || fail "the README draws no picture: $(cat commands)"
printf 'Tell me a story about a fox.\n' | build/hearth chat models/hearth-tiny.gguf >reply 2>err || fail "chat: $(cat err)"
[ -s reply ] || fail "chat says nothing"

# The worker dies, and the stream goes on.
block 1 "Try it" docs/reliability.md >commands
grep -q 'kill -9 ' commands || fail "docs/reliability.md kills no worker: $(cat commands)"
port=$(node -e 'import(process.argv[1]).then(async (m) => console.log(await m.freePort()))' "$source/tests/support/server.mjs")
sed "s/8099/$port/g; s/SERVER=\$!/&; echo \$! >server.pid/" commands >script
stop_all() { kill -KILL "$(cat "$work/server.pid")" 2>/dev/null || true; }
timeout 120 bash ./script >out 2>err || fail "the block of a stream ends with $?: $(tail -n 5 err)"
killed=$(sed -n 's/^killed after \([0-9]*\) events$/\1/p' out)
all=$(sed -n 's/^in all \([0-9]*\) events, the last one: data: \[DONE\]$/\1/p' out)
[ "$killed" ] && [ "$all" ] || fail "the block says something else: $(cat out)"
[ "$all" -gt "$killed" ] || fail "no event came after the worker's death: $(cat out)"
