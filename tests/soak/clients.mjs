// clients.mjs - the clients of a soak, and the results of their questions
//
//   fresh      a new question                         repeat    an earlier question
//   turn       the next turn of a conversation        burst     one question three times at once
//   crush      more questions at once than a context holds, of different priorities
//   cancel     leaves before the end of the reply     slow      reads in small pieces, with pauses
//   tooLong    exceeds the context                    bad       is wrong
//
// Each ends in one word: the verdict on the answer (judge.mjs), `refused` with the server's cause (503, 529),
// `rejected` rightly, `cancelled`, `cut` by the death of the front, or `failed`.
import http from 'node:http'
import { drawer } from '../chaos/draw.mjs'
import { sleep } from '../support/server.mjs'

const DEADLINE_MS = 180000
const POOL_MAX = 300 // questions that may be repeated

// Resolves to { status, text, isCancelled }; rejects if the connection breaks or the deadline passes.
const exchange = (port, agent, { method = 'POST', path, body }, { cancelMs = -1, isSlow = false } = {}) =>
  new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) }
    let pieces = []
    let status = 0
    let timers = []
    const end = (settle, value) => {
      timers.forEach(clearTimeout)
      settle(value)
    }
    const request = http.request({ host: '127.0.0.1', port, method, path, headers, agent, ...(isSlow ? { agent: false } : {}) }, (response) => {
      status = response.statusCode
      response.on('data', (piece) => {
        pieces.push(piece)
        if (isSlow && pieces.length % 4 === 1) {
          response.pause()
          timers.push(setTimeout(() => response.resume(), 60))
        }
      })
      response.on('end', () => end(resolve, { status, text: Buffer.concat(pieces).toString() }))
      response.on('aborted', () => end(reject, new Error(`the reply was cut after ${Buffer.concat(pieces).length} bytes`)))
      response.on('error', (error) => end(reject, error))
    })
    request.on('error', (error) => end(reject, error))
    timers.push(setTimeout(() => {
      end(reject, new Error(`no end after ${DEADLINE_MS} ms; status ${status}, ${Buffer.concat(pieces).length} bytes`))
      request.destroy()
    }, DEADLINE_MS))
    if (cancelMs >= 0)
      timers.push(setTimeout(() => {
        end(resolve, { status, text: '', isCancelled: true })
        request.destroy()
      }, cancelMs))
    request.end(body)
  })

const isWhole = ({ path, stream }, text) =>
  !stream || (path === '/v1/messages' ? text.includes('event: message_stop') : path === '/completion' ? text.includes('"stop":true') : text.endsWith('data: [DONE]\n\n'))

// The server's message without its changing parts.
const causeOf = (text) => (/"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? text).replace(/\d+/g, 'N').replace(/; its last lines:.*|: killed by.*/, '').slice(0, 120)

export const startClients = (n, { seed, thinkMs, front, questions, judge, onWrong }) => {
  const counts = {} // of each kind: { asked, same, ... }
  const causes = new Map() // why the server refused
  const pool = []
  let goesOn = true
  let nAsked = 0

  const count = (kind, word) => {
    counts[kind] ??= { asked: 0 }
    counts[kind][word] = (counts[kind][word] ?? 0) + 1
  }
  const remember = (draw, question) => {
    if (pool.length < POOL_MAX) pool.push(question)
    else pool[draw.next(POOL_MAX)] = question
  }

  // Ask; returns the result in a word, and the text of the reply if there is one.
  const settle = async (agent, kind, question, how) => {
    const generation = front.generation
    nAsked++
    count(kind, 'asked')
    let reply
    const done = (word, why) => {
      count(kind, word)
      if (word === 'failed' || word === 'different') onWrong({ kind, word, why, question, reply })
      return { word, text: reply?.text }
    }
    try {
      reply = await exchange(front.server.port, agent, question, how)
    } catch (error) {
      return front.generation !== generation || front.isDown ? done('cut') : done('failed', String(error))
    }
    if (reply.isCancelled) return done('cancelled')
    if (question.status) return reply.status === question.status ? done('rejected') : done('failed', `status ${reply.status} in place of ${question.status}: ${reply.text.slice(0, 300)}`)
    // A stream says it in its last event.
    if ([503, 529].includes(reply.status) || /"(code|type)":"overloaded(_error)?"/.test(reply.text.slice(-500))) {
      causes.set(causeOf(reply.text), (causes.get(causeOf(reply.text)) ?? 0) + 1)
      return done('refused')
    }
    if (kind === 'tooLong')
      return reply.status === 400 && /exceed_context_size_error|context_length_exceeded|context/.test(reply.text) ? done('rejected') : done('failed', `status ${reply.status}: ${reply.text.slice(0, 300)}`)
    if (reply.status !== 200) return done('failed', `status ${reply.status}: ${reply.text.slice(0, 500)}`)
    if (!isWhole(question, reply.text)) return done('failed', `the stream has no end: ${reply.text.slice(-500)}`)
    const { verdict, wanted, why } = await judge.verdict(question, reply.text)
    reply.wanted = wanted
    return done(verdict, why)
  }

  const client = async (index) => {
    const draw = drawer(seed * 7919 + index)
    const agent = new http.Agent({ keepAlive: true, maxSockets: 8 })
    let conversation = null
    let nConversations = 0
    const kinds = ['fresh', 'fresh', 'fresh', 'repeat', 'repeat', 'repeat', 'turn', 'turn', 'turn', 'burst', 'crush', 'cancel', 'cancel', 'slow', 'tooLong', 'bad']
    const again = () => (pool.length > 0 ? draw.pick(pool) : questions.fresh(draw))
    while (goesOn) {
      await sleep(thinkMs / 2 + draw.next(thinkMs))
      while (front.isDown && goesOn) await sleep(50)
      if (!goesOn) break
      const kind = draw.pick(kinds)
      if (kind === 'fresh' || kind === 'slow') {
        const question = questions.fresh(draw)
        await settle(agent, kind, question, { isSlow: kind === 'slow' })
        remember(draw, question)
      } else if (kind === 'repeat') await settle(agent, kind, again())
      else if (kind === 'burst') {
        const question = questions.fresh(draw)
        await Promise.all([0, 1, 2].map(() => settle(agent, kind, question)))
      } else if (kind === 'crush') {
        const model = questions.crowd(draw)
        await Promise.all([-5, 5, 0, 10, 20].map((priority) => settle(agent, kind, questions.ofCrowd(draw, model, { priority }))))
      } else if (kind === 'cancel') await settle(agent, kind, draw.chance(50) ? questions.fresh(draw) : again(), { cancelMs: draw.pick([0, 5, 30, 100, 300]) })
      else if (kind === 'tooLong') await settle(agent, kind, questions.tooLong(draw))
      else if (kind === 'bad') await settle(agent, kind, questions.bad(draw))
      else {
        conversation ??= questions.conversation(draw, `client ${index} conversation ${nConversations++}`)
        const question = questions.turn(draw, conversation)
        const { word, text } = await settle(agent, kind, question)
        const said = ['same', 'split', 'tie', 'valid'].includes(word) && judge.textsOf(question, text)[0]
        if (!said || --conversation.turns <= 0) conversation = null
        else conversation.messages.push({ role: 'assistant', content: said })
      }
    }
    agent.destroy()
  }
  const all = Promise.all(Array.from({ length: n }, (_, i) => client(i)))
  let error = null
  all.catch((it) => (error = it)) // whoever awaits end() is told, too
  return { counts, causes, error: () => error, nAsked: () => nAsked, end: async () => { goesOn = false; await all } }
}
