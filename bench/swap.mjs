// swap.mjs - two models take turns in memory that holds one: the time from a request to its first token
//
// The two models are copies of one file, in the page cache. Each knows its prompt from its first visit. All visits run
// twice: with repacked weights of each worker's own, and with those of a folder in memory (host_weights). Held against
// the start of a llama-server with the same file, to the first token of a short prompt and of the same prompt. SWAPS
// says how many (20).
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from '../tests/support/server.mjs'
import { detail, head, median, N_PARALLEL, number, option, own, peer, prompt, quick, ratio } from './servers.mjs'

const N_CTX = 2048, N_LONG = 512, N_SHORT = 16
const ms = (begin) => Number(process.hrtime.bigint() - begin) / 1e6

const complete = async (server, body) => {
  const { status, text } = await ask(server, 'POST', '/completion', JSON.stringify({ n_predict: 1, temperature: 0, ignore_eos: true, ...body }))
  if (status !== 200) throw new Error(`${server.kind}: ${status} ${text.slice(0, 500)}`)
  return JSON.parse(text).timings
}

// Requests of both models whose whole prompt was in the cache.
const exactHits = async (server) => {
  const lines = (await ask(server, 'GET', '/metrics')).text.split('\n').filter((line) => /^hearth_request_hits_total\{.*hit="exact"/.test(line))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

// Times of visits to models that take turns, the first visit of each left out.
const visits = async (name, files, nSwaps, more) => {
  const server = await own(name, files[0], N_CTX, ['-m', `other=${files[1]}`, '--start', 'on-demand', '--models-max', 1, ...more])
  const times = []
  try {
    for (let i = 0; i < nSwaps + 2; i++) {
      const begin = process.hrtime.bigint()
      const { cache_n: nCached } = await complete(server, { model: i % 2 ? 'other' : 'model', prompt: prompt(N_LONG, i % 2) })
      if (i < 2) continue
      times.push(ms(begin))
      detail(`${name}, visit ${i}: ${times.at(-1).toFixed(0)} ms, ${nCached} tokens from the cache`)
      if (nCached !== N_LONG) throw new Error(`visit ${i}: only ${nCached} of ${N_LONG} tokens came from the cache`)
    }
    if (await exactHits(server) !== nSwaps) throw new Error(`only ${await exactHits(server)} of ${nSwaps} prompts were exact hits`)
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
  const nSwaps = Number(process.env.SWAPS ?? (quick ? 4 : 20)), nStarts = quick ? 1 : 5
  const copy = join(option('work'), 'copy.gguf'), folder = mkdtempSync('/dev/shm/hearth-bench-')
  copyFileSync(file, copy)
  head(`${name}: two models in memory for one`)
  try {
    const plain = median(await visits('swap', [file, copy], nSwaps, []))
    const warm = median(await visits('swap-host', [file, copy], nSwaps, ['--host-weights', folder, '--keep-host-weights']))
    const short = await starts(file, N_SHORT, nStarts), long = await starts(file, N_LONG, nStarts)
    const row = (what, value, most) => {
      number(what, value, 'ms')
      if (short) ratio(`${what}, against a start`, 'ms', value, `llama-server, prompt of ${N_SHORT}`, short, 'at most', most)
      if (long) ratio(`${what}, against a start`, 'ms', value, `llama-server, prompt of ${N_LONG}`, long)
    }
    row(`swap, to the first token of a known prompt of ${N_LONG}`, plain, 1.1)
    row('the same, with host weights', warm, 0.4)
    number('prompts that were exact hits, of both runs', 2 * nSwaps, '')
  } finally {
    rmSync(folder, { recursive: true })
    rmSync(copy)
  }
}
