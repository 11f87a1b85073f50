#!/bin/sh
# A hub's models come whole or not at all, however the hub, its storage and the network behave, and lie where other
# programs look for them. The token never leaves the hub.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

hub_pid=
stop_all() { serve_kill; if [ -n "$hub_pid" ]; then kill -KILL "$hub_pid" 2>/dev/null || true; fi; }
touch "$work/asked"
node "$source/tests/support/hub.mjs" "$tiny" "$work/hub.port" "$work/asked" &
hub_pid=$!
await "the hub" of "$hub_pid" test -s "$work/hub.port"
unset HF_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE XDG_CACHE_HOME OLLAMA_MODELS
unset HEARTH_OLLAMA_REGISTRY
export HF_HOME="$work/hf" HF_ENDPOINT="http://127.0.0.1:$(cat "$work/hub.port")/" HOME="$work/home"
hub=$HF_HOME/hub
commit=0123456789abcdef0123456789abcdef01234567

pull() { # ARGUMENTS: of hearth pull; the path is in $path
  path=$("$hearth" pull "$@" 2>"$work/err") || fail "pull $*: $(cat "$work/err")"
  [ -s "$path" ] || fail "pull $* names '$path'"
}
asked() { grep -v t/stuck "$work/asked" | grep -c "\"host\":\"$1\".*$2" || true; } # HOST PATTERN: the number of requests
forget() { rm -rf "$hub" "$work/asked.go"; : >"$work/asked"; }
clean() { # nothing but whole blobs
  [ -z "$(find "$hub" -name '*incomplete*' -o -name '*.link' -o -name '*.part')" ] || fail "left over: $(find "$hub")"
  find "$hub" -path '*/blobs/*' | while read -r blob; do
    case ${blob##*/} in ????????????????????????????????????????????????????????????????)
      expect "digest of a blob" "$(sha256sum "$blob" | cut -d ' ' -f 1)" "${blob##*/}" ;; esac
  done
}
is_right() { expect "sum of $path" "$(sha256sum "$path" | cut -d ' ' -f 1)" "$(basename "$(readlink -f "$path")")"; clean; }

# Those that are given up after some patience run beside the rest. Pieces that are there already are no progress.
HF_HOME=$work/other HF_ENDPOINT=http://127.0.0.1:1 "$hearth" pull t/tiny >"$work/nobody" 2>&1 &
nobody=$!
HF_HOME=$work/other "$hearth" pull t/stuck >"$work/stuck" 2>&1 &
stuck=$!

# The models that there are, without a download.
offers() { "$hearth" pull --list "$@" >"$work/out" 2>"$work/err" || fail "pull --list $*: $(cat "$work/err")"; }
offers t/tiny
expect "models of t/tiny" "$(cat "$work/out")" "\
  NAME                                                     SIZE PARTS HERE
* Q4_K_M                                                1.4 MiB     1 -
  Q8_0                                                  8.0 MiB     1 -"
offers t/split --json --revision refs/pr/1
expect "models of t/split" "$(cat "$work/out")" '{"choice":"Q8_0","quant":"Q8_0",'\
'"path":"Q8_0/big-Q8_0-00001-of-00002.gguf","bytes":33566784,"parts":2,"here":false,"default":true}'
[ ! -e "$hub" ] || fail "a list made $(find "$hub")"
expect "downloads of lists" "$(asked storage .)" 0
refuse 1 "the hub has no 't/missing'" pull t/missing --list
refuse 1 "path would leave its folder" pull t/evil --list
refuse 2 "leave out ':Q8_0'" pull t/tiny:Q8_0 --list
refuse 2 "json needs --list" pull t/tiny --json
HF_HUB_OFFLINE=1 refuse 1 "'t/tiny' is not in the cache" pull t/tiny --list

# The layout is that of the ecosystem: blobs, snapshots of links, refs, locks. What is there is not asked for again.
pull t/tiny
expect path "$path" "$hub/models--t--tiny/snapshots/$commit/tiny-Q4_K_M.gguf"
said "downloading tiny-Q4_K_M.gguf, 1.4 MiB"
said "hearth run 't/tiny'"
digest=$(sha256sum "$tiny" | cut -d ' ' -f 1)
expect link "$(readlink "$path")" "../../blobs/$digest"
expect ref "$(cat "$hub/models--t--tiny/refs/main")" "$commit"
[ -e "$hub/.locks/models--t--tiny/$digest.lock" ] || fail "no lock"
clean
# The longest name of a file has its link, too; a lock that is a link to another file is not followed.
long=$(head -c 250 /dev/zero | tr '\0' n).gguf
pull t/long
expect path "$path" "$hub/models--t--long/snapshots/$commit/$long"
clean
rm -r "$hub/models--t--long" "$hub/.locks/models--t--long/$digest.lock"
ln -s "$work/elsewhere" "$hub/.locks/models--t--long/$digest.lock"
refuse 1 "is a symbolic link" pull t/long
[ ! -e "$work/elsewhere" ] || fail "a lock that is a link makes a file elsewhere"
rm -rf "$hub/.locks/models--t--long" "$hub/models--t--long"
n=$(asked storage .)
offers t/tiny
grep -q '^\* Q4_K_M .* 1 yes$' "$work/out" || fail "what is there is not told: $(cat "$work/out")"
grep -q '^  Q8_0 .* 1 -$' "$work/out" || fail "what is not there is not told: $(cat "$work/out")"
HF_HUB_OFFLINE=1 offers t/tiny --json
expect "models without a hub" "$(sed 's/"bytes":[0-9]*/"bytes":N/' "$work/out")" '{"choice":"Q4_K_M","quant":"Q4_K_M",'\
'"path":"tiny-Q4_K_M.gguf","bytes":N,"parts":1,"here":true,"default":true}'
pull t/tiny:q4_k_m
pull t/tiny:tiny-Q4_K_M.gguf -q
[ ! -s "$work/err" ] || fail "-q says $(cat "$work/err")"
pull t/tiny --revision refs/pr/1
expect ref "$(cat "$hub/models--t--tiny/refs/refs/pr/1")" "$commit"
expect "requests for what is there" "$(asked storage .)" "$n"
refuse 1 "'t/tiny' has no 'Q5_0', but: Q4_K_M, Q8_0" pull t/tiny:Q5_0
refuse 1 "no such revision" pull t/tiny --revision old
refuse 1 "is no branch, tag or commit" pull t/tiny --revision ../x
refuse 2 "OWNER/REPO" pull "ti ny"
refuse 2 "pull needs one model" pull

# Parts of a split file, in a folder; a small file without SHA-256.
pull t/split
expect path "${path#"$hub"}" "/models--t--split/snapshots/$commit/Q8_0/big-Q8_0-00001-of-00002.gguf"
is_right
path=$(dirname "$path")/big-Q8_0-00002-of-00002.gguf
is_right
pull t/small
expect "name of a small blob" "$(basename "$(readlink -f "$path")")" \
  "$({ printf 'blob %s\0' "$(wc -c <"$tiny")"; cat "$tiny"; } | sha1sum | cut -d ' ' -f 1)"

# Connections break, addresses expire, the hub wants patience, a storage takes no ranges: the bytes are right.
for kind in breaks expires limited whole; do
  forget
  pull t/$kind
  is_right
done
forget
pull t/breaks
[ "$(asked storage 'bytes=3000000-')" -ge 1 ] || fail "a broken transfer does not go on where it broke: $(cat "$work/asked")"
forget
refuse 1 "asks to wait for 86400 s; try later" pull t/patient

# Lies are errors, and leave nothing that looks whole.
refuse 1 "with 25178169 bytes, but now tells another size" pull t/changed
refuse 1 "now tells another size" pull t/lies
refuse 1 "now tells another size" pull t/over
refuse 1 "its storage sends other bytes than the asked ones" pull t/unsaid
refuse 1 "are not those that the hub lists.*they were deleted; pull again" pull t/wrong
[ -z "$(find "$hub" -path '*/blobs/*' -name '*incomplete*' -path '*t--wrong*')" ] || fail "wrong bytes stay"
refuse 1 "path would leave its folder" pull t/evil
refuse 1 "redirects to an address without https" pull t/insecure
refuse 1 "redirects 'm-Q4_K_M.gguf' more than" pull t/circle
[ -z "$(find "$hub" -path '*/snapshots/*' -type l)" ] || fail "a link to nothing: $(find "$hub")"

# Who may read: the token goes to the hub, and nowhere else.
forget
refuse 1 "the hub has no 't/missing': check the name; if the repository is private" pull t/missing
refuse 1 "'t/gated' is gated: accept its terms at .*/t/gated, then set HF_TOKEN" pull t/gated
refuse 1 "it is private; for a private one set HF_TOKEN" pull t/private
HF_TOKEN=wrong refuse 1 "the token may not read it" pull t/private
HF_TOKEN='two words' refuse 1 "HF_TOKEN is not a token" pull t/private
HF_TOKEN=sesame pull t/gated
is_right
echo sesame >"$HF_HOME/token"
pull t/private
echo ' sesame' >"$work/token"
forget
HF_TOKEN_PATH=$work/token pull t/private
[ "$(asked hub '"token":"Bearer sesame"')" -ge 2 ] || fail "the hub got no token: $(cat "$work/asked")"
[ "$(asked storage .)" -ge 2 ] || fail "the storage was not asked"
expect "tokens at the storage" "$(asked storage '"token":"[^"]')" 0
rm "$HF_HOME/token"

# Two at once: one download. When its process is killed, the other goes on.
forget
"$hearth" pull t/slow >"$work/one" 2>"$work/one.err" &
one=$!
await "the requests for all pieces" of $one at_least 4 asked storage .
"$hearth" pull t/slow >"$work/two" 2>"$work/two.err" &
two=$!
await "the wait of the other" of $two grep -qs "another process downloads this file" "$work/two.err"
touch "$work/asked.go"
kill -KILL $one # its stalled connections do not come back by themselves
wait $one || true
wait $two || fail "the second pull: $(cat "$work/two.err")"
path=$(cat "$work/two")
is_right
said_two=$(cat "$work/two.err")
case $said_two in *"are there already"*) ;; *) fail "the second did not go on with the first one's bytes: $said_two" ;; esac
forget
"$hearth" pull t/plain >"$work/one" 2>"$work/err" &
one=$!
"$hearth" pull t/plain >"$work/two" 2>"$work/two.err" || fail "one of two pulls: $(cat "$work/two.err")"
wait $one || fail "the other one: $(cat "$work/err")"
expect "path of the two" "$(cat "$work/one")" "$(cat "$work/two")"
expect "requests of two pulls" "$(asked storage .)" 4

# Killed in the middle: the pieces that came are not asked for again.
forget
"$hearth" pull t/slow >/dev/null 2>&1 &
one=$!
mark() { tail -c 4 "$hub"/models--t--slow/blobs/*.hearth.incomplete 2>/dev/null | head -c 1 | od -An -tu1 | tr -d ' '; }
await "the mark of the first piece" of $one gives 1 mark
kill -KILL $one
wait $one || true
: >"$work/asked"
touch "$work/asked.go"
pull t/slow
said "8.0 MiB of 24.0 MiB are there already"
is_right
expect "requests for the first piece" "$(asked storage 'bytes=0-')" 0

# Without the hub: what is there is found, the rest is an error.
forget
pull t/tiny
: >"$work/asked"
HF_HUB_OFFLINE=1 pull t/tiny
HF_HUB_OFFLINE=true refuse 1 "HF_HUB_OFFLINE is set" pull t/tiny:Q8_0
HF_HUB_OFFLINE=1 refuse 1 "'t/small' is not in the cache" pull t/small
expect "requests" "$(asked hub .)" 0
HF_ENDPOINT=ftp://x refuse 1 "HF_ENDPOINT is not the address" pull t/tiny

# A run finds the model, or downloads it.
"$hearth" run t/tiny -p "Once upon a time" -n 4 --temp 0 -q >"$work/here" || fail "a run of a model that is there"
expect "requests" "$(asked hub .)" 0
forget
"$hearth" run t/tiny:Q4_K_M -p "Once upon a time" -n 4 --temp 0 -q >"$work/out" || fail "a run that downloads"
cmp -s "$work/out" "$work/here" || fail "another reply: $(cat "$work/out")"
refuse 1 "the hub has no 't/missing'" run t/missing -p x
"$hearth" cache why t/tiny -p "Once upon a time" >"$work/out" || expect "exit code of cache why" $? 1
refuse 1 "the hub has no 't/missing'" embed t/missing x

# A server downloads a model before it listens, and serves it in its sandbox. A check downloads nothing.
refuse 1 "'t/small' is not in the cache.*; download it with 'hearth pull'" serve -m t/small --check
refuse 1 "'t/small' is not in the cache.*; download it with 'hearth pull'" serve -m t/small --offline
refuse 1 "the hub has no 't/missing'" serve -m name=t/missing
"$hearth" models rm t/tiny:Q4_K_M -y >"$work/out" 2>&1 || fail "models rm: $(cat "$work/out")"
serve -m t/tiny:Q4_K_M
[ "$(curl -s "$url/v1/models" | node -p 'JSON.parse(fs.readFileSync(0)).data[0].id')" = tiny:Q4_K_M ] || fail "its name"
ask 200 "$url/v1/completions" -d '{"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}'
serve_stop

# What is there: names, quants, sizes. A model that is removed leaves nothing, and others stay.
pull t/tiny:Q8_0
pull t/split
pull t/small
"$hearth" models ls >"$work/out"
expect models "$(awk 'NR > 1 {print $1, $2, $3, $4, $NF}' "$work/out" | tr '\n' ';')" \
  "t/small:small.gguf - 1.4 MiB hub;t/split:Q8_0 Q8_0 32.0 MiB hub;t/tiny:Q4_K_M Q4_K_M 1.4 MiB hub;t/tiny:Q8_0 Q8_0 8.0 MiB hub;"
"$hearth" models ls --json >"$work/out"
path=$(node -p 'fs.readFileSync(0, "utf8").trim().split("\n").map(JSON.parse).find((m) => m.name == "t/tiny:Q4_K_M").path' <"$work/out")
is_right
refuse 1 "there is no model 't/tiny' in" models rm t/tiny
refuse 1 "there is no model 't/tiny:q8_0' in" models rm t/tiny:q8_0
refuse 2 "models rm needs a NAME" models rm
# At a terminal each question has its own line of answer, however long.
printf 'nnnnnnnnnnnnnnnyes\nn\n' |
  script -qec "'$hearth' models rm t/tiny:Q8_0 t/split:Q8_0" /dev/null >"$work/out" || fail "models rm at a terminal"
expect "questions" "$(grep -o "remove '[^']*'? " "$work/out" | wc -l)" 2
if grep -q 'removed' "$work/out"; then fail "the rest of an answer removes: $(cat "$work/out")"; fi
"$hearth" models rm t/tiny:Q8_0 t/split:Q8_0 t/small:small.gguf >"$work/out" </dev/null || fail "models rm"
grep -q "removed t/split:Q8_0, 32.0 MiB" "$work/out" || fail "rm says $(cat "$work/out")"
expect "what is left" "$(ls "$hub")" models--t--tiny
expect "blobs that are left" "$(ls "$hub/models--t--tiny/blobs")" "$digest"
is_right
"$hearth" models rm t/tiny:Q4_K_M >/dev/null </dev/null
expect "what is left" "$(ls "$hub")" ""
"$hearth" models ls >"$work/out"
expect "models without models" "$(wc -l <"$work/out")" 0
"$hearth" models list 2>"$work/err"
said "no models are downloaded; 'hearth pull OWNER/REPO' gets one"

# A blob that a second snapshot has stays until both are gone: the name removes both.
pull t/tiny
other=$hub/models--t--tiny/snapshots/1123456789abcdef0123456789abcdef01234567
mkdir "$other"
ln -s "../../blobs/$digest" "$other/other.gguf"
"$hearth" models rm t/tiny:Q4_K_M >"$work/out" </dev/null
grep -q "removed t/tiny:Q4_K_M, 0 B" "$work/out" || fail "a blob in use is removed: $(cat "$work/out")"
[ -s "$other/other.gguf" ] || fail "another snapshot lost its blob"

# A digest that came with the file is not computed again, where the operator believes it.
chmod go-w "$hub/models--t--tiny/blobs"
"$hearth" run t/tiny --trust-digests --cache "$work/trusting" -p x -n 1 --verbose >/dev/null 2>"$work/err" || fail "$(cat "$work/err")"
said "is not hashed: its digest came with it"

# A blob that was changed in its place is no longer believed: neither when its model is pulled again, nor in another
# snapshot, for which the right bytes are downloaded.
link=$hub/models--t--tiny/snapshots/$commit/tiny-Q4_K_M.gguf
forget
pull t/tiny
chmod go-w "$hub/models--t--tiny/blobs"
before=$(stat -c '%i %.Z' "$link")
pull t/tiny
expect "the link after a second pull" "$(stat -c '%i %.Z' "$link")" "$before"
printf '!' | dd of="$hub/models--t--tiny/blobs/$digest" bs=1 seek=1400000 conv=notrunc 2>/dev/null
pull t/tiny
"$hearth" run "$path" --trust-digests --cache "$work/changed" -p x -n 1 --verbose >/dev/null 2>"$work/err" || fail "$(cat "$work/err")"
said "is hashed, because its digest is not trusted"
rm "$link"
pull t/tiny
said "the file changed since it was downloaded"
is_right
"$hearth" run "$path" --trust-digests --cache "$work/changed" -p x -n 1 --verbose >/dev/null 2>"$work/err" || fail "$(cat "$work/err")"
said "is not hashed: its digest came with it"
n=$(asked storage .)
rm "$link"
pull t/tiny
expect "requests for a blob that is right" "$(asked storage .)" "$n"

# Ollama's models are found and listed, and never removed.
ollama=$HOME/.ollama/models
mkdir -p "$ollama/manifests/host/library/tiny" "$ollama/manifests/hub.example/some/tiny" "$ollama/blobs"
cp "$tiny" "$ollama/blobs/sha256-$digest"
cat >"$ollama/manifests/host/library/tiny/latest" <<END
{"schemaVersion": 2, "config": {"digest": "sha256:$digest", "size": 1}, "layers": [
  {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:$commit", "size": 2},
  {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:$digest", "size": 3}]}
END
cp "$ollama/manifests/host/library/tiny/latest" "$ollama/manifests/hub.example/some/tiny/Q8_0"
sed "s/sha256:$digest/sha256:..\/..\/..\/..\/etc\/passwd/" "$ollama/manifests/host/library/tiny/latest" \
  >"$ollama/manifests/host/library/tiny/evil"
"$hearth" models ls | grep ollama | awk '{print $1}' | sort | tr '\n' ' ' >"$work/out"
expect "Ollama's models" "$(cat "$work/out")" "hub.example/some/tiny:Q8_0 tiny:latest "
for name in tiny tiny:latest hub.example/some/tiny:Q8_0; do
  "$hearth" run "$name" -p "Once upon a time" -n 4 --temp 0 -q >"$work/out" || fail "a run of Ollama's $name"
  cmp -s "$work/out" "$work/here" || fail "another reply: $(cat "$work/out")"
done
refuse 1 "'tiny:latest' is a model of Ollama's folder, where Hearth removes nothing" models rm tiny:latest
refuse 1 "there is no model 'other:latest'" models rm other:latest
OLLAMA_MODELS=$work/nowhere refuse 1 "tiny:latest" run tiny:latest -p x

# A name that nothing has: where it was looked for, and what gets models.
gets="'hearth pull OWNER/REPO.*' downloads a model"
for command in 'run nothing -p x' 'chat nothing' 'serve -m nothing' 'bench nothing'; do
  refuse 1 "cannot open 'nothing': No such file or directory, and Ollama's folder '$ollama' has no.*$gets" $command
done
refuse 1 "cannot open './nothing.gguf': No such file or directory; $gets" run ./nothing.gguf -p x

given_up() { # PID FILE PATTERN
  code=0
  wait "$1" || code=$?
  expect "exit code beside $2" "$code" 1
  grep -q "$3" "$2" || fail "no '$3' in $(cat "$2")"
}
given_up $nobody "$work/nobody" "given up after 5 tries: cannot read from '127.0.0.1'"
given_up $stuck "$work/stuck" "given up after 5 tries"
