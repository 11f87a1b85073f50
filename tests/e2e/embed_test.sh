#!/bin/sh
# Embeddings and scores as users make them: `hearth embed`, and the endpoints of OpenAI, llama.cpp, rerank and Ollama
# over HTTP, on an encoder, a reranker and a model that generates.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

# post PATH JSON: the reply in $work/out; sets code
post() {
  path=$1
  code=$(curl -sS -m 120 -H 'Content-Type: application/json' -o "$work/out" -w '%{http_code}' -d "$2" "$url$path") ||
    fail "curl $url$path: no answer"
}
is() { [ "$code" = "$1" ] || fail "$path gives $code and not $1: $(cut -c 1-600 "$work/out")"; }
has() { grep -q -e "$1" "$work/out" || fail "$path has no '$1': $(cut -c 1-600 "$work/out")"; }

bert=$("$build/bench/make_model" tiny-bert 2>"$work/made") || fail "no encoder: $(cat "$work/made")"
reranker=$("$build/bench/make_model" tiny-reranker 2>"$work/made") || fail "no reranker: $(cat "$work/made")"

# ---- the command ----

"$hearth" embed "$bert" 'a fox' 'a dog' >"$work/vectors" || fail "embed fails"
expect "lines" "$(wc -l <"$work/vectors" | tr -d ' ')" 2
printf 'a fox\na dog\n' | "$hearth" embed "$bert" >"$work/piped"
cmp -s "$work/vectors" "$work/piped" || fail "texts on standard input give other vectors"
"$hearth" embed "$bert" 'a fox' --json --dimensions 2 >"$work/out"
expect "an object" "$(value 'r.index + " " + r.tokens + " " + r.embedding.length')" "0 5 2"
expect "its norm" "$(value 'Math.hypot(...r.embedding).toFixed(5)')" 1.00000
"$hearth" embed "$reranker" --query 'what is a fox' 'a fox is an animal' 'x' >"$work/scores" || fail "no scores"
expect "scores" "$(grep -c '^\[[-0-9.e]*\]$' "$work/scores")" 2
if "$hearth" embed "$bert" --query 'q' 'a' 2>"$work/err"; then fail "an encoder without a classifier scores"; fi
grep -q 'has no classifier' "$work/err" || fail "no reason: $(cat "$work/err")"
if "$hearth" run "$bert" -p hello 2>"$work/err"; then fail "an encoder generates"; fi
grep -q 'generates no text' "$work/err" || fail "no reason: $(cat "$work/err")"
code=0
"$hearth" embed 2>"$work/err" || code=$?
expect "the exit code without a model" "$code" 2

# ---- the server ----

serve -m "bert=$bert" -m "reranker=$reranker" -m "tiny=$tiny" -m tokens=stub: -m none=stub:embeds=0 --cache "$work/kv" --ram 32M --admin 127.0.0.1:0
admin=http://127.0.0.1:$(sed -n 2p "$work/port")
node -e 'const v = require("fs").readFileSync(process.argv[1], "utf8").trim().split("\n").map(JSON.parse)
  console.log(JSON.stringify(v))' "$work/vectors" >"$work/expected"
near='(a, b) => a.length === b.length && a.every((x, i) => Math.abs(x - b[i]) < 1e-5)'
expected="JSON.parse(require('fs').readFileSync('$work/expected'))"

post /v1/embeddings '{"model":"bert","input":["a fox","a dog"]}'; is 200
expect "the object" "$(value 'r.object + " " + r.model + " " + r.data[1].object + " " + r.data[1].index')" "list bert embedding 1"
expect "the command's vectors" "$(value "$expected.every((v, i) => ($near)(v, r.data[i].embedding))")" true
expect "usage" "$(value 'r.usage.prompt_tokens + " " + r.usage.total_tokens')" "10 10"
cp "$work/out" "$work/floats"
post /v1/embeddings '{"model":"bert","input":["a fox","a dog"],"encoding_format":"base64"}'; is 200
expect "base64" "$(value "r.data.every((d, i) => { const b = Buffer.from(d.embedding, 'base64')
  return ($near)([...new Float32Array(b.buffer, b.byteOffset, b.length / 4)], $expected[i]) })")" true
post /v1/embeddings '{"model":"bert","input":"a fox","dimensions":16}'; is 200
expect "16 dimensions" "$(value 'r.data[0].embedding.length + " " + Math.hypot(...r.data[0].embedding).toFixed(5)')" "16 1.00000"
post /v1/embeddings '{"model":"tokens","input":[[256,104,105],[256,104]]}'; is 200
expect "two inputs of tokens" "$(value 'r.data.length + " " + r.usage.prompt_tokens')" "2 5"
post /v1/embeddings '{"model":"tokens","input":[256,104,105]}'; is 200
expect "one input of tokens" "$(value 'r.data.length + " " + r.usage.prompt_tokens')" "1 3"
post /v1/embeddings '{"model":"tiny","input":"a fox"}'; is 200
expect "a model that generates" "$(value 'Math.hypot(...r.data[0].embedding).toFixed(4)')" 1.0000

# With pooling `last`, a known prefix comes from the cache, also in the next process (below).
head=$(awk 'BEGIN { for (i = 0; i < 200; i++) printf "fox " }')
post /v1/embeddings "{\"model\":\"tiny\",\"input\":\"$head runs\"}"; is 200
expect "cached tokens of a new input" "$(value 'r.usage.prompt_tokens_details.cached_tokens')" 0
post /v1/embeddings "{\"model\":\"tiny\",\"input\":\"$head sleeps\"}"; is 200
expect "cached tokens of a known head" "$(value 'r.usage.prompt_tokens_details.cached_tokens >= 256')" true
post /v1/embeddings "{\"model\":\"tiny\",\"input\":\"$head sleeps\",\"cache_salt\":\"other\"}"; is 200
expect "cached tokens of another salt" "$(value 'r.usage.prompt_tokens_details.cached_tokens')" 0
post /v1/embeddings "{\"model\":\"tiny\",\"input\":\"$head sleeps\",\"cache_prompt\":false}"; is 200
expect "cached tokens that were not read" "$(value 'r.usage.prompt_tokens_details.cached_tokens')" 0

post /embedding '{"model":"bert","content":"a fox"}'; is 200
expect "llama.cpp's form" "$(value "r[0].index + ' ' + ($near)(r[0].embedding[0], $expected[0])")" "0 true"
post /embeddings '{"model":"bert","input":["a fox"],"embd_normalize":-1}'; is 200
expect "a vector as it is" "$(value 'Math.hypot(...r[0].embedding[0]) > 1.01')" true

post /v1/rerank '{"model":"reranker","query":"what is a fox","documents":["x","a fox is an animal",{"text":"y"}],"return_documents":true}'; is 200
expect "the best first" "$(value 'r.results.length === 3 && r.results.every((d, i) => i === 0 || r.results[i - 1].relevance_score >= d.relevance_score)')" true
expect "documents" "$(value 'r.results.map((d) => ["x", "a fox is an animal", "y"][d.index] === d.document.text).join()')" true,true,true
expect "the command's score" "$(value "Math.abs(r.results.find((d) => d.index === 1).relevance_score - JSON.parse(require('fs').readFileSync('$work/scores', 'utf8').split('\n')[0])[0]) < 1e-3")" true
post /rerank '{"model":"reranker","query":"q","texts":["a","b","c"],"top_n":2}'; is 200
expect "the form of text-embeddings-inference" "$(value 'Array.isArray(r) + " " + r.length + " " + typeof r[0].score')" "true 2 number"

post /api/embed '{"model":"bert","input":["a fox","a dog"]}'; is 200
expect "Ollama's form" "$(value "r.embeddings.every((v, i) => ($near)(v, $expected[i])) + ' ' + r.prompt_eval_count")" "true 10"
post /api/embed '{"model":"bert"}'; is 200
expect "a model that is only loaded" "$(value 'r.embeddings.length')" 0
post /api/embeddings '{"model":"bert","prompt":"a fox"}'; is 200
expect "Ollama's older form" "$(value 'r.embedding.length')" 128

# ---- what is refused ----

post /v1/embeddings '{"model":"bert"}'; is 400; has "'input' is missing"
post /v1/embeddings '{"model":"bert","input":[]}'; is 400; has 'is empty'
post /v1/embeddings '{"model":"bert","input":[["a","b"]]}'; is 400; has 'array of token ids'
post /embedding '{"model":"bert","content":{"prompt_string":"a","multimodal_data":[]}}'; is 400; has multimodal_data
post /v1/embeddings '{"model":"bert","input":[["a"]]}'; is 400; has 'array of token ids'
post /v1/embeddings '{"model":"bert","input":7}'; is 400; has "'input' is a number"
post /v1/embeddings '{"model":"bert","input":[99999]}'; is 400; has 'this model has tokens 0 to 4095'
post /v1/embeddings '{"model":"bert","input":"a","dimensions":129}'; is 400; has 'have 128 values'
post /v1/embeddings '{"model":"bert","input":"a","encoding_format":"int8"}'; is 400; has 'encoding_format'
post /v1/embeddings '{"model":"reranker","input":"a"}'; is 400; has 'is a reranker'
post /v1/embeddings '{"model":"none","input":"a"}'; is 400; has 'makes no embeddings'
post /v1/rerank '{"model":"bert","query":"q","documents":["a"]}'; is 400; has 'has no classifier'
post /v1/rerank '{"model":"reranker","query":"q","documents":[]}'; is 400; has 'is empty'
post /v1/rerank '{"model":"reranker","documents":["a"]}'; is 400; has "'query' is missing"
post /v1/chat/completions '{"model":"bert","messages":[{"role":"user","content":"hi"}]}'; is 400; has 'generates no text'
awk 'BEGIN { printf "{\"model\":\"bert\",\"input\":[[5,\""; for (i = 0; i < 100000; i++) printf "fox "; print "\"]]}" }' \
  >"$work/mixed"
post /v1/embeddings "@$work/mixed"; is 400; has '"param": *"input"'
long=$(awk 'BEGIN { for (i = 0; i < 700; i++) printf "fox " }')
post /v1/embeddings "{\"model\":\"bert\",\"input\":\"$long\"}"; is 400; has 'may have at most 600'
post /v1/embeddings "{\"model\":\"bert\",\"input\":\"$long\",\"truncate\":true}"; is 200
expect "tokens of a truncated input" "$(value 'r.usage.prompt_tokens')" 600
post /api/embed "{\"model\":\"bert\",\"input\":\"$long\"}"; is 200

curl -sf -m 60 "$admin/metrics" >"$work/metrics" || fail "no metrics"
tokens=$(sed -n 's/^hearth_prompt_tokens_total{model="bert"} //p' "$work/metrics")
[ "${tokens:-0}" -gt 1000 ] || fail "the tokens of embeddings are not counted: '$tokens'"
expect "lookups, of the one request to generate" "$(grep 'hearth_request_hits_total{model="bert"' "$work/metrics" | awk '{ n += $2 } END { print n }')" 1

# Clients that leave, and many at once: the others get their vectors.
node -e '
  const url = process.argv[1] + "/v1/embeddings"
  const ask = (input, signal) => fetch(url, { method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify({ model: "bert", input }) })
  const left = Array.from({ length: 8 }, (_, i) => {
    const controller = new AbortController()
    const asked = ask(Array(200).fill("text " + i), controller.signal).then(() => 0, () => 0)
    setTimeout(() => controller.abort(), 30)
    return asked
  })
  const all = Array.from({ length: 40 }, async (_, i) => {
    const reply = await ask(["a fox", "text " + i])
    return (await reply.json()).data.length
  })
  Promise.all([...left, ...all]).then((n) => console.log(n.slice(8).every((k) => k === 2)))
' "$url" >"$work/many"
expect "answers to many clients" "$(cat "$work/many")" true

# A slow reader of a long answer: it comes in pieces, and others get theirs meanwhile.
node -e '
  const http = require("http")
  const url = process.argv[1] + "/v1/embeddings"
  const ask = (input, take) => {
    const request = http.request(url, { method: "POST", headers: { "Content-Type": "application/json" } }, take)
    request.end(JSON.stringify({ model: "bert", input }))
  }
  const whole = (response, then) => {
    let text = ""
    response.setEncoding("utf8").on("data", (part) => { text += part }).on("end", () => then(JSON.parse(text))).resume()
  }
  ask(Array.from({ length: 4000 }, (_, i) => "text " + i), (long) => {
    long.pause()
    ask(["a fox"], (short) => whole(short, (quick) => whole(long, (slow) => {
      const same = slow.data.every((d, i) => d.index === i && d.embedding.length === 128)
      console.log(long.headers["transfer-encoding"], quick.data.length, slow.data.length, same)
    })))
  })' "$url" >"$work/slow"
expect "a long answer to a slow reader" "$(cat "$work/slow")" "chunked 1 4000 true"
serve_stop

# ---- the next process finds the rows of inputs; what is switched off ----

serve -m "tiny=$tiny" -m "reranker=$reranker" --no-reranking --cache "$work/kv" --ram 32M
post /v1/rerank '{"model":"reranker","query":"q","documents":["a"]}'; is 400; has 'switched them off (no_reranking)'
post /v1/embeddings "{\"model\":\"tiny\",\"input\":\"$head jumps\"}"; is 200
expect "cached tokens after a restart" "$(value 'r.usage.prompt_tokens_details.cached_tokens >= 256')" true
serve_stop

# ---- a client that leaves in the middle of its answer: its key pays for all tokens, and the next answer is right ----

key=$("$hearth" key new --name reader --tokens-per-minute 60000 --file "$work/keys.conf" 2>/dev/null)
other=$("$hearth" key new --name other --file "$work/keys.conf" 2>/dev/null)
serve -m each=stub: --pooling none --cache "$work/kv" --ram 32M --keys "$work/keys.conf"
short='{"model":"each","content":["abc"]}'
ask 200 -H "x-api-key: $other" -d "$short" "$url/embedding"
cp "$work/reply" "$work/before"
node -e '
  const http = require("http"), [url, key] = process.argv.slice(1)
  const headers = { "Content-Type": "application/json", "x-api-key": key }
  const content = Array(400).fill("x".repeat(500)) // some 200,000 tokens; of 20 MB of vectors the client takes a piece
  http.request(url + "/embedding", { method: "POST", headers }, (response) => {
    response.once("data", () => { console.log(response.statusCode); response.destroy() })
  }).end(JSON.stringify({ model: "each", content }))' "$url" "$key" >"$work/left"
expect "the answer that is left" "$(cat "$work/left")" 200
heard "$work/log" 'client_gone\|the client left'
ask 429 -H "x-api-key: $key" -d "$short" "$url/embedding"
ask 200 -H "x-api-key: $other" -d "$short" "$url/embedding"
cmp -s "$work/reply" "$work/before" || fail "the next answer differs: $(cat "$work/reply")"
serve_stop

# ---- a worker that dies: the next one makes the embeddings ----

serve -m slow=stub:delay_us=20000 --cache "$work/kv" --ram 32M
curl -sS -m 120 -H 'Content-Type: application/json' -o "$work/out" -w '%{http_code}' \
  -d "{\"model\":\"slow\",\"input\":\"$(words 20)\"}" "$url/v1/embeddings" >"$work/code" &
client=$!
heard "$work/log" 'a context for embeddings' # the worker evaluates
kill -KILL "$(serve_processes | grep -vx "$server_pid")"
wait "$client" || fail "the client has no answer"
path=/v1/embeddings code=$(cat "$work/code"); is 200
expect "embeddings of the next worker" "$(value 'r.data.length')" 1
grep -q 'its worker failed' "$work/log" || fail "no worker died: $(cat "$work/log")"
serve_stop
