// suite.mjs - run the scenarios of `make bench` and write the report; started by suite.sh
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { draw, sectionOf } from './draw.mjs'
import { scenarios } from './scenarios.mjs'
import { machine, option, own, OWN_FLAGS, peer, PEER_FLAGS, quick, today } from './servers.mjs'

const [build, peerDirectory, work, model, tiny, output] = ['build', 'peer', 'work', 'model', 'tiny', 'output'].map(option)
const parts = (process.env.PARTS || Object.keys(scenarios).join(' ')).split(/[ ,]+/).filter(Boolean)
const unknown = parts.filter((part) => !scenarios[part])
if (unknown.length) {
  console.error(`suite.mjs: unknown part '${unknown[0]}' in PARTS; the parts are ${Object.keys(scenarios).join(' ')}`)
  process.exit(2)
}

let nDirectories = 0
const contestants = [
  // A directory for each scenario: what another one saved must not help.
  { name: 'Hearth', directory: '', start(options) { return own(contestants[0].directory, options.model, options.nCtx, options.more, options.nParallel) } },
  ...(peerDirectory ? [{ name: 'llama-server', start: (options) => peer(options.model, options.nCtx, options.more, options.nParallel) }] : []),
]
const git = (...words) => execFileSync('git', words, { encoding: 'utf8' }).trim()
const commit = () => {
  try {
    return git('rev-parse', '--short=12', 'HEAD') + (git('status', '--porcelain', '--untracked-files=no') ? ' with changes' : '')
  } catch {
    return 'unknown (no git checkout)'
  }
}

// Servers end with this program, which ends at each of these signals.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => process.exit(1))
const settings = ['PARTS', 'QUICK', 'PEER'].filter((name) => process.env[name]).map((name) => `${name}='${process.env[name]}' `).join('')
const report = {
  format: 'hearth-bench', version: 1, kind: 'suite', isTrial: quick,
  facts: {
    command: `${settings}make bench`, commit: commit(), date: today(), machine: machine(),
    models: [...new Set([model, tiny])].map((it) => basename(it, '.gguf')).join(', '),
    'flags of Hearth': OWN_FLAGS.join(' '), ...(peerDirectory ? { 'flags of llama-server': PEER_FLAGS.join(' ') } : {}),
  },
  sections: [], missing: [],
}
if (!peerDirectory) report.missing.push({ part: 'llama-server', why: 'left out (PEER=0, the default of QUICK=1), or it could not be built: see the output of bench/peer.sh' })
let nFailed = 0
for (const part of parts) {
  const begin = Date.now()
  contestants[0].directory = `suite-${nDirectories++}`
  try {
    const charts = await scenarios[part]({ contestants, model, tiny, build, work })
    for (const { id, series } of charts)
      for (const { name, points } of series)
        for (const { x, y } of points) if (!(y > 0 && y < Infinity)) throw new Error(`${id}: ${name} has ${y} at ${x}, which is no measurement`)
    report.sections.push(...charts.map(sectionOf))
  } catch (error) {
    nFailed++
    report.missing.push({ part, why: String(error.message).split('\n')[0] })
    console.error(`${part}: ${error.message}`)
  }
  rmSync(join(work, contestants[0].directory), { recursive: true, force: true })
  console.error(`${part}: ${((Date.now() - begin) / 1000).toFixed(0)} s`)
}

if (report.sections.length === 0) {
  console.error('nothing was measured, so the last report stays')
  process.exit(1)
}
// The report replaces the last one as a whole.
mkdirSync(output, { recursive: true })
for (const name of readdirSync(output)) if (name.endsWith('.svg')) rmSync(join(output, name))
writeFileSync(join(output, 'results.json'), `${JSON.stringify(report, null, 1)}\n`)
draw(build, output)
console.log(`wrote ${join(output, 'index.html')} and README.md`)
if (nFailed > 0) console.error(`${nFailed} of ${parts.length} parts failed; the report says why`)
process.exit(nFailed > 0 ? 1 : 0)
