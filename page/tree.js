// tree.js - the messages of a conversation as a tree: a message that was edited or generated again has siblings
//
// The branch that is seen is the path from the root to one leaf.

const ROOT = null
const byAge = (a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)

export class Tree {
  #messages = new Map()
  #children = new Map()

  constructor(messages = []) {
    for (const message of [...messages].sort(byAge)) this.add(message)
  }

  add(message) {
    const parent = message.parent ?? ROOT

    this.#messages.set(message.id, message)
    if (!this.#children.has(parent)) this.#children.set(parent, [])
    this.#children.get(parent).push(message)
  }

  get(id) {
    return this.#messages.get(id)
  }

  get messages() {
    return [...this.#messages.values()]
  }

  // From the root to this message. Ends even if stored parents form a cycle.
  path(id) {
    const path = new Set()
    let message = this.get(id)

    for (; message && !path.has(message); message = this.get(message.parent)) path.add(message)
    return [...path].reverse()
  }

  // The messages with the same parent, itself included, the oldest first.
  siblings(message) {
    return this.#children.get(message.parent ?? ROOT) ?? []
  }

  // The leaf that is reached by taking the newest child at each step. Ends, too.
  leafBelow(message) {
    const seen = new Set()

    for (let last = message; ; ) {
      const next = this.#children.get(last.id)?.at(-1)
      if (!next || seen.has(next)) return last
      seen.add(next)
      last = next
    }
  }
}
