// swap.mjs - two models take turns in memory that holds one: the time from a request to its first token
//
// Both names are of one file, whose bytes are in the page cache. Each model knows its prompt from its first visit. Held
// against the start of a llama-server with the same file, to the first token of a short prompt and of the same prompt.
import { ask } from '../tests/support/server.mjs'
import { detail, head, median, N_PARALLEL, number, own, peer, prompt, quick, ratio } from './servers.mjs'

const N_CTX = 2048, N_LONG = 512, N_SHORT = 16
const ms = (begin) => Number(process.hrtime.bigint() - begin) / 1e6

const complete = async (server, body) => {
  const { status, text } = await ask(server, 'POST', '/completion', JSON.stringify({ n_predict: 1, temperature: 0, ignore_eos: true, ...body }))
  if (status !== 200) throw new Error(`${server.kind}: ${status} ${text.slice(0, 500)}`)
  return JSON.parse(text).timings
}

// Times of visits to models that take turns, the first visit of each left out.
const visits = async (file, nSwaps) => {
  const server = await own('swap', file, N_CTX, ['-m', `other=${file}`, '--start', 'on-demand', '--models-max', 1])
  const times = []
  try {
    for (let i = 0; i < nSwaps + 2; i++) {
      const begin = process.hrtime.bigint()
      const { cache_n: nCached } = await complete(server, { model: i % 2 ? 'other' : 'model', prompt: prompt(N_LONG, i % 2) })
      if (i < 2) continue
      times.push(ms(begin))
      detail(`visit ${i}: ${times.at(-1).toFixed(0)} ms, ${nCached} tokens from the cache`)
      if (nCached !== N_LONG) throw new Error(`visit ${i}: only ${nCached} of ${N_LONG} tokens came from the cache`)
    }
  } finally {
    await server.stop()
  }
  return times
}

const starts = async (file, nTokens, n) => {
  const times = []
  for (let i = 0; i < n; i++) {
    const server = await peer(file, N_PARALLEL * N_CTX) // each of its slots has a context of its own
    if (!server) return null
    await complete(server, { prompt: prompt(nTokens, 1) })
    times.push(ms(server.begin))
    detail(`llama-server: ${times.at(-1).toFixed(0)} ms from its start to the first token of ${nTokens}`)
    await server.stop()
  }
  return median(times)
}

export const swap = async (file, name) => {
  const nSwaps = quick ? 4 : 20, nStarts = quick ? 1 : 5
  head(`${name}: two models in memory for one`)
  const times = await visits(file, nSwaps)
  const row = (what, value, short, long) => {
    number(what, value, 'ms')
    if (short) ratio(`${what}, against a start`, 'ms', value, `llama-server, prompt of ${N_SHORT}`, short, 'at most', 1.1)
    if (long) ratio(`${what}, against a start`, 'ms', value, `llama-server, prompt of ${N_LONG}`, long)
  }
  row(`swap, to the first token of a known prompt of ${N_LONG}`, median(times), await starts(file, N_SHORT, nStarts), await starts(file, N_LONG, nStarts))
}
