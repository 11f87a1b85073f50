#!/bin/sh
# The options of `hearth run`: each is in the help, and a bad value ends with 2 and one line that names the flag, the
# value and what is allowed.
. "$(dirname "$0")/lib.sh"

# refuse PATTERN ARGUMENTS...
refuse() {
  pattern=$1; shift
  status=0
  "$hearth" run stub: -p x "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
  expect "exit code of '$*' ($(cat "$work/err"))" "$status" 2
  expect "lines of error of '$*': $(cat "$work/err")" "$(grep -c . "$work/err")" 1
  grep -q -E -e "$pattern" "$work/err" || fail "'$*' says '$(cat "$work/err")', expected $pattern"
}
# range FLAG ALLOWED BAD...: each bad value is refused by name
range() {
  flag=$1 allowed=$2; shift 2
  for bad in "$@"; do refuse "hearth: $flag is '$bad'; it must be $allowed" "$flag" "$bad"; done
}

range --predict "a whole number from -1" -2 x 1.5 99999999999
range --n "a whole number from 1 to 128" 0 129 x
range --min-tokens "a whole number from 0" -1 x
range --draft-max "a whole number from 0 to 14" -1 15 x
range --draft-min "a whole number from 0 to 14" -1 15
range --stop "a text of at least one character" ""
range --stop-token "a whole number from 0" -1 x
range --temp "a number from 0 to 1000" -1 hot nan inf
range --top-k "a whole number from 0" -1
range --top-p "a number from 0 to 1" 1.01 -0.1
range --min-p "a number from 0 to 1" 2
range --typical-p "a number from 0 to 1" 2 -1 x
range --repeat-penalty "a number from 0.01 to 1000" 0 -1
range --repeat-last-n "a whole number from -1 to 65536" -2 65537
range --frequency-penalty "a number from -2 to 2" -2.1 2.1 x
range --presence-penalty "a number from -2 to 2" -3 3
range --dry-multiplier "a number from 0" -1 x
range --dry-base "a number from 1" 0.9
range --dry-allowed-length "a whole number from 0" -1 1.5
range --dry-last-n "a whole number from -1 to 65536" -2 65537
range --dry-breaker "a text of at least one character" ""
range --xtc-probability "a number from 0 to 1" 1.1
range --xtc-threshold "a number from 0 to 1" -1
range --top-n-sigma "a number from 0 to 1000" -1 x
range --dynatemp-range "a number from 0 to 1000" -1
range --dynatemp-exponent "a number from 0 to 10" 11
range --mirostat "a whole number from 0 to 2" 3 -1 x
range --mirostat-tau "a number from 0 to 100" -1
range --mirostat-eta "a number from 0 to 1" 2
range --adaptive-target "a number from 0 to 1" 1.1
range --adaptive-decay "a number from 0 to 0.99" 1
range --reasoning-budget "a whole number from -1" -2 x
range --reasoning-budget-message "a text of 1 to 1024 bytes" ""
range --samplers "samplers in order" 'top_k;top_q' kz
refuse "--mirostat needs a surprise" --mirostat 2 --grammar 'root ::= "a"'
range --logit-bias "TOKEN=BIAS.*15=-inf" 15 15= =1 x=1 -1=1 15=x 15=nan 15=1x
range --seed "a whole number from 0 to 9007199254740991" -1 x 9007199254740992
range --priority "a whole number from -100 to 100" -101 101 high
range --queue-timeout-ms "a whole number from 0" -1 x
range --run-timeout-ms "a whole number from 0" -1
range --deadline-ms "a whole number from 0" soon
range --n-parallel "a whole number from 1 to 128" 0 129 x
range --queue-max "a whole number from 1 to 65536" 0 65537
range --prefill-chunk "64, 128 or 256" 0 100 512 x
range --max-tick-ms "a whole number from 1 to 60000" 0 60001
range --trigger-word "a text" ""
range --trigger-token "a whole number from 0" x
range --trigger-pattern "a text" ""
range --policy "KEY=N" min_tokens 5 colour=3
refuse "--policy is 'x'; it must be a whole number" --policy min_tokens=x
range --ram "a number of bytes" 5 x 1P
range --parent-key "1 to 64 hex digits" "" xy "$(printf '%065d' 1)"
refuse "--logprobs is '65'; it must be a whole number from 0 to 64" --json --logprobs=65
refuse "--logprobs is 'x'" --json --logprobs=x
refuse "--logprobs needs --json" --logprobs
refuse "--parallel needs several prompts" --parallel 4
refuse "exclude each other" --grammar 'root ::= "a"' --json-schema '{}'
refuse "--grammar-lazy needs a --grammar" --grammar-lazy --trigger-word x
refuse "--grammar-lazy needs a --trigger-word" --grammar-lazy --grammar 'root ::= "a"'
refuse "need --grammar-lazy" --grammar 'root ::= "a"' --trigger-word x
refuse "give the prompts once" --prompts x
refuse "unrecognized option '--no-such-option'; 'hearth run --help' lists them" --no-such-option
refuse "unrecognized option '--tmep'; did you mean '--temp'\?" --tmep 1
refuse "option '--prom' is ambiguous; it may be '--prompt' or '--prompts'" --prom x
refuse "option '--temp' needs a value, T" --temp
refuse "option '--json' takes no value" --json=1
set -- --json; i=0
while [ $i -lt 65 ]; do set -- "$@" --stop "s$i"; i=$((i + 1)); done
refuse "--stop 's64' is one too many; at most 64" "$@"

status=0
"$hearth" run stub: --prompts a --prompts-json b >/dev/null 2>"$work/err" || status=$?
expect "exit code of two files of prompts" "$status" 2
range2() { # FLAG VALUE: with a file of prompts
  status=0
  "$hearth" run stub: --prompts "$work/p" "$@" >/dev/null 2>"$work/err" || status=$?
  expect "exit code of $*" "$status" 2
  grep -q -- "$1 is '$2'; it must be a whole number from 1 to 128" "$work/err" || fail "$* says $(cat "$work/err")"
}
range2 --parallel 0
range2 --parallel 129

status=0
"$hearth" run stub: -p x --grammar-file "$work/nowhere.gbnf" >/dev/null 2>"$work/err" || status=$?
expect "exit code without the grammar's file" "$status" 1
grep -q nowhere.gbnf "$work/err" || fail "the file is not named: $(cat "$work/err")"

# The bounds are allowed.
"$hearth" run stub: -p x -n 3 --temp 0 --no-cache -q --ignore-eos >"$work/plain"
"$hearth" run stub: -p x -n 3 --temp 0 --no-cache -q --ignore-eos --top-k 0 --top-p 1 --min-p 0 --typical-p 1 \
  --repeat-penalty 1 --frequency-penalty 0 --presence-penalty 0 --dry-multiplier 0 --dry-base 1.75 --dry-allowed-length 2 \
  --dry-last-n 1024 --xtc-probability 0 --xtc-threshold 0.1 --top-n-sigma 0 \
  --dynatemp-range 0 --dynatemp-exponent 1 --mirostat 0 --mirostat-tau 5 --mirostat-eta 0.1 --adaptive-target 0 \
  --adaptive-decay 0.9 --samplers 'penalties;dry;top_k;temperature' --priority -100 --queue-timeout-ms 0 --run-timeout-ms 0 \
  --deadline-ms 4294967295 --n-parallel 4 --queue-max 65536 --strategy balanced --prefill-chunk 64 --max-tick-ms 60000 \
  --session-idle-ms 1 --aging-ms 1 --session-id here --min-tokens 0 --n 1 >"$work/explicit" || fail "allowed values are refused"
cmp "$work/plain" "$work/explicit" || fail "defaults, written out, change the reply"

# The order of the chain: of one step, and of none.
"$hearth" run stub: -p x -n 3 --temp 0 --no-cache -q --ignore-eos --samplers 'top_k' --top-k 1 >"$work/explicit"
cmp "$work/plain" "$work/explicit" || fail "the likeliest of one is not the likeliest"
"$hearth" run "$tiny" -p "Once upon" -n 3 --no-cache -q --ignore-eos --samplers e --top-k 1 --seed 5 >"$work/free"
"$hearth" run "$tiny" -p "Once upon" -n 3 --no-cache -q --ignore-eos --samplers '' --seed 5 >"$work/none"
cmp "$work/free" "$work/none" || fail "steps that are not listed matter"
# The same seed gives the same reply, with a state, too; and the budget of reasoning is taken.
for sampler in "--mirostat 1" "--mirostat 2" "--adaptive-target 0.4"; do
  # shellcheck disable=SC2086
  "$hearth" run "$tiny" -p "Once upon" -n 12 --no-cache -q --seed 5 $sampler --reasoning-budget 9 >"$work/one"
  # shellcheck disable=SC2086
  "$hearth" run "$tiny" -p "Once upon" -n 12 --no-cache -q --seed 5 $sampler >"$work/two"
  cmp "$work/one" "$work/two" || fail "$sampler gives two replies"
done

# A template that cannot be read is one line, too.
"$hearth" run stub: -p x --chat --chat-template-file "$work/missing.jinja" 2>"$work/err" && fail "a missing template is taken"
expect "lines about a missing template: $(cat "$work/err")" "$(grep -c . "$work/err")" 1

# The short help, and the complete help.
"$hearth" run --help >"$work/help"
"$hearth" run --help-all >"$work/help-all"
[ "$(wc -l <"$work/help")" -lt 80 ] || fail "the short help has $(wc -l <"$work/help") lines"
awk 'length > 120' "$work/help-all" | grep . && fail "the help has long lines"
for flag in typical-p frequency-penalty presence-penalty dry-multiplier dry-base dry-allowed-length dry-last-n dry-breaker \
  xtc-probability xtc-threshold top-n-sigma dynatemp-range dynatemp-exponent mirostat mirostat-tau mirostat-eta \
  adaptive-target adaptive-decay samplers logit-bias grammar grammar-file json-schema json-schema-file grammar-lazy trigger-word \
  trigger-token trigger-pattern n priority session-id prefill-only echo min-tokens stop-token logprobs queue-timeout-ms \
  run-timeout-ms deadline-ms n-parallel queue-max strategy prefill-chunk max-tick-ms prompts prompts-json parallel; do
  grep -q -E "^ {6}--$flag( |\$)" "$work/help-all" || fail "--$flag is not in the help"
  grep -q -e "--$flag" "$source/docs/generation.md" "$source/docs/sampling.md" || fail "--$flag is in no document"
done

# The JSON of a run has the reason for each computed part.
"$hearth" run stub: -p x -n 3 --temp 0 --no-cache --json >"$work/out.json"
for name in miss left_at left_text shared_tokens n_preempted queue_ms; do
  grep -q "^  \"$name\":" "$work/out.json" || fail "$name is not in the JSON"
done
