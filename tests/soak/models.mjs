// models.mjs - many models of which few fit into memory: random requests with kills and reloads, then loads and unloads
//
//   node models.mjs --hearth PROGRAM --make-model PROGRAM --work DIRECTORY [--seconds N] [--cycles N] [--models N]
//                   [--fit N] [--clients N] [--trouble-ms MS] [--seed S]
//
// Each model has weights of its own, so a row of another model would change a reply; with --deterministic nothing else
// does. Where the build or the machine has no deterministic models, replies are not compared, and the output says so.
// The memory for models holds `fit` of them. Clients ask random models for one of a few prompts; a prompt has one right
// reply, the first one that came. Meanwhile workers are killed, the configuration is read again, and models are
// loaded and unloaded by order. A sampler asks how much memory the models take and reads the processes' memory from the
// system.
//
// Then one server loads and unloads a model `cycles` times, whose repacked weights lie in a folder of shared memory. Its
// memory, its files, its mappings of memory files and the files of the folder must be at the end what they were after the
// first tenth. Memory is judged from 100 cycles on.
//
// It ends with 0 if no request was lost or answered in another way, the memory was kept, and nothing grew.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { drawer } from '../chaos/draw.mjs'
import { ask, childrenOf, openFiles, residentBytes, sleep, start, stop } from '../support/server.mjs'

const options = { seconds: 600, cycles: 1000, models: 50, fit: 5, clients: 8, 'trouble-ms': 4000, seed: Date.now() % 1000000 }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
for (const name of ['hearth', 'make-model', 'work'])
  if (!options[name]) {
    console.error(`models.mjs: --${name} is missing`)
    process.exit(2)
  }
const FRONT_MAX = 20 << 20
const GROWTH_MAX = 1 << 20
const GROWTH_CYCLES_MIN = 100 // before, the allocator still takes what it will keep
const PROMPTS = 4
const MIB = 1 << 20
process.setMaxListeners(100)
const tell = (text) => console.log(`${new Date().toISOString().slice(0, 19)} ${text}`)
const wrong = []
const place = (...names) => join(options.work, ...names)
tell(`seed ${options.seed}, ${options.models} models of which ${options.fit} fit, ${options.seconds} s`)

const folder = place('models')
mkdirSync(folder, { recursive: true })
const names = Array.from({ length: options.models }, (_, i) => `m${i}`)
names.forEach((name, i) => execFileSync(options['make-model'], ['tiny-llama', '--type', 'q8_0', '--seed', String(1000 + i), '--out', join(folder, `${name}.gguf`)], { stdio: 'ignore' }))
const probe = spawnSync(options.hearth, ['run', join(folder, 'm0.gguf'), '-p', 'x', '-n', '1', '-c', '512', '-t', '1', '--gpu-layers', '0', '--deterministic'], { encoding: 'utf8', env: { ...process.env, HEARTH_CACHE: place('probe') } })
const isDeterministic = probe.status === 0
if (!isDeterministic) {
  if (!probe.stderr.includes('deterministic: ')) throw new Error(`a model does not run: ${probe.status} ${probe.stderr}`)
  tell(`replies are not compared: ${probe.stderr.trim()}`)
}
const serve = async (name, more) => {
  const server = await start({
    program: options.hearth, portFile: place(`${name}.port`),
    args: ['--admin', '127.0.0.1:0', '--models-dir', folder, '-c', 1024, '-t', 1, '--parallel', 2, '--ram', '4M', '--cache', place('cache'), '--no-access-log', ...(isDeterministic ? ['--deterministic', '--gpu-layers', 0] : []), '--log-file', place(`${name}.log`), ...more].map(String),
  })
  server.admin = { port: Number(readFileSync(place(`${name}.port`), 'utf8').split('\n')[1]) }
  return server
}
const view = async (server) => JSON.parse((await ask(server.admin, 'GET', '/admin/models')).text)
const order = (server, name, verb) => ask(server.admin, 'POST', `/admin/models/${name}/${verb}`)

// The memory that a model takes, from one that answered.
const measure = async () => {
  const server = await serve('one', [])
  const answer = await ask(server, 'POST', '/completion', JSON.stringify({ model: 'm0', prompt: 'x', n_predict: 8 }))
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
  await sleep(1500) // a worker is measured once a second
  const { memory } = await view(server)
  await stop(server)
  return memory.used_bytes
}

// The pages that belong to the workers, each shared page in parts.
const proportionalBytes = (pids) => pids.reduce((sum, pid) => {
  try {
    return sum + 1024 * Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0)
  } catch {
    return sum // it has ended meanwhile
  }
}, 0)

// A process's mappings of files in memory. Other programs have files in /dev/shm, too, so those are not counted there.
const memoryFiles = (pid) => (readFileSync(`/proc/${pid}/maps`, 'utf8').match(/ (\/memfd:|\/dev\/shm\/)/g) ?? []).length

const traffic = async () => {
  const limit = Math.floor((await measure()) * (options.fit + 0.5))
  const server = await serve('many', ['--memory', limit, '--turn-ms', 1000, '--retries-max', 20, '--wait-timeout-ms', 600000])
  const replies = new Map(), waits = [], kinds = { kills: 0, reloads: 0, loads: 0, unloads: 0 }
  const most = { used: 0, rows: 0, rowsLimit: 0, real: 0, front: 0, workers: 0 }
  let goesOn = true, nCached = 0, nExcused = 0

  const client = async (id) => {
    const draw = drawer(options.seed * 1000 + id)
    while (goesOn) {
      const model = draw.pick(names), which = draw.next(PROMPTS)
      const prompt = Array.from({ length: 300 }, (_, i) => 300 + ((which * 7919 + i * 31) % 3000))
      const begin = performance.now()
      const answer = await ask(server, 'POST', '/completion', JSON.stringify({ model, prompt, n_predict: 1 + draw.next(16), temperature: 0, ignore_eos: true })).catch((error) => ({ status: 0, text: String(error) }))
      if (answer.status !== 200) {
        wrong.push(`${model}: ${answer.status} ${answer.text.slice(0, 300)}`)
        continue
      }
      waits.push(performance.now() - begin)
      const { content, timings } = JSON.parse(answer.text)
      if (timings.cache_n > 0) nCached++
      const key = `${model} ${which}`, before = replies.get(key) ?? ''
      const n = Math.min(before.length, content.length)
      if (isDeterministic && before.slice(0, n) !== content.slice(0, n)) wrong.push(`${key}: '${content}' and before '${before}'`)
      if (content.length > before.length) replies.set(key, content)
      await sleep(draw.next(60))
    }
  }
  const trouble = async () => {
    const draw = drawer(options.seed ^ 0x7a11)
    while (goesOn) {
      await sleep(options['trouble-ms'] / 2 + draw.next(options['trouble-ms']))
      const pids = childrenOf(server.pid), kind = draw.next(8)
      if (kind < 4 && pids.length > 0) {
        try {
          process.kill(draw.pick(pids), 'SIGKILL')
          kinds.kills++
        } catch { /* it ended before */ }
      } else if (kind < 6) {
        server.child.kill('SIGHUP')
        kinds.reloads++
      } else {
        const verb = kind === 6 ? 'load' : 'unload', { status, text } = await order(server, draw.pick(names), verb)
        if (status !== 202) wrong.push(`${verb}: ${status} ${text}`)
        kinds[`${verb}s`]++
      }
    }
  }
  // A model whose needs are unknown, because the process that tells them was killed or late, counts with the size of its
  // file and a base for its process until it is measured (docs/models.md). So the limit may be exceeded while it is in
  // memory, and not longer.
  const sampler = async () => {
    while (goesOn) {
      const { memory, models } = await view(server), pids = childrenOf(server.pid)
      most.used = Math.max(most.used, memory.used_bytes)
      most.rows = Math.max(most.rows, memory.rows.used_bytes)
      most.rowsLimit = Math.max(most.rowsLimit, memory.rows.limit_bytes)
      if (memory.rows.used_bytes > memory.rows.limit_bytes) wrong.push(`the rows take ${memory.rows.used_bytes} of ${memory.rows.limit_bytes} bytes`)
      most.real = Math.max(most.real, proportionalBytes(pids))
      most.front = Math.max(most.front, residentBytes(server.pid))
      most.workers = Math.max(most.workers, models.filter(({ pid }) => pid).length)
      const counted = models.filter(({ pid, state }) => pid || state === 'waiting') // a dead worker keeps its place
      const isOver = memory.used_bytes > memory.limit_bytes
      if (isOver && counted.some(({ expected }) => !expected)) nExcused++
      else if (isOver) wrong.push(`the models take ${memory.used_bytes} of ${memory.limit_bytes} bytes: ${counted.map(({ name }) => name)}`)
      await sleep(100)
    }
  }
  const all = [...Array.from({ length: options.clients }, (_, id) => client(id)), trouble(), sampler()]
  await Promise.race([sleep(options.seconds * 1000), server.ended])
  goesOn = false
  await Promise.all(all)
  if (server.exit) throw new Error(`the server ended:\n${server.log}`)
  const { models } = await view(server)
  await stop(server)
  waits.sort((a, b) => a - b)
  const at = (share) => `${((waits[Math.floor(waits.length * share)] ?? 0) / 1000).toFixed(2)} s`
  tell(`${waits.length} requests, ${replies.size} prompts of models, ${nCached} found rows; waits: median ${at(0.5)}, p99 ${at(0.99)}, longest ${at(0.99999)}`)
  tell(`${kinds.kills} kills, ${kinds.reloads} reloads, ${kinds.loads} loads, ${kinds.unloads} unloads by order, ${models.reduce((n, { departures }) => n + departures, 0)} departures; at most ${most.workers} workers`)
  tell(`limit ${(limit / MIB).toFixed(1)} MiB, used at most ${(most.used / MIB).toFixed(1)}, by rows ${(most.rows / MIB).toFixed(1)} of ${(most.rowsLimit / MIB).toFixed(1)}, of the system ${(most.real / MIB).toFixed(1)}; the front ${(most.front / MIB).toFixed(1)} MiB`)
  if (nExcused > 0) tell(`over the limit in ${nExcused} samples, with models whose needs nobody had told yet`)
  if (most.front > FRONT_MAX) wrong.push(`the front takes ${most.front} bytes`)
  if (waits.length === 0) wrong.push('no request was answered')
}

const cycles = async () => {
  const weights = mkdtempSync('/dev/shm/hearth-soak-')
  process.on('exit', () => rmSync(weights, { recursive: true, force: true }))
  execFileSync(options['make-model'], ['tiny-llama-wide', '--out', join(folder, 'wide.gguf')], { stdio: 'ignore' })
  const server = await serve('cycles', ['--host-weights', weights])
  const until = async (state) => {
    for (const end = Date.now() + 60000; Date.now() < end; await sleep(2))
      if ((await view(server)).models.find(({ name }) => name === 'wide').state === state) return
    throw new Error(`wide is not ${state}:\n${server.log}`)
  }
  const now = () => ({ front: residentBytes(server.pid), files: openFiles(server.pid), children: childrenOf(server.pid).length, shared: memoryFiles(server.pid), weights: readdirSync(weights).length })
  let early, mapped = 0
  for (let i = 0; i < options.cycles; i++) {
    await order(server, 'wide', 'load')
    await until('ready')
    mapped = Math.max(mapped, readdirSync(weights).length)
    await order(server, 'wide', 'unload')
    await until('stopped')
    if (i === Math.floor(options.cycles / 10)) early = now()
  }
  const late = now()
  await stop(server)
  tell(`${options.cycles} loads and unloads: the front ${(early.front / MIB).toFixed(1)} to ${(late.front / MIB).toFixed(1)} MiB, ${early.files} to ${late.files} files, ${early.children} to ${late.children} processes, ${early.shared} to ${late.shared} mappings of memory files, ${early.weights} to ${late.weights} of weights`)
  if (options.cycles >= GROWTH_CYCLES_MIN && late.front > early.front + GROWTH_MAX) wrong.push(`the front grew from ${early.front} to ${late.front} bytes`)
  if (mapped === 0) wrong.push('no weights were shared')
  for (const what of ['files', 'children', 'shared', 'weights'])
    if (late[what] > early[what]) wrong.push(`${what}: from ${early[what]} to ${late[what]}`)
}

if (options.seconds > 0) await traffic()
if (options.cycles > 0) await cycles()
for (const text of wrong.slice(0, 20)) tell(`WRONG ${text}`)
tell(wrong.length === 0 ? 'nothing was wrong' : `${wrong.length} things were wrong`)
process.exit(wrong.length === 0 ? 0 : 1)
