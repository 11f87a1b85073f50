#!/bin/bash
# Help, man pages and completions have every option of every command, and bash completes with them.
. "$(dirname "$0")/lib.sh"

"$hearth" >"$work/overview" || fail "'hearth' alone fails"
"$hearth" help --man >"$work/hearth.1"
for shell in bash zsh fish; do "$hearth" completion $shell >"$work/completion.$shell"; done

# options COMMAND...: those that its help shows
options() { "$hearth" help --all "$@" | sed -n 's/^  \(-., \|    \)--\([a-z0-9-]*\).*/\2/p'; }
# has FILE PATTERN WHAT
has() { grep -qE -e "$2" "$1" || fail "$3 is not in $(basename "$1")"; }

# fits FILE WHAT: no line is longer than a usual terminal
fits() { [ -z "$(awk 'length > 80' "$1")" ] || fail "lines of $2 are too long: $(awk 'length > 80' "$1")"; }
fits "$work/overview" "'hearth'"

n=0
# compare COMMAND [VERB]: its options are in its man page and in all completions
compare() {
  path="$*"
  options "$@" >"$work/options"
  "$hearth" help --all "$@" >"$work/help"
  fits "$work/help" "'hearth help --all $path'"
  n=$((n + $(wc -l <"$work/options")))
  sed -n 's/^\\fB.*\\-\\-\(.*\)\\fR.*/\1/p' "$work/hearth-$1.1" | sed 's/\\fR.*//; s/\\//g' >"$work/page.1"
  sed -n "/^    '$path')\$/,/;;\$/s/^ *options='\(.*\)'/\1/p" "$work/completion.bash" | tr '|' '\n' >"$work/page.bash"
  sed -n "/^_hearth_${path// /_}() {/,/^}/p" "$work/completion.zsh" | sed "s/'\[.*//" >"$work/page.zsh"
  grep -F "'__hearth_is $path'" "$work/completion.fish" | sed 's/.* -l \([^ ]*\) .*/--\1/' >"$work/page.fish"
  for page in 1 bash zsh fish; do
    grep -oE -e '(--)?[a-z0-9][a-z0-9-]*' "$work/page.$page" | sed 's/^--//' | sort -u >"$work/found"
    missing=$(sort -u "$work/options" | comm -23 - "$work/found")
    [ -z "$missing" ] || fail "of '$path', page.$page lacks $missing"
  done
}

for command in $("$hearth" help --names); do
  has "$work/overview" "^  $command " "$command"
  has "$work/hearth.1" "hearth\\\\-$command " "$command"
  "$hearth" help --man "$command" >"$work/hearth-$command.1"
  "$hearth" help "$command" >"$work/help"
  fits "$work/help" "'hearth help $command'"
  verbs=$("$hearth" help "$command" | sed -n "s/^[ a-z:]* hearth $command \([a-z]*\).*/\1/p")
  case $command in
    cache | key | kvc | models) for verb in $verbs; do compare "$command" "$verb"; done ;;
    *) compare "$command" ;;
  esac
done
[ "$n" -gt 500 ] || fail "only $n options were compared"
"$hearth" help --man hearth.conf >"$work/hearth.conf.5"
for key in $("$hearth" serve --print-keys | sed -n 's/^| `\([^`]*\)`.*/\1/p'); do
  has "$work/hearth.conf.5" "^\\\\fB${key//./\\.}\\\\fR" "the key $key"
done

# Pages and scripts are well formed.
for page in "$work"/*.[15]; do
  if command -v groff >/dev/null; then
    groff -man -ww -Tutf8 "$page" 2>&1 >/dev/null | grep -v 'locale' >"$work/warnings" || true
    [ ! -s "$work/warnings" ] || fail "$(basename "$page"): $(head -n 3 "$work/warnings")"
  fi
done
bash -n "$work/completion.bash" || fail "the completion of bash is no script"
if command -v zsh >/dev/null; then zsh -n "$work/completion.zsh" || fail "the completion of zsh is no script"; fi
if command -v fish >/dev/null; then
  fish -n "$work/completion.fish" || fail "the completion of fish is no script"
  words=$(HOME=$work fish -c "source $work/completion.fish; complete -C'hearth cache ls --kind '" | cut -f 1 | sort | tr '\n' ' ')
  expect "what fish completes" "$words" "block logits snapshot state tail "
fi

# ---- bash completes ----

# complete_line WORD...: what bash offers for the last word, after it parted the words
set +u
complete_line() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _hearth
  printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
}
# shellcheck disable=SC1091
. "$work/completion.bash"
complete -p hearth >"$work/registered" 2>&1 || fail "bash has no completion for hearth"
PATH=$build:$PATH
export HF_HUB_CACHE=$work/hub OLLAMA_MODELS=$work/none
expect "commands with co" "$(complete_line hearth co)" "completion convert "
expect "verbs of cache with p" "$(complete_line hearth cache p)" "pin "
expect "options with --lim" "$(complete_line hearth cache ls --lim)" "--limit "
expect "options of another verb" "$(complete_line hearth cache gc --lim)" " "
expect "words of an option" "$(complete_line hearth cache ls --kind s)" "snapshot state "
expect "words behind =" "$(complete_line hearth cache ls --kind = s)" "snapshot state "
expect "all words behind =" "$(complete_line hearth serve --log-format =)" "auto json text "
expect "words of an argument" "$(complete_line hearth completion f)" "fish "
expect "arguments past the last" "$(complete_line hearth completion fish b)" " "
expect "commands for help" "$(complete_line hearth help ver)" "version "
expect "verbs for help" "$(complete_line hearth help kvc i)" "inspect "
mkdir "$work/folder" && cd "$work/folder" && : >'a file.gguf' && mkdir inside
expect "files" "$(complete_line hearth run a)" "a file.gguf "
expect "files behind an option" "$(complete_line hearth run m.gguf -f a)" "a file.gguf "
expect "folders" "$(complete_line hearth run m.gguf --cache '')" "inside "
expect "a number" "$(complete_line hearth run m.gguf --top-k '')" " "
commit=$work/hub/models--some--tiny-GGUF/snapshots/0123456789012345678901234567890123456789
mkdir -p "$commit" "$work/hub/models--some--tiny-GGUF/refs"
printf '%s' "${commit##*/}" >"$work/hub/models--some--tiny-GGUF/refs/main"
cp "$tiny" "$commit/tiny-Q8_0.gguf"
name=$("$hearth" models ls --names)
[ "$name" ] || fail "there is no downloaded model"
expect "models" "$(complete_line hearth run "${name%%[/:]*}")" "$name "
case $name in
  *:*) expect "models behind a colon" "$(complete_line hearth models rm "${name%%:*}" : "")" "${name#*:} " ;;
esac

# A name that another program chose is never run.
mkdir "$work/odd"
printf '#!/bin/sh\necho '\''$(touch run)x'\''\n' >"$work/odd/hearth"
chmod +x "$work/odd/hearth"
PATH=$work/odd:$PATH
expect "an odd name" "$(complete_line hearth models load '')" '\$\(touch\ run\)x '
[ ! -e run ] || fail "bash ran the name of a model"
