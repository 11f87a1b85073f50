#!/bin/sh
# Models of a registry of Ollama's kind come into Ollama's folder whole or not at all, in Ollama's layout, however the
# registry, its storage and the network behave; and no name leads out of the folder.
. "$(dirname "$0")/lib.sh"

hub_pid=
stop_all() { if [ -n "$hub_pid" ]; then kill -KILL "$hub_pid" 2>/dev/null || true; fi; }
touch "$work/asked"
node "$source/tests/support/hub.mjs" "$tiny" "$work/hub.port" "$work/asked" &
hub_pid=$!
await "the hub" of "$hub_pid" test -s "$work/hub.port"
unset HF_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE XDG_CACHE_HOME OLLAMA_MODELS HF_ENDPOINT
host=127.0.0.1:$(cat "$work/hub.port")
export HF_HOME="$work/hf" HOME="$work/home" HEARTH_OLLAMA_REGISTRY="http://$host/"
ollama=$HOME/.ollama/models
manifests=$ollama/manifests/$host/library

pull() { # ARGUMENTS: of hearth pull; the path is in $path
  path=$("$hearth" pull "$@" 2>"$work/err") || fail "pull $*: $(cat "$work/err")"
  [ -s "$path" ] || fail "pull $* names '$path'"
}
asked() { grep -c "\"host\":\"$1\".*$2" "$work/asked" || true; } # HOST PATTERN: the number of requests
forget() { rm -rf "$ollama" "$work/asked.go"; : >"$work/asked"; }
is_right() { # NAME/TAG: the folder has all layers of this model and nothing else, with right bytes
  manifest=$manifests/$1
  [ -s "$manifest" ] || fail "no manifest of $1: $(find "$ollama")"
  [ -z "$(find "$ollama" -name '*incomplete*' -o -name '*.part')" ] || fail "left over: $(find "$ollama")"
  node -e 'const m = JSON.parse(fs.readFileSync(0)); for (const l of [...m.layers, m.config])
    console.log(l.digest.replace(":", "-"), l.size)' <"$manifest" | sort -u >"$work/listed"
  (cd "$ollama/blobs"; for blob in *; do echo "$blob $(wc -c <"$blob")"; done) >"$work/there"
  expect "blobs of $1" "$(cat "$work/there")" "$(cat "$work/listed")"
  for blob in "$ollama"/blobs/*; do
    expect "digest of a blob" "sha256-$(sha256sum "$blob" | cut -d ' ' -f 1)" "${blob##*/}"
  done
}

# The layout is Ollama's: blobs, and the manifest as the registry sent it. What is there is not asked for again.
pull tiny
digest=$(sha256sum "$tiny" | cut -d ' ' -f 1)
expect path "$path" "$ollama/blobs/sha256-$digest"
said "downloading tiny:latest model [0-9a-f]*, 1.4 MiB"
said "hearth run 'tiny'"
is_right tiny/latest
curl -s -H 'Accept: application/vnd.docker.distribution.manifest.v2+json' \
  "http://$host/v2/library/tiny/manifests/latest" >"$work/manifest"
cmp "$work/manifest" "$manifests/tiny/latest" || fail "another manifest: $(cat "$manifests/tiny/latest")"
expect "mode of the manifest" "$(stat -c %a "$manifests/tiny/latest")" 644
"$hearth" models ls >"$work/out"
expect models "$(awk 'NR > 1 {print $1, $3, $4, $NF}' "$work/out")" "tiny:latest 1.4 MiB ollama"
n=$(asked storage .) before=$(stat -c %i "$manifests/tiny/latest")
pull tiny:latest -q
[ ! -s "$work/err" ] || fail "-q says $(cat "$work/err")"
pull ollama:tiny
expect "requests for what is there" "$(asked storage .)" "$n"
expect "the manifest after a second pull" "$(stat -c %i "$manifests/tiny/latest")" "$before"

# Another model with the same layers, and one with an owner; each blob is there once, and is checked once more.
pull copy:v1
pull ollama:some/model:v2
expect "requests for shared layers" "$(asked storage .)" "$n"
[ -s "$ollama/manifests/$host/some/model/v2" ] || fail "no manifest of an owner's model: $(find "$ollama")"
is_right copy/v1
printf '!' | dd of="$path" bs=1 seek=1400000 conv=notrunc 2>/dev/null
pull copy:v2
said "the file changed since it was downloaded"
is_right copy/v2

# A run takes what is there, and downloads the rest where a registry is named.
generate() { "$hearth" run "$1" -p "Once upon a time" -n 4 --temp 0 -q >"$2" || fail "a run of $1"; }
: >"$work/asked"
HEARTH_OLLAMA_REGISTRY='' generate tiny "$work/here"
HEARTH_OLLAMA_REGISTRY='' generate ollama:some/model:v2 "$work/out"
cmp -s "$work/out" "$work/here" || fail "another reply: $(cat "$work/out")"
generate tiny:latest "$work/out"
HEARTH_OLLAMA_REGISTRY='' generate ollama:library/tiny "$work/out"
cmp -s "$work/out" "$work/here" || fail "another reply with the owner's name: $(cat "$work/out")"
expect "requests for what is there" "$(asked hub .)" 0

# Where two registries have one name, the model of the named one goes first, whatever the order in the folder.
for other in 0.example z.example; do
  mkdir -p "$ollama/manifests/$other/library/tiny"
  printf '{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:%064d", "size": 1}]}' 1 \
    >"$ollama/manifests/$other/library/tiny/latest"
done
printf x >"$ollama/blobs/sha256-$(printf '%064d' 1)"
generate tiny "$work/out"
cmp -s "$work/out" "$work/here" || fail "the model of another registry: $(cat "$work/out")"
rm -r "$ollama/manifests/0.example" "$ollama/manifests/z.example" "$ollama/blobs/sha256-$(printf '%064d' 1)"
forget
generate tiny "$work/out"
cmp -s "$work/out" "$work/here" || fail "another reply after a download: $(cat "$work/out")"
is_right tiny/latest
refuse 1 "the registry has no 'missing:latest': check the name and the tag" run missing -p x
refuse 1 "missing.gguf" run missing.gguf -p x
expect "questions for a file that is not there" "$(asked hub missing.gguf)" 0
HEARTH_OLLAMA_REGISTRY='' refuse 1 "missing" run missing -p x
refuse 1 "'missing:latest' is not in Ollama's folder '$ollama'; download it with 'hearth pull'" serve -m ollama:missing --check

# Without a registry, and without the network.
HEARTH_OLLAMA_REGISTRY='' refuse 1 "could have 'tiny': set HEARTH_OLLAMA_REGISTRY to the address of one" pull tiny
said "A model that is in Ollama's folder needs no download"
for wrong in ftp://x https:// https://host/path https://.. https://host: https://host:x 'https://[::1]' https://user@host; do
  HEARTH_OLLAMA_REGISTRY=$wrong refuse 1 "HEARTH_OLLAMA_REGISTRY is not the address of a registry" pull tiny
done
: >"$work/asked"
HF_HUB_OFFLINE=1 pull tiny
HF_HUB_OFFLINE=1 refuse 1 "HF_HUB_OFFLINE is set: 'copy:latest' is not in Ollama's folder" pull copy
HF_HUB_OFFLINE=1 HEARTH_OLLAMA_REGISTRY='' pull tiny
expect "requests of programs without a network" "$(asked hub .)" 0

# Connections break, addresses expire, the registry wants patience, a storage takes no ranges: the bytes are right.
for kind in direct breaks expires limited whole; do
  forget
  pull $kind
  is_right $kind/latest
done
forget
pull breaks
[ "$(asked storage 'bytes=3000000-')" -ge 1 ] || fail "a broken transfer does not go on where it broke: $(cat "$work/asked")"

# Lies are errors, and leave no model.
forget
lie() { refuse 1 "$2" pull "$1"; [ ! -e "$manifests/$1" ] || fail "a manifest after a lie: $(find "$ollama")"; }
lie evil "'evil:latest' of the registry $host: the manifest gives no SHA-256 of the layer 'model'"
lie upper "the manifest gives no SHA-256 of the layer 'model'"
lie huge "the manifest tells no possible size of the layer 'model'"
lie negative "the manifest tells no possible size of the layer 'model'"
lie two "the manifest tells two sizes of the layer"
lie strange "a layer of the type 'application/x-sh', which no model of Ollama has"
lie control "which is no name; nothing was downloaded"
lie none "the manifest has no model in GGUF format"
lie bare "the manifest gives no SHA-256 of the layer 'config'"
lie list "the answer is not the manifest of a model"
lie page "the answer is not the manifest of a model"
lie endless "the registry's answer for 'endless:latest' is too large"
[ ! -e "$ollama" ] || fail "a manifest that lies made $(find "$ollama")"
lie larger "the registry lists 'larger:latest model .*' with 25178170 bytes, but its storage has another size"
lie smaller "with 25178168 bytes, but its storage has another size"
lie wrong "are not those that the registry lists.*they were deleted; pull again"
lie insecure "the registry redirects to an address without https"
lie circle "the registry redirects 'circle:latest .*' more than"
for blob in "$ollama"/blobs/*; do
  case $blob in *.incomplete) ;; *)
    expect "digest of a blob" "sha256-$(sha256sum "$blob" | cut -d ' ' -f 1)" "${blob##*/}" ;; esac
done
lie missing "the registry has no 'missing:latest': check the name and the tag"
lie private "the registry refuses 'private:latest' with 401: .*only public models can be pulled"
lie patient "the registry asks to wait for 86400 s; try later"
[ ! -e "$ollama/manifests" ] || fail "a manifest after lies: $(find "$ollama")"

# The token of a hub is none of a registry's business.
forget
HF_TOKEN=sesame pull tiny
expect "tokens at the registry" "$(asked hub '"token":"[^"]')" 0

# No name leads out of the folder.
for name in ollama:../x ollama:x/../y ollama:x:.. ollama:x:../y ollama:/x ollama:x/ ollama: ollama:x/y/z ollama:.x 'ollama:x y'; do
  refuse 2 "is not the name of a model of Ollama's" pull "$name"
  refuse 1 "is not the name of a model of Ollama's" run "$name" -p x
done
refuse 2 "list and --revision are for models of a hub" pull tiny --list
refuse 2 "list and --revision are for models of a hub" pull ollama:some/model --revision main

# A folder that cannot be written to.
touch "$work/file"
OLLAMA_MODELS=$work/file/models refuse 1 "cannot make the folder '$work/file/models'" pull tiny
if [ "$(id -u)" != 0 ]; then
  mkdir "$work/closed"
  chmod a-w "$work/closed"
  OLLAMA_MODELS=$work/closed refuse 1 "cannot write to Ollama's folder; set OLLAMA_MODELS to another one" pull tiny
fi

# Two at once: one download. A layer that somebody removes meanwhile is missed before the manifest is written.
forget
"$hearth" pull slow >"$work/one" 2>"$work/one.err" &
one=$!
await "the requests for all pieces" of $one at_least 5 asked storage .
"$hearth" pull slow >"$work/two" 2>"$work/two.err" &
two=$!
await "the wait of the other" of $two grep -qs "another process downloads this file" "$work/two.err"
license=$(printf 'free for all\n' | sha256sum | cut -d ' ' -f 1)
[ ! -e "$manifests/slow" ] || fail "a manifest before its layers: $(find "$ollama")"
rm "$ollama/blobs/sha256-$license"
touch "$work/asked.go"
kill -KILL $one # its stalled connections do not come back by themselves
wait $one || true
code=0
wait $two || code=$?
expect "exit code of a pull that lost a layer ($(cat "$work/two.err"))" "$code" 1
grep -q "sha256-$license' was removed during the download" "$work/two.err" || fail "it says $(cat "$work/two.err")"
[ ! -e "$manifests/slow/latest" ] || fail "a manifest without its layers"
: >"$work/asked"
pull slow
is_right slow/latest
expect "requests for the layer that stayed" "$(asked storage 'bytes=8388608-')" 0

# Ollama's models are Ollama's to remove.
refuse 1 "'slow:latest' is a model of Ollama's folder, where Hearth removes nothing; 'ollama rm slow:latest' does" \
  models rm slow:latest
is_right slow/latest
