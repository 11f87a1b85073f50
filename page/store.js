// store.js - conversations and their messages in the browser's IndexedDB
//
//   conversations   { id, title, createdAt, changedAt, leaf, settings }; leaf is the last message of the seen branch
//   messages        { id, conversation, parent, role, createdAt, content, ... }; reply.js names the rest
//
// Each write is one transaction: a reload finds a message as it was before a write or after it. Many messages are read
// and written in slices, so that the browser stays awake.

const NAME = 'hearth'
const VERSION = 1
const SLICE = 50 // messages

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })

const ended = (transaction) =>
  new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve()
    transaction.onabort = () => reject(transaction.error)
    transaction.onerror = () => reject(transaction.error)
  })

let database = null

function open() {
  database ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, VERSION)

    request.onupgradeneeded = () => {
      request.result.createObjectStore('conversations', { keyPath: 'id' })
      request.result.createObjectStore('messages', { keyPath: 'id' }).createIndex('conversation', 'conversation')
    }
    request.onsuccess = () => {
      const { result } = request
      // The next call opens it anew.
      result.onclose = () => (database = null)
      result.onversionchange = () => {
        result.close()
        database = null
      }
      resolve(result)
    }
    request.onerror = () => {
      database = null
      reject(new Error(`This browser keeps no conversations: ${request.error?.message}`))
    }
  })
  return database
}

// crypto.randomUUID() is missing on plain HTTP addresses of other machines.
export const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

// Newest first.
export async function conversations() {
  const all = await settled((await open()).transaction('conversations').objectStore('conversations').getAll())
  return all.sort((a, b) => b.changedAt - a.changedAt)
}

export async function messagesOf(conversation) {
  const store = (await open()).transaction('messages').objectStore('messages')
  const keys = await settled(store.index('conversation').getAllKeys(conversation)) // sorted
  const all = []

  for (let i = 0; i < keys.length; i += SLICE)
    all.push(...(await Promise.all(keys.slice(i, i + SLICE).map((key) => settled(store.get(key))))))
  return all
}

export const message = async (id) => settled((await open()).transaction('messages').objectStore('messages').get(id))

// The conversations with a message that has this text, in any case.
export async function conversationsWith(text) {
  const store = (await open()).transaction('messages').objectStore('messages')
  const wanted = text.toLowerCase()
  const found = new Set()

  await new Promise((resolve, reject) => {
    const request = store.openCursor()
    request.onerror = () => reject(request.error)
    request.onsuccess = () => {
      const cursor = request.result
      if (!cursor) return resolve()
      if (cursor.value.content.toLowerCase().includes(wanted)) found.add(cursor.value.conversation)
      cursor.continue()
    }
  })
  return found
}

// A conversation and messages of it, whole or not at all.
export async function save(conversation, messages = []) {
  const transaction = (await open()).transaction(['conversations', 'messages'], 'readwrite')

  const store = transaction.objectStore('messages')
  const end = ended(transaction)

  transaction.objectStore('conversations').put(conversation)
  for (let i = 0; i < messages.length; i += SLICE) {
    const puts = messages.slice(i, i + SLICE).map((message) => store.put(message))
    await Promise.race([settled(puts.at(-1)), end])
  }
  return end
}

export async function saveMessage(message) {
  const transaction = (await open()).transaction('messages', 'readwrite')

  transaction.objectStore('messages').put(message)
  return ended(transaction)
}

export async function remove(conversation) {
  const transaction = (await open()).transaction(['conversations', 'messages'], 'readwrite')
  const messages = transaction.objectStore('messages')

  transaction.objectStore('conversations').delete(conversation)
  for (const key of await settled(messages.index('conversation').getAllKeys(conversation))) messages.delete(key)
  return ended(transaction)
}
