// thread.js - the messages of a branch, of which only those near the window are built
//
// So a conversation of thousands of messages costs as much as one of twenty. The end stays in sight while a reply
// grows, unless its reader has scrolled away.
import { h } from './dom.js'
import { MessageView } from './message.js'

const NEAR = '1200px 0px'
const SLICE_MS = 10
const END_PX = 80

export class Thread {
  #views = new Map()
  #observer = null
  #toBuild = new Set()
  #isAtEnd = true
  #frame = 0

  constructor(actions) {
    this.actions = actions
    this.list = h('div.messages')
    this.down = h('button.down', { type: 'button', hidden: true, onclick: () => this.toEnd() }, 'To the end')
    this.element = h('div.thread', { tabindex: '0', role: 'region', 'aria-label': 'Conversation',
      onscroll: () => this.#scrolled() }, this.list)
    this.#observer = new IntersectionObserver((entries) => this.#moved(entries),
      { root: this.element, rootMargin: NEAR })
  }

  // Shows these messages, and the end of them when they are of another conversation.
  show(messages, { isOther = false } = {}) {
    const views = new Map()

    for (const message of messages) {
      const known = isOther ? null : this.#views.get(message.id)
      views.set(message.id, known ?? new MessageView(message, this.actions))
    }
    const elements = [...views.values()].map((view) => view.element)
    const nSame = elements.findIndex((element, i) => element !== this.list.children[i])

    this.#views = views
    if (isOther) this.#isAtEnd = true
    // Of a long branch, only the end is other, as a rule.
    if (nSame >= 0 || elements.length < this.list.children.length) {
      const begin = nSame < 0 ? elements.length : nSame
      for (const element of [...this.list.children].slice(begin)) {
        this.#observer.unobserve(element)
        element.remove()
      }
      this.list.append(...elements.slice(begin))
      for (const element of elements.slice(begin)) this.#observer.observe(element)
    }
    views.get(messages.at(-1)?.id)?.build()
    for (const view of views.values()) view.update()
    this.follow()
  }

  view(id) {
    return this.#views.get(id)
  }

  edit(id) {
    const view = this.view(id)
    view.element.scrollIntoView({ block: 'nearest' })
    view.build()
    view.edit()
  }

  // To the end with the next frame, if it was in sight. Asking for the height now would cost a layout of its own.
  follow() {
    cancelAnimationFrame(this.#frame)
    this.#frame = requestAnimationFrame(() => {
      if (this.#isAtEnd) this.element.scrollTop = this.element.scrollHeight
    })
  }

  toEnd() {
    this.#isAtEnd = true
    this.follow()
  }

  free() {
    this.#observer.disconnect()
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element
    this.#isAtEnd = scrollHeight - scrollTop - clientHeight < END_PX
    this.down.hidden = this.#isAtEnd
  }

  #moved(entries) {
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      if (isIntersecting && !target.view.isBuilt) this.#toBuild.add(target.view)
      else if (!isIntersecting) {
        this.#toBuild.delete(target.view)
        target.view.leave(boundingClientRect.height)
      }
    }
    this.#buildSome()
  }

  // A few messages at a time, the last ones first, so that the browser stays awake.
  #buildSome() {
    const end = performance.now() + SLICE_MS

    for (const view of [...this.#toBuild].reverse()) {
      this.#toBuild.delete(view)
      view.build()
      if (performance.now() > end) break
    }
    this.follow()
    if (this.#toBuild.size > 0) setTimeout(() => this.#buildSome())
  }
}
