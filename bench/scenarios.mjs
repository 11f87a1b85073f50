// scenarios.mjs - the scenarios of `make bench`, each as a function that gives charts (draw.mjs)
//
// `bench` has the contestants ({ name, start }), the models and directories. Most scenarios have two halves: `first`
// sends what a server has never seen, and `again` goes on with it, in the same process, after a restart, and after a
// kill. Both return times to the first token, of which a chart shows the median. After a restart and a kill,
// llama-server has nothing: what it can write to files, a slot at a request, no client asks for.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { childrenOf, sleep } from '../tests/support/server.mjs'
import { bodyFile, firstToken, load, plainToken, stream } from './driver.mjs'
import { median, prompt, quick } from './servers.mjs'

const scaled = (full, small) => (quick ? small : full)
const range = (n) => Array.from({ length: n }, (_, i) => i)

// Start a server of each contestant, one after the other, and collect a series from each.
const withEach = async (bench, options, use) => {
  const series = []
  for (const { name, start } of bench.contestants) {
    const server = await start(options)
    try {
      series.push(...(await use(server, name)))
    } finally {
      await server.stop()
    }
  }
  return series
}

// Start a server of each contestant, use them beside each other, so that a slow moment of the machine hits all, and stop
// them. An idle server takes no processor.
const withAll = async (bench, options, use) => {
  const servers = []
  try {
    for (const { name, start } of bench.contestants) servers.push({ name, server: await start(options) })
    return await use(servers)
  } finally {
    for (const { server } of servers) await server.stop()
  }
}

// The rows of the last reply are written meanwhile.
const BEFORE_KILL_MS = 1000

// Points of a contestant: the first time, again, after a restart, after kill -9. A scenario names the first two.
const statesOf = async (start, options, names, { first, again }, look = () => {}) => {
  const points = []
  const note = (x, times) => points.push({ x, y: median(times) })
  let server = await start(options)
  try {
    look('after the start', server)
    note(names[0], await first(server))
    note(names[1], await again(server, 0))
    look('at the end', server)
    await server.stop()
    server = await start(options)
    note('after a restart', await again(server, 1))
    await sleep(BEFORE_KILL_MS)
    await server.kill()
    server = await start(options)
    note('after kill -9', await again(server, 2))
  } finally {
    await server.stop()
  }
  return points
}
const AGAIN = 'Then once more after a restart of the server, and after kill -9 a second behind the last reply: ' +
  'Hearth has its cache on disk, llama-server has it in RAM and begins anew.'
const FIRST_TOKEN = { unit: 'ms', better: 'less', kind: 'bars' }

// makeUse gives { first, again } with the state of one contestant's clients.
const inStates = async (bench, options, names, makeUse, look) => {
  const series = []
  for (const { name, start } of bench.contestants)
    series.push({ name, points: await statesOf(start, options, names, makeUse(), (when, server) => look?.(name, when, server)) })
  return series
}

// ---- prompts ----

const N_PROMPT = scaled(2048, 512)
const prompts = async (bench) => {
  const seeds = range(scaled(5, 1))
  const options = { model: bench.model, nParallel: 4, nCtx: 16384 }
  const inTurn = async (server, make) => {
    const times = []
    for (const seed of seeds) times.push(await firstToken(server, make(seed)))
    return times
  }
  const known = (seed) => prompt(N_PROMPT, 10 + seed), other = (seed) => prompt(N_PROMPT, 30 + seed)
  const repeated = () => ({ first: (server) => inTurn(server, known), again: (server) => inTurn(server, known) })
  const extended = () => ({
    first: (server) => inTurn(server, other),
    again: (server, round) => inTurn(server, (seed) => [...other(seed), ...prompt(64, 100 + 10 * round + seed)]),
  })
  return [
    {
      id: 'repeated', title: 'A new prompt, and the same again', ...FIRST_TOKEN, series: await inStates(bench, options, ['new', 'again'], repeated),
      about: `Time to the first token of a prompt of ${N_PROMPT} tokens, and of the same prompt again. ${AGAIN}`,
    },
    {
      id: 'extended', title: 'A known prompt that goes on', ...FIRST_TOKEN, series: await inStates(bench, options, ['new', 'extended'], extended),
      about: `Time to the first token of a prompt of ${N_PROMPT} tokens, and then of this prompt with 64 new tokens behind it, which differ each time. ${AGAIN}`,
    },
  ]
}

// ---- conversations ----

// Memory of a server and its workers. Of a page that processes share, each has its part.
const memoryMiB = (server) => [server.pid, ...childrenOf(server.pid)]
  .reduce((sum, pid) => sum + Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))[1]), 0) / 1024

const conversations = async (bench) => {
  const nAll = scaled(64, 8), nTokens = scaled(768, 256)
  const memory = []
  const visit = () => {
    const texts = range(nAll).map((i) => prompt(nTokens, 1000 + i))
    const visitAll = async (server, round) => {
      const times = []
      for (const [i, text] of texts.entries()) {
        if (round >= 0) text.push(...prompt(32, 2000 + 100 * round + i))
        times.push(await firstToken(server, text))
      }
      return times
    }
    return { first: (server) => visitAll(server, -1), again: visitAll }
  }
  const look = (name, when, server) => {
    let series = memory.find((it) => it.name === name)
    if (!series) memory.push((series = { name, points: [] }))
    series.points.push({ x: when, y: memoryMiB(server) })
  }
  const series = await inStates(bench, { model: bench.model, nParallel: 4, nCtx: 4 * scaled(2048, 1024) }, ['first visit', 'next visit'], visit, look)
  return [
    {
      id: 'conversations', title: `${nAll} conversations over 4 slots`, ...FIRST_TOKEN, series,
      about: `Time to the first token of ${nAll} conversations of ${nTokens} tokens that take turns on a server with 4 slots; each later visit adds 32 tokens. ${AGAIN}`,
    },
    {
      id: 'memory', title: 'Memory', unit: 'MiB', better: 'less', kind: 'bars', series: memory,
      about: `Memory of all processes of a server (PSS), after its start and after two visits of each of these ${nAll} conversations. ` +
        'Hearth keeps rows in at most 512 MiB of RAM, and in files; llama-server keeps prompts in at most 8 GiB of RAM.',
    },
  ]
}

// ---- chats and agents ----

const WORDS = 'river stone paper window garden letter morning silver table answer winter branch copper island signal bridge'.split(' ')
const words = (n, seed) => range(n).map((i) => WORDS[(i * 7 + seed * 13 + ((i * seed) % 11)) % WORDS.length]).join(' ')
const TOOLS = ['read_file', 'write_file', 'run', 'search'].map((name) => ({
  type: 'function', function: { name, description: words(20, name.length), parameters: { type: 'object', properties: { path: { type: 'string' }, text: { type: 'string' } }, required: ['path'] } },
}))

// One turn of a chat; returns the time to the first token.
const chatTurn = async (server, messages, seed) => {
  messages.push({ role: 'user', content: words(30, seed) })
  const reply = await stream(server, '/v1/chat/completions', { messages, max_tokens: 16 })
  messages.push({ role: 'assistant', content: reply.text })
  return reply.first
}
// The same of an agent. Its model has random weights, so the call and its result are given.
const agentTurn = async (server, messages, seed) => {
  const id = `call_${messages.length}`
  const reply = await stream(server, '/v1/chat/completions', { messages, max_tokens: 4, tools: TOOLS, tool_choice: 'none' })
  messages.push(
    { role: 'assistant', content: '', tool_calls: [{ id, type: 'function', function: { name: 'read_file', arguments: JSON.stringify({ path: words(2, seed) }) } }] },
    { role: 'tool', tool_call_id: id, content: words(30, seed + 1) },
  )
  return reply.first
}

// Clients, each with its own history, which begins with the same instructions; at once, or one after the other. After
// the first turns, each has one more in each state: the one that a server without its cache computes whole.
const clients = (turn, { nClients, isAtOnce }, nTurns) => () => {
  const histories = range(nClients).map((i) => [{ role: 'system', content: words(300, 3) }, { role: 'user', content: words(20, 40 + i) }])
  const run = async (server, from, n) => {
    const times = []
    const talk = async (messages, i) => {
      for (const k of range(n)) times.push(await turn(server, messages, 1000 * i + from + k))
    }
    if (isAtOnce) await Promise.all(histories.map(talk))
    else for (const [i, messages] of histories.entries()) await talk(messages, i)
    return times
  }
  return { first: (server) => run(server, 0, nTurns), again: (server, round) => run(server, nTurns + round, 1) }
}
const turns = (id, title, about, turn, who) => async (bench) => {
  const nTurns = scaled(20, 3), nParallel = Math.max(4, who.nClients)
  const options = { model: bench.model, nParallel, nCtx: nParallel * 8192 }
  const series = await inStates(bench, options, [`first ${nTurns} turns`, 'next turn'], clients(turn, who, nTurns))
  return [{
    id, title: title(nTurns), ...FIRST_TOKEN, series,
    about: `Median time to the first token over the first ${nTurns} turns of ${about}, and over the next turn of each. ${AGAIN}`,
  }]
}
const chat = turns('chat', (n) => `A chat of ${n} turns`, '3 chats, one after the other', chatTurn, { nClients: 3, isAtOnce: false })
const agentTurns = turns('agent', (n) => `An agent of ${n} turns with tools`,
  '3 agents, one after the other, whose requests name four tools, and whose calls and results are given', agentTurn, { nClients: 3, isAtOnce: false })
const agents = turns('agents', () => '8 agents at once', '8 such agents, which share their instructions and run at once', agentTurn, { nClients: 8, isAtOnce: true })

// ---- a running stream beside a long prompt ----

// Of few long pauses and many short ones, the median would tell the short ones alone.
const mean = (values) => values.reduce((sum, it) => sum + it, 0) / values.length
const pauses = async (bench) => {
  const nLong = scaled(8192, 1024), nBefore = scaled(200, 20)
  const series = await withEach(bench, { model: bench.model, nParallel: 2, nCtx: 2 * scaled(16384, 4096) }, async (server, name) => {
    let long
    const running = await stream(server, '/completion', { prompt: prompt(64, 1), n_predict: scaled(4000, 200), logit_bias: [[await plainToken(server), 100]] }, (n) => {
      if (n === nBefore) long = { begin: Date.now(), reply: firstToken(server, prompt(nLong, 2)) }
      return undefined
    })
    const first = await long.reply
    const gaps = running.times.slice(1).map((time, i) => ({ time: running.times[i], ms: time - running.times[i] }))
    const before = gaps.slice(1, nBefore - 1).map((it) => it.ms)
    // The long prompt was sent at the begin of the first of them.
    const beside = gaps.slice(nBefore - 1).filter((it) => it.time < running.times[nBefore - 1] + first).map((it) => it.ms)
    const ys = {
      'mean pause, alone': mean(before), 'mean pause, beside': mean(beside), 'longest pause, beside': Math.max(...beside),
      'the long prompt': first,
    }
    return [{ name, points: Object.entries(ys).map(([x, y]) => ({ x, y })) }]
  })
  return [{
    id: 'pauses', title: 'A stream beside a long prompt', ...FIRST_TOKEN, series,
    about: `Pauses between the tokens of a running reply, alone and beside a prompt of ${nLong} tokens that is read meanwhile; and the time to the first token of that prompt.`,
  }]
}

// ---- requests a second, and tokens of replies at once ----

const rates = (bench, options, body, ns, what) => withAll(bench, options, (servers) => {
  const length = (n) => scaled(['-s', 1.5], ['-n', 4 * n])
  const series = servers.map(({ name }) => ({ name, points: [] }))
  const file = bodyFile(body)
  for (const n of ns)
    for (const [i, { server }] of servers.entries()) {
      const [{ replies_per_s: rate }] = load(file, [`${server.url}/completion`], ['-c', n, ...length(n), '-w', 2 * n])
      series[i].points.push({ x: n, y: rate * what })
    }
  return series
})
const requests = async (bench) => [{
  id: 'requests', title: 'Requests a second', unit: 'replies/s', better: 'more', kind: 'lines', xLabel: 'connections',
  about: 'Replies of one token to a repeated prompt of 64 tokens, by connections, with 8 slots. The model hearth-tiny, so that the server is most of the work.',
  series: await rates(bench, { model: bench.tiny, nParallel: 8, nCtx: 8 * 2048 }, { prompt: prompt(64, 1), n_predict: 1 }, scaled([1, 2, 4, 8, 16, 32, 64, 128], [1, 4]), 1),
}]
const sequences = async (bench) => {
  const ns = scaled([1, 2, 4, 8, 16, 32, 64, 128], [1, 4]), nPredict = scaled(32, 8)
  return [{
    id: 'sequences', title: 'Replies at once', unit: 'tokens/s', better: 'more', kind: 'lines', xLabel: 'sequences',
    about: `Tokens a second of all replies together, ${nPredict} tokens each behind a known prompt of 64 tokens, by the number of replies at once.`,
    series: await rates(bench, { model: bench.model, nParallel: ns.at(-1), nCtx: ns.at(-1) * 256 }, { prompt: prompt(64, 1), n_predict: nPredict }, ns, nPredict),
  }]
}

// ---- growth ----

const lengths = async (bench) => {
  const ns = scaled([512, 1024, 2048, 4096, 8192, 16384, 32768], [512, 1024])
  // The reply needs room, too, and llama-server gives no slot more than the length that the model was trained for.
  const nCtx = ns.at(-1) + 256
  const options = { model: bench.model, nParallel: 1, nCtx, more: ['--override-kv', `llama.context_length=int:${nCtx}`] }
  const series = await withAll(bench, options, async (servers) => {
    const found = servers.map(({ name }) => ['cold', 'again'].map((what) => ({ name, what, points: [] })))
    for (const n of ns) {
      const times = servers.map(() => ({ cold: [], again: [] }))
      // Long prompts take so long that one is enough.
      for (const seed of range(n <= 4096 ? scaled(5, 1) : 1))
        for (const [i, { server }] of servers.entries()) {
          const tokens = prompt(n, 50 + n + seed)
          times[i].cold.push(await firstToken(server, tokens))
          for (const _ of range(3)) times[i].again.push(await firstToken(server, tokens))
        }
      for (const [i, pair] of found.entries()) for (const { what, points } of pair) points.push({ x: n, y: median(times[i][what]) })
    }
    return found.flat()
  })
  return [{
    id: 'lengths', title: 'Growth with the length of the prompt', unit: 'ms', better: 'less', kind: 'lines', xLabel: 'tokens', series,
    about: 'Time to the first token of a new prompt, and of the same prompt again. Medians of five prompts up to 4096 tokens, and one of each length above.',
  }]
}

const rows = (bench) => {
  const opening = [], probe = []
  for (const n of scaled([1e3, 1e4, 1e5, 1e6], [1e3])) {
    const directory = mkdtempSync(join(bench.work, 'rows-'))
    const output = execFileSync(join(bench.build, 'bench', 'index_bench'), ['--json', String(n), directory], { encoding: 'utf8' })
    const found = output.trimEnd().split('\n').map((line) => JSON.parse(line))
    opening.push({ x: n, y: found.find((it) => /^opening/.test(it.name)).value })
    probe.push({ x: n, y: found.find((it) => /probe/.test(it.name)).value })
    rmSync(directory, { recursive: true })
  }
  const shape = { better: 'less', kind: 'lines', xLabel: 'rows' }
  return [
    {
      id: 'rows-open', title: 'Opening a cache of many rows', unit: 'ms', ...shape, series: [{ name: 'Hearth', points: opening }],
      about: 'Time to open the index of a cache directory, by the number of its rows. llama-server has no such index.',
    },
    { id: 'rows-probe', title: 'A lookup among many rows', unit: 'µs', ...shape, about: 'Time to ask the index for one row.', series: [{ name: 'Hearth', points: probe }] },
  ]
}

// In the order of the report.
export const scenarios = { prompts, conversations, chat, agent: agentTurns, agents, pauses, requests, sequences, lengths, rows }
