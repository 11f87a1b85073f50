// redis.mjs - a Redis of a test: on a free port of the loopback interface, without files, ended with the test
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { freePort, sleep } from '../support/server.mjs'

// One command; resolves to the first bytes of the reply. Rejects if there is none.
const command = (port, words, password) =>
  new Promise((resolve, reject) => {
    const write = (list) => socket.write(`*${list.length}\r\n${list.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`)
    const socket = net.connect(port, '127.0.0.1', () => {
      if (password) write(['AUTH', password])
      write(words)
    })
    let text = ''
    socket.setTimeout(5000, () => socket.destroy(new Error('no reply in time')))
    socket.on('error', reject)
    socket.on('data', (piece) => {
      text += piece
      if (password && !text.includes('\r\n', text.indexOf('\r\n') + 2)) return
      socket.destroy()
      resolve(password ? text.slice(text.indexOf('\r\n') + 2) : text)
    })
  })

// Make one. args: of redis-server. It has: port, start(), kill(), pause(), resume(), ask(...words).
export const makeRedis = async ({ work, args = [], password, mode = [] }) => {
  mkdirSync(work, { recursive: true })
  const port = await freePort()
  const redis = {
    port, child: null,
    start: async () => {
      const config = join(work, 'redis.conf') // sentinels write theirs
      writeFileSync(config, '')
      redis.child = spawn('redis-server', [
        config, '--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--dir', work, '--logfile', join(work, 'log'),
        ...(password ? ['--requirepass', password] : []), ...args, ...mode,
      ], { stdio: 'ignore' })
      const { child } = redis
      redis.ended = new Promise((resolve) => child.on('exit', resolve))
      process.on('exit', () => child.kill('SIGKILL'))
      for (let i = 0; i < 500; i++, await sleep(20))
        if (await command(port, ['PING'], password).then((text) => text.startsWith('+PONG'), () => false)) return
      throw new Error('redis-server does not answer')
    },
    kill: async () => {
      redis.child.kill('SIGKILL')
      await redis.ended
    },
    pause: () => redis.child.kill('SIGSTOP'),
    resume: () => redis.child.kill('SIGCONT'),
    ask: (...words) => command(port, words, password),
  }
  return redis
}
