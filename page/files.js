// files.js - conversations as files: JSON, which can be read back with all its branches, and Markdown to read
import { h } from './dom.js'
import { newReply } from './reply.js'
import { knownSettings } from './settings.js'
import { newId } from './store.js'

const FORMAT = 'hearth-conversation-1'

export function saveFile(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const link = h('a', { href: url, download: name })

  document.body.append(link)
  link.click()
  link.remove()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
}

export const fileName = (title, ending) =>
  `${title.replace(/[^\p{L}\p{N} _-]/gu, '').trim().slice(0, 60) || 'conversation'}.${ending}`

export const toJson = (conversation, messages) => JSON.stringify({ format: FORMAT, conversation, messages }, null, 1)

const names = { user: 'You', assistant: 'Model', tool: 'Tool' }

export function toMarkdown({ title }, path) {
  const said = path.map(({ role, content }) => `**${names[role] ?? role}**\n\n${content}\n`)
  return [`# ${title}\n`, ...said].join('\n')
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
const textOf = (value) => (typeof value === 'string' ? value : '')
const timeOf = (value) => (Number.isSafeInteger(value) ? value : 0)
const objectsOf = (value) => (Array.isArray(value) ? value.filter(isObject) : [])

const MEASURED = ['cache_n', 'prompt_n', 'prompt_ms', 'predicted_n', 'predicted_ms', 'predicted_per_second']

const ofType = (object, type) => Object.fromEntries(Object.entries(object).filter(([, value]) => typeof value === type))

// The figures of a reply: numbers, and all that a server always gives.
function timingsOf(timings) {
  if (!isObject(timings) || !MEASURED.every((name) => typeof timings[name] === 'number')) return undefined
  return ofType(timings, 'number')
}

// Why a prompt was known, or not: texts, and one number. Earlier exports have them among the timings.
function cacheOf(cache, timings) {
  const { hit, tier, miss, left_text, left_at } = [cache, timings].find(isObject) ?? {}
  const known = { ...ofType({ hit, tier, miss, left_text }, 'string'), ...ofType({ left_at }, 'number') }
  return known.hit ? known : undefined
}

const STATES = ['done', 'stopped', 'failed']

function readReply({ content, reasoning, calls, state, model, finish, error, nDeaths, timings, cache, usage }) {
  return {
    ...newReply({ content, reasoning: textOf(reasoning), state: STATES.includes(state) ? state : 'stopped' }),
    calls: objectsOf(calls).map((call) =>
      ({ id: textOf(call.id), name: textOf(call.name), arguments: textOf(call.arguments) })),
    model: textOf(model) || undefined,
    finish: textOf(finish) || undefined,
    error: textOf(error) || undefined,
    nDeaths: timeOf(nDeaths),
    timings: timingsOf(timings),
    cache: cacheOf(cache, timings),
    usage: isObject(usage) ? usage : undefined,
  }
}

function readMessage(message) {
  const { role, attachments, callId } = message
  const content = textOf(message.content)

  if (role === 'assistant') return readReply({ ...message, content })
  if (role === 'tool') return { role, content, callId: textOf(callId) }
  if (role !== 'user') throw new Error(`the file has a message of the unknown role '${role}'`)
  return { role, content,
    attachments: objectsOf(attachments).map(({ name, text }) => ({ name: textOf(name), text: textOf(text) })) }
}

// { conversation, messages } with new ids, so that a file can be read twice. The file may be anybody's: the page takes
// the fields that have their types. Parents come before their children, so no message is its own ancestor.
export function fromJson(text) {
  const { format, conversation, messages } = Object(JSON.parse(text))
  if (format !== FORMAT || !isObject(conversation)) throw new Error('this is no conversation that was exported here')
  const id = newId()
  const seen = new Map() // by the ids in the file
  const read = objectsOf(messages).map((message) => {
    const parent = seen.get(message.parent)
    const createdAt = Math.max(timeOf(message.createdAt), (parent?.createdAt ?? 0) + 1)
    const mine = { ...readMessage(message), id: newId(), conversation: id, parent: parent?.id ?? null, createdAt }

    seen.set(message.id, mine)
    return mine
  })

  return {
    conversation: {
      id,
      title: textOf(conversation.title) || 'Imported chat',
      createdAt: timeOf(conversation.createdAt),
      changedAt: Date.now(),
      leaf: (seen.get(conversation.leaf) ?? read.at(-1))?.id ?? null,
      settings: knownSettings(conversation.settings),
    },
    messages: read,
  }
}
