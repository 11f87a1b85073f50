#!/bin/sh
# Texts of models and servers do not command the terminal that shows them. Pipes get a model's text byte for byte.
. "$(dirname "$0")/lib.sh"
odd=
stop_all() { if [ -n "$odd" ]; then kill "$odd" 2>/dev/null || true; fi; }

# The reply has CSI in both forms, DEL, and characters beyond ASCII that are no controls.
{ printf '#script\n'; printf 'wipe \033[2J it \302\233[1J a\177b na\303\257ve \302\240 end'; } >"$work/script"
printf 'wipe \033[2J it \302\233[1J a\177b na\303\257ve \302\240 end\n' >"$work/raw"
printf 'wipe [2J it [1J ab na\303\257ve \302\240 end\n' >"$work/clean"
set -- run stub: --chat --chat-template "$work/script" --no-cache -q --temp 0 -n 100
"$hearth" "$@" -p x >"$work/out"
cmp "$work/raw" "$work/out" || fail "a pipe gets other bytes: $(od -c "$work/out")"

# on_terminal ARGUMENTS: of hearth; $work/screen is its output, with the line ends of files
columns=0 # of the terminal; 0: it does not tell
echo x >"$work/question"
on_terminal() {
  { echo "stty cols $columns <&1; exec '$hearth' \\"; for argument; do echo "'$argument' \\"; done; echo; } >"$work/command"
  script -qec "sh '$work/command' <'$work/question'" /dev/null </dev/null >"$work/typescript" || fail "$* ends badly: $(cat "$work/typescript")"
  tr -d '\r' <"$work/typescript" >"$work/screen"
}
on_terminal "$@" -p x
cmp "$work/clean" "$work/screen" || fail "a reply commands the terminal: $(od -c "$work/screen")"
on_terminal "$@" -p x --n 2
grep -avF -e '--- reply' "$work/screen" >"$work/out"
cat "$work/clean" "$work/clean" | cmp - "$work/out" || fail "replies command the terminal: $(od -c "$work/out")"
echo x >"$work/prompts"
"$hearth" "$@" --prompts "$work/prompts" >"$work/out"
grep -aqxF "$(cat "$work/raw")" "$work/out" || fail "a file gets other bytes of --prompts: $(od -c "$work/out")"
on_terminal "$@" --prompts "$work/prompts"
grep -aqxF "$(cat "$work/clean")" "$work/screen" || fail "--prompts commands the terminal: $(od -c "$work/screen")"

# Lines break between words at the terminal's edge, but not with --no-wrap, nor in a pipe.
columns=40
printf '#script\none two three four five six seven eight nine ten eleven' >"$work/script"
printf 'one two three four five six seven eight \nnine ten eleven\n' >"$work/wrapped"
on_terminal "$@" -p x
cmp "$work/wrapped" "$work/screen" || fail "run breaks lines elsewhere: $(od -c "$work/screen")"
on_terminal "$@" -p x --n 2
grep -avF -e '--- reply' "$work/screen" >"$work/out"
cat "$work/wrapped" "$work/wrapped" | cmp - "$work/out" || fail "replies break lines elsewhere: $(od -c "$work/out")"
on_terminal "$@" --no-wrap -p x
tr -d '\n' <"$work/wrapped" >"$work/raw"; echo >>"$work/raw"
cmp "$work/raw" "$work/screen" || fail "--no-wrap breaks lines: $(od -c "$work/screen")"
"$hearth" "$@" -p x >"$work/out"
cmp "$work/raw" "$work/out" || fail "a pipe gets broken lines: $(od -c "$work/out")"
set -- chat stub: --chat-template "$work/script" --no-cache --no-save -q --temp 0 -n 100
on_terminal "$@"
cmp "$work/wrapped" "$work/screen" || fail "chat breaks lines elsewhere: $(od -c "$work/screen")"
on_terminal "$@" --no-wrap
cmp "$work/raw" "$work/screen" || fail "chat --no-wrap breaks lines: $(od -c "$work/screen")"

# What a server says.
node -e '
  const odd = "odd\x1b]0;title\x07\u009b2J\n"
  require("http").createServer(({ url, method }, response) => {
    if (url.includes("refused")) response.writeHead(400)
    response.end(JSON.stringify(url.includes("refused") ? { error: { message: odd } }
      : method === "POST" ? { state: odd, [odd]: [odd] }
      : { models: [{ name: odd, state: odd, residency: odd, expected: { devices: [{ name: odd }] } }],
          memory: { devices: [{ name: odd }] } }))
  }).listen(0, "127.0.0.1", function () { require("fs").writeFileSync(process.argv[1], String(this.address().port)) })
' "$work/port" &
odd=$!
await "the port" test -s "$work/port"
url=http://127.0.0.1:$(cat "$work/port")
is_clean() { # WHAT: $work/out has no control characters but newlines, and the server's text
  grep -aq 'odd ]0;title   *2J' "$work/out" || fail "$1 does not show the text: $(od -c "$work/out")"
  LC_ALL=C tr -d '\n\040-\176\200-\377' <"$work/out" | cmp - /dev/null || fail "$1 has controls: $(od -c "$work/out")"
  ! LC_ALL=C grep -aq "$(printf '\302\233')" "$work/out" || fail "$1 has C1 controls: $(od -c "$work/out")"
}
for command in ps 'ps --memory' 'ps --names' 'models load a' 'models release'; do
  # shellcheck disable=SC2086
  "$hearth" $command --url "$url" >"$work/out" || fail "$command fails"
  is_clean "$command"
done
"$hearth" models load refused --url "$url" 2>"$work/out" && fail "a refused order ends well"
is_clean "a refusal"
