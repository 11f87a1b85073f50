#!/bin/sh
# The page at /: served whole or compressed, to browsers only, under a strict policy; and what it does in a browser.
#
# PICTURES=DIRECTORY writes the pictures of the documents there.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

# page CURL-ARGUMENTS...: "/" as a browser asks for it, in $work/page; its head in $work/head
page() { curl -sS -m 60 -D "$work/head" -o "$work/page" -H 'Accept: text/html,*/*;q=0.8' "$@" "$url/"; }
head_has() { grep -qi -e "^$1" "$work/head" || fail "the page has no header '$1': $(cat "$work/head")"; }

if grep -q '^HEARTH_PAGE:BOOL=OFF' "$build/CMakeCache.txt"; then
  echo "skipped: this is a build without the page"
  exit 77
fi
SERVER_KEY=$("$hearth" key new --name page --admin --file "$work/keys" 2>/dev/null)
export SERVER_KEY
# The model slow waits at its gate as long as a check likes; a sandbox would hide the gate's file from its worker.
GATE=$work/gate
export GATE
cat >"$work/serve.conf" <<EOF
cache { ram = 32M }
model tiny { path = "$tiny" }
model slow { path = "stub:delay_us=2000,gate=$GATE" }
model long { path = "stub:n_ctx_train=262144"; context = 262144 }
EOF
serve --config "$work/serve.conf" --keys "$work/keys" --n-parallel 2 --no-sandbox --hang-ms 0

# Without a key.
page
head_has 'HTTP/1.1 200'
head_has "content-security-policy: default-src 'none'; script-src 'sha256-"
head_has 'x-content-type-options: nosniff'
head_has 'referrer-policy: no-referrer'
head_has 'content-type: text/html'
cmp -s "$work/page" "$build/page/page.html" || fail "the page differs from $build/page/page.html"
page -H 'Accept-Encoding: gzip, br'
head_has 'content-encoding: gzip'
[ "$(wc -c <"$work/page")" -lt 200000 ] || fail "the compressed page has $(wc -c <"$work/page") bytes"
gunzip -c <"$work/page" | cmp -s - "$build/page/page.html" || fail "the compressed page is another one"
for refusal in 'gzip;q=0, identity' 'x-gzip, gzip; q=0.0'; do
  page -H "Accept-Encoding: $refusal"
  cmp -s "$work/page" "$build/page/page.html" || fail "the page is compressed for a client that says '$refusal'"
done
etag=$(sed -n 's/^etag: *\(.*\)\r$/\1/Ip' "$work/head")
page -H "If-None-Match: $etag"
head_has 'HTTP/1.1 304'
page --head
head_has 'HTTP/1.1 200'
expect "the reply to other clients" "$(curl -sS "$url/")" "Hearth is running"

node --test "$source/tests/page/files_test.mjs" >"$work/out" || fail "files of conversations: $(cat "$work/out")"

CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "skipped: there is no Chromium; scripts/deps.sh --browser installs it"
  exit 77
}
HEARTH_CLIENTS=$("$source/scripts/npm.sh" "$source/tests/page") || fail "the browser's driver cannot be installed, see above"
export CHROMIUM HEARTH_CLIENTS SERVER_URL="$url" SERVER_PID="$server_pid" WORK="$work"
node "$source/tests/page/page.mjs" || fail "the page in a browser, see above; $(tail -n 20 "$work/log")"
serve_stop

serve -m "tiny=$tiny" --no-ui
page
expect "the page under --no-ui" "$(cat "$work/page")" "Hearth is running"
serve_stop
