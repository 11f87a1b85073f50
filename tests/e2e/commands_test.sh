#!/bin/sh
# The commands that look into the cache tell the truth, and `hearth kvc` agrees with the reference vectors.
. "$(dirname "$0")/lib.sh"

# A command that looks creates nothing.
status=0
"$hearth" cache stat >"$work/out" 2>"$work/err" || status=$?
expect "exit code of stat without a cache" "$status" 1
[ ! -e "$cache" ] || fail "looking made a cache directory"

words 700 >"$work/prompt"
"$hearth" run "$tiny" -f "$work/prompt" --temp 0 -n 4 -q >/dev/null
files=$(find "$cache/rows" -name '*.kvc' | wc -l)
[ "$files" -ge 4 ] || fail "only $files rows were kept"
"$hearth" cache stat >"$work/stat"
"$hearth" cache ls --json >"$work/ls.json"
expect "rows listed" "$(grep -c '"key"' "$work/ls.json")" "$files"
"$hearth" cache stat --json >"$work/stat.json"
bytes=$(find "$cache/rows" -name '*.kvc' -printf '%s\n' | awk '{s += $1} END {print s}')
grep -q "$bytes" "$work/stat.json" || fail "stat does not say $bytes bytes: $(cat "$work/stat.json")"
"$hearth" cache ls --kind block >"$work/blocks"
expect "blocks listed" "$(grep -c block "$work/blocks")" "$(find "$cache/rows" -name '*-block.kvc' | wc -l)"

for row in "$cache"/rows/*/*.kvc; do
  key=${row##*/}; key=${key%%-*}
  "$hearth" kvc inspect "$row" >"$work/out" || fail "a fresh row does not verify: $(cat "$work/out")"
  grep -q "$key" "$work/out" || fail "inspect does not show the key of $row"
done
# Twelve digits of each hash, all with --full-keys; the first digits of a key stand for it.
"$hearth" kvc inspect "$row" | sed 1d >"$work/out"
grep -qE '[0-9a-f]{13}' "$work/out" && fail "inspect shows long keys: $(cat "$work/out")"
grep -qE "^  key .* $(echo "$key" | cut -c 1-12)\$" "$work/out" || fail "inspect does not begin with the key: $(cat "$work/out")"
grep -qE '^  size  *[0-9.]+ [KM]?i?B, image ' "$work/out" || fail "the size has no unit: $(cat "$work/out")"
[ -z "$(awk 'length > 80' "$work/out")" ] || fail "lines are too long: $(cat "$work/out")"
"$hearth" kvc inspect --full-keys "$row" | sed 1d | grep -q "$key" || fail "--full-keys shows no full key"
"$hearth" kvc inspect --key "$(echo "$key" | cut -c 1-7)" "$row" >"$work/out" || fail "a beginning of the key is refused: $(cat "$work/out")"
"$hearth" kvc inspect --key "$key" "$row" >"$work/out" || fail "the key is refused: $(cat "$work/out")"
refuse 1 'does not begin with 0000000' kvc inspect --key 0000000 "$row"
refuse 2 "must be the first hex digits of a key" kvc inspect --key xyz "$row"
head -c 200 "$row" >"$work/cut.kvc"
status=0
"$hearth" kvc inspect "$work/cut.kvc" >"$work/out" 2>&1 || status=$?
expect "exit code of inspect for a cut row" "$status" 1

# The vectors: sound files verify, damaged ones do not, keys agree.
fixtures=$source/tests/fixtures/kvc
for file in "$fixtures"/kvc/*.kvc; do
  "$hearth" kvc inspect "$file" >/dev/null || fail "a sound fixture does not verify: $file"
done
status=0
"$hearth" kvc inspect "$fixtures/kvc_bad/b26-payload-first-bit.kvc" >/dev/null 2>&1 || status=$?
expect "exit code of inspect for a damaged fixture" "$status" 1
line=$(grep -m1 '"id": "k-quant-07"' "$fixtures/keys.jsonl")
get() { printf '%s\n' "$line" | sed -n "s/.*\"$1\": \"\([^\"]*\)\".*/\1/p"; }
expect "key" "$("$hearth" kvc key --fingerprint "$(get fingerprint)" --quant "$(get quant_type)" \
  --ctx-params-hash "$(get ctx_params_hash)" 1 2 3 4 5)" "$(get key)"

# Every command has a help, and the version is that of the library.
for command in chat run pull models cache kvc ps version "cache stat" "cache ls" "kvc inspect" "kvc key"; do
  # shellcheck disable=SC2086
  "$hearth" $command --help >"$work/out" 2>&1 || fail "hearth $command --help"
  grep -q usage "$work/out" || fail "hearth $command --help shows no usage"
done
"$hearth" help run >"$work/out"
expect "last line of a short help" "$(tail -n 1 "$work/out")" "--help-all shows all options."

"$hearth" cache why --help-all >"$work/out"
expect "the command of a help" "$(head -n 1 "$work/out" | cut -d ' ' -f 1-5)" "usage: hearth cache why MODEL"
"$hearth" help cache why >"$work/out"
expect "last line of a verb's short help" "$(tail -n 1 "$work/out")" "--help-all shows all options."

# A wrong word is named, with the right one.
refuse 2 "there is no option '--hlep'; did you mean '--help'?" --hlep
refuse 2 "is a file; did you mean 'hearth chat $tiny'?" "$tiny"
for command in cache key kvc models; do
  "$hearth" "$command" >"$work/out" 2>"$work/err" || fail "'$command' without a verb: $(cat "$work/err")"
  expect "help of '$command' without a verb" "$(cat "$work/out")" "$("$hearth" help "$command")"
  refuse 2 "'$command' has no verb 'nosuch'; see 'hearth help $command'" "$command" nosuch
  refuse 2 "'$command' has no verb 'nosuch'" help "$command" nosuch
done
refuse 2 "'cache' has no verb 'verifi'; did you mean 'verify'?" cache verifi
refuse 2 "'cache rm' needs KEY; see 'hearth help cache rm'" cache remove
refuse 2 "'key list' needs --file" key ls

# A reader that leaves ends the output without a message; a full device is told.
echo Hello >"$work/hello"
for command in "help run" "kvc inspect --json $fixtures/kvc/k11-512-empty-payload.kvc" \
  "serve -m $tiny --print-config" "run $tiny -p Hello -n 4 -q --no-cache" \
  "run $tiny --prompts $work/hello -n 4 -q --no-cache" "chat $tiny -n 4 -q --no-cache --no-save"; do
  rm -f "$work/left"
  {
    await "a reader that has left" test -e "$work/left"
    # shellcheck disable=SC2086
    "$hearth" $command <"$work/hello" 2>"$work/err" || true
  } | { exec <&-; touch "$work/left"; }
  expect "messages of '$command' for nobody" "$(cat "$work/err")" ""
done
for command in "completion bash" version; do # with several writes, and with one
  status=0; "$hearth" $command >/dev/full 2>"$work/err" || status=$?
  expect "exit code of '$command' on a full device" "$status" 1
  said "cannot write to standard output"
done
said "cannot write to standard output: No space left on device"

"$hearth" version >"$work/version"
grep -q "^engine 0.5.0" "$work/version" || fail "the version does not name the engine: $(cat "$work/version")"
grep -q "^CPU    CPU, .* GiB$" "$work/version" || fail "the version does not name the processor: $(cat "$work/version")"
"$hearth" version --json >"$work/version.json"
grep -q '"backend": "CPU"' "$work/version.json" || fail "nor does it as JSON: $(cat "$work/version.json")"
mkdir "$work/empty"
HEARTH_ENGINE_DIRECTORY=$work/empty "$hearth" version >"$work/version" || fail "the version without an engine"
grep -q "^engine no engine: " "$work/version" || fail "the version does not say that there is no engine: $(cat "$work/version")"

# Layers for a missing GPU: one warning, and the reply comes.
if ! grep -q "CUDA\|Vulkan\|Metal" "$work/version.json"; then
  "$hearth" run "$tiny" -p 'Once upon a time' -n 2 --gpu-layers 9 --no-cache >"$work/out" 2>"$work/err" || fail "layers without a GPU"
  expect "number of warnings" "$(grep -c 'warning: there is no GPU for 9 layers' "$work/err")" 1
fi
