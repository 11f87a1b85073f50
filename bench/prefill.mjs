// prefill.mjs - cold prompts over HTTP, ours and llama-server's in turns, for the part `prefill` of generation.sh
//
//   node prefill.mjs --build BUILD --peer DIRECTORY --model FILE --name NAME --work DIRECTORY --lengths '64 512'
//                    [--json|--text] [--verbose]
//
// Both servers have just started. Every prompt is new to both, and they predict one token, so that the time of a reply
// is that of the prefill. `turn` prompts go on from 1,024 known tokens. Processor time is that of all processes of a
// server, from one reply to the next, so it includes the rows that ours writes meanwhile.
import { ask } from '../tests/support/server.mjs'
import { cpuSeconds, detail, head, median, option, own, peer, prompt, quick, ratio, number } from './servers.mjs'

const [model, name] = ['model', 'name'].map(option)
const lengths = option('lengths').split(' ').map(Number)
const rounds = quick ? 1 : Number(process.env.ROUNDS ?? 5)
const N_KNOWN = quick ? 256 : 1024
const N_CTX = Math.max(4096, 2 * Math.max(...lengths))

// With one slot llama-server keeps nothing beside the prompt at hand, which is best for its times here.
const servers = [await own(`prefill-${name}`, model, N_CTX), option('peer') ? await peer(model, N_CTX, ['-np', 1, '-kvu']) : null].filter(Boolean)
let seed = 10

const complete = async (server, tokens) => {
  const body = JSON.stringify({ prompt: tokens, n_predict: 1, temperature: 0, ignore_eos: true, cache_prompt: true })
  const cpu = cpuSeconds(server)
  const begin = process.hrtime.bigint()
  const { status, text } = await ask(server, 'POST', '/completion', body)
  const ms = Number(process.hrtime.bigint() - begin) / 1e6
  if (status !== 200) throw new Error(`${server.kind}: ${status} ${text.slice(0, 500)}`)
  return { ms, cpu: 1e3 * (cpuSeconds(server) - cpu), known: JSON.parse(text).timings.cache_n ?? 0 }
}

// Medians of a kind of prompt: for each server its time and its processor time.
const measure = async (what, make, nKnown) => {
  const found = servers.map(() => [])
  for (let round = 0; round < rounds; round++) {
    const tokens = make(seed++)
    for (const [i, server] of servers.entries()) {
      const it = await complete(server, tokens)
      if (Math.abs(it.known - nKnown) > 2) throw new Error(`${server.kind}: ${it.known} tokens of ${what} were known, not ${nKnown}`)
      detail(`${what}: ${server.kind} ${it.ms.toFixed(1)} ms, processor ${it.cpu} ms`)
      found[i].push(it)
    }
  }
  return found.map((them) => ({ ms: median(them.map((it) => it.ms)), cpu: median(them.map((it) => it.cpu)) }))
}

const report = (what, [mine, others], target) => {
  if (!others) return number(what, mine.ms, 'ms')
  ratio(what, 'ms', mine.ms, 'llama-server', others.ms, 'at most', target)
  ratio(`${what}: processor time`, 'ms', mine.cpu, 'llama-server', others.cpu)
}

try {
  head(`${name}: prompts that are new, over HTTP`)
  for (const n of lengths) report(`cold prompt of ${n} tokens`, await measure(`cold ${n}`, (it) => prompt(n, it), 0), 1.02)
  const known = prompt(N_KNOWN, 7)
  for (const server of servers) await complete(server, known)
  report(`64 new tokens after ${N_KNOWN} known ones`, await measure('turn', (it) => [...known, ...prompt(64, it).slice(0, 64)], N_KNOWN), 1)
} finally {
  for (const server of servers) await server.stop()
}
process.exit(0)
