#!/bin/sh
# The keys of `hearth chat` on a terminal: a pasted text is one message, wherever its marks are cut; arrow keys and
# history change the line; Ctrl-C leaves a paste that has no end. The terminal is asked to mark pastes only while a line
# is read.
. "$(dirname "$0")/lib.sh"
export XDG_DATA_HOME="$work/data" HOME="$work" NO_COLOR=1
esc=$(printf '\033')

node "$source/tests/support/odd_chats.mjs" "$work/odd" &
odd=$!
stop_all() { kill "$odd" 2>/dev/null || true; }
await "the port" [ -s "$work/odd" ]
odd_url=http://127.0.0.1:$(cat "$work/odd")

# begin TERM: a chat on a terminal of that kind; keys go to descriptor 3
begin() {
  terminal_kind=$1
  rm -f "$work/keys" "$work/screen"
  mkfifo "$work/keys"
  LC_ALL=C TERM=$1 script -qec "$hearth chat --url $odd_url" /dev/null <"$work/keys" >"$work/screen" 2>&1 &
  terminal=$!
  exec 3>"$work/keys"
  await "the prompt" grep -aq '>>> ' "$work/screen"
}
finish() { printf '/quit\r' >&3; exec 3>&-; wait "$terminal" || fail "the program ends badly: $(cat -v "$work/screen")"; }
# shellcheck disable=SC2059
keys() { printf "$@" >&3; }
# read_keys KEYS: the same, and go on when the chat, which waits for keys, has read them
# shellcheck disable=SC2059
read_keys() {
  n_keys=$(($(n_read) + $(printf "$@" | wc -c)))
  keys "$@"
  await "the reading of '$1'" at_least "$n_keys" n_read
}
n_read() { sed -n 's/^rchar: //p' "/proc/$(chat_pid)/io"; }
chat_pid() { pgrep -f "^$hearth chat --url $odd_url"; }
texts() { curl -s "$odd_url/texts" | tee "$work/texts"; }
# asked "N JSON": the user's messages are N by now, the last is this one, and the prompt behind its reply is there. Keys
# that come before are those of a terminal in line mode.
asked() {
  await "the message $1" gives "$1" texts
  n_asked=${1%% *}
  if [ "$terminal_kind" != dumb ]; then await "the prompt after the reply to $1" has_prompt_after_reply; fi
}
has_prompt_after_reply() {
  [ "$(grep -ao 'echo ' "$work/screen" | wc -l)" -ge "$n_asked" ] &&
    tr '\n' ' ' <"$work/screen" | sed 's/.*echo //' | grep -aqF "$esc[?2004h"
}

# Without marks, every pasted line is a message; a terminal that is not asked sends none.
begin dumb
keys 'one\r'
asked '1 "one"'
grep -aq '2004' "$work/screen" && fail "a dumb terminal is asked for marks"
finish

begin xterm-256color
await "the wish for marks" grep -aqF "$esc[?2004h" "$work/screen"
keys '\033[200~first line\r  second line\rthird: na\303\257ve\t\001end\r\033[201~'
await "the paste on the screen" grep -aq 'third' "$work/screen"
gives '1 "one"' texts || fail "a paste is sent before Enter: $(texts)"
keys '\r'
asked '1 "first line\n  second line\nthird: naïve\tend"'

# The marks come in pieces, and a paste may stand in the middle of a line that is changed afterwards.
read_keys 'ab'
for piece in '\033' '[20' '0~' '1\r' '2\033[20' 'x\033' '[201' '~'; do
  read_keys "$piece"
done
keys 'd\033[Dc\r'
asked '2 "ab1\n2[20xcd"'

# A pasted text of several lines is a message, whatever it begins with; one pasted line is as if it were typed.
keys '\033[200~/help\rme\033[201~\r'
asked '3 "/help\nme"'
keys '\033[200~/save pasted\033[201~\r'
await "a pasted word" grep -aq "saved as 'pasted'" "$work/screen"

# Arrow keys and history: the left key moves, the upper one brings the last message back, also one of several lines.
keys 'abd\033[Dc\r'
asked '4 "abcd"'
keys '\033[Ae\r'
asked '5 "abcde"'
keys '\033[A\033[A\033[A\033[A\033[A!\r'
asked '6 "ab1\n2[20xcd!"'

# A paste without an end: Ctrl-C leaves it. Its late end means nothing.
read_keys '\033[200~lost\rtext'
keys '\003'
await "the sign of Ctrl-C" grep -aqF '^C' "$work/screen"
keys '\033[201~found\r'
asked '7 "found"'

# The rest of a paste that Ctrl-C stops is left out, also where it came with it, and where a signal is meant.
keys '\033[200~four\r\003five\rsix\r\033[201~seven\r'
asked '8 "seven"'
n_interrupts() { grep -aoF '^C' "$work/screen" | wc -l; }
await "the signs of two" gives 2 n_interrupts
read_keys '\033[200~eight\r'
kill -INT "$(chat_pid)"
await "the sign of the signal" gives 3 n_interrupts
keys 'nine\rten\r\033[201~eleven\r'
asked '9 "eleven"'
# The end of this one is lost: a second Ctrl-C gives the keys back.
keys '\033[200~lost\r\003gone\r\003found again\r'
asked '10 "found again"'

# Each wish is taken back before the reply and at the end, also when a signal comes in a paste.
await "the reply" grep -aqF "echo found again" "$work/screen"
last_wish() { grep -aoE "$esc\[\?2004[hl]" "$work/screen" | tail -n 1; }
has_prompt() { [ "$(last_wish)" = "$esc[?2004h" ]; }
await "the next prompt" has_prompt
expect "wishes without an end" "$(grep -aoF "$esc[?2004h" "$work/screen" | wc -l)" \
  "$(($(grep -aoF "$esc[?2004l" "$work/screen" | wc -l) + 1))"
finish
expect "the last wish" "$(last_wish)" "$esc[?2004l"

begin xterm-256color
read_keys '\033[200~no end'
kill -TERM "$(chat_pid)"
wait "$terminal" || true
exec 3>&-
expect "the last wish after a signal" "$(last_wish)" "$esc[?2004l"
