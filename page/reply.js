// reply.js - the life of one reply, from the request to its last token
//
//   1. POST with x-hearth-resume: the server keeps the stream, and numbers its events
//   2. events are added to the message; the message remembers the number of the last one
//   3. when the connection ends early, or after a reload of the page: GET /v1/streams/ID?after=NUMBER
//   4. when that stream is gone (404, 410): a request whose last message is the text so far, which the model continues,
//      and which is warm in the cache
//
// A message of the assistant has: content, reasoning, calls [{ id, name, arguments }], state ('running', 'done',
// 'stopped', 'failed'), stream { id, after } or null, finish, usage, timings, error, and nDeaths, of workers.
import { ApiError, readEvents } from './api.js'

const WAITS_MS = [250, 500, 1000, 2000, 4000, 8000, 15000]
const CONTINUATIONS_MAX = 3
const WORKER_ENDED = 'worker ended' // a comment of the server in a kept stream

const sleep = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(new DOMException('stopped', 'AbortError'))
    }, { once: true })
  })

export const newReply = (fields) => ({
  role: 'assistant',
  content: '',
  reasoning: '',
  calls: [],
  state: 'running',
  stream: null,
  ...fields,
})

export class Reply {
  // changed(): the message has more. told(text): what the user should know while the reply waits, '' when it goes on.
  constructor({ api, message, body, changed, told }) {
    Object.assign(this, { api, message, body, changed, told })
    this.progress = null
    this.abort = new AbortController()
    this.nContinuations = 0
  }

  // Resolves when the message is no more 'running'.
  async run() {
    const { message } = this
    try {
      for (let nFailed = 0; message.state === 'running'; nFailed++) {
        const before = message.content.length + message.reasoning.length
        try {
          await this.#read(await this.#connect())
        } catch (error) {
          if (error.name === 'AbortError') throw error
          if (message.content.length + message.reasoning.length > before) nFailed = 0
          this.#judge(error, nFailed)
          await sleep(WAITS_MS[nFailed], this.abort.signal)
        }
      }
    } catch (error) {
      if (error.name === 'AbortError') await this.#drop()
      else Object.assign(message, { state: 'failed', error: error.message })
    }
    message.stream = null
    this.told('')
    this.changed()
  }

  stop() {
    this.abort.abort()
  }

  // The server goes on with a stream that it keeps, unless it is told not to.
  async #drop() {
    const { message } = this
    if (message.stream) await this.api.fetch(`/v1/streams/${message.stream.id}`, { method: 'DELETE' }).catch(() => {})
    message.state = 'stopped'
  }

  async #connect() {
    const { message } = this
    const { signal } = this.abort

    if (message.stream) {
      const { id, after } = message.stream
      return this.api.fetch(`/v1/streams/${id}?after=${after}`, { signal })
    }
    const reply = await this.api.fetch('/v1/chat/completions', {
      method: 'POST',
      headers: { 'x-hearth-resume': '1' },
      body: this.#request(),
      signal,
    })
    const id = reply.headers.get('x-hearth-stream')
    message.stream = id ? { id, after: 0 } : null
    this.changed()
    return reply
  }

  #request() {
    const { content, reasoning } = this.message
    const begun = { role: 'assistant', content, ...(reasoning ? { reasoning_content: reasoning } : {}) }

    // Nothing can continue reasoning without an answer, or a call: both begin anew.
    if (!content || this.message.calls.length > 0) {
      Object.assign(this.message, { content: '', reasoning: '', calls: [] })
      return this.body
    }
    return { ...this.body, messages: [...this.body.messages, begun] }
  }

  async #read(reply) {
    for await (const { id, data, comment } of readEvents(reply, { comments: true })) {
      if (comment !== undefined) {
        if (comment === WORKER_ENDED) this.#noteDeath()
        continue
      }
      this.told('')
      if (data === '[DONE]') {
        this.message.state = 'done'
        return
      }
      this.#add(JSON.parse(data))
      if (this.message.stream && id) this.message.stream.after = Number(id)
      this.changed()
    }
    throw new ApiError(0, 'The connection to the server broke off.')
  }

  #noteDeath() {
    this.message.nDeaths = (this.message.nDeaths ?? 0) + 1
    this.told('The worker process of the model has ended. Another one starts, and the reply goes on.')
    this.changed()
  }

  #add({ choices = [], usage, timings, cache, error, prompt_progress: progress }) {
    const { message } = this

    if (error) {
      const status = Number.isInteger(error.code) ? error.code : error.type === 'server_error' ? 503 : 400
      message.stream = null
      throw new ApiError(status, error.message)
    }
    this.progress = progress ?? null
    if (usage) message.usage = usage
    if (timings) message.timings = timings
    if (cache) message.cache = cache
    for (const { delta = {}, finish_reason: finish } of choices) {
      message.content += delta.content ?? ''
      message.reasoning += delta.reasoning_content ?? ''
      for (const call of delta.tool_calls ?? []) this.#addCall(call)
      if (finish) message.finish = finish
    }
  }

  #addCall({ index = 0, id, function: called = {} }) {
    const call = (this.message.calls[index] ??= { id: '', name: '', arguments: '' })

    if (id) call.id = id
    call.name += called.name ?? ''
    call.arguments += called.arguments ?? ''
  }

  // Throws when trying again is of no use.
  #judge(error, nFailed) {
    const { message } = this
    const isGone = message.stream && (error.status === 404 || error.status === 410)
    const isPassing = error.status === 0 || error.status === 429 || error.status >= 500

    if (!(error instanceof ApiError) || (!isGone && !isPassing) || nFailed >= WAITS_MS.length) throw error
    if (isGone) message.stream = null
    if (!message.stream && ++this.nContinuations > CONTINUATIONS_MAX && error.status !== 0) throw error
    this.told(`${error.message} The reply goes on when the server answers again.`)
  }
}
