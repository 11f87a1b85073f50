// hand.mjs - operators, disks and accidents disturb the server
//
//   reload             sends SIGHUP; every other time a model that may be disturbed has another option
//   damage             flips a bit of a row's file or cuts the file short, and remembers its name
//   stat, verify, gc   runs `hearth cache` beside the server; gc frees three quarters of the quota or all of it
//
// ../chaos/tormentor.mjs disturbs the workers.
import { spawn } from 'node:child_process'
import { closeSync, openSync, readSync, readdirSync, statSync, truncateSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { drawer } from '../chaos/draw.mjs'
import { sleep } from '../support/server.mjs'

// Resolves to { code, out }; a program that does not end within a minute has failed.
export const command = (program, args) =>
  new Promise((resolve) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    child.stdout.on('data', (piece) => (out += piece))
    child.stderr.on('data', (piece) => (out += piece))
    const killer = setTimeout(() => child.kill('SIGKILL'), 60000)
    child.on('exit', (code, signal) => {
      clearTimeout(killer)
      resolve({ code: code ?? signal, out })
    })
  })

const rowsOf = (directory) => {
  try {
    return readdirSync(join(directory, 'rows'), { recursive: true }).filter((name) => name.endsWith('.kvc')).map((name) => join(directory, 'rows', name))
  } catch {
    return [] // a folder went meanwhile
  }
}

export const startHand = ({ seed, pauseMs, program, front, directories, reload }) => {
  const draw = drawer(seed ^ 0x4a4d)
  const counts = { reload: 0, damage: 0, stat: 0, verify: 0, gc: 0 }
  const damaged = new Set() // names of files, without their folders
  const failures = []
  let goesOn = true

  const damage = (directory) => {
    const rows = rowsOf(directory)
    if (rows.length === 0) return
    const path = draw.pick(rows)
    try {
      const { size } = statSync(path)
      damaged.add(path.slice(path.lastIndexOf('/') + 1))
      if (draw.chance(30)) truncateSync(path, draw.next(size))
      else {
        const file = openSync(path, 'r+')
        const byte = Buffer.alloc(1)
        const at = draw.next(size)
        readSync(file, byte, 0, 1, at)
        byte[0] ^= 1 << draw.next(8)
        writeSync(file, byte, 0, 1, at)
        closeSync(file)
      }
      counts.damage++
    } catch { /* it was evicted just now */ }
  }
  // stat may find a directory that is not there yet (1), verify finds damage (1).
  const care = async (verb, directory) => {
    const more = { stat: ['--json'], verify: ['--json', '-q'], gc: ['--to', draw.chance(50) ? '0' : '1M'] }[verb]
    const { code, out } = await command(program, ['cache', verb, '--cache', directory, ...more])
    counts[verb]++
    if (code !== 0 && !(code === 1 && verb !== 'gc')) failures.push(`hearth cache ${verb} ended with ${code}: ${out.slice(-500)}`)
  }
  const once = async () => {
    const kind = draw.pick(['reload', 'damage', 'damage', 'damage', 'damage', 'stat', 'verify', 'verify', 'gc'])
    const directory = draw.pick(directories)
    if (kind === 'reload') {
      if (front.isDown) return
      reload(counts.reload++)
      front.server.child.kill('SIGHUP')
    } else if (kind === 'damage') damage(directory)
    else await care(kind, directory)
  }
  const run = (async () => {
    while (goesOn) {
      await sleep(pauseMs / 2 + draw.next(pauseMs))
      if (goesOn) await once()
    }
  })()
  run.catch(() => {}) // whoever awaits end() is told
  return { counts, damaged, failures, end: async () => { goesOn = false; await run } }
}
