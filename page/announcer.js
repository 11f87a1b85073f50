// announcer.js - a reply for screen readers: whole sentences while it grows, and its end
import { h } from './dom.js'

const SAY_MS = 2500
const KEPT = 20

export class Announcer {
  #message = null
  #said = 0
  #timer = 0

  constructor() {
    this.element = h('div.unseen', { 'aria-live': 'polite', 'aria-atomic': 'false' })
  }

  // The message has changed.
  follow(message) {
    const isRunning = message.state === 'running'

    if (message !== this.#message) {
      if (!isRunning) return
      this.#message = message
      this.#said = message.content.length
    }
    if (isRunning) {
      if (!this.#timer) this.#timer = setTimeout(() => this.#saySentences(), SAY_MS)
      return
    }
    this.free()
    this.#say(message.content.length)
    this.#add(message.state === 'done' ? 'End of the reply.' : 'The reply ended early.')
    this.#message = null
  }

  free() {
    clearTimeout(this.#timer)
    this.#timer = 0
  }

  #saySentences() {
    const { content } = this.#message
    const ends = [...content.slice(this.#said).matchAll(/[.!?:]\s|\n/g)]

    this.#timer = 0
    if (ends.length > 0) this.#say(this.#said + ends.at(-1).index + 1)
  }

  #say(end) {
    this.#add(this.#message.content.slice(this.#said, end).trim())
    this.#said = end
  }

  #add(text) {
    if (text) this.element.append(h('p', {}, text))
    while (this.element.children.length > KEPT) this.element.firstChild.remove()
  }
}
