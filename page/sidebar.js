// sidebar.js - the list of conversations, with a search through titles and texts
import { h, fill } from './dom.js'
import * as store from './store.js'

const SEARCH_MS = 200

export class Sidebar {
  #all = []
  #open = null
  #found = null
  #timer = 0

  // actions: { open(conversation), begin(), read(file) }
  constructor(actions) {
    this.actions = actions
    this.search = h('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search conversations',
      oninput: () => this.#searchSoon() })
    this.list = h('ul.conversations')
    this.file = h('input', { type: 'file', accept: '.json', hidden: true, onchange: () => this.#picked() })
    this.element = h('nav.sidebar', { id: 'conversations', 'aria-label': 'Conversations' },
      h('div.buttons', {},
        h('button.primary', { type: 'button', onclick: () => actions.begin() }, 'New chat'),
        h('button.quiet', { type: 'button', onclick: () => this.file.click() }, 'Import'), this.file),
      this.search, this.list)
  }

  // The conversations as they are now; open is the id of the one that is seen.
  async refresh(open) {
    this.#open = open
    this.#all = await store.conversations()
    this.#show()
  }

  free() {
    clearTimeout(this.#timer)
  }

  #show() {
    const text = this.search.value.trim().toLowerCase()
    const seen = text
      ? this.#all.filter(({ id, title }) => title.toLowerCase().includes(text) || this.#found?.has(id))
      : this.#all

    fill(this.list, seen.map((conversation) => h('li', {},
      h('button.quiet', { type: 'button', 'aria-current': conversation.id === this.#open ? 'true' : null,
        onclick: () => this.actions.open(conversation.id) }, conversation.title))))
    if (text && seen.length === 0) fill(this.list, h('li.faint', {}, 'Nothing is found.'))
  }

  #searchSoon() {
    clearTimeout(this.#timer)
    this.#found = null
    this.#show()
    this.#timer = setTimeout(async () => {
      const text = this.search.value.trim()
      this.#found = text ? await store.conversationsWith(text) : null
      this.#show()
    }, SEARCH_MS)
  }

  async #picked() {
    const [file] = this.file.files
    this.file.value = ''
    if (file) await this.actions.read(file)
  }
}
