# The slots of llama-server: the state of a slot is saved, erased, and restored after a restart; other tenants get
# nothing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

saved=$work/saved
mkdir "$saved"
text=$(words 420)
other=$(words 60 7)
printf '{"prompt":"%s","n_predict":12,"temperature":0,"seed":1,"ignore_eos":true}' "$text" >"$work/ask"
printf '{"prompt":"%s","n_predict":4,"temperature":0,"seed":1}' "$other" >"$work/other"

# number NAME: the first number of that name in the answer
number() { sed -n "s/.*\"$1\":[ ]*\([0-9][0-9.]*\).*/\1/p" "$work/answer" | head -n 1; }
text_of() { sed -n 's/.*"content":[ ]*"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$work/answer"; }

# post PATH BODY [CURL OPTIONS]: the answer goes to $work/answer, its status to $code
post() {
  path=$1 body=$2
  shift 2
  code=$(curl -s -o "$work/answer" -w '%{http_code}' "$@" -d "$body" "$url$path") || fail "no answer to $path"
}

ask() { post /completion "@$work/ask" "$@"; expect "the status of a completion" "$code" 200; }

# refused WHAT STATUS TYPE WORDS: the last answer is an error in llama.cpp's form
refused() {
  expect "the status of $1" "$code" "$2"
  grep -q "\"type\": *\"$3\"" "$work/answer" || fail "$1 is no $3: $(cat "$work/answer")"
  grep -q "$4" "$work/answer" || fail "$1 does not say '$4': $(cat "$work/answer")"
}

# done_with ACTION SLOT TOKENS BYTES: under these names, the last answer has $tokens and the size of a.bin
done_with() {
  expect "the status of a $1" "$code" 200
  expect "the slot of a $1" "$(number id_slot)" "$2"
  expect "the tokens of a $1" "$(number "n_$3")" "$tokens"
  expect "the bytes of a $1" "$(number "n_$4")" "$(wc -c <"$saved/a.bin" | tr -d ' ')"
  grep -q "\"filename\": *\"a.bin\"" "$work/answer" || fail "the file is not named: $(cat "$work/answer")"
  grep -q "\"$1_ms\"" "$work/answer" || fail "no time is told: $(cat "$work/answer")"
}

# ---- without the flag ----

serve -m "$tiny" --ram 64M --n-parallel 2
ask
post '/slots/0?action=save' '{"filename":"a.bin"}'
refused "a save without a folder" 501 not_supported_error 'slot-save-path'
post '/slots/0?action=restore' '{"filename":"a.bin"}'
refused "a restore without a folder" 501 not_supported_error 'slot-save-path'
post '/slots/0?action=erase' ''
expect "the status of an erase without a folder" "$code" 200
[ "$(number n_erased)" -gt 256 ] || fail "an erase took away $(cat "$work/answer")"
ask
expect "cached tokens after an erase without a folder" "$(number cache_n)" 0

# A client cannot erase rows that an operator pinned, here the first block of the prompt.
first_block() {
  "$hearth" cache ls --cache "$cache" --kind block --json | tr -d '\n' | tr '}' '\n' | grep '"first_position": 0,' |
    sed 's/.*"key": "\([0-9a-f]*\)".*/\1/'
}
is_written() { pinned=$(first_block) && [ -n "$pinned" ]; }
await "the first block on disk" is_written
"$hearth" cache pin "$pinned" --cache "$cache" || fail "the first block cannot be pinned"
post '/slots/0?action=erase' ''
expect "the status of an erase beside a pin" "$code" 200
ask
expect "cached tokens after an erase beside a pin" "$(number cache_n)" 256
"$hearth" cache unpin "$pinned" --cache "$cache" || fail "the pin is gone"
serve_stop
rm -rf "$cache"

# ---- the folder is looked at ----

for folder in "$work/nowhere" "$tiny"; do
  if "$hearth" serve -m "$tiny" --slot-save-path "$folder" --listen 127.0.0.1:0 2>"$work/refused"; then fail "it began with the folder $folder"; fi
  grep -q "slot_save_path.*$folder" "$work/refused" || fail "the folder $folder is not named: $(cat "$work/refused")"
done

# ---- save, erase, restore ----

serve -m "$tiny" --ram 64M --n-parallel 2 --slot-save-path "$saved"
post '/slots/1?action=save' '{"filename":"empty.bin"}'
refused "a save of an empty slot" 400 invalid_request_error 'empty'
ask
expect "the slot of the first request" "$(number id_slot)" 0
expect "cached tokens of the first request" "$(number cache_n)" 0
reply=$(text_of)
tokens=$(number tokens_cached)
[ -n "$reply" ] || fail "no reply: $(cat "$work/answer")"
post '/slots/0?action=save' '{"filename":"a.bin"}'
done_with save 0 saved written
[ "$(ls -A "$saved")" = a.bin ] || fail "other files are left: $(ls -A "$saved")"
"$hearth" kvc inspect "$saved/a.bin" >"$work/inspected" || fail "the file does not verify: $(cat "$work/inspected")"
post '/slots/0?action=save' '{"filename":"a.bin"}'
expect "the status of a save over a file" "$code" 200

ask
[ "$(number cache_n)" -gt 256 ] || fail "the second request was cold: $(cat "$work/answer")"
expect "the reply of the second request" "$(text_of)" "$reply"
post '/slots/0?action=erase' ''
expect "the status of an erase" "$code" 200
expect "the tokens erased" "$(number n_erased)" "$tokens"
ask
expect "cached tokens after an erase" "$(number cache_n)" 0
expect "the reply after an erase" "$(text_of)" "$reply"
post '/slots/0?action=erase' '{}'
post '/slots/0?action=erase' '{}'
expect "the tokens erased of an empty slot" "$(number n_erased)" 0

post '/slots/1?action=restore' '{"filename":"a.bin"}'
done_with restore 1 restored read
post '/slots/1?action=save' '{"filename":"again.bin"}'
expect "the tokens saved of a restored slot" "$(number n_saved)" "$tokens"
serve_stop

# ---- a restart with an empty cache ----

rm -rf "$cache"
serve -m "$tiny" --ram 64M --n-parallel 2 --slot-save-path "$saved"
post '/slots/0?action=restore' '{"filename":"a.bin"}'
expect "the status of a restore after a restart" "$code" 200
ask
[ "$(number cache_n)" -gt 256 ] || fail "the request after a restore was cold: $(cat "$work/answer")"
expect "the reply after a restore" "$(text_of)" "$reply"

# ---- a slot whose prompt is much shorter than a block ----

short='{"prompt":"the cat is here now on the mat","n_predict":6,"temperature":0,"seed":1,"ignore_eos":true}'
post /completion "$short"
[ "$(number cache_n)" -lt 3 ] || fail "a short prompt is known before it was asked: $(cat "$work/answer")"
short_tokens=$(number tokens_cached)
[ "$short_tokens" -lt 32 ] || fail "the prompt is not short: $(cat "$work/answer")"
post /completion "$short"
expect "computed tokens of a short prompt that is known" "$(number prompt_n)" 0
post '/slots/0?action=save' '{"filename":"short.bin"}'
expect "the tokens saved of a short slot" "$(number n_saved)" "$short_tokens"
post '/slots/0?action=erase' '{}'
expect "the tokens erased of a short slot" "$(number n_erased)" "$short_tokens"
post /completion "$short"
[ "$(number cache_n)" -lt 3 ] || fail "a short prompt is known after it was erased: $(cat "$work/answer")"
post '/slots/0?action=restore' '{"filename":"short.bin"}'
expect "the tokens restored of a short slot" "$(number n_restored)" "$short_tokens"
ask # slot 0 has the long text again

# ---- a slot of the client's choice; what two slots begin with stays ----

printf '{"prompt":"%s","n_predict":12,"temperature":0,"seed":1,"ignore_eos":true,"id_slot":1}' "$text" >"$work/chosen"
post /completion "@$work/chosen"
expect "the slot that was chosen" "$(number id_slot)" 1
post '/slots/0?action=erase' ''
expect "the tokens erased of what another slot holds" "$(number n_erased)" 0
ask
[ "$(number cache_n)" -gt 256 ] || fail "an erase took another slot's prompt: $(cat "$work/answer")"
printf '{"prompt":"%s","n_predict":1,"id_slot":7}' "$other" >"$work/beyond"
curl -s -D "$work/head" -o "$work/answer" -d "@$work/beyond" "$url/completion"
grep -qi '^x-hearth-ignored:.*id_slot' "$work/head" || fail "a slot that there is not is not told: $(cat "$work/head")"

# ---- what is refused ----

for name in '' . .. .hidden a/b /etc/passwd '../a.bin' 'a\\b' 'a\u0000b' 'a\nb' "$(printf 'a%.0s' $(seq 256))"; do
  post '/slots/0?action=save' "{\"filename\":\"$name\"}"
  refused "a save as '$name'" 400 invalid_request_error "'filename'"
  post '/slots/0?action=restore' "{\"filename\":\"$name\"}"
  refused "a restore of '$name'" 400 invalid_request_error "'filename'"
done
post '/slots/0?action=save' "{\"filename\":\"$(printf 'a%.0s' $(seq 255))\"}"
expect "the status of a save under the longest name" "$code" 200
post '/slots/0?action=save' '{}'
refused "a save without a name" 400 invalid_request_error "'filename'"
post '/slots/0?action=save' '{"filename":7}'
refused "a save as a number" 400 invalid_request_error "'filename'"
post '/slots/0?action=save' 'nonsense' -H 'Content-Type: application/json'
refused "a save with a body that is no JSON" 400 invalid_request_error JSON
post '/slots/0?action=copy' '{"filename":"a.bin"}'
refused "an unknown action" 400 invalid_request_error 'Invalid action'
post '/slots/0' '{"filename":"a.bin"}'
refused "no action" 400 invalid_request_error 'Invalid action'
for slot in 2 -1 x 0x0 00000 99999999999999999999; do
  post "/slots/$slot?action=erase" '{}'
  refused "slot $slot" 400 invalid_request_error 'Invalid slot ID'
done
code=$(curl -s -o "$work/answer" -w '%{http_code}' "$url/slots/0?action=save")
expect "the status of a GET" "$code" 405
code=$(curl -s -o "$work/answer" -w '%{http_code}' "$url/slots")
expect "the status of the list" "$code" 200

# ---- files that are none of this model's ----

post '/slots/0?action=restore' '{"filename":"missing.bin"}'
refused "a restore of a file that is not there" 400 invalid_request_error 'missing.bin'
grep -q "$work" "$work/answer" && fail "a message tells the folder: $(cat "$work/answer")"
cp "$saved/a.bin" "$saved/damaged.bin"
printf 'X' | dd of="$saved/damaged.bin" bs=1 seek=20000 conv=notrunc 2>/dev/null
post '/slots/0?action=restore' '{"filename":"damaged.bin"}'
refused "a restore of a damaged file" 400 invalid_request_error 'damaged.bin'
head -c 5000 "$saved/a.bin" >"$saved/short.bin"
post '/slots/0?action=restore' '{"filename":"short.bin"}'
refused "a restore of half a file" 400 invalid_request_error 'short.bin'
cp "$tiny" "$saved/model.bin"
post '/slots/0?action=restore' '{"filename":"model.bin"}'
refused "a restore of what is no such file" 400 invalid_request_error 'model.bin'
ln -s "$tiny" "$saved/link.bin"
post '/slots/0?action=restore' '{"filename":"link.bin"}'
expect "the status of a restore of a link" "$code" 400
post '/slots/0?action=erase' ''
serve_stop

serve -m "$tiny" --type-k q8_0 --ram 64M --slot-save-path "$saved"
post '/slots/0?action=restore' '{"filename":"a.bin"}'
refused "a restore under other parameters" 400 invalid_request_error 'another model'
serve_stop

# ---- room ----

rm -rf "$saved"
mkdir "$saved"
serve -m "$tiny" --ram 64M --slot-save-path "$saved" --slot-save-bytes-max 64M
ask
post '/slots/0?action=save' '{"filename":"a.bin"}'
expect "the status of a save with room" "$code" 200
bytes=$(number n_written)
limit=$((64 << 20))
[ "$bytes" -gt 100000 ] && [ "$bytes" -lt $((limit / 2)) ] || fail "a file of $bytes bytes does not suit this test"
# With the other files there is room for one more, and not for two.
truncate -s $((limit - bytes - bytes / 2)) "$saved/other.bin"
post '/slots/0?action=save' '{"filename":"b.bin"}'
refused "a save without room" 507 unavailable_error "no room for 'b.bin'"
grep -q "at most $limit bytes" "$work/answer" || fail "the limit is not told: $(cat "$work/answer")"
grep -q "$work" "$work/answer" && fail "a message tells the folder: $(cat "$work/answer")"
post '/slots/0?action=save' '{"filename":"a.bin"}'
expect "the status of a save over a file" "$code" 200
expect "the files of a folder without room" "$(ls -A "$saved" | tr '\n' ' ')" "a.bin other.bin "
rm "$saved/other.bin"
# What a killed worker left takes up no room.
truncate -s "$limit" "$saved/.c.bin.0123456789abcdef.part"
post '/slots/0?action=save' '{"filename":"b.bin"}'
expect "the status of a save when there is room again" "$code" 200
expect "the files of a folder that was swept" "$(ls -A "$saved" | tr '\n' ' ')" "a.bin b.bin "
serve_stop
serve -m "$tiny" --ram 64M --slot-save-path "$saved" --slot-save-bytes-max 0 --disk-free 1000000G
ask
post '/slots/0?action=save' '{"filename":"c.bin"}'
refused "a save on a device without room" 507 unavailable_error 'are to stay free'
expect "the files on a device without room" "$(ls -A "$saved" | tr '\n' ' ')" "a.bin b.bin "
serve_stop

# ---- tenants ----

rm -rf "$cache" "$saved"
mkdir "$saved"
keys=$work/keys
ann=$("$hearth" key new --name ann --salt ann --file "$keys" 2>/dev/null)
bob=$("$hearth" key new --name bob --salt bob --file "$keys" 2>/dev/null)
as_ann="Authorization: Bearer $ann"
as_bob="Authorization: Bearer $bob"
serve -m "$tiny" --ram 64M --n-parallel 2 --slot-save-path "$saved" --keys "$keys"
post '/slots/0?action=erase' ''
expect "the status of an order without a key" "$code" 401
ask -H "$as_ann"
post '/slots/0?action=save' '{"filename":"mine.bin"}' -H "$as_ann"
expect "the status of a tenant's save" "$code" 200
post '/slots/0?action=save' '{"filename":"theirs.bin"}' -H "$as_bob"
refused "a save of another tenant's slot" 400 invalid_request_error 'empty'
post '/slots/0?action=erase' '' -H "$as_bob"
expect "the tokens erased of another tenant's slot" "$(number n_erased)" 0
post '/slots/0?action=restore' '{"filename":"mine.bin"}' -H "$as_bob"
refused "a restore of another tenant's file" 400 invalid_request_error 'mine.bin'
post /completion "@$work/other" -H "$as_bob"
post '/slots/0?action=save' '{"filename":"mine.bin"}' -H "$as_bob"
expect "the status of another tenant's save under the same name" "$code" 200
expect "the folders of tenants" "$(ls -d "$saved"/.tenant-* | wc -l | tr -d ' ')" 2
ask -H "$as_ann"
[ "$(number cache_n)" -gt 256 ] || fail "another tenant erased the prompt: $(cat "$work/answer")"
post '/slots/0?action=erase' '' -H "$as_ann"
ask -H "$as_ann"
expect "cached tokens after a tenant's erase" "$(number cache_n)" 0
post '/slots/0?action=erase' '' -H "$as_ann"
post '/slots/0?action=restore' '{"filename":"mine.bin"}' -H "$as_ann"
expect "the status of a tenant's restore" "$code" 200
ask -H "$as_ann"
[ "$(number cache_n)" -gt 256 ] || fail "the tenant's file did not come back: $(cat "$work/answer")"
# The file itself is of another keyspace.
for folder in "$saved"/.tenant-*; do
  for from in "$saved"/.tenant-*; do [ "$from" = "$folder" ] || cp "$from/mine.bin" "$folder/stolen.bin"; done
done
for key in "$as_ann" "$as_bob"; do
  post '/slots/0?action=restore' '{"filename":"stolen.bin"}' -H "$key"
  refused "a restore of a stolen file" 400 invalid_request_error 'another model'
done
serve_stop
