#!/bin/sh
# Bad input gets one line that names the thing, the cause and the remedy, and the right exit code. Trouble with the
# cache costs time, never the reply.
. "$(dirname "$0")/lib.sh"

# as_nobody COMMAND...: runs refuse or reply with the rights of nobody, because root may do everything
runner=
as_nobody() {
  if [ "$(id -u)" = 0 ]; then
    command -v setpriv >/dev/null || return 0
    chmod 755 "$work"
    runner="setpriv --reuid=65534 --regid=65534 --clear-groups"
    # The checkout itself may lie where nobody may not go.
    if ! $runner test -r "$tiny" || ! $runner test -r "$build/hearth-llama.so"; then runner=; return 0; fi
  fi
  "$@"
  runner=
}

# refuse EXIT PATTERN ARGUMENTS...: the command fails with that code and one line on standard error that matches
refuse() {
  code=$1 pattern=$2; shift 2
  status=0
  $runner "$hearth" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
  expect "exit code of 'hearth $*'" "$status" "$code"
  expect "lines of error of 'hearth $*': $(cat "$work/err")" "$(grep -c . "$work/err")" 1
  grep -q -E -e "$pattern" "$work/err" || fail "'hearth $*' says '$(cat "$work/err")', expected $pattern"
}
# reply PATTERN ARGUMENTS...: the command succeeds with the expected text and a warning that matches
prompt='Once upon a time there was a fox who lived in a deep forest near a river, and one day she went out to look for her friend the old bear, who had not been seen for a week.'
"$hearth" run "$tiny" -p "$prompt" --temp 0 -n 8 -q --no-cache >"$work/expected"
reply() {
  pattern=$1; shift
  $runner "$hearth" run "$tiny" -p "$prompt" --temp 0 -n 8 "$@" >"$work/out" 2>"$work/err" || fail "run $* failed: $(cat "$work/err")"
  cmp -s "$work/out" "$work/expected" || fail "run $* gave another reply"
  grep -q -E -e "$pattern" "$work/err" || fail "run $* says '$(cat "$work/err")', expected $pattern"
}

# Models
head -c 3000 /dev/urandom >"$work/random.gguf"
: >"$work/empty.gguf"
for n in 4 100 5000 200000 1500000; do
  head -c $n "$tiny" >"$work/truncated.gguf"
  refuse 1 truncated.gguf run "$work/truncated.gguf" -p x
done
refuse 1 "random.gguf.*(GGUF|gguf)" run "$work/random.gguf" -p x
refuse 1 empty.gguf run "$work/empty.gguf" -p x
refuse 1 "nowhere.gguf.*No such file" run "$work/nowhere.gguf" -p x
refuse 1 "directory" run "$work" -p x
cp "$tiny" "$work/secret.gguf"; chmod 000 "$work/secret.gguf"
as_nobody refuse 1 "secret.gguf.*Permission" run "$work/secret.gguf" -p x --no-cache
# 48 GiB of cells; a machine with more memory would take them
if [ "$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)" -lt 40 ]; then
  refuse 1 "memory" run "$tiny" -p x -c 16777216 --type-k f32 --type-v f32
fi

# Prompts
words 3000 >"$work/long"
refuse 1 "prompt \([0-9]+ tokens\) exceeds.*context" run "$tiny" -f "$work/long"
refuse 1 "not valid UTF-8" run "$tiny" -p "$(printf 'bad \377\376 text')"
refuse 1 "prompt is empty" run "$tiny" -p ""
printf 'a\000b' >"$work/zero"
refuse 1 "zero byte" run "$tiny" -f "$work/zero"
refuse 1 "nowhere.txt" run "$tiny" -f "$work/nowhere.txt"

# Usage
refuse 2 "MODEL" run
for small in "-c 1" "-b 1" "-c 1 -b 1"; do
  # shellcheck disable=SC2086
  "$hearth" run "$tiny" -p hi -n 1 -q --no-cache $small >/dev/null || fail "run $small"
done
refuse 2 "seed.*must be" run "$tiny" -p x --seed 18446744073709551615
refuse 2 "temp.*must be" run "$tiny" -p x --temp hot
refuse 2 "predict.*must be" run "$tiny" -p x -n -5
refuse 2 "--chat" run "$tiny" -p x --system y
refuse 2 "exclude" run "$tiny" -p x -f y
refuse 2 "no command" walk
refuse 1 "type" run "$tiny" -p x --type-k q99

# The cache
reply "cache|disk" --cache /dev/null/nothing
mkdir "$work/readonly"; chmod 555 "$work/readonly"
as_nobody reply "readonly" --cache "$work/readonly/kv"
mkdir -p "$work/open/kv"; chmod 777 "$work/open/kv"
reply "others|mode|chmod" --cache "$work/open/kv"

# A full device: the reply comes, nothing is kept. Needs the right to mount one.
mkdir "$work/full"
if mount -t tmpfs -o size=300k none "$work/full" 2>/dev/null; then
  chmod 700 "$work/full"
  reply "not written|No space|free" --cache "$work/full/kv"
  umount "$work/full"
fi

# A damaged row: set aside, and the prompt computed.
reply "prompt tokens" --cache "$work/damaged"
reply "exact" --cache "$work/damaged"
n=0
for row in "$work"/damaged/rows/*/*.kvc; do
  size=$(wc -c <"$row")
  chmod u+w "$row"
  printf 'X' | dd of="$row" bs=1 seek=$((size - 10)) conv=notrunc 2>/dev/null
  printf 'Y' | dd of="$row" bs=1 seek=$((size - 11)) conv=notrunc 2>/dev/null
  n=$((n + 1))
done
[ $n -gt 0 ] || fail "no rows were written"
reply "set aside" --cache "$work/damaged"
[ -n "$(ls "$work/damaged/quarantine")" ] || fail "nothing is in quarantine"
reply "." --cache "$work/damaged" # each damaged row is found out when it is read: the logits only now
reply "exact" --cache "$work/damaged"

# A row of another prompt under this one's name, and cut-off rows.
set -- "$work"/damaged/rows/*/*-tail.kvc
"$hearth" run "$tiny" -p "Quite another text. $prompt" --temp 0 -n 1 -q --cache "$work/other" >/dev/null
set -- "$1" "$work"/other/rows/*/*-tail.kvc
cp -f "$2" "$1"
reply "set aside" --cache "$work/damaged"
for row in "$work"/damaged/rows/*/*.kvc; do head -c 100 "$row" >"$work/cut"; cp -f "$work/cut" "$row"; done
reply "set aside" --cache "$work/damaged"
