#!/bin/sh
# A server that was given no model serves those that were downloaded, each with the first request for it; or none yet.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

unset HF_HOME HUGGINGFACE_HUB_CACHE XDG_CACHE_HOME
export HF_HUB_CACHE="$work/hub" HF_HUB_OFFLINE=1
commit=0123456789abcdef0123456789abcdef01234567

# download REPO FILE: as 'hearth pull' leaves it
download() {
  folder=$HF_HUB_CACHE/models--$(echo "$1" | sed 's,/,--,')
  mkdir -p "$folder/blobs" "$folder/snapshots/$commit" "$folder/refs"
  digest=$(sha256sum "$tiny" | cut -d ' ' -f 1)
  cp "$tiny" "$folder/blobs/$digest"
  ln -sf "../../blobs/$digest" "$folder/snapshots/$commit/$2"
  printf %s "$commit" >"$folder/refs/main"
}
# names: of the server's models, with the states of their workers
names() { curl -sf "$url/v1/models" >"$work/out" && value 'r.data.map((m) => m.id + " " + m.status.value).join()'; }
expect_names() { expect "the models" "$(names)" "$1"; }

# Nothing is there yet.
serve_listening --listen 127.0.0.1:0
grep -q "there is no model yet; download one with 'hearth pull" "$work/log" || fail "no word of it: $(cat "$work/log")"
expect_names ''

# What came meanwhile is served after a reload.
download some/tiny tiny-Q8_0.gguf
reload
expect_names 'some/tiny:Q8_0 unloaded'
serve_stop

download other/tiny tiny-Q4_K_M.gguf
download other/tiny mmproj-tiny-F16.gguf
serve_listening --listen 127.0.0.1:0 --cache "$work/kv"
grep -q "no model was named: serving the 2 of the hub's cache" "$work/log" || fail "no word of it: $(cat "$work/log")"
expect_names 'other/tiny:Q4_K_M unloaded,some/tiny:Q8_0 unloaded'
curl -sf -m 60 -o "$work/out" "$url/v1/completions" -d '{"model":"some/tiny:Q8_0","prompt":"Once","max_tokens":2}' ||
  fail "no reply: $(cat "$work/log")"
expect "the model of the reply" "$(value r.model)" some/tiny:Q8_0
expect_names 'other/tiny:Q4_K_M unloaded,some/tiny:Q8_0 loaded'
serve_stop

# A model, a folder or a configuration says which.
mkdir "$work/folder"
serve_listening --listen 127.0.0.1:0 --models-dir "$work/folder"
expect_names ''
serve_stop
