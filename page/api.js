// api.js - calls of the server: its API key, errors with the server's own message, and streams of events
//
//   await api.get('/v1/models')
//   await api.post('/admin/models/tiny/residency', { residency: 'host' })
//   for await (const { id, event, data } of api.events('/admin/events', { signal })) ...
//
// When the server wants a key, the page asks its user for one, and the call goes on with it. The key is in
// sessionStorage, or in localStorage when the user says that it may be kept.

const KEY = 'hearth.key'

// What a call threw: status is HTTP's, 0 when the server was not reached.
export class ApiError extends Error {
  constructor(status, message) {
    super(message)
    this.name = 'ApiError'
    this.status = status
  }
}

// The message of an error's body, whichever API's shape it has.
async function messageOf(reply) {
  const text = await reply.text().catch(() => '')
  try {
    const { error } = JSON.parse(text)
    return (typeof error === 'string' ? error : error.message) || text
  } catch {
    return text || `the server answers ${reply.status}`
  }
}

class Api {
  // Shows the user why a key is wanted. Resolves to { key, isKept }, or to null: the user has none. main.js sets it.
  askForKey = async () => null

  #asking = null

  get key() {
    return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? ''
  }

  setKey(key, isKept) {
    sessionStorage.removeItem(KEY)
    localStorage.removeItem(KEY)
    if (key) (isKept ? localStorage : sessionStorage).setItem(KEY, key)
  }

  // Asks the user for a key. Calls at the same time share the answer. False: there is none.
  async wantKey(why) {
    this.#asking ??= this.askForKey(why).finally(() => (this.#asking = null))
    const answer = await this.#asking
    if (answer) this.setKey(answer.key, answer.isKept)
    return answer !== null
  }

  // fetch() with the key. Throws an ApiError unless the answer is a success; an AbortError passes.
  async fetch(path, { method = 'GET', headers = {}, body, signal } = {}) {
    for (;;) {
      const { key } = this
      let reply
      try {
        reply = await fetch(path, {
          method,
          body: body === undefined ? undefined : JSON.stringify(body),
          headers: {
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
            ...(key ? { authorization: `Bearer ${key}` } : {}),
            ...headers,
          },
          signal,
          credentials: 'omit',
        })
      } catch (error) {
        if (error.name === 'AbortError') throw error
        throw new ApiError(0, 'The server cannot be reached.')
      }
      if (reply.ok) return reply
      const message = await messageOf(reply)
      // Another call may have got a new key meanwhile.
      if (reply.status !== 401 || (key === this.key && !(await this.wantKey(message))))
        throw new ApiError(reply.status, message)
    }
  }

  async get(path, options) {
    return (await this.fetch(path, options)).json()
  }

  async post(path, body, options) {
    const reply = await this.fetch(path, { ...options, method: 'POST', body: body ?? {} })
    const text = await reply.text()
    return text ? JSON.parse(text) : null
  }

  // The events of a stream, until it ends. data is a text.
  async *events(path, options) {
    yield* readEvents(await this.fetch(path, options))
  }
}

// Server-sent events of a reply. With comments, a comment is an event { comment }.
export async function* readEvents(reply, { comments = false } = {}) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let event = { event: 'message', data: [] }
  let id = ''

  try {
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      const lines = (rest + value).split(/\r\n|\n/)
      rest = lines.pop()
      for (const line of lines) {
        const at = line.indexOf(':')
        const name = at < 0 ? line : line.slice(0, at)
        const text = at < 0 ? '' : line.slice(at + (line[at + 1] === ' ' ? 2 : 1))
        if (line === '') {
          if (event.data.length > 0) yield { id, event: event.event, data: event.data.join('\n') }
          event = { event: 'message', data: [] }
        } else if (at === 0) {
          if (comments) yield { comment: text }
        } else if (name === 'data') event.data.push(text)
        else if (name === 'event') event.event = text
        else if (name === 'id') id = text
      }
    }
  } catch (error) {
    if (error.name === 'AbortError') throw error
    throw new ApiError(0, 'The connection to the server broke off.')
  } finally {
    reader.cancel().catch(() => {})
  }
}

export const api = new Api()
