// aged.mjs - compare a server after long work with a new one, for the part `aged` of generation.sh
//
//   node aged.mjs --build BUILD --model FILE --name NAME --work DIRECTORY --minutes N --lengths '64 512'
//                 [--json|--text] [--verbose]
//
// The old server has run N minutes of mixed load: growing conversations, new prompts, repeated prompts, and streams
// whose clients leave. Then both servers get the same cold prompts in turns. The memory and the descriptors of the old
// server are read after a fifth of the load and at the end.
import http from 'node:http'
import { ask, childrenOf, openFiles, residentBytes, sleep } from '../tests/support/server.mjs'
import { cpuSeconds, detail, head, median, option, own, prompt, quick, ratio, number } from './servers.mjs'

const [model, name] = ['model', 'name'].map(option)
const lengths = option('lengths').split(' ').map(Number)
const minutes = Number(option('minutes'))
const rounds = quick ? 1 : Number(process.env.ROUNDS ?? 5)
const N_CTX = quick ? 4096 : 65536
const N_CLIENTS = 4, N_CONVERSATIONS = 64, TURNS_MAX = 6
const longest = Math.min(2000, N_CTX / 4)

let seed = 1
let state = 12345
const draw = (n) => ((state = (Math.imul(state, 1103515245) + 12345) >>> 0) >>> 8) % n // the same load each time
const failures = []
let nDone = 0

const complete = async (server, tokens, more = {}) => {
  const { status, text } = await ask(server, 'POST', '/completion', JSON.stringify({ prompt: tokens, n_predict: 1, temperature: 0, ignore_eos: true, ...more }))
  if (status !== 200) throw new Error(`${status} ${text.slice(0, 300)}`)
  return JSON.parse(text)
}

// A client that takes the first bytes of a stream and leaves.
const leave = (server, tokens) =>
  new Promise((resolve, reject) => {
    const body = JSON.stringify({ prompt: tokens, n_predict: 256, stream: true, ignore_eos: true })
    const request = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', path: '/completion', headers: { 'content-length': body.length } }, (reply) => {
      reply.once('data', () => request.destroy())
      reply.on('error', () => {})
      reply.on('close', resolve)
    })
    request.on('error', (error) => (request.destroyed ? resolve() : reject(error)))
    request.end(body)
  })

const conversations = []
const turn = async (server) => {
  const i = draw(N_CONVERSATIONS)
  const it = conversations[i]
  if (!it || it.turns === TURNS_MAX) conversations[i] = { turns: 0, tokens: prompt(32 + draw(longest / 2), seed++) }
  const { turns, tokens } = conversations[i]
  const { tokens: reply } = await complete(server, tokens, { n_predict: 8 + draw(24), return_tokens: true })
  conversations[i] = { turns: turns + 1, tokens: [...tokens, ...reply, ...prompt(16 + draw(100), seed++)] }
}

const client = async (server, until) => {
  while (Date.now() < until) {
    const kind = draw(10)
    await (kind < 4 ? turn(server)
      : kind < 7 ? complete(server, prompt(16 + draw(longest), seed++), { n_predict: 1 + draw(16) })
        : kind < 9 ? complete(server, prompt(256 + 64 * draw(8), 1e6 + draw(20)), { n_predict: 8 })
          : leave(server, prompt(64 + draw(256), seed++))).catch((error) => failures.push(error.message))
    nDone++
    if (failures.length > 10) throw new Error(`too many requests fail: ${failures.join('\n')}`)
  }
}

const weigh = (server) => {
  const pids = [server.pid, ...childrenOf(server.pid)]
  const sum = (of) => pids.reduce((all, pid) => all + of(pid), 0)
  return { mib: sum(residentBytes) / 2 ** 20, files: sum(openFiles) }
}

const old = await own(`aged-${name}`, model, N_CTX)
let fresh
try {
  const begin = Date.now(), fifth = begin + minutes * 12e3, end = begin + minutes * 60e3
  const clients = Array.from({ length: N_CLIENTS }, () => client(old, end))
  const early = sleep(fifth - Date.now()).then(() => weigh(old))
  await Promise.all(clients)
  await sleep(2000) // what is to be written is written
  const [first, last] = [await early, weigh(old)]
  fresh = await own(`fresh-${name}`, model, N_CTX)
  head(`${name}: after ${minutes} minutes of mixed load (${nDone} requests), a context of ${N_CTX} tokens`)
  number('requests that failed', failures.length, '', 'at most', 0)
  for (const error of failures) console.error(`    ${error}`)
  ratio('resident memory at the end', 'MiB', last.mib, 'after a fifth of the load', first.mib, 'at most', 1.2)
  ratio('descriptors at the end', '', last.files, 'after a fifth of the load', first.files)
  for (const n of lengths) {
    const found = [old, fresh].map(() => [])
    for (let round = 0; round <= rounds; round++) {
      const tokens = prompt(n, 5e6 + seed++)
      for (const [i, server] of [old, fresh].entries()) {
        const cpu = cpuSeconds(server), begun = process.hrtime.bigint()
        await complete(server, tokens)
        const it = { ms: Number(process.hrtime.bigint() - begun) / 1e6, cpu: 1e3 * (cpuSeconds(server) - cpu) }
        detail(`cold ${n}: ${i ? 'fresh' : 'old'} ${it.ms.toFixed(1)} ms, processor ${it.cpu.toFixed(0)} ms`)
        if (round > 0) found[i].push(it) // the first one lets the old server's idle sequences go
      }
    }
    ratio(`cold prompt of ${n} tokens`, 'ms', median(found[0].map((it) => it.ms)), 'a fresh server', median(found[1].map((it) => it.ms)), 'at most', 1.05)
  }
} finally {
  for (const server of [old, fresh]) await server?.stop()
}
process.exit(0)
