// kept.mjs - a client that reads a kept stream, and reads on at other nodes when its connection breaks
import http from 'node:http'
import { sleep } from '../support/server.mjs'

const idOf = (event) => Number(/^id: (\d+)$/m.exec(event)?.[1])
const withoutId = (event) => event.replace(/^id: \d+\n/m, '')

// Read one connection to its end or break, or until isEnough. Whole events go to take.
const readOn = ({ port, socketPath }, method, path, body, headers, take, isEnough) =>
  new Promise((resolve) => {
    const request = http.request({ host: '127.0.0.1', port, socketPath, method, path, headers }, (response) => {
      let text = ''
      const result = { status: response.statusCode, headers: response.headers, isWhole: false }
      response.setEncoding('utf8')
      response.on('data', (piece) => {
        text += piece
        if (result.status !== 200) return
        for (let at; (at = text.indexOf('\n\n')) >= 0; text = text.slice(at + 2)) take(text.slice(0, at + 2))
        if (isEnough?.()) request.destroy()
      })
      response.on('end', () => resolve({ ...result, isWhole: true, text }))
      response.on('error', () => resolve({ ...result, text }))
      if (result.status === 200 && response.headers['x-hearth-stream']) result.id = response.headers['x-hearth-stream']
    })
    request.on('error', (error) => resolve({ status: 0, headers: {}, isWhole: false, text: String(error) }))
    request.end(body)
  })

// A reader of one stream. It has: text (events without their ids), last (number of the last event), id, nReads.
export const makeReader = () => {
  const reader = { text: '', last: 0, id: undefined, nReads: 0, error: null }
  const take = (event) => {
    if (event.startsWith(':')) return
    const id = idOf(event)
    if (id !== reader.last + 1) reader.error = `event ${id} follows event ${reader.last}`
    reader.last = id
    reader.text += withoutId(event)
  }
  // Begin the stream at a node. isEnough: leave when it is true.
  reader.begin = async (node, path, body, isEnough, more) => {
    reader.nReads++
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), 'x-hearth-resume': '1', ...more }
    const result = await readOn(node, 'POST', path, body, headers, take, isEnough)
    reader.id = result.headers['x-hearth-stream']
    return result
  }
  // Go on at a node.
  reader.goOn = (node, isEnough, more) => {
    reader.nReads++
    return readOn(node, 'GET', `/v1/streams/${reader.id}?after=${reader.last}`, undefined, { ...more }, take, isEnough)
  }
  // Read to the end, at whichever of the nodes answers, for a minute at most.
  reader.finish = async (nodes, more, note) => {
    for (const end = Date.now() + 60_000; Date.now() < end && !reader.error; await sleep(20)) {
      const up = nodes().filter((node) => node.server)
      if (up.length === 0) continue
      const result = await reader.goOn(up[reader.nReads % up.length], () => note?.() && false, more)
      if (result.isWhole && result.status === 200) return
      if (result.status !== 0 && result.status !== 200 && result.status !== 503) throw new Error(`${result.status}: ${result.text}`)
    }
    throw new Error(reader.error ?? 'the stream did not end within a minute')
  }
  return reader
}
