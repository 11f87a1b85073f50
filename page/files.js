// files.js - conversations as files: JSON, which can be read back with all its branches, and Markdown to read
import { h } from './dom.js'
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

// { conversation, messages } with new ids, so that a file can be read twice.
export function fromJson(text) {
  const { format, conversation, messages } = JSON.parse(text)
  if (format !== FORMAT) throw new Error('this is no conversation that was exported here')
  const ids = new Map(messages.map(({ id }) => [id, newId()]))
  const id = newId()

  return {
    conversation: { ...conversation, id, leaf: ids.get(conversation.leaf) ?? null, changedAt: Date.now() },
    messages: messages.map((message) => ({
      ...message,
      id: ids.get(message.id),
      parent: ids.get(message.parent) ?? null,
      conversation: id,
      content: String(message.content ?? ''),
      state: message.state === 'running' ? 'stopped' : message.state,
      stream: null,
    })),
  }
}
