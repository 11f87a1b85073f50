// answers.mjs - the replies to many requests, and how long they paused
import http from 'node:http'

export const isComplete = ({ path, stream }, text) =>
  !stream || (path === '/v1/messages' ? text.includes('event: message_stop') : path === '/completion' ? text.includes('"stop":true') : text.endsWith('data: [DONE]\n\n'))

// Send all requests, some at once. Returns each reply with its longest pause and the node that began it. note: called
// with the index of a request at each piece of its reply, and at its end.
export const answers = async (port, requests, nAtOnce, note) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: nAtOnce })
  const replies = new Array(requests.length)
  let next = 0
  const one = async (request, i) => {
    const reply = { status: 0, text: '', error: null, pauseMs: 0, node: undefined }
    try {
      Object.assign(reply, await new Promise((resolve, reject) => {
        const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(request.body) }
        const sent = http.request({ host: '127.0.0.1', port, method: 'POST', path: request.path, headers, agent }, (response) => {
          const pieces = []
          let last = Date.now()
          let pauseMs = 0
          response.on('data', (piece) => {
            pieces.push(piece)
            if (/^:[^\n]*\n\n$/.test(piece)) return // a comment that keeps the connection alive
            pauseMs = Math.max(pauseMs, Date.now() - last)
            last = Date.now()
            note?.(i, false)
          })
          response.on('end', () => resolve({
            status: response.statusCode, text: Buffer.concat(pieces).toString(), pauseMs, node: response.headers['x-hearth-node'],
          }))
          response.on('aborted', () => reject(new Error(`the reply was cut after ${Buffer.concat(pieces).length} bytes`)))
        })
        sent.on('error', reject)
        sent.end(request.body)
      }))
    } catch (error) {
      reply.error = String(error)
    }
    return reply
  }
  const reader = async () => {
    while (next < requests.length) {
      const i = next++
      replies[i] = await one(requests[i], i)
      note?.(i, true)
    }
  }
  await Promise.all(Array.from({ length: nAtOnce }, reader))
  agent.destroy()
  return replies
}
