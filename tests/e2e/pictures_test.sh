#!/bin/sh
# What people see besides the page: the page of `hearth bench` in a browser, and `hearth chat` in a terminal.
#
# PICTURES=DIRECTORY writes the pictures of the documents there.
. "$(dirname "$0")/lib.sh"

CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "skipped: there is no Chromium; scripts/deps.sh --browser installs it"
  exit 77
}
HEARTH_CLIENTS=$("$source/scripts/npm.sh" "$source/tests/page") || fail "no driver for the browser, see above"
mkdir "$cache"
ln -s "$source/models" "$work/models"
ln -s "$hearth" "$work/hearth"
cd "$work"
tiny=models/hearth-tiny.gguf

# A picture takes the time that a reader's own run takes; a test needs every plot, and no more.
if [ -n "${PICTURES:-}" ]; then set --; else set -- --lengths 64,300 --sequences 1,2 --reps 1 --seconds 600; fi
"$hearth" bench "$tiny" "$@" --html bench.html >"$work/out" 2>"$work/err" || fail "bench: $(cat "$work/err")"

terminal=
stop_all() { if [ -n "$terminal" ]; then kill "$terminal" 2>/dev/null || true; fi; }
# sees N PATTERN: until the terminal shows it N times
sees() { await "'$2' on the terminal" of "$terminal" at_least "$1" grep -ac -e "$2" "$work/screen"; }
mkfifo "$work/keys"
: >"$work/screen"
env -u NO_COLOR XDG_DATA_HOME="$work/data" LC_ALL=C.UTF-8 TERM=xterm-256color script -qec \
  "stty cols 100 rows 40; $hearth chat $tiny --temp 0" /dev/null <"$work/keys" >"$work/screen" 2>&1 &
terminal=$!
exec 3>"$work/keys"
# types N TEXT: as the Nth line, once its prompt stands; what comes earlier is shown by the terminal, and again by the prompt
types() {
  sees "$1" '>>> '
  printf '%s\r' "$2" >&3
}
types 1 'Tell me a story about a fox.'
types 2 'Why was it lazy?'
types 3 '/why'
types 4 '/quit'
exec 3>&-
wait "$terminal" || fail "the chat ends badly: $(cat "$work/screen")"
terminal=

BENCH=$work/bench.html
SCREEN=$work/screen
SERVER_URL=file:// # none is needed
export CHROMIUM HEARTH_CLIENTS SERVER_URL BENCH SCREEN WORK="$work"
node "$source/tests/page/pictures.mjs" || fail "the pictures, see above"
