// server.mjs - drives both servers (servers.mjs) for server.sh, and prints what was measured
//
// Every reply must have status 200 and the requested number of tokens. The timings of our replies must tell that the
// prompts came from the cache.
import { execFileSync } from 'node:child_process'
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask, childrenOf, metric } from '../tests/support/server.mjs'
import { detail, head, median, N_PARALLEL, number, option, own, peer, printMachine, prompt, quick, ratio, threads, three } from './servers.mjs'
import { bodyFile, load, plainToken } from './driver.mjs'
import { swap } from './swap.mjs'

const [build, peerDirectory, tiny, large, work] = ['build', 'peer', 'tiny', 'large', 'work'].map(option)
const parts = (process.env.PARTS ?? 'requests replies first_token restart swap overhead memory').split(/[ ,]+/)
const rounds = quick ? 1 : Number(process.env.ROUNDS ?? 5)
const seconds = quick ? 0.2 : Number(process.env.SECONDS_EACH ?? 3)
const N_CTX = 8192

// Each slot of llama-server has its own context, which must hold the longest prompt.
const ours = (name, model, more) => own(name, model, N_CTX, more)
const theirs = (model) => peer(model, N_PARALLEL * 2048)

const withBoth = async (name, model, use) => {
  const servers = [await ours(name, model), await theirs(model)].filter(Boolean)
  try {
    await use(servers)
  } finally {
    for (const server of servers) await server.stop()
  }
}

// ---- requests ----

const url = (server) => `${server.url}/completion`

// Checks the number of tokens; our server must restore the whole prompt from the cache.
const assertTrue = async (server, file, nPredict, nPrompt) => {
  await ask(server, 'POST', '/completion', readFileSync(file))
  const { status, text } = await ask(server, 'POST', '/completion', readFileSync(file))
  const reply = JSON.parse(text)
  if (status !== 200 || reply.tokens_predicted !== nPredict) throw new Error(`${server.kind}: ${status} ${text.slice(0, 500)}`)
  if (server.kind === 'own' && reply.timings.cache_n !== nPrompt) throw new Error(`only ${reply.timings.cache_n} of ${nPrompt} tokens came from the cache`)
  detail(`${server.kind}: ${JSON.stringify(reply.timings)}`)
}

// Replies a second of each server: [own, peer], medians over the rounds.
const rates = async (servers, file, connections, nPredict, nPrompt) => {
  const found = servers.map(() => [])
  for (const server of servers) await assertTrue(server, file, nPredict, nPrompt)
  for (let round = 0; round < rounds; round++)
    for (const [i, server] of servers.entries()) {
      const [{ replies_per_s: rate, reply_us: times }] = load(file, [url(server)], ['-c', connections, '-s', seconds, '-w', 2 * connections])
      found[i].push(rate)
      detail(`${server.kind}, ${connections} connections: ${rate} replies/s, median ${times.p50} µs, 99% ${times.p99} µs`)
    }
  return found.map(median)
}

// ---- measurements ----

const requests = () =>
  withBoth('requests', tiny, async (servers) => {
    head('hearth-tiny: a repeated prompt of 64 tokens, 1 token of reply')
    const file = bodyFile({ prompt: prompt(64, 1), n_predict: 1 })
    for (const [connections, target] of [[1, 2], [8, 3], [32, 3]]) {
      const [mine, others] = await rates(servers, file, connections, 1, 64)
      const name = `${connections} connection${connections > 1 ? 's' : ''}`
      if (others) ratio(name, 'replies/s', mine, 'llama-server', others, 'at least', target)
      else number(name, mine, 'replies/s')
    }
  })

// It sometimes ends with exit code 0 and without a result: then it runs again.
const batchedOnce = (model, n, more) => {
  for (let i = 0; i < 10; i++) {
    const text = execFileSync(join(peerDirectory, 'llama-batched-bench'), ['-m', model, '-c', N_CTX, '-fa', 'on', '-ctk', 'f16', '-ctv', 'f16', '-t', threads, '-tb', threads,
      '-npp', 64, '-ntg', 64, '-npl', n, '--output-format', 'jsonl', ...more].map(String), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    const line = text.split('\n').find((it) => it.startsWith('{'))
    if (line) return JSON.parse(line).speed_tg
  }
  throw new Error('llama-batched-bench printed no result, ten times')
}
// The better of its two modes.
const batchedRate = (model, n) => {
  if (!peerDirectory) return 0
  const found = [[], ['-kvu']].map((more) => median(Array.from({ length: Math.min(5, rounds) }, () => batchedOnce(model, n, more))))
  detail(`llama-batched-bench, ${n} at once: separate streams ${found[0]}, unified ${found[1]} tokens/s`)
  return Math.max(...found)
}

const replies = async () => {
  const allowed = {}
  for (const n of [1, 8]) allowed[n] = batchedRate(tiny, n)
  await withBoth('replies', tiny, async (servers) => {
    head('hearth-tiny: the same prompt, 64 tokens of reply')
    const file = bodyFile({ prompt: prompt(64, 1), n_predict: 64 })
    for (const connections of [1, 8, 32]) {
      const [mine, others] = await rates(servers, file, connections, 64, 64)
      const name = `${connections} connection${connections > 1 ? 's' : ''}`
      if (others) ratio(name, 'replies/s', mine, 'llama-server', others, 'at least', 1.1)
      else number(name, mine, 'replies/s')
      if (allowed[connections])
        ratio(`${name}: tokens`, 'tokens/s', 64 * mine, `llama-batched-bench, ${connections} at once`, allowed[connections], 'at least', 0.95)
    }
  })
}

const nLong = quick ? 512 : 1024
const streamed = async (server) =>
  bodyFile({ prompt: prompt(nLong, 2), n_predict: 4, stream: true, logit_bias: [[await plainToken(server), 100]] })

const firstToken = () =>
  withBoth('first_token', large, async (servers) => {
    head(`llama-1.1b: a repeated prompt of ${nLong} tokens`)
    const file = await streamed(servers[0])
    const n = quick ? 3 : 30
    const times = load(file, servers.map(url), ['-a', '-n', n, '-w', 2])
    const [mine, others] = times.map(({ event_1_us: first }) => first.p50 / 1000)
    const [mySecond, othersSecond] = times.map(({ event_2_us: second }) => second.p50 / 1000)
    if (others) {
      ratio('time to the first token', 'ms', mine, 'llama-server', others, 'at most', 0.25)
      ratio('time to the second token', 'ms', mySecond, 'llama-server', othersSecond)
    } else number('time to the first token', mine, 'ms')
  })

const restart = async () => {
  head(`llama-1.1b: the same prompt of ${nLong} tokens after a restart of the server`)
  const found = { own: [], peer: [] }
  const nRestarts = quick ? 1 : 3
  const starters = { own: () => ours('restart', large), peer: () => theirs(large) }
  let file
  for (const kind of ['own', 'peer']) { // the prompt is known before it
    const server = await starters[kind]()
    if (!server) continue
    file ??= await streamed(server)
    load(file, [url(server)], ['-n', 2])
    await server.stop()
  }
  for (let round = 0; round < nRestarts; round++)
    for (const kind of ['own', 'peer']) {
      const server = await starters[kind]()
      if (!server) continue
      const before = Number(process.hrtime.bigint() - server.begin) / 1e6
      const [{ event_1_us: first, event_2_us: second }] = load(file, [url(server)], ['-n', 1])
      found[kind].push({ first: first.p50 / 1000, second: second.p50 / 1000, ready: before, start: before + first.p50 / 1000 })
      detail(`${kind}: ready after ${before.toFixed(0)} ms, first token ${(first.p50 / 1000).toFixed(1)} ms, second ${(second.p50 / 1000).toFixed(1)} ms`)
      await server.stop()
    }
  const of = (kind, what) => median(found[kind].map((it) => it[what]))
  const row = (name, what, bound, target) =>
    found.peer.length ? ratio(name, 'ms', of('own', what), 'llama-server', of('peer', what), bound, target) : number(name, of('own', what), 'ms')
  row('time to the first token', 'first', 'at most', 0.01)
  row('time to the second token', 'second')
  row('from the start of the process until it is ready', 'ready')
  row('from the start of the process to the first token', 'start')
}

const overhead = async () => {
  const publicSocket = join(work, 'front.sock')
  const server = await ours('overhead', tiny, ['--listen', `unix:${publicSocket}`])
  try {
    head('hearth-tiny: what the front costs more than the worker alone, one request at a time, in turns')
    const run = join(server.directory, 'run')
    const socket = readdirSync(run, { recursive: true }).map(String).find((name) => lstatSync(join(run, name)).isSocket())
    if (!socket) throw new Error(`no worker's socket in ${run}`)
    // The same kind of connection to both shows the cost of the front; most clients use TCP.
    const targets = [`unix:${join(run, socket)}:/completion`, `unix:${publicSocket}:/completion`, url(server)]
    for (const [name, n, body] of [['a whole reply of 1 token', 5000, { n_predict: 1 }], ['a stream of 16 tokens', 300, { n_predict: 16, stream: true }]]) {
      const file = bodyFile({ prompt: prompt(64, 3), ...body })
      const [worker, front, tcp] = load(file, targets, ['-a', '-n', quick ? 20 : n, '-w', 20])
      for (const it of [worker, front, tcp]) detail(`${name}: ${JSON.stringify(it)}`)
      const row = (what, which, it, ...target) =>
        number(`${name}, to its ${what}, ${which} (worker alone: ${three(worker[key(what)].p50)} µs)`, it[key(what)].p50 - worker[key(what)].p50, 'µs', ...target)
      const key = (what) => (what === 'end' ? 'reply_us' : 'first_byte_us')
      if (!body.stream) {
        row('end', 'unix socket', front, 'at most', 60)
        row('end', 'TCP', tcp)
      } else {
        row('first byte', 'unix socket', front)
        row('end', 'unix socket', front)
      }
    }
  } finally {
    await server.stop()
  }
}

const memoryOf = (pid) => {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8')
  const of = (name) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0)
  return { all: of('VmRSS'), anonymous: of('RssAnon'), file: of('RssFile'), shared: of('RssShmem') }
}
const MB = 1e6

const memory = async () => {
  head('Memory')
  for (const model of [tiny, large]) {
    const server = await ours(`memory-${model === tiny}`, model)
    try {
      const name = model === tiny ? 'hearth-tiny' : 'llama-1.1b'
      if (model === tiny) number('front, idle, resident', memoryOf(server.pid).all / MB, 'MB', 'at most', 15)
      const file = bodyFile({ prompt: prompt(256, 5), n_predict: 8 })
      load(file, [url(server)], ['-n', 2])
      const [worker] = childrenOf(server.pid)
      const ours = memoryOf(worker)
      const [anonymous, fileBytes] = execFileSync(join(build, 'bench', 'engine_memory'), [model, N_CTX, 512, 4 * N_PARALLEL, threads].map(String), { encoding: 'utf8' }).split(' ').map(Number)
      detail(`${name}: worker ${JSON.stringify(ours)}; engine: anonymous ${anonymous}, file ${fileBytes}`)
      number(`${name}: worker, resident without its RAM tier (${three((ours.all - ours.shared) / MB)} MB), more than the engine alone (${three((anonymous + fileBytes) / MB)} MB)`,
        (ours.anonymous + ours.file - anonymous - fileBytes) / MB, 'MB', 'at most', 30)
      if (model === tiny) {
        load(bodyFile({ prompt: prompt(64, 6), n_predict: 1 }), [url(server)], ['-c', 32, '-n', quick ? 100 : 20000])
        number('front, after 20,000 requests of 32 connections, resident', memoryOf(server.pid).all / MB, 'MB')
        detail(`resident according to /metrics: ${metric((await ask(server, 'GET', '/metrics')).text, 'process_resident_memory_bytes')}`)
      }
    } finally {
      await server.stop()
    }
  }
}

printMachine()
const all = { requests, replies, first_token: firstToken, restart, swap: () => swap(large, 'llama-1.1b'), overhead, memory }
for (const part of parts) {
  if (!all[part]) {
    console.error(`server.mjs: unknown part '${part}'; ${Object.keys(all).join(', ')}`)
    process.exit(2)
  }
  await all[part]()
}
process.exit(0)
