// conversation.js - a conversation and what can be done with it, without a view
//
// Messages are saved as they grow, so that a reload of the page goes on with them. Replies go on while another view, or
// another conversation, is seen.
import { withAttachments } from './attachments.js'
import { newReply, Reply } from './reply.js'
import { requestFields } from './settings.js'
import * as store from './store.js'
import { Tree } from './tree.js'

const SAVE_MS = 300
const TITLE_CHARACTERS = 60
const UNTITLED = 'New chat'

const held = new Map() // conversations that are at work, by their id: the only objects that know all of their messages
const replies = new Map() // running ones, by the id of their message
const unsaved = new Map() // timers, by message
const removed = new Set() // ids of conversations

// One tab at a time writes a reply. Browsers have locks on HTTPS and localhost only.
const alone = (name, work) => (navigator.locks ? navigator.locks.request(name, work) : work())

async function saveNow(message) {
  clearTimeout(unsaved.get(message))
  unsaved.delete(message)
  if (!removed.has(message.conversation)) await store.saveMessage(message)
}

// A failure is told by the last save of the reply.
function saveSoon(message) {
  if (!unsaved.has(message)) unsaved.set(message, setTimeout(() => saveNow(message).catch(() => {}), SAVE_MS))
}

addEventListener('pagehide', () => [...unsaved.keys()].forEach(saveNow))

const asCall = ({ id, name, arguments: text }) => ({ id, type: 'function', function: { name, arguments: text } })

// As a request has it.
function asRequest(message) {
  const { role, content, reasoning, calls = [], callId } = message

  if (role === 'tool') return { role, content, tool_call_id: callId }
  if (role === 'user') return { role, content: withAttachments(message) }
  return {
    role,
    content,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(calls.length > 0 ? { tool_calls: calls.map(asCall) } : {}),
  }
}

const isSaid = ({ role, content, calls = [] }) => role !== 'assistant' || content || calls.length > 0

export class Conversation {
  // Calls of a view: branch() when other messages are seen, and message(message, what) when one has changed.
  view = null

  #nAtWork = 0

  constructor(api, fields, messages = []) {
    this.api = api
    this.fields = fields
    this.tree = new Tree(messages)
  }

  static begin(api, settings = {}) {
    const now = Date.now()
    return new Conversation(api,
      { id: store.newId(), title: UNTITLED, createdAt: now, changedAt: now, leaf: null, settings })
  }

  // null: there is none with this id.
  static async open(api, id) {
    if (held.has(id)) return held.get(id)
    const fields = (await store.conversations()).find((conversation) => conversation.id === id)
    const messages = await store.messagesOf(id)
    return held.get(id) ?? (fields ? new Conversation(api, fields, messages) : null)
  }

  get path() {
    return this.tree.path(this.fields.leaf)
  }

  get isEmpty() {
    return this.fields.leaf === null
  }

  // The reply that is seen and grows.
  get running() {
    return replies.get(this.fields.leaf) ?? null
  }

  // The first call of the last message that has no result yet, with the message.
  get openCall() {
    const path = this.path
    const results = new Set(path.filter(({ role }) => role === 'tool').map(({ callId }) => callId))
    const caller = path.findLast(({ role }) => role === 'assistant')

    if (!caller || caller.state !== 'done' || path.at(-1).role === 'user') return null
    return caller.calls?.find(({ id }) => !results.has(id)) ?? null
  }

  async change(fields) {
    Object.assign(this.fields, fields)
    await store.save(this.fields)
  }

  // The user's message, or the result of a tool.
  async say(content, attachments = []) {
    const call = this.openCall

    if (this.isEmpty) this.fields.title = content.trim().split('\n')[0].slice(0, TITLE_CHARACTERS) || UNTITLED
    const fields = call ? { role: 'tool', content, callId: call.id } : { role: 'user', content, attachments }
    await this.#add(fields, this.fields.leaf)
  }

  // The reply to what was said, when all calls have results.
  async answer() {
    if (!this.openCall) await this.#answer(this.fields.leaf)
  }

  // Another version of a message; one of the user is answered.
  async edit(message, content) {
    const { role, parent, attachments } = message

    if (role === 'user') {
      await this.#add({ role, content, attachments }, parent)
      await this.#answer(this.fields.leaf)
    } else {
      await this.#add({ ...newReply({ content, state: 'done' }), model: message.model }, parent)
    }
  }

  // Another reply to the same message.
  again(message) {
    return this.#answer(message.parent)
  }

  // The same reply, further.
  goOn(message) {
    Object.assign(message, { state: 'running', stream: null, error: undefined, finish: undefined })
    return this.#run(message)
  }

  stop() {
    this.running?.stop()
  }

  async remove() {
    removed.add(this.fields.id)
    for (const { id } of this.tree.messages) replies.get(id)?.stop()
    await store.remove(this.fields.id)
  }

  // Shows the next or the previous version of a message, and the branch below it.
  async choose(message, step) {
    const versions = this.tree.siblings(message)
    const other = versions[versions.indexOf(message) + step]

    if (!other) return
    await this.change({ leaf: this.tree.leafBelow(other).id })
    this.view?.branch()
  }

  place(message) {
    const versions = this.tree.siblings(message)
    return { position: versions.indexOf(message), n: versions.length }
  }

  // Goes on with replies that were running when the page was left.
  resume() {
    const left = this.tree.messages.filter(({ id, state }) => state === 'running' && !replies.has(id))
    return Promise.all(left.map((message) => this.#run(message, { isFromStore: true })))
  }

  // While it works, everybody who opens the conversation gets this object.
  async #hold(work) {
    held.set(this.fields.id, this)
    this.#nAtWork++
    try {
      return await work()
    } finally {
      if (--this.#nAtWork === 0) held.delete(this.fields.id)
    }
  }

  // A message is younger than its parent, whatever the clock says. One that cannot be saved is not added.
  #add(fields, parent) {
    return this.#hold(async () => {
      const createdAt = Math.max(Date.now(), (this.tree.get(parent)?.createdAt ?? 0) + 1)
      const message = { id: store.newId(), conversation: this.fields.id, parent, createdAt, ...fields }
      const changed = { leaf: message.id, changedAt: createdAt }

      await store.save({ ...this.fields, ...changed }, [message])
      this.tree.add(message)
      Object.assign(this.fields, changed)
      this.view?.branch()
      return message
    })
  }

  async #answer(parent) {
    await this.#run(await this.#add(newReply({ model: this.fields.settings.model }), parent))
  }

  #body(message) {
    const { settings } = this.fields
    const system = settings.system?.trim() ? [{ role: 'system', content: settings.system }] : []

    return {
      model: message.model ?? settings.model,
      messages: [...system, ...this.tree.path(message.parent).filter(isSaid).map(asRequest)],
      stream: true,
      stream_options: { include_usage: true },
      return_progress: true,
      ...requestFields(settings),
    }
  }

  #run(message, options) {
    return this.#hold(() => this.#reply(message, options))
  }

  async #reply(message, { isFromStore = false } = {}) {
    let what = { told: isFromStore ? 'Looking for the rest of this reply.' : '' }
    const tell = () => this.view?.message(message, what)
    const reply = new Reply({
      api: this.api,
      message,
      body: this.#body(message),
      changed: () => {
        what = { ...what, progress: reply.progress }
        saveSoon(message)
        tell()
      },
      told: (told) => {
        if (told === what.told) return
        what = { ...what, told }
        tell()
      },
    })

    replies.set(message.id, reply)
    this.view?.branch()
    tell()
    try {
      await alone(`hearth reply ${message.id}`, async () => {
        // Another tab may have written it meanwhile.
        if (isFromStore) Object.assign(message, await store.message(message.id))
        await reply.run()
        await saveNow(message) // before another tab looks for it
      })
    } finally {
      replies.delete(message.id)
      tell()
      this.view?.branch()
    }
  }
}
