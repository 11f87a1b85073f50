// turns.mjs - of each request that an agent made: how much of its prompt was known already
//
// Usage: node turns.mjs LOG FROM STEP MIN [TOKENS_MIN]
//
// Reads the server's log from byte FROM on and prints a line a request: step, tokens of the prompt, reused, share.
// Requests of fewer than TOKENS_MIN tokens are left out: agents make small ones besides, titles and the like. Every
// prompt has to have at least MIN of its tokens known, but for the first one where MIN begins with "+": that one is
// new. Prints how many there were as the last line, "turns N".
import { readFileSync } from 'node:fs'

const [log, from, step, min, tokensMin = '0'] = process.argv.slice(2)
const lines = readFileSync(log).subarray(Number(from)).toString().split('\n').filter((line) => line.includes('"msg":"request"'))
const turns = lines.map((line) => JSON.parse(line)).filter((one) => one.method === 'POST' && (one.prompt_tokens ?? 0) >= Number(tokensMin) && one.prompt_tokens)
let failed = false

for (const refused of lines.map((line) => JSON.parse(line)).filter((one) => one.method === 'POST' && one.status >= 400)) {
  console.log(`${step}: refused with ${refused.status}: ${JSON.stringify(refused)}`)
  failed = true
}
turns.forEach((turn, i) => {
  const share = turn.cached_tokens / turn.prompt_tokens
  const is_new = i === 0 && min.startsWith('+')

  console.log(`${step.padEnd(36)} ${String(i + 1).padStart(2)}  ${String(turn.prompt_tokens).padStart(7)} ${String(turn.cached_tokens).padStart(7)}  ${(100 * share).toFixed(1).padStart(5)} %`)
  if (!is_new && share < Number(min)) {
    console.log(`${step}: less than ${min} of this prompt was known`)
    failed = true
  }
})
console.log(`turns ${turns.length}`)
process.exit(failed ? 1 : 0)
