// driver.mjs - requests to both servers: as many as they answer (http_load), and streams with the time of each event
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { ask } from '../tests/support/server.mjs'
import { option } from './servers.mjs'

const [build, work] = ['build', 'work'].map(option)
export const now = () => Number(process.hrtime.bigint()) / 1e6

// A token of plain text, so that every token of a stream comes in its own event.
export const plainToken = async (server) => {
  for (let id = 400; id < 500; id++) {
    const { text } = await ask(server, 'POST', '/detokenize', JSON.stringify({ tokens: [id] }))
    if (/^ ?[a-z]+$/.test(JSON.parse(text).content)) return id
  }
  throw new Error('no plain token among a hundred')
}

let nBodies = 0
export const bodyFile = (body) => {
  const path = join(work, `body-${nBodies++}.json`)
  writeFileSync(path, JSON.stringify({ temperature: 0, ignore_eos: true, cache_prompt: true, ...body }))
  return path
}
export const load = (file, targets, more) => {
  const output = execFileSync(join(build, 'bench', 'http_load'), [...more, file, ...targets].map(String), { encoding: 'utf8' })
  return output.trimEnd().split('\n').map((line) => JSON.parse(line))
}

const textOf = (event) => event.content ?? event.choices?.[0]?.delta?.content ?? ''

// A streamed reply, over a connection of its own: a server may close a kept one at any time. Resolves to the times
// of its events in ms since the request, its text, and the tokens of its prompt. onEvent is called with the number of
// events so far.
export const stream = (server, path, body, onEvent = () => {}) =>
  new Promise((resolve, reject) => {
    const bytes = JSON.stringify({ temperature: 0, ignore_eos: true, cache_prompt: true, stream: true, ...body })
    const begin = now(), reply = { begin, times: [], text: '', nPrompt: 0 }
    const take = (line) => {
      if (!line.startsWith('data: ') || line === 'data: [DONE]') return
      const event = JSON.parse(line.slice(6))
      if (event.error) return reject(new Error(`${server.kind}: ${line}`))
      reply.times.push(now() - begin)
      reply.text += textOf(event)
      reply.nPrompt = event.usage?.prompt_tokens ?? event.tokens_evaluated ?? reply.nPrompt
      onEvent(reply.times.length)
    }
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }
    const request = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', path, agent: false, headers }, (response) => {
      let rest = ''
      response.setEncoding('utf8')
      response.on('data', (piece) => {
        if (response.statusCode !== 200) return void (rest += piece)
        const lines = (rest + piece).split(/\r?\n/)
        rest = lines.pop()
        lines.forEach(take)
      })
      response.on('end', () => {
        if (response.statusCode !== 200 || reply.times.length === 0) return reject(new Error(`${server.kind}: ${response.statusCode} ${rest.slice(0, 500)}`))
        resolve({ ...reply, first: reply.times[0] })
      })
      response.on('aborted', () => reject(new Error(`${server.kind}: the reply was cut`)))
    })
    request.on('error', reject)
    request.end(bytes)
  })

// The time to the first token of a prompt of token ids.
export const firstToken = async (server, prompt, nPredict = 2) => (await stream(server, '/completion', { prompt, n_predict: nPredict })).first
