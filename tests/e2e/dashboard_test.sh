#!/bin/sh
# The dashboard of the page: its state follows the server's events; an operator sees models, slots, misses with their
# reasons, the death of a worker and shared prefixes, also under load; others learn how to get access.
#
# PICTURES=DIRECTORY writes the pictures of the documents there.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

node --test "$source/tests/page/dashboard_state.test.mjs" >"$work/out" 2>&1 || fail "$(cat "$work/out")"

if grep -q '^HEARTH_PAGE:BOOL=OFF' "$build/CMakeCache.txt"; then
  echo "skipped: this is a build without the page"
  exit 77
fi
CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "skipped: there is no Chromium; scripts/deps.sh --browser installs it"
  exit 77
}
HEARTH_CLIENTS=$("$source/scripts/npm.sh" "$source/tests/page") || fail "no driver for the browser, see above"
SERVER_KEY=$("$hearth" key new --name root --admin --file "$work/keys" 2>/dev/null)
CLIENT_KEY=$("$hearth" key new --name alice --file "$work/keys" 2>/dev/null)

serve -m "chat=$tiny" -m "code=$tiny" -m "slow=stub:delay_us=5000" -m "rest=$tiny" --start on-demand --ram-total 256M \
  --cache "$work/cache" --keys "$work/keys" --admin "127.0.0.1:0" --n-parallel 4 --hang-ms 0
ADMIN_URL=http://127.0.0.1:$(sed -n 2p "$work/port")
export CHROMIUM HEARTH_CLIENTS SERVER_KEY CLIENT_KEY ADMIN_URL SERVER_URL="$url" WORK="$work"
node "$source/tests/page/dashboard.mjs" || fail "the dashboard in a browser, see above; $(tail -n 20 "$work/log")"
serve_stop
