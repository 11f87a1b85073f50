#!/bin/sh
# Keys of an operator: made, listed, expired and removed in a file; on the command line; in every header that clients
# use. A reload takes changes over.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

keys=$work/keys.conf

# In a file.
alice=$("$hearth" key add --name alice --expires 2d --requests-per-minute 1000 --file "$keys" 2>/dev/null)
bob=$("$hearth" key new --name bob --models tiny --salt own --file "$keys" 2>/dev/null)
root=$("$hearth" key new --name root --admin --expires never --file "$keys" 2>/dev/null)
sed -i '1i # clients of this house' "$keys"
"$hearth" key list --file "$keys" >"$work/out" || fail "keys are not listed"
expect "lines of a list" "$(wc -l <"$work/out")" 4
grep -q '^alice  *-  *-  *1000  *-  *-  *20[0-9-]*T[0-9:]*Z  *all$' "$work/out" || fail "the list says of alice: $(cat "$work/out")"
grep -q '^bob  *-  *own  *-  *-  *-  *never  *tiny$' "$work/out" || fail "the list says of bob: $(cat "$work/out")"
grep -q '^root  *yes ' "$work/out" || fail "the list says of root: $(cat "$work/out")"
! grep -q "hk_\|$(sed -n 's/.*sha256 = "\(.*\)".*/\1/p' "$keys" | head -n 1)" "$work/out" || fail "the list shows keys"
refuse 2 "needs --file FILE" key list
refuse 2 "at most 256 bytes" key new --name long --salt "$(printf '%257s' x)"
refuse 2 "needs the key's NAME and --file FILE" key remove --file "$keys"
refuse 2 "needs the key's NAME, WHEN" key expire alice --file "$keys"
refuse 2 "WHEN is 'soon'; it must be a date" key expire alice soon --file "$keys"
refuse 2 "expires is 'soon'\|'soon'; it must be a date" key new --name x --expires soon
refuse 1 "there is no key 'carol' in" key remove carol --file "$keys"
refuse 1 'cannot read' key list --file "$work/none"
refuse 2 "did you mean 'remove'" key remve
echo 'key x { expires = 31.1.2027 }' >"$work/wrong"
refuse 1 "wrong:1: expires is '31.1.2027'; it must be a date" key list --file "$work/wrong"
mkdir "$work/linked" && cp "$keys" "$work/linked/real" && chmod 640 "$work/linked/real" && ln -s linked/real "$work/link"
"$hearth" key new --name by-link --file "$work/link" >"$work/out" 2>/dev/null || fail "no key is added through a link"
[ -L "$work/link" ] || fail "a link to a file of keys was replaced"
grep -q by-link "$work/linked/real" || fail "the file that a link leads to has no new key"
expect "mode of a changed file of keys" "$(ls -l "$work/linked/real" | cut -c 1-10)" -rw-r-----
printf '{"key": {"json": {"sha256": "%064d"}}}\n' 1 >"$work/keys.json" && chmod 600 "$work/keys.json"
cp "$work/keys.json" "$work/keys.json.before"
refuse 1 "keys.json' is JSON, to which no block can be added" key new --name x --file "$work/keys.json"
cmp -s "$work/keys.json" "$work/keys.json.before" || fail "a JSON file of keys was changed"
for command in 'key new --name x' 'key hash'; do
  # shellcheck disable=SC2086
  if echo secret | "$hearth" $command >/dev/full 2>"$work/err"; then fail "$command ends well without its output"; fi
  said "cannot write to standard output"
done

serve -m "tiny=$tiny" --start on-demand --keys "$keys"
for header in "Authorization: Bearer $alice" "authorization: bearer $alice" "x-api-key: $alice" "api-key: $alice" \
  "x-goog-api-key: $alice"; do
  ask 200 -H "$header" "$url/v1/models"
done
ask 401 -H 'api-key: hk_wrong' "$url/v1/models"; has 'not known here'
ask 401 "$url/v1/models"; has 'wants an API key'
ask 401 "$url/v1/models?key=$alice"

order_reload() { ask 200 -X POST -H "x-api-key: $root" "$url/admin/reload"; }
"$hearth" key expire alice now --file "$keys" || fail "alice does not expire"
ask 200 -H "x-api-key: $alice" "$url/v1/models" # until the file is read anew
order_reload
ask 401 -H "x-api-key: $alice" "$url/v1/models"; has "'alice' is expired"; has invalid_api_key
ask 401 -H "x-api-key: $alice" "$url/v1/messages" -d '{}'; has authentication_error
ask 200 -H "x-api-key: $root" "$url/admin/config"; has '"expires"'
"$hearth" key expire alice 2100-01-01 --file "$keys" || fail "alice does not live longer"
"$hearth" key remove bob --file "$keys" || fail "bob is not removed"
expect "the file's first line" "$(head -n 1 "$keys")" '# clients of this house'
order_reload
ask 200 -H "x-api-key: $alice" "$url/v1/models"
ask 401 -H "x-api-key: $bob" "$url/v1/models"; has 'not known here'
"$hearth" key remove alice --file "$keys" || fail "alice is not removed"
refuse 1 "'root' is the only key" key remove root --file "$keys"
grep -q '"root"' "$keys" || fail "the last key is gone"
chmod 602 "$keys"
refuse 1 'others may write to the keys' key list --file "$keys"
serve_stop

# On the command line, and in a file with one key a line.
printf '# mine\nfrom-a-file\n' >"$work/list"
chmod 600 "$work/list"
serve -m "tiny=$tiny" --start on-demand --api-key first,second --api-key-file "$work/list"
expect "warnings of keys that others see" "$(grep -c 'warning: .*--api-key ' "$work/log")" 1
! grep -q 'first\|second\|from-a-file' "$work/log" || fail "the log shows keys"
for key in first second from-a-file; do ask 200 -H "Authorization: Bearer $key" "$url/v1/models"; done
ask 401 -H 'Authorization: Bearer # mine' "$url/v1/models"
ask 401 "$url/v1/models"
ask 200 "$url/health"
ask 403 -H 'Authorization: Bearer first' "$url/metrics"
echo new >>"$work/list"
reload
ask 200 -H 'x-api-key: new' "$url/v1/models"
serve_stop
refuse 1 'there is no key in' serve -m "$tiny" --api-key-file /dev/null --check
"$hearth" serve -m "$tiny" --host 0.0.0.0 --api-key secret --check >"$work/out" 2>"$work/err" || fail "a public address with a key is refused"
grep -q '1 key' "$work/out" || fail "the check says: $(cat "$work/out")"
