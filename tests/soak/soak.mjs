// soak.mjs - run a server for hours with every kind of request, deaths, damage and reloads; nothing may grow or differ
//
//   node soak.mjs --hearth PROGRAM --model FILE --work DIRECTORY [--seconds N] [--seed S] [--clients N] [--think-ms MS]
//                 [--trouble-ms MS] [--sample-ms MS] [--hang-ms MS] [--front-kills N]
//
// There are four models: the real one with one request at a time (`alone`), the stub (`stub`), and the real one twice
// with several requests at once, a small context, and a small cache directory that both share (`crowd`, `steady`).
// Clients ask at random (clients.mjs, questions.mjs). Every answer is compared with that of a reference server without
// a cache (judge.mjs). Meanwhile the tormentor kills, stops and crashes workers (../chaos/tormentor.mjs), and the hand
// disturbs the server (hand.mjs). The front is killed in the first and the last tenth of the time. In between, the
// front and the worker of `steady` live undisturbed: watch.mjs judges their growth from 40 % of the time on, when their
// caches are full. A run of less than half an hour only prints the growth.
//
// SIGINT and SIGTERM end the run early, in order. It ends with 0 if no reply differed or failed, nothing grew, no file
// was left, and only deliberate damage was found. The file `summary` has the printed end, `samples` a line of JSON for
// each sample.
import { appendFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeJudge } from './judge.mjs'
import { makeQuestions } from './questions.mjs'
import { startClients } from './clients.mjs'
import { command, startHand } from './hand.mjs'
import { directoryNow, growthOf, isWorkerOf, sampleNow } from './watch.mjs'
import { drawer } from '../chaos/draw.mjs'
import { torment } from '../chaos/tormentor.mjs'
import { ask, metric, sleep, start, stop } from '../support/server.mjs'

const options = { seconds: 20, seed: Date.now() % 1000000, clients: 6, 'think-ms': 1200, 'trouble-ms': 12000, 'sample-ms': 10000, 'hang-ms': 3000, 'front-kills': 2 }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
for (const name of ['hearth', 'model', 'work'])
  if (!options[name]) {
    console.error(`soak.mjs: --${name} is missing`)
    process.exit(2)
  }
const WRONG_KEPT = 20
const OVER_MAX = 4
const JUDGED_SECONDS = 1800
const QUOTAS = { alone: 48 << 20, stub: 24 << 20, crowd: 6 << 20 } // of the cache directories, in bytes
process.setMaxListeners(100)
const tell = (text) => console.log(`${new Date().toISOString().slice(0, 19)} ${text}`)
tell(`seed ${options.seed} (SEED replays its draws), ${options.seconds} s`)

const place = (...names) => join(options.work, ...names)
const directories = Object.fromEntries(Object.keys(QUOTAS).map((name) => [name, place('cache', name)]))
const models = [
  { name: 'alone', path: options.model, cache: 'alone', ram: '32M', context: 4096, parallel: 1, more: 'type_k = q8_0\n  type_v = q8_0' },
  { name: 'stub', path: 'stub:delay_us=200', cache: 'stub', ram: '8M', context: 8192, parallel: 8 },
  { name: 'crowd', path: options.model, cache: 'crowd', ram: '1M', context: 1024, parallel: 4 },
  { name: 'steady', path: options.model, cache: 'crowd', ram: '1M', context: 1024, parallel: 4 },
]
const settings = (name, { isReference, tick = 250 }) => {
  const file = place(`${name}.conf`)
  const section = (model) => `model "${model.name}" {
  path = "${model.path}"
  context = ${model.context}
  n_parallel = ${isReference ? 1 : model.parallel}
  threads = 1
  ${model.name === 'steady' || isReference ? '' : `max_tick_ms = ${tick}`}
  ${model.more ?? ''}
  cache { ${isReference ? 'disabled = true' : `directory = "${directories[model.cache]}"; ram = ${model.ram}; disk_bytes_max = ${QUOTAS[model.cache]}`} }
}
`
  writeFileSync(file, models.map(section).join(''))
  return file
}
const serve = (name, more = []) => {
  mkdirSync(place(name), { recursive: true })
  rmSync(place(`${name}.port`), { force: true })
  return start({
    program: options.hearth, portFile: place(`${name}.port`),
    args: ['--config', place(`${name}.conf`), '--runtime-directory', place(name, 'run'), '--log-file', place(`${name}.log`), '--no-access-log', ...more],
  })
}

// ---- the front: several, one after the other ----

const front = { server: null, generation: 0, isDown: true, kills: 0, resumed: 0, deaths: 0, hangs: 0, preempted: 0, evicted: 0, get pid() { return this.server.pid } }
const startFront = async () => {
  front.server = await serve('soak', ['--hang-ms', String(options['hang-ms']), '--start-timeout-ms', '20000', '--unknown-fields', 'refuse', '--default-model', 'none', '--healthy-ms', '2000', '--retries-max', '10', '--wait-timeout-ms', '60000'])
  front.isDown = false
}
const killFront = async () => {
  await countFront()
  front.isDown = true
  front.generation++
  front.kills++
  front.server.child.kill('SIGKILL')
  await front.server.ended
  await startFront()
}
// The counters of a front end with it.
const countFront = async () => {
  const page = (await ask(front.server, 'GET', '/metrics')).text
  for (const [name, of] of [['resumed', 'hearth_resumed_requests_total'], ['deaths', 'hearth_worker_deaths_total'], ['hangs', 'hearth_worker_hangs_total'], ['preempted', 'hearth_scheduler_preempted_total'], ['evicted', 'hearth_cache_rows_evicted_total']])
    front[name] += metric(page, of)
  return metric(page, 'hearth_requests_in_flight')
}

// ---- samples ----

const samples = []
const nOver = {} // samples in a row with more than the quota
const times = { cold: [], warm: [] }
const probe = async (draw, i) => {
  const prompt = Array.from({ length: 1000 }, () => 300 + draw.next(1500))
  const body = JSON.stringify({ model: 'alone', prompt, n_predict: 1, temperature: 0, seed: 1, cache_salt: `probe ${i}` })
  for (const kind of ['cold', 'warm']) {
    const begin = performance.now()
    const answer = await ask(front.server, 'POST', '/completion', body).catch(() => null)
    if (answer?.status === 200) times[kind].push({ at: Date.now(), ms: performance.now() - begin })
  }
}
let isSampling = true
const sampler = async () => {
  const draw = drawer(options.seed ^ 0x5a3)
  for (let i = 0; isSampling; i++) {
    if (!front.isDown) {
      await probe(draw, i)
      if (front.isDown) continue
      const sample = { at: Date.now(), generation: front.generation, ...sampleNow(front.pid, directories, place('soak', 'run')) }
      samples.push(sample)
      appendFileSync(place('samples'), `${JSON.stringify(sample)}\n`)
      // Nothing is evicted while an index is rebuilt, for a short time.
      for (const [name, { rows }] of Object.entries(sample.directories)) {
        nOver[name] = rows.bytes > QUOTAS[name] * 1.25 ? (nOver[name] ?? 0) + 1 : 0
        if (nOver[name] === OVER_MAX) wrong.push(`the cache '${name}' keeps ${rows.bytes} bytes of rows, its quota is ${QUOTAS[name]}`)
      }
    }
    for (const end = Date.now() + options['sample-ms']; isSampling && Date.now() < end; ) await sleep(200)
  }
}

// ---- what is wrong ----

const wrong = []
let nKept = 0
const onWrong = ({ kind, word, why, question, reply }) => {
  tell(`${kind} ${word}: ${question.path} ${String(question.body).slice(0, 300)}\n  ${why}`)
  if (nKept >= WRONG_KEPT) return
  const name = place(`wrong-${nKept++}`)
  writeFileSync(`${name}.request`, `${question.path}\n${question.body}\n`)
  writeFileSync(`${name}.reply`, reply?.text ?? '')
  writeFileSync(`${name}.wanted`, reply?.wanted ?? '')
}

// A row in quarantine was damaged on purpose, or is sound: a worker died while it read the row.
const quarantined = async (damaged) => {
  const counts = { onPurpose: 0, sound: 0, damaged: 0 }
  for (const directory of Object.values(directories)) {
    if (!existsSync(join(directory, 'quarantine'))) continue
    for (const name of readdirSync(join(directory, 'quarantine'))) {
      if ([...damaged].some((it) => name.includes(it.replace(/\.kvc$/, '')))) counts.onPurpose++
      else if ((await command(options.hearth, ['kvc', 'inspect', join(directory, 'quarantine', name)])).code === 0) counts.sound++
      else {
        counts.damaged++
        wrong.push(`'${directory}/quarantine/${name}' is damaged, and nobody did that on purpose`)
      }
    }
  }
  return counts
}

const widths = (gaps) => {
  gaps.sort((a, b) => a - b)
  const at = (part) => (gaps[Math.min(gaps.length - 1, Math.floor(part * gaps.length))] ?? 0).toFixed(4)
  return `between two likely tokens: median ${at(0.5)}, 90 % below ${at(0.9)}, most ${at(1)}`
}

// The causes of death in the server's log: as many of each signal as were sent; all others were hung workers.
const checkDeaths = ({ kill, crash }) => {
  const causes = { SIGKILL: 0, SIGSEGV: 0, hang: 0 }
  for (const [, model, cause] of readFileSync(place('soak.log'), 'utf8').matchAll(/model '(\w+)': its worker failed: ([^;"]*)/g)) {
    if (/signal 9 /.test(cause)) causes.SIGKILL++
    else if (/signal 11 /.test(cause)) causes.SIGSEGV++
    else if (/did not answer|took longer than|did not go on/.test(cause)) causes.hang++
    else wrong.push(`a worker of '${model}' died by itself: ${cause}`)
  }
  if (causes.SIGKILL > kill) wrong.push(`${causes.SIGKILL} workers died of SIGKILL, ${kill} got it`)
  if (causes.SIGSEGV > crash) wrong.push(`${causes.SIGSEGV} workers died of SIGSEGV, ${crash} got it`)
  return causes
}

// ---- the run ----

let reference, clients, hand, tormentor, sampling
try {
  mkdirSync(options.work, { recursive: true })
  for (const name of ['samples', 'soak.log']) rmSync(place(name), { force: true })
  settings('reference', { isReference: true })
  settings('soak', {})
  reference = await serve('reference')
  await startFront()
  const judge = makeJudge(reference)
  const begin = Date.now()
  const names = { alone: 'alone', stub: 'stub', crowds: ['crowd', 'steady'] }
  sampling = sampler()
  sampling.catch(() => {}) // awaited below
  clients = startClients(options.clients, { seed: options.seed, thinkMs: options['think-ms'], front, questions: makeQuestions(options.seed, names), judge, onWrong })
  tormentor = torment(front, {
    seed: options.seed, pauseMs: options['trouble-ms'], hangMs: options['hang-ms'], kinds: ['kill', 'kill', 'kill', 'crash', 'pause', 'pause', 'hang'],
    isMeant: (pid) => isWorkerOf(pid, ['alone', 'stub', 'crowd']),
  })
  hand = startHand({
    seed: options.seed, pauseMs: options['trouble-ms'], program: options.hearth, front, directories: Object.values(directories),
    reload: (i) => settings('soak', { tick: i % 2 === 0 ? 250 : 200 + i }),
  })

  // Kill the front at even distances in the first and the last tenth.
  let ends = begin + options.seconds * 1000
  for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => (ends = 0)) // sum up what there is
  const kills = Array.from({ length: options['front-kills'] }, (_, i) => 0.1 * (i + 1) / (options['front-kills'] + 1))
  const moments = [...kills, ...kills.map((part) => 0.9 + part)].map((part) => begin + part * options.seconds * 1000)
  let told = begin
  while (Date.now() < ends) {
    if (moments.length > 0 && Date.now() >= moments[0]) {
      moments.shift()
      await killFront()
      tell(`the front was killed, and is there again (pid ${front.pid})`)
    }
    if (front.server.exit) throw new Error(`the server ended by itself, ${JSON.stringify(front.server.exit)}:\n${front.server.log}`)
    if (clients.error()) throw clients.error()
    if (Date.now() - told > 60000) {
      told = Date.now()
      const last = samples.at(-1)
      const mib = (bytes) => (bytes / 1048576).toFixed(1)
      tell(`${clients.nAsked()} asked, ${JSON.stringify(judge.counts)}; front ${mib(last?.front.residentBytes)} MiB, ${last?.front.files} files; steady ${mib(last?.workers.steady?.residentBytes)} MiB, ${last?.workers.steady?.files} files; torments ${JSON.stringify(tormentor.counts)}, hand ${JSON.stringify(hand.counts)}`)
    }
    await sleep(100)
  }

  await hand.end()
  await tormentor.end()
  await clients.end()
  isSampling = false
  await sampling
  for (let i = 0; i < 100 && metric((await ask(front.server, 'GET', '/metrics')).text, 'hearth_requests_in_flight') > 1; i++) await sleep(100)
  const inFlight = await countFront()
  if (inFlight > 1) wrong.push(`${inFlight - 1} requests are in flight, and nobody asks`)
  await stop(front.server)
  await stop(reference)

  // ---- what is left ----
  wrong.push(...hand.failures)
  const seconds = Math.round((Date.now() - begin) / 1000)
  const lines = [`${seconds} s, seed ${options.seed}`]
  for (const [kind, of] of Object.entries(clients.counts)) lines.push(`  ${kind}: ${Object.entries(of).map(([word, n]) => `${n} ${word}`).join(', ')}`)
  for (const [cause, n] of clients.causes) lines.push(`  refused ${n} times: ${cause}`)
  const total = (word) => Object.values(clients.counts).reduce((sum, of) => sum + (of[word] ?? 0), 0)
  lines.push(`replies compared: ${Object.entries(judge.counts).map(([word, n]) => `${n} ${word}`).join(', ')}; ${widths(judge.gaps)}; ${total('failed')} failed`)
  lines.push(`torments: ${JSON.stringify(tormentor.counts)}; hand: ${JSON.stringify(hand.counts)}; front killed ${front.kills} times`)
  lines.push(`deaths of workers: ${front.deaths}, of them hanging ${front.hangs}, as the log has them ${JSON.stringify(checkDeaths(tormentor.counts))}; requests that went on in a new worker ${front.resumed}; preempted ${front.preempted}, rows evicted ${front.evicted} (by the workers that lived last)`)
  if (total('different') > 0) wrong.push(`${total('different')} replies differ`)
  if (total('failed') > 0) wrong.push(`${total('failed')} requests failed`)
  if (tormentor.counts.kill + tormentor.counts.crash + tormentor.counts.hang > 0 && front.deaths === 0) wrong.push('workers were killed, and the server has noticed nothing')

  const calm = samples.filter(({ at }) => at > begin + options.seconds * 400 && at < begin + options.seconds * 900)
  const middle = calm[Math.floor(calm.length / 2)]
  const lived = calm.filter(({ generation, workers }) => generation === middle?.generation && workers.steady?.pid === middle.workers.steady?.pid)
  for (const [name, of] of [['front', lived.map((sample) => sample.front)], ['steady', lived.map(({ workers }) => workers.steady)]])
    for (const { what, before, after, bound } of growthOf(of)) {
      lines.push(`${name} ${what}: ${before} in the first quarter, ${after} in the last, at most ${Math.round(bound)}`)
      if (after > bound && seconds >= JUDGED_SECONDS) wrong.push(`${what} of ${name} has grown from ${before} to ${after}`)
    }
  if (seconds >= JUDGED_SECONDS && lived.length < calm.length * 0.9) wrong.push(`the worker of 'steady' or the front did not live through: ${lived.length} of ${calm.length} samples are theirs`)
  const quarter = (list, from) => list.slice(Math.floor(list.length * from), Math.floor(list.length * (from + 0.25))).map(({ ms }) => ms).sort((a, b) => a - b)
  for (const [kind, list] of Object.entries(times))
    if (list.length >= 8) lines.push(`a ${kind} prompt of 1000 tokens: median ${quarter(list, 0)[Math.floor(list.length / 8)].toFixed(1)} ms in the first quarter, ${quarter(list, 0.75)[Math.floor(list.length / 8)].toFixed(1)} ms in the last`)

  const found = await quarantined(hand.damaged)
  for (const [name, directory] of Object.entries(directories)) {
    const verify = await command(options.hearth, ['cache', 'verify', '--json', '-q', '--cache', directory])
    const stat = JSON.parse((await command(options.hearth, ['cache', 'stat', '--json', '--cache', directory])).out)
    const left = directoryNow(directory)
    lines.push(`cache '${name}': ${JSON.stringify(left)}; verify ${verify.out.trim()}`)
    if (left.temporary > 0) wrong.push(`temporary files are left in '${directory}'`)
    if (left.owners > 0) wrong.push(`processes that are no more own something in '${directory}'`)
    if (stat.rows !== left.rows.files || stat.bytes !== left.rows.bytes)
      wrong.push(`the index of '${directory}' has ${stat.rows} rows, ${stat.bytes} bytes, and its files are ${left.rows.files}, ${left.rows.bytes} bytes`)
  }
  const after = await quarantined(hand.damaged)
  lines.push(`quarantine: ${JSON.stringify(found)}, after verify ${JSON.stringify(after)}`)
  const folders = existsSync(place('soak', 'run')) ? readdirSync(place('soak', 'run')).length : 0
  if (folders > 0) wrong.push(`${folders} folders of sockets are left`)
  lines.push(...[...new Set(wrong)].map((it) => `WRONG: ${it}`))
  lines.push(wrong.length === 0 ? 'nothing grew, nothing differs' : `${wrong.length} things are wrong`)
  writeFileSync(place('summary'), `${lines.join('\n')}\n`)
  console.log(lines.join('\n'))
  process.exitCode = wrong.length === 0 ? 0 : 1
} catch (error) {
  console.error(`soak: ${error.stack ?? error}`)
  process.exitCode = 1
}
if (process.exitCode !== 0) console.error(`what happened is in ${options.work}`)
isSampling = false
for (const it of [front.server, reference]) if (it && !it.exit) it.child.kill('SIGKILL')
setTimeout(() => process.exit(process.exitCode), 5000).unref()
