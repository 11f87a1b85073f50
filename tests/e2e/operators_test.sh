#!/bin/sh
# Operators see the addresses of a server, with any standard error; its readiness; and refused requests with reasons. A
# flood of refusals does not fill the log.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

logged() { heard "$work/log" "$1"; } # a line may come after the reply

# Several hosts on one port; localhost means both loopback addresses, because clients try them in either order.
[ ! -s /proc/net/if_inet6 ] || has_ipv6=yes
serve_listening --host "localhost,$work/hearth.sock" --port 0 -m "tiny=$tiny"
await_ready
ask 200 http://x/health --unix-socket "$work/hearth.sock"
ask 200 "http://localhost:$port/health"
ask 200 "http://127.0.0.1:$port/health"
if [ "${has_ipv6:-}" ]; then ask 200 -g "http://[::1]:$port/health"; fi
grep -q "^listening on http://localhost:$port\$" "$work/log" || fail "it does not say where it listens: $(cat "$work/log")"
grep -q "^listening on unix:$work/hearth.sock\$" "$work/log" || fail "it does not say of its socket: $(cat "$work/log")"

# /props tells values and changes nothing.
ask 200 "$url/props"; has '"model_path": *"hearth-tiny.gguf"'; has '"model_alias": *"tiny"'
ask 501 "$url/props" -d '{"x":1}'; has not_supported_error; has '--props'
ask 405 -X DELETE "$url/props"
ask 200 "$url/slots"

# The log has refused clients with the reason.
ask 404 "$url/v1/models/none"
ask 403 "$url/v1/models" -H 'Origin: http://localhost:5173'
ask 414 "$url/$(head -c 60000 /dev/zero | tr '\0' x)"
logged '"status":404.*"why":"there is no model .none. here'
logged '"status":403.*"reason":"forbidden","why":"pages of .http://localhost:5173. may not use this server; allow them with --cors-origin http://localhost:5173'
logged 'refused with 414'

# A flood of refusals makes some lines and a count.
before=$(grep -c '"why"' "$work/log")
for _ in $(seq 20); do
  curl -s -m 60 -o /dev/null "$url/nowhere-[1-50]" || fail "a flood is not answered"
done
sleep 0.5 # lines of refusals are allowed again as time passes, ten a second
ask 404 "$url/nowhere"
logged 'requests were refused that no line tells of'
after=$(grep -c '"why"' "$work/log")
[ $((after - before)) -lt 900 ] || fail "1000 refusals gave $((after - before)) lines"
serve_stop

# Without an access log, refusals are events.
serve -m "tiny=$tiny" --start on-demand --no-access-log --api-key sesame-sesame --props --no-slots
ask 401 "$url/v1/models" -H 'x-api-key: wrong'
logged '"msg":"request [^ ]* of 127.0.0.1 to GET /v1/models is refused with 401: the API key is not known here'
! grep -q sesame-sesame "$work/log" || fail "the log has a key"
ask 200 "$url/health" # nothing is loaded at the start
ask 200 "$url/props" -X POST -H 'x-api-key: sesame-sesame' -d '{"x":1,"y":{}}'; has '"success":true'
grep -qi '^x-hearth-ignored: x, y' "$work/head" || fail "what has no effect is not told: $(cat "$work/head")"
ask 400 "$url/props" -X POST -H 'x-api-key: sesame-sesame' -d '[]'
ask 501 "$url/slots" -H 'x-api-key: sesame-sesame'; has not_supported_error; has '--no-slots'
serve_stop

# A model is named and forgotten while the server runs, whatever the file of the configuration has become; models of the
# configuration stay the first ones.
echo "model tiny { path = '$tiny' }" | tee "$work/good.conf" >"$work/hearth.conf"
serve --config "$work/hearth.conf" --admin "unix:$work/admin.sock"
admin=$(sed -n 's/^operators. pages on //p' "$work/log")
expect "the operators' address" "$admin" "unix:$work/admin.sock"
order() { expected=$1; page=$2; shift 2; ask "$expected" --unix-socket "$work/admin.sock" "http://localhost$page" "$@"; }
cp "$tiny" "$work/late.gguf"
order 400 "/admin/models" -d '{"name":"late","path":"/nowhere/late.gguf"}'; has "/nowhere/late.gguf"
order 400 "/admin/models" -d "{\"name\":\"tiny\",\"path\":\"$work/late.gguf\"}"; has "there is a model 'tiny' already"
order 201 "/admin/models" -d "{\"name\":\"late\",\"path\":\"$work/late.gguf\"}"
ask 200 "$url/v1/completions" -d '{"model":"late","prompt":"Once","max_tokens":2}'; has '"model": *"late"'
order 200 "/admin/models"; cp "$work/reply" "$work/out"
line=/proc/$(value 'r.models[1].pid')/cmdline
[ ! -r "$line" ] || expect "names on a worker's command line" "$(tr '\0' '\n' <"$line" | grep -c -e '^--name$')" 1
order 200 "/admin/reload" -X POST; ask 200 "$url/v1/models/late"
ask 200 "$url/v1/completions" -d '{"prompt":"Once","max_tokens":2}'; has '"model": *"tiny"'
# While its file is gone, reloads leave it out.
mv "$work/late.gguf" "$work/away"
order 200 "/admin/reload" -X POST; ask 404 "$url/v1/models/late"
logged "model 'late', which an operator's order added, is left out until the next reload"
mv "$work/away" "$work/late.gguf"
order 200 "/admin/reload" -X POST; ask 200 "$url/v1/models/late"
ask 200 "$url/v1/completions" -d '{"model":"late","prompt":"Once","max_tokens":2}'
order 404 "/admin/models/tiny" -X DELETE; has "was named while the server runs"
order 200 "/admin/models/late" -X DELETE; ask 404 "$url/v1/models/late"
logged "orders DELETE /admin/models/late"
order 404 "/admin/models/late" -X DELETE
echo "model tiny { path = '$tiny'; contxt = 5 }" >"$work/hearth.conf"
n=$(grep -c 'was read anew' "$work/log")
order 400 "/admin/reload" -X POST; has "'contxt' is no key"
late="{\"name\":\"late\",\"path\":\"$work/late.gguf\""
order 201 "/admin/models" -d "$late,\"context\":512,\"aliases\":[\"later\"],\"start\":\"at-once\",\"cache\":{\"salt\":\"x\"}}"
order 400 "/admin/models" -d "$late}"; has "there is a model 'late' already"
ask 200 "$url/v1/completions" -d '{"model":"later","prompt":"Once","max_tokens":2}'; has '"model": *"later"'
order 200 "/admin/config"; cp "$work/reply" "$work/out"
expect "options of a named model" "$(value 'r.models[1].worker.join(" ").match(/--ctx 512/) + " " + r.models[1].start')" \
  "--ctx 512 at-once"
order 200 "/admin/models/late" -X DELETE; ask 404 "$url/v1/models/late"
for wrong in '"contxt":512}' '"context":"much"}' '"aliases":["tiny"]}' '"preset":"none"}'; do
  order 400 "/admin/models" -d "$late,$wrong"
done

order 200 /admin/config -H 'Host: x'
order 403 /admin/config -H 'Host: evil.example'; has "not served under the name 'evil.example'"
order 403 /admin/config -H 'Origin: http://evil.example'

# The same as commands, with the flags of models.
export HEARTH_URL=$admin
cd "$work"
expect "the answer to add" "$("$hearth" models add late late.gguf --ctx 768 --alias later --alias latest --pinned --temp 0.5 \
  --policy min_tokens=7 --ram 64M --stalled-ms 40s)" "late: added"
order 200 "/admin/config"; cp "$work/reply" "$work/out"
for option in "--ctx 768" "--temp 0.5" "--policy min_tokens=7" "--stalled-ms 40s" "--model $work/late.gguf"; do
  expect "the option $option" "$(value "r.models[1].worker.join(' ').includes('$option')")" true
done
expect "policy of an added model" "$(value '((m) => [m.aliases.join(), m.pinned, m.ram].join())(r.models[1])')" \
  "later,latest,true,67108864"
ask 200 "$url/v1/completions" -d '{"model":"latest","prompt":"Once","max_tokens":2}'
refuse 1 "refuses with 400: there is a model 'late' already" models add late late.gguf
refuse 1 "refuses with 400: .*cannot open 'none.gguf'\|cannot open '.*/none.gguf'" models add none none.gguf
refuse 1 "there is no preset 'small' in the configuration file" models add more late.gguf --preset small
refuse 2 "ctx is 'much'" models add more late.gguf --ctx much
refuse 2 "takes a NAME and a PATH" models add more
expect "the answer to forget" "$("$hearth" models forget late)" "late: removed"
refuse 1 "refuses with 404: no model 'late' was named" models forget late
refuse 2 "takes the names of models" models forget
cd - >/dev/null
expect "reloads by orders" "$(grep -c 'was read anew' "$work/log")" "$n"
logged "an operator's order added model 'late'"
serve_stop

# A port is for every account of the machine. So an order that names paths needs an operator's key there, and a page
# reaches a socket through a forwarded port under a name of the server only.
root=$("$hearth" key new --name root --admin --file "$work/keys" 2>/dev/null)
alice=$("$hearth" key new --name alice --file "$work/keys" 2>/dev/null)
serve --config "$work/good.conf" --start on-demand --admin 127.0.0.1:0 --keys "$work/keys"
admin=http://127.0.0.1:$(sed -n 2p "$work/port")
echo secret >"$work/secret"
for key in '' "x-api-key: $alice" "x-api-key: wrong"; do
  ask 403 "$admin/admin/models" ${key:+-H "$key"} -d "$late,\"chat_template\":\"$work/secret\"}"; has "admin = true"; has "unix"
  ask 403 "$admin/admin/models" ${key:+-H "$key"} -d "$late,\"cache\":{\"directory\":\"$work/made\"}}"
  ask 200 "$admin/admin/models"
done
[ ! -e "$work/made" ] || fail "a refused order makes a folder"
ask 201 "$admin/admin/models" -H "x-api-key: $root" -d "$late}"
ask 200 "$admin/admin/models/late" -X DELETE
ask 201 "$url/admin/models" -H "Authorization: Bearer $root" -d "$late}"
expect "an order on a port without a key" "$("$hearth" models add other "$tiny" --url "$admin" 2>&1 | grep -c 'needs\|show a key')" 1
serve_stop

# /health waits for the first model, as in llama-server. A model whose file is cut short never loads.
printf 'GGUF and no more' >"$work/bad.gguf"
serve_listening --listen 127.0.0.1:0 -m "bad=$work/bad.gguf"
ask 503 "$url/health"; has unavailable_error; has "model 'bad'"
ask 503 "$url/v1/health"
ask 503 "$url/ready"
! grep -q "$work" "$work/reply" || fail "the reply tells where files lie"
serve_stop

# A command line of llama-server.
"$hearth" serve -m "tiny=$tiny" -c 4096 -ngl 0 -np 3 -fa on --jinja --metrics -ctk f16 -t 2 --print-config >"$work/printed" 2>"$work/err" ||
  fail "llama-server's flags are refused: $(cat "$work/err")"
for line in 'context = 4096' 'n_parallel = 3' 'gpu_layers = 0' 'threads = 2' 'flash_attn = "on"'; do
  grep -q "^ *$line" "$work/printed" || fail "the configuration has no '$line': $(cat "$work/printed")"
done
expect "warnings of what has no effect" "$(grep -c 'warning: .* has no effect here' "$work/err")" 2
status=0
"$hearth" serve -m "tiny=$tiny" --context-shift --check >"$work/out" 2>"$work/err" || status=$?
expect "what is not offered" "$status" 2
grep -q -e '--context-shift is not offered: ' "$work/err" || fail "it does not say why: $(cat "$work/err")"
