// chaos.mjs - compare streams whose workers are killed, stopped and starved with the same streams in peace
//
//   node chaos.mjs --hearth PROGRAM --model FILE --work DIRECTORY [--template FILE] [--streams N] [--at-once N]
//                  [--seed S] [--pause-ms MS] [--hang-ms MS] [--max-tokens N] [--only INDEX]
//                  [--kinds kill,hang,...]
//
// Two servers run one after the other, each with an empty cache. The first one answers every request in peace. The
// second one answers the same requests while its workers are tormented. Every reply must be complete and the same, byte
// for byte, except for the differences that compare.mjs allows. The server must end in order and leave no worker.
//
// Bits must not depend on neighbours and placement (docs/engine.md, "When bits stay the same"). So the real model gets
// one request at a time, each with its own salt: requests share no cells, and a new token always lies behind all others
// of the context. The stub's bits depend on tokens only: it gets eight requests at once, which share prefixes, and
// requests for several replies.
//
// Several replies of one stream take turns by chance, so streams of n > 1 are compared reply by reply. The tormentor
// and the requests follow the seed, which is printed. Moments in time do not follow it, so a seed that failed may pass.
// The working directory keeps the request, both replies and both logs of each failure.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { compare, firstDifference } from './compare.mjs'
import { answers, isComplete } from './answers.mjs'
import { makeRequests } from './requests.mjs'
import { torment } from './tormentor.mjs'
import { ask, metric, openFiles, residentBytes, start, stop } from '../support/server.mjs'

const options = { streams: 100, 'at-once': 12, seed: Date.now() % 1000000, 'pause-ms': 400, 'hang-ms': 1200, 'max-tokens': 160, 'stub-us': 200, only: -1 }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
for (const name of ['hearth', 'model', 'work'])
  if (!options[name]) {
    console.error(`chaos.mjs: --${name} is missing`)
    process.exit(2)
  }
console.log(`seed ${options.seed} (HTH_SEED replays it)`)

const models = [
  { name: 'tiny', path: options.model, isAlone: true, hasTools: false, share: 2 },
  { name: 'stub', path: `stub:delay_us=${options['stub-us']}`, share: 3 },
]
if (options.template) models.push({ name: 'tools', path: options.model, template: options.template, isAlone: true, share: 1 })
const requests = makeRequests(options.streams, options.seed, { models, maxTokens: options['max-tokens'] })
  .filter(({ index }) => options.only < 0 || index === options.only)

const settings = (name) => {
  const file = join(options.work, `${name}.conf`)
  const section = (model) => `model "${model.name}" {
  path = "${model.path}"
  context = 16384
  n_parallel = ${model.isAlone ? 1 : 8}
  ${model.isAlone ? 'type_k = q8_0\n  type_v = q8_0' : ''}
  ${model.template ? `chat_template = "${model.template}"` : ''}
  cache { directory = "${join(options.work, name, model.name)}"; ram = 64M }
}
`
  writeFileSync(file, models.map(section).join(''))
  return file
}

const serve = (name, more) => {
  mkdirSync(join(options.work, name), { recursive: true })
  return start({
    program: options.hearth, portFile: join(options.work, `${name}.port`),
    args: ['--config', settings(name), '--runtime-directory', join(options.work, name, 'run'), '--log-file', join(options.work, `${name}.log`), ...more],
  })
}
// The circuit is for workers that die before they serve. So however fast workers die, a model must stay in order if a
// reply of it ends, or comes further, from time to time. The tormentor also hits workers that start, but of one model
// at most two without service between them.
const HITS_IN_A_ROW = 2
const SERVED_PIECES = 16 // of one reply since the last hit
const hits = {} // by model, since its last service
const pieces = new Map() // by request, since the last hit of its model
const modelOf = (pid) =>
  new RegExp(`model '([^']+)': its worker starts \\(pid ${pid}\\)`).exec(readFileSync(join(options.work, 'chaos.log'), 'utf8'))?.[1]
const mayBeTormented = (pid) => (hits[modelOf(pid)] ?? 0) < HITS_IN_A_ROW
const noteHit = (pid) => {
  const model = modelOf(pid)
  hits[model] = (hits[model] ?? 0) + 1
  for (const i of pieces.keys()) if (requests[i].model === model) pieces.delete(i)
}
const noteService = (i, isEnd) => {
  pieces.set(i, (pieces.get(i) ?? 0) + 1)
  if (isEnd || pieces.get(i) >= SERVED_PIECES) hits[requests[i].model] = 0
}
let calmServer, server, tormentor
try {
  // In peace.
  calmServer = await serve('calm', [])
  const begin = Date.now()
  const calm = await answers(calmServer.port, requests, options['at-once'])
  const calmMs = Date.now() - begin
  await stop(calmServer)
  for (const [i, reply] of calm.entries())
    if (reply.error || reply.status !== 200 || !isComplete(requests[i], reply.text))
      throw new Error(`request ${requests[i].index} fails in peace: ${reply.error ?? reply.status} ${reply.text.slice(-500)}\n${requests[i].path} ${requests[i].body}`)

  // Tormented. The limits allow for many deaths of a request, also in a row.
  server = await serve('chaos', ['--hang-ms', String(options['hang-ms']), '--start-timeout-ms', String(4 * options['hang-ms']),
    '--retries-max', '100'])
  const filesBefore = openFiles(server.pid)
  tormentor = torment(server, { seed: options.seed, pauseMs: options['pause-ms'], hangMs: options['hang-ms'], kinds: options.kinds?.split(','), isMeant: mayBeTormented, onHit: noteHit })
  const chaosBegin = Date.now()
  const chaos = await answers(server.port, requests, options['at-once'], noteService)
  const chaosMs = Date.now() - chaosBegin
  await tormentor.end()
  const page = (await ask(server, 'GET', '/metrics').catch(() => ({ text: '' }))).text
  const files = openFiles(server.pid)
  const rss = residentBytes(server.pid)
  await stop(server)

  const counts = { same: 0, split: 0, different: 0, failed: 0 }
  for (const [i, reply] of chaos.entries()) {
    const request = requests[i]
    let verdict
    if (reply.error || reply.status !== 200) verdict = 'failed'
    else verdict = compare(calm[i].text, reply.text, request.stream)
    counts[verdict]++
    if (verdict === 'same' || verdict === 'split') continue
    const place = join(options.work, `failed-${request.index}`)
    writeFileSync(`${place}.request`, `${request.path}\n${request.body}\n`)
    writeFileSync(`${place}.calm`, calm[i].text)
    writeFileSync(`${place}.chaos`, reply.text)
    console.log(`request ${request.index} ${verdict}: ${request.path} ${request.body.slice(0, 300)}`)
    console.log(verdict === 'failed' ? `  ${reply.status} ${reply.error ?? reply.text.slice(0, 500)}` : `  ${firstDifference(calm[i].text, reply.text)}`)
  }
  const pauses = chaos.map((reply) => reply.pauseMs).sort((a, b) => a - b)
  const at = (part) => pauses[Math.min(pauses.length - 1, Math.floor(part * pauses.length))]
  const { kill, hang, pause, starve } = tormentor.counts
  console.log(`torments: ${kill} killed, ${hang} stopped for good, ${pause} stopped for a while, ${starve} starved`)
  console.log(`workers: ${metric(page, 'hearth_worker_deaths_total')} deaths, of them ${metric(page, 'hearth_worker_hangs_total')} found hanging; requests that went on in a new worker: ${metric(page, 'hearth_resumed_requests_total')}`)
  console.log(`time: ${(calmMs / 1000).toFixed(1)} s in peace, ${(chaosMs / 1000).toFixed(1)} s tormented; longest pause within a reply: median ${at(0.5)} ms, 90% ${at(0.9)} ms, most ${at(1)} ms`)
  console.log(`front: ${(rss / 1048576).toFixed(1)} MiB resident, ${files} open files (${filesBefore} before)`)
  console.log(`replies: ${requests.length}, of them ${counts.same} the same, ${counts.split} the same but split differently, ${counts.different} different, ${counts.failed} failed`)
  if (counts.different + counts.failed > 0) throw new Error('replies differ or failed')
  if (kill + hang > 0 && metric(page, 'hearth_worker_deaths_total') === 0) throw new Error('workers were killed, and the server has noticed nothing')
  // The server keeps connections to clients and workers for a while.
  if (files > filesBefore + 4 * options['at-once']) throw new Error(`the front keeps files open: ${files}, ${filesBefore} before`)
  process.exitCode = 0
} catch (error) {
  console.error(`chaos: ${error.stack ?? error}`)
  console.error(`what happened is in ${options.work}`)
  for (const it of [calmServer, server]) if (it && !it.exit) it.child.kill('SIGKILL')
  process.exitCode = 1
}
await tormentor?.end().catch(() => {})
