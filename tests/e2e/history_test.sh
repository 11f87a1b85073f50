#!/bin/sh
# The tokens of a conversation are known when its text comes back, though the tokenizer would cut it otherwise: within a
# process, after a restart and after a kill, for one tenant only, and only where the operator turned it on.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

talk() { node "$(dirname "$0")/history_test.mjs" "$url" "$@" || fail "the conversation '$1'"; }

serve -m "$tiny" --history 64M --ram 64M --n-parallel 2
messages=$(talk chat)
talk salts
talk steered
talk apart
talk completion
serve_stop
serve -m "$tiny" --history 64M --ram 64M --n-parallel 2
talk resume "$messages"
serve_kill

# A directory in which the history was removed, as an operator may at any time.
rm -r "$cache/history"
serve -m "$tiny" --history 64M --ram 64M --n-parallel 2
talk completion
serve_stop
[ -d "$cache/history" ] || fail "there is no history in $(ls "$cache")"
if grep -rq "rain came" "$cache/history"; then fail "the history holds the text of a prompt"; fi

serve -m "$tiny" --history 64M --ram 64M --chat-template-file "$(template GLM-4.7-Flash.jinja)"
talk reasoning
serve_stop

rm -r "$cache"
serve -m "$tiny" --ram 64M --n-parallel 2
talk off
serve_stop
[ ! -d "$cache/history" ] || fail "the history is not off by default"

# The command line: what a run has said is known to the next one, and told by `cache why`.
rm -r "$cache"
prompt=$(words 60)
seed=0
reply=
until printf '%s' "$reply" | LC_ALL=C grep -q '^[ -~]\{12,\}$' && printf '%s' "$reply" | grep -q ' w[0-9]'; do
  seed=$((seed + 1))
  [ $seed -lt 500 ] || fail "the stub draws no words"
  reply=$("$hearth" run stub:vocab=300 -p "$prompt" -n 6 --ignore-eos --seed $seed 2>"$work/log")
done
"$hearth" run stub:vocab=300 --history 64M -p "$prompt" -n 6 --ignore-eos --seed $seed --json >"$work/first" 2>&1
"$hearth" run stub:vocab=300 --history 64M -p "$prompt$reply and on" -n 1 --json >"$work/second"
expect "tokens from the history" "$(field history_tokens "$work/second")" "$((${#prompt} + 1 + 6))"
expect "cached tokens" "$(field cached_tokens "$work/second")" "$((${#prompt} + 1 + 5))"
printf '%s' "$prompt$reply and so on" >"$work/text"
status=0
"$hearth" cache why stub:vocab=300 --history 64M -f "$work/text" >"$work/why" || status=$?
expect "exit code of cache why" "$status" 1
grep -q "^history  the first $((${#prompt} + 7)) are" "$work/why" || fail "cache why says $(cat "$work/why")"
grep -q ">>>s<<<\|>>> <<<\|>>>o<<<" "$work/why" || fail "cache why shows $(cat "$work/why")"
