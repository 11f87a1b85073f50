#!/bin/sh
# `hearth chat`: conversations are kept and warm when they are opened again, with a model here and with a server; Ctrl-C
# stops a reply and not the program.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"
export XDG_DATA_HOME="$work/data" NO_COLOR=1
chats=$XDG_DATA_HOME/hearth/chats

# chat ARGUMENTS: messages come from standard input; temperature 0, so that texts can be compared
chat() { "$hearth" chat "$@" --temp 0 >"$work/out" 2>"$work/err" || fail "chat $*: $(cat "$work/err")"; }

story='Tell me a story about a fox who wanted to see the sea and to hear what the old river says about rain and stone.'
printf '%s\n/why\n/save fox tale\n' "$story" | chat "$tiny" -n 40
said '0 of the prompt'
said "saved as 'fox tale'"
cp "$work/out" "$work/first"
[ "$(wc -c <"$work/first")" -gt 40 ] || fail "the reply is too short: $(cat "$work/first")"
expect "mode of a conversation" "$(stat -c %a "$chats/fox tale.json")" 600
expect "mode of the folder" "$(stat -c %a "$chats")" 700
expect "kept messages" "$(node -p 'JSON.parse(require("fs").readFileSync(process.argv[1])).messages.map(m => m.role).join()' \
  "$chats/fox tale.json")" user,assistant

# Another process finds what the first one computed.
printf '/regen\n/why\n' | chat "$tiny" -n 40 --load 'fox tale'
expect "the same question again" "$(cat "$work/out")" "$(cat "$work/first")"
said 'were known, from the disk'
printf 'Why?\n/why\n/load\n' | chat "$tiny" -n 5 --continue
said 'were known, from the disk'
said "fox tale  *Tell me a story about a fox who wanted"

# The words change the conversation.
printf '%s\n/edit Who are you?\n/system You are a fox.\n/temp 2\n/temp nonsense\n/clear\n/system -\n/regen\n/why\n' "$story" |
  chat "$tiny" -n 5 --no-save
said 'system message: You are a fox.'
said 'system message: none'
said 'temperature: 2'
said "the temperature is 'nonsense'"
said 'there is no message yet'
said 'there is no reply yet'
# shellcheck disable=SC1003
printf 'Tell me \\\nabout\n"""\na fox\nand a bear\n"""\n/save lines\n' | chat "$tiny" -n 5
node -e 'const [a, , b] = JSON.parse(require("fs").readFileSync(process.argv[1])).messages
  if (a.content !== "Tell me \nabout" || b.content !== "a fox\nand a bear") throw new Error(JSON.stringify([a, b]))' "$chats/lines.json"
printf '/help\n' | chat "$tiny" --no-save
[ -z "$(awk 'length > 80' "$work/err")" ] || fail "lines of /help are too long: $(cat "$work/err")"
printf '/hepl\n' | "$hearth" chat "$tiny" --no-save >"$work/out" 2>"$work/err" && fail "an unknown word ends well"
said "did you mean '/help'"
printf 'Hello\n/save fox tale\n/edit \377\n/save other\n/temp\n' |
  "$hearth" chat "$tiny" -n 5 --temp 0 >"$work/out" 2>"$work/err" && fail "a message that is no text ends well"
said "there is a conversation 'fox tale' already"
said 'no valid UTF-8'
said 'temperature: 0$'
node -e 'const { length } = JSON.parse(require("fs").readFileSync(process.argv[1])).messages
  if (length !== 2) throw new Error(length)' "$chats/other.json"
refuse 1 'there is no conversation' chat "$tiny" --load nothing
refuse 1 'is no name of a conversation' chat "$tiny" --load ../lines
refuse 2 'chat needs a MODEL' chat
echo '{"messages":[{"role":"user"}]}' >"$chats/bad.json"
refuse 1 "its messages need texts" chat "$tiny" --load bad

# With a server: the same answer, and its numbers.
serve -m "$tiny"
printf '%s\n/why\n' "$story" | chat --url "$url" -n 40 --no-save
expect "the reply of the server" "$(cat "$work/out")" "$(cat "$work/first")"
said 'were known, from \|0 of the prompt'
refuse 1 "has no address for operators; start it with --admin unix:FILE" ps --url "$url"
serve_stop
printf 'Hello\n' | "$hearth" chat --url "$url" --no-save >/dev/null 2>"$work/err" && fail "chat without a server ends well"
said "no server answers at $url "

# Another server, on a terminal: its replies have no usual end, and its texts would command the terminal.
node "$source/tests/support/odd_chats.mjs" "$work/odd" &
odd=$!
stop_all() { kill "$odd" 2>/dev/null || true; serve_kill; }
await "the port" [ -s "$work/odd" ]
odd_url=http://127.0.0.1:$(cat "$work/odd")
printf 'hello\nrefuse\n' | "$hearth" chat --url "$odd_url" --no-save >"$work/out" 2>"$work/err" && fail "a refused message ends well"
said 'refused \[2J here'
grep -aq '^echo hello' "$work/out" || fail "the reply is not whole: $(cat "$work/out")"

# wrong PATTERN: standard input has a message or gets a reply that fails, which is told; the others are answered.
wrong() {
  code=0
  "$hearth" chat --url "$odd_url" odd --no-save >"$work/out" 2>"$work/err" || code=$?
  expect "exit code beside $1 ($(cat "$work/err"))" "$code" 1
  said "$1"
}
printf 'bad \377\nhello\n' | wrong 'no valid UTF-8'
grep -aq '^echo hello' "$work/out" || fail "the message behind a wrong one has no reply: $(cat "$work/out")"
printf 'bad \000 one\nhello\n' | wrong 'has a zero byte'
grep -aq '^echo hello' "$work/out" || fail "the message behind one with a zero byte has no reply: $(cat "$work/out")"
printf 'break\nhello\n' | wrong 'broke the reply off'
printf 'flood\nhello\n' | wrong 'an event that is too large'
{ head -c 16777216 /dev/zero | tr '\0' x; printf '\nhello\n'; } | wrong 'has 16 MiB or more'
expect "replies to a message that is too long" "$(cat "$work/out")" ""
{ printf '"""\n'; for _ in 1 2 3 4 5; do head -c 4000000 /dev/zero | tr '\0' x; echo; done; printf '"""\n'; } | wrong 'has 16 MiB or more'

# A model that is named is not looked for, and a signal that ends the program is its exit code.
expect "questions for the models" "$(curl -s "$odd_url/lists")" 1
mkfifo "$work/words"
"$hearth" chat --url "$odd_url" odd --no-save <"$work/words" >"$work/out" 2>"$work/err" &
chatting=$!
exec 4>"$work/words"
printf 'hang\n' >&4
await "a reply" grep -aq 'It begins' "$work/out"
kill -TERM "$chatting"
code=0
wait "$chatting" || code=$?
exec 4>&-
expect "exit code after SIGTERM" "$code" 143
left() { [ "$(curl -s "$odd_url/left")" = "$1" ]; }
await "the end of the replies so far" left 6
mkfifo "$work/keys"
mkdir "$work/it's \$HOME"
export TMPDIR="$work/it's \$HOME" VISUAL='sed -i s,/hosts,/edited,'
LC_ALL=C TERM=dumb script -qec "$hearth chat --url $odd_url" /dev/null <"$work/keys" >"$work/screen" 2>&1 &
terminal=$!
exec 3>"$work/keys"
await "the prompt" grep -aq '>>> ' "$work/screen"
printf 'na\303\257ve\r' >&3
await "the echo" grep -aqF "$(printf 'echo na\303\257ve[2J')" "$work/screen"
printf 'hang\r' >&3
await "the reply" grep -aq 'It begins' "$work/screen"
# Ctrl-C ends it. Before its first text nothing would stay.
printf '\003' >&3
await "the end of the reply" grep -aq '(stopped)' "$work/screen"
await "the end of the request" left 8
printf '/why\r/save cut\r' >&3
await "the next prompt" grep -aq "saved as 'cut'" "$work/screen"
printf '"""\r/etc/hosts\r"""\r' >&3
await "a block that begins like a word" grep -aq 'echo /etc/hosts' "$work/screen"
printf '/edit\r' >&3 # in the editor, whose file has a path of any characters
await "the edited message" grep -aq 'echo /etc/edited' "$work/screen"
expect "files of the editor" "$(ls -A "$TMPDIR")" ""
expect "roles" "$(curl -s "$odd_url/roles")" user,assistant,user,assistant,user
printf '/quit\r' >&3
exec 3>&-
wait "$terminal" || fail "the program ends badly: $(cat "$work/screen")"
grep -aq 'title' "$work/screen" || fail "the name of the model is not shown: $(cat "$work/screen")"
grep -aq "$(printf '\033')\[2J\|$(printf '\033')\]0" "$work/screen" && fail "control characters reach the terminal: $(cat -v "$work/screen")"
grep -aq 'It begins' "$chats/cut.json" || fail "a cut reply is not kept: $(cat "$chats/cut.json")"
grep -aq '^\[first token in' "$work/screen" || fail "a stopped reply has no numbers: $(cat "$work/screen")"
grep -aq 'only its end would have said' "$work/screen" || fail "/why says nothing of a stopped reply: $(cat "$work/screen")"
expect "mode of the history" "$(stat -c %a "$chats/.history")" 600

# talk ARGUMENTS: a chat on a terminal, until its first prompt; keys go to descriptor 3
talk() {
  rm -f "$work/keys"
  : >"$work/screen" # which is appended to, so that it can be emptied
  mkfifo "$work/keys"
  TERM=dumb script -qec "$hearth chat $* --no-save" /dev/null <"$work/keys" >>"$work/screen" 2>&1 &
  terminal=$!
  exec 3>"$work/keys"
  await "the prompt" grep -aq '>>> ' "$work/screen"
}
quit() {
  printf '/quit\r' >&3
  exec 3>&-
  wait "$terminal" || fail "the program ends badly: $(cat "$work/screen")"
}
# named ARGUMENTS: the model is shown by its name
named() {
  talk "$@"
  grep -aq '\(^\|[^/a-z]K\?\)hearth-tiny\. Type a message' "$work/screen" || fail "the model has no name: $(cat "$work/screen")"
  quit
}
# stopped ARGUMENTS: a reply that Ctrl-C stopped has its numbers, and /why explains them
stopped() {
  talk "$@" --temp 0
  : >"$work/screen"
  printf 'Tell me the story of fox 1.\r' >&3
  await "a reply" grep -aqF "$(sed -n 2p "$work/tale" | cut -c 1-20)" "$work/screen"
  printf '\003' >&3
  await "the end of the reply" grep -aq '(stopped)' "$work/screen"
  await "its numbers" grep -aq 'first token in' "$work/screen"
  printf '/why\r' >&3
  await "/why" grep -aq "of the prompt's [0-9]* tokens were known" "$work/screen"
  quit
}
named "$tiny"
serve -m "$tiny"
named --url "$url"
serve_stop
# A reply of half a minute.
{ echo '#script'; words 600; } >"$work/tale"
slow=stub:delay_us=10000
printf 'model slow { path = "%s"; chat_template = "%s" }\n' "$slow" "$work/tale" >"$work/slow.conf"
stopped "$slow" --chat-template "$work/tale"
serve --config "$work/slow.conf"
stopped --url "$url"
serve_stop
