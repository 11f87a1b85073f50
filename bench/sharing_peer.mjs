// sharing_peer.mjs - send the same requests at once to llama-server, and measure its computed tokens and its delay
//
//   node sharing_peer.mjs --peer DIRECTORY --work DIRECTORY --model FILE --parallel N --n-ctx N --prompts 'FILE.json...'
//
// Sends the prompts of each file (arrays of token ids, one array a request; sharing_bench prints them) at once with one
// token to predict. Prints two numbers: the median over the files of the milliseconds until every request had its token,
// and of the prompt tokens that were computed.
import { readFileSync } from 'node:fs'
import { ask } from '../tests/support/server.mjs'
import { median, option, peer } from './servers.mjs'

const files = option('prompts').split(' ').filter(Boolean)
const server = await peer(option('model'), Number(option('n-ctx')), ['--cache-reuse', 0], Number(option('parallel')))
const times = [], computed = []
try {
  for (const file of files) {
    // Bodies are ready before the clock starts.
    const bodies = JSON.parse(readFileSync(file, 'utf8')).map((prompt) =>
      JSON.stringify({ prompt, n_predict: 1, temperature: 0, ignore_eos: true, cache_prompt: true, stream: false }))
    const begin = process.hrtime.bigint()
    const answers = await Promise.all(bodies.map((body) => ask(server, 'POST', '/completion', body)))
    times.push(Number(process.hrtime.bigint() - begin) / 1e6)
    for (const { status, text } of answers) if (status !== 200) throw new Error(`the server answered ${status}: ${text.slice(0, 300)}`)
    computed.push(answers.reduce((sum, { text }) => sum + JSON.parse(text).timings.prompt_n, 0))
  }
  console.log(`${median(times).toFixed(1)} ${median(computed)}`)
} finally {
  await server.stop()
}
process.exit(0)
