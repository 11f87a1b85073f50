// turns.mjs - print the known part of the prompt of each request of an agent
//
// Usage: node turns.mjs LOG FROM STEP MIN [TOKENS_MIN]
//
// Reads the server's log from byte FROM on and prints a line for each request: step, tokens of the prompt, reused
// tokens, share. Leaves out requests of fewer than TOKENS_MIN tokens: agents also make small ones, for titles and the
// like. At least the share MIN of every prompt must be known; if MIN begins with "+", the first prompt is new. The last
// line, "turns N", counts the requests.
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
