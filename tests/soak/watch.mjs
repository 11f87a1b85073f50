// watch.mjs - sample the memory and the files of a soak, and judge their growth
//
// Memory is the resident memory without memory files (the RAM tier has its own quota and stays with the front). Growth
// is the difference between the medians of the first and the last quarter of the samples; `bounds` limits it. Some
// memories of a worker fill first and then stay: known prompts (32 MiB), evicted rows (7 MiB), and the map of the
// cache's index.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { childrenOf, openFiles } from '../support/server.mjs'

const MIB = 1048576
export const bounds = {
  residentBytes: (before) => before * 1.1 + 8 * MIB,
  files: (before) => before + 12,
  threads: (before) => before + 2,
}

// { residentBytes, proportionalBytes, memfdBytes, files, threads }, or null if the process is gone.
export const processNow = (pid) => {
  try {
    const number = (text, name) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0)
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    let memfdBytes = 0
    let isMemfd = false
    for (const line of readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
      if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) isMemfd = line.includes('/memfd:')
      else if (isMemfd && line.startsWith('Rss:')) memfdBytes += 1024 * Number(/\d+/.exec(line)[0])
    }
    return {
      residentBytes: number(rollup, 'Rss') - memfdBytes, proportionalBytes: number(rollup, 'Pss'), memfdBytes,
      files: openFiles(pid), threads: readdirSync(`/proc/${pid}/task`).length,
    }
  } catch {
    return null
  }
}

const nameOf = (pid) => {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return args[1] === 'worker' ? args[args.indexOf('--name') + 1] : undefined
  } catch {
    return undefined
  }
}
export const isWorkerOf = (pid, names) => names.includes(nameOf(pid))

const filesBelow = (directory) => {
  const sum = { files: 0, bytes: 0 }
  if (!existsSync(directory)) return sum
  for (const entry of readdirSync(directory, { withFileTypes: true, recursive: true }))
    if (entry.isFile())
      try {
        sum.bytes += statSync(join(entry.parentPath ?? entry.path, entry.name)).size
        sum.files++
      } catch { /* it has gone meanwhile */ }
  return sum
}
const entriesOf = (directory) => (existsSync(directory) ? readdirSync(directory).length : 0)

export const directoryNow = (directory) => ({
  rows: filesBelow(join(directory, 'rows')), indexBytes: filesBelow(join(directory, 'index')).bytes,
  temporary: entriesOf(join(directory, 'temporary')), owners: entriesOf(join(directory, 'owners')), quarantine: entriesOf(join(directory, 'quarantine')),
})

// A sample of a server and its directories. Workers have the names of their models; one that restarts is missing.
export const sampleNow = (pid, directories, runtime) => {
  const workers = {}
  const children = childrenOf(pid)
  for (const child of children) {
    const name = nameOf(child)
    const now = name && processNow(child)
    if (now) workers[name] = { pid: child, ...now }
  }
  return {
    front: { pid, children: children.length, ...processNow(pid) }, workers,
    directories: Object.fromEntries(Object.entries(directories).map(([name, at]) => [name, directoryNow(at)])), runtime: entriesOf(runtime),
  }
}

const median = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)]

// [{ what, before, after, bound }] for the samples of one process; empty if there are too few.
export const growthOf = (samples) => {
  const quarter = Math.floor(samples.length / 4)
  if (quarter < 2) return []
  return Object.keys(bounds).map((what) => {
    const of = (some) => median(some.map((sample) => sample[what]))
    const before = of(samples.slice(0, quarter))
    return { what, before, after: of(samples.slice(-quarter)), bound: bounds[what](before) }
  })
}
