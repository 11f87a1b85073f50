#!/bin/sh
# The configuration of `hearth serve`, and `hearth key`: checks, the printed configuration, a server with every option,
# keys, TLS, a reload. The documents agree with the program.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

# Wrong usage.
refuse 2 "unexpected argument 'model.gguf'; a model is given with -m" serve model.gguf
refuse 2 "unrecognized option '--listn'; did you mean '--listen'" serve --listn 80
refuse 2 "listen is 'nowhere:x'; it must be an address" serve --listen nowhere:x
refuse 1 'can be reached from other machines, but no keys are required' serve -m "$tiny" --host 0.0.0.0
refuse 1 "cannot open '.*/none.gguf'" serve -m "$work/none.gguf"
refuse 1 "is no GGUF file" serve -m "$source/README.md" --check
refuse 2 "did you mean 'serve'" srve
"$hearth" serve --help >"$work/out"
grep -q -- '--config FILE' "$work/out" || fail "the help does not show --config"
"$hearth" serve --help-all >"$work/help"

# A model without a file.
mkdir "$work/etc"
echo "model m { file = x.gguf }" >"$work/etc/bad.conf"
refuse 1 "'file' is no key of a model" serve --config "$work/etc/bad.conf" --check

# A file: all its errors are told at once, with their lines.
cat >"$work/etc/bad.conf" <<END
# a comment
listen = ["127.0.0.1:0"
  "127.0.0.1:http"];
limits {
  requests_max = none
}

model "chat" {
  path = "$tiny"; contxt = 8192
}
END
status=0
"$hearth" serve --config "$work/etc/bad.conf" --check >"$work/out" 2>"$work/err" || status=$?
expect "exit code of a check of what is wrong" "$status" 1
expect "lines of a check" "$(grep -c . "$work/err")" 3
said "etc/bad.conf:3: listen is '127.0.0.1:http'; it must be an address"
said "etc/bad.conf:5: limits.requests_max is 'none'; it must be a whole number from 1"
said "etc/bad.conf:9: 'contxt' is no key of a model; did you mean 'context'?"
printf 'model a {\n  path = "x.gguf\n}\n' >"$work/etc/bad.conf"
refuse 1 'etc/bad.conf:2: the text that begins with " has no end in its line' serve --config "$work/etc/bad.conf"

# The printed configuration means the same in any directory; so does the installed example.
cat >"$work/etc/good.conf" <<END
cache { directory = ../kv; ram = 32mb; policy { min_tokens = 32 } }
supervision { runtime_directory = ../run2; drain_timeout_ms = 10s }
log { format = json; level = debug }
limits { body_bytes_max = 100kb; json_depth_max = 20; messages_max = 50; schema_bytes_max = 2048; headers_bytes_max = 8kb }
model chat { path = "$tiny"; context = 2048; n_parallel = 2; prefill_chunk = 64; strategy = balanced; threads = 2
  type_k = f16; batch = 256; stalled_ms = 10s; aging_ms = 5s; queue_max = 10; gpu_layers = 0; max_tick_ms = 100
  cache { save_on_second_use = true; writer_threads = 1; disk_free_min = 1mb; disk_bytes_max = 1gb; salt = "a b" } }
model later { path = "stub:"; start = on-demand }
END
"$hearth" serve --config "$work/etc/good.conf" --threads 1 --print-config >"$work/printed.conf" || fail "nothing is printed"
grep -q "path = \"$tiny\"" "$work/printed.conf" || fail "the print lacks the model"
(cd / && "$hearth" serve --config "$work/printed.conf" --print-config) | cmp - "$work/printed.conf" || fail "a print comes to something else"
"$hearth" serve --config "$work/etc/good.conf" --check >"$work/out" || fail "a good configuration is refused"
expect "a check" "$(cat "$work/out")" "ok: 2 models (chat, later), listening on 127.0.0.1:8080, no keys"
"$hearth" serve --config "$source/packaging/hearth.conf" --models-dir "$source/models" --print-config >/dev/null ||
  fail "the example is no configuration"

# The documents list all keys.
"$hearth" serve --print-keys >"$work/keys"
sed -n '/<!-- keys: begin -->/,/<!-- keys: end -->/p' "$source/docs/operating.md" | grep -v '^<!--' >"$work/documented"
cmp "$work/keys" "$work/documented" || fail "docs/operating.md has other keys; take those of 'hearth serve --print-keys'"
sed -n 's/^| `[^`]*` | `\(--[a-z-]*\).*/\1/p' "$work/keys" | while read -r flag; do
  grep -q -e "$flag\>" "$work/help" || fail "there is a key, but no flag $flag"
done

# Keys.
refuse 2 "'key new' needs --name" key new
refuse 2 "it must be 1 to 64 letters" key new --name 'a b'
refuse 2 "did you mean 'new'" key nwe
refuse 2 "'key hash' takes no argument" key hash hk_x
refuse 1 'no key came' key hash
for key in ' hk_x' '\thk_x' 'hk_x ' 'hk_x\t'; do # a server removes such ends from a key that a client sends
  printf "$key\n" | "$hearth" key hash >"$work/out" 2>"$work/err" && fail "a digest of '$key', which no client can send"
  said 'neither begins nor ends with a space or a tab'
done
"$hearth" key new --name alice --models chat,later --requests-per-minute 1000 --salt 'it"s' >"$work/out"
alice=$(head -n 1 "$work/out")
expect "length of a key" "${#alice}" 46
expect "the digest in the block" "$(sed -n 's/^  sha256 = "\(.*\)";/\1/p' "$work/out")" "$(printf '%s' "$alice" | sha256sum | cut -d' ' -f1)"
expect "the digest of a key" "$(echo "$alice" | "$hearth" key hash)" "$(printf '%s' "$alice" | sha256sum | cut -d' ' -f1)"
sed 1,2d "$work/out" >"$work/etc/keys.conf"
chmod 640 "$work/etc/keys.conf"
bob=$("$hearth" key new --name bob --models chat --concurrency 1 --file "$work/etc/keys.conf" 2>/dev/null)
expect "the mode of a file of keys" "$(stat -c %a "$work/etc/keys.conf")" 640
expect "keys in the file" "$(grep -c '^key ' "$work/etc/keys.conf")" 2
refuse 1 "there is a key 'bob' in '.*' already" key new --name bob --file "$work/etc/keys.conf"
root=$("$hearth" key new --name root --admin --file "$work/etc/new.conf" 2>/dev/null)
expect "the mode of a new file of keys" "$(stat -c %a "$work/etc/new.conf")" 600
cat "$work/etc/new.conf" >>"$work/etc/keys.conf"
chmod 602 "$work/etc/keys.conf"
refuse 1 'others may write to the keys' serve -m "$tiny" --keys "$work/etc/keys.conf" --check
chmod 604 "$work/etc/keys.conf"
"$hearth" serve -m "$tiny" --keys "$work/etc/keys.conf" --check >"$work/out" 2>"$work/err" || fail "keys are refused: $(cat "$work/err")"
said 'warning: others may read the keys'
said "warning: .*key 'alice' may use the model 'later', which is not served here"
chmod 600 "$work/etc/keys.conf"

# A check tells all errors at once.
printf 'listen = "no-such-name.invalid:0"\nkeys = "%s/none.conf"\nlog { file = "%s/none/h.log" }\nmodel a { path = "%s/none.gguf" }\n' \
  "$work" "$work" "$work" >"$work/etc/wrong.conf"
refuse 1 'none.conf' serve --config "$work/etc/wrong.conf" --check
for wrong in "the directory of the log '.*/none' is not there" "model 'a': cannot open '.*none.gguf'" 'no-such-name.invalid'; do
  grep -q "$wrong" "$work/err" || fail "the check does not say '$wrong': $(cat "$work/err")"
done

# TLS files are checked at the start.
if command -v openssl >/dev/null; then
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/etc/key.pem" -out "$work/etc/cert.pem" -days 2 -subj /CN=localhost \
    2>/dev/null || fail "no certificate could be made"
  "$hearth" serve -m "$tiny" --tls-certificate "$work/etc/cert.pem" --tls-key "$work/etc/key.pem" --check >"$work/out" ||
    fail "a good certificate is refused"
  grep -q ', TLS$' "$work/out" || fail "the check does not tell of TLS: $(cat "$work/out")"
  refuse 1 '' serve -m "$tiny" --tls-certificate "$work/etc/key.pem" --tls-key "$work/etc/key.pem" --check
  refuse 1 'tls.key (--tls-key) is missing' serve -m "$tiny" --tls-certificate "$work/etc/cert.pem" --check
  # A certificate that is none fails a reload, and the old one stays.
  printf 'listen = "127.0.0.1:0"\nadmin = "unix:%s"\ntls { certificate = "%s"; key = "%s" }\nmodel m { path = "%s" }\n' \
    "$work/admin.sock" "$work/etc/cert.pem" "$work/etc/key.pem" "$tiny" >"$work/etc/tls.conf"
  serve_listening --config "$work/etc/tls.conf"
  expect "TLS" "$(curl -s -m 60 -o /dev/null -w '%{http_code}' --cacert "$work/etc/cert.pem" "https://localhost:$port/v1/models")" 200
  cp "$work/etc/cert.pem" "$work/etc/good.pem"
  echo garbage >"$work/etc/cert.pem"
  expect "a reload with a certificate that is none" "$(curl -s -m 60 -o "$work/out" -w '%{http_code}' -X POST \
    --unix-socket "$work/admin.sock" http://admin/admin/reload)" 400
  grep -q 'cert.pem' "$work/out" || fail "the reload says: $(cat "$work/out")"
  expect "TLS after it" "$(curl -s -m 60 -o /dev/null -w '%{http_code}' --cacert "$work/etc/good.pem" "https://localhost:$port/v1/models")" 200
  cp "$work/etc/good.pem" "$work/etc/cert.pem"
  serve_stop
fi

# A server and its workers take every option, and keys decide.
serve --config "$work/printed.conf" --keys "$work/etc/keys.conf" --log-file "$work/log.json"
[ "$(wc -l <"$work/port")" = 1 ] || fail "the file of ports has other lines: $(cat "$work/port")"
code() { curl -s -m 60 -o "$work/out" -w '%{http_code}' "$@"; }
ask() { code -H "Authorization: Bearer $1" -d "{\"model\":\"$2\",\"prompt\":\"Once\",\"max_tokens\":2}" "$url/v1/completions"; }
expect "a request without a key" "$(code -d '{"prompt":"x"}' "$url/v1/completions")" 401
expect "a request with a wrong key" "$(ask "${alice}x" chat)" 401
# A request without a key is refused after its head, before its body is sent.
head -c 3000000 /dev/zero >"$work/zeros"
expect "a large body without a key" "$(curl -s -m 60 -o "$work/out" -w '%{http_code} %{size_upload}' --expect100-timeout 60 \
  -H 'Expect: 100-continue' --data-binary @"$work/zeros" "$url/v1/completions")" '401 0'
expect "a request with a key" "$(ask "$alice" chat)" 200
expect "a request of the other model" "$(ask "$alice" later)" 200
expect "a request of a model that a key may not use" "$(ask "$bob" later)" 403
expect "an operator's page with a key of a client" "$(code -H "x-api-key: $alice" "$url/admin/models")" 403
expect "an operator's page" "$(code -H "x-api-key: $root" "$url/admin/models")" 200

# A reload: a wrong configuration changes nothing, a good one does.
order_reload() { code -X POST -H "x-api-key: $root" "$url/admin/reload"; }
cp "$work/printed.conf" "$work/before.conf"
echo 'nonsense = 5' >>"$work/printed.conf"
expect "a reload of what is wrong" "$(order_reload)" 400
grep -q "printed.conf:[0-9]*: 'nonsense' is no key here" "$work/out" || fail "a reload says: $(cat "$work/out")"
expect "a request after a reload that failed" "$(ask "$alice" chat)" 200
cp "$work/before.conf" "$work/printed.conf"
sed -i '/^key "alice"/,/^}/d' "$work/etc/keys.conf"
expect "a reload" "$(order_reload)" 200
expect "a request with a key that was taken away" "$(ask "$alice" chat)" 401
expect "a request with another key" "$(ask "$bob" chat)" 200
kill -0 "$server_pid" || fail "the server did not outlive a reload"
serve_stop
[ ! -e "$work/port" ] || fail "the file of ports is still there"

# If a reload gives a name another model, running replies end in the old model and the next request goes to the new one.
model() { printf 'model "m" { path = "%s"; context = 2048 }\n' "$1" >"$work/etc/swap.conf"; }
stream() { curl -sN -m 60 "$url/v1/completions" -d '{"model":"m","prompt":"Once","max_tokens":100,"ignore_eos":true,"stream":true}'; }
model stub:delay_us=10000
serve --config "$work/etc/swap.conf"
stream >"$work/stream" &
client=$!
n_events() { grep -c '^data: ' "$work/stream"; }
await "the begin of the stream" of "$client" at_least 10 n_events
model "$tiny"
reload
expect "a request after the reload" "$(curl -s -m 60 -o "$work/out" -w '%{http_code}' "$url/v1/completions" \
  -d '{"model":"m","prompt":"Once upon a time","max_tokens":4}')" 200
wait "$client" || fail "the stream that ran during the reload broke off"
tail -n 2 "$work/stream" | grep -q '^data: \[DONE\]' || fail "the stream that ran during the reload has no end: $(tail -n 3 "$work/stream")"
! grep -q '"error"' "$work/stream" || fail "the stream that ran during the reload failed: $(tail -n 3 "$work/stream")"
expect "workers' deaths" "$(grep -c 'its worker failed' "$work/log" || true)" 0
serve_stop
