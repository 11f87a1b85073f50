// thread.js - the messages of a branch, of which only those near the window are built
//
// So a conversation of thousands of messages costs as much as one of twenty. The end stays in sight while a reply
// grows, unless its reader has scrolled away.
//
// A long branch comes in slices, so that no task of the browser gets long: the end first, then what is above it. A space
// has the height of the messages that are still to come there, so nothing moves when they come.
import { h } from './dom.js'
import { guessHeight, MessageView } from './message.js'

const NEAR = '1200px 0px'
const SLICE_MS = 8
const BUILT_MAX = 8 // messages of a slice
const SHOWN_MAX = 50 // messages of a slice, as boxes
const END_PX = 80

export class Thread {
  #path = []
  #begin = 0 // the messages of the path from here
  #end = 0 // to here have elements
  #views = new Map() // of these, by id
  #observer = null
  #toBuild = new Set()
  #isAtEnd = true
  #top = 0 // of the last scroll event
  #frame = 0
  #timer = 0

  constructor(actions) {
    this.actions = actions
    this.space = h('div')
    this.list = h('div.messages')
    this.down = h('button.down', { type: 'button', hidden: true, onclick: () => this.toEnd() }, 'To the end')
    this.element = h('div.thread', { tabindex: '0', role: 'region', 'aria-label': 'Conversation',
      onscroll: () => this.#scrolled() }, this.space, this.list)
    this.#observer = new IntersectionObserver((entries) => this.#moved(entries),
      { root: this.element, rootMargin: NEAR })
  }

  // Shows these messages, and the end of them when they are of another conversation.
  show(messages, { isOther = false } = {}) {
    const firstOther = messages.findIndex(({ id }, i) => id !== this.#path[i]?.id)
    const nSame = isOther ? 0 : firstOther < 0 ? messages.length : firstOther

    this.#cut(nSame)
    this.#path = messages
    if (isOther) {
      this.#stay(true)
      this.#begin = this.#end = messages.length
    }
    for (const view of this.#views.values()) view.update()
    this.#showSome()
    this.view(messages.at(-1)?.id)?.build()
  }

  view(id) {
    return this.#views.get(id)
  }

  edit(id) {
    while (!this.view(id) && !this.#isWhole) this.#showSome()
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
    this.#stay(true)
    this.follow()
  }

  free() {
    clearTimeout(this.#timer)
    this.#observer.disconnect()
  }

  get #isWhole() {
    return this.#begin === 0 && this.#end === this.#path.length
  }

  // Only the first n messages of the path stay.
  #cut(n) {
    for (const { id } of this.#path.slice(Math.max(n, this.#begin), this.#end)) {
      const { element } = this.view(id)
      this.#observer.unobserve(element)
      this.#toBuild.delete(element.view)
      element.remove()
      this.#views.delete(id)
    }
    this.#top = 0 // a shorter list may move it up
    this.#end = Math.min(this.#end, n)
    this.#begin = Math.min(this.#begin, n)
  }

  // Some of the messages that have no elements yet: those below the others, then those above.
  #showSome() {
    const end = this.#end < this.#path.length ? Math.min(this.#end + SHOWN_MAX, this.#path.length) : this.#begin
    const isBelow = end > this.#end
    const begin = isBelow ? this.#end : Math.max(0, end - SHOWN_MAX)
    const views = this.#path.slice(begin, end).map((message) => new MessageView(message, this.actions))
    const elements = views.map(({ element }) => element)

    for (const view of views) this.#views.set(view.message.id, view)
    if (isBelow) this.list.append(...elements)
    else this.list.prepend(...elements)
    for (const element of elements) this.#observer.observe(element)
    this.#begin = Math.min(this.#begin, begin)
    this.#end = Math.max(this.#end, end)
    this.space.style.height =
      `${this.#path.slice(0, this.#begin).reduce((sum, message) => sum + guessHeight(message), 0)}px`
    this.follow()

    this.element.setAttribute('aria-busy', String(!this.#isWhole))
    clearTimeout(this.#timer)
    if (!this.#isWhole) this.#timer = setTimeout(() => this.#showSome())
  }

  // Only its reader moves it up: what grows or comes leaves it where it is.
  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element
    const isNear = scrollHeight - scrollTop - clientHeight < END_PX

    this.#stay(isNear || (this.#isAtEnd && scrollTop >= this.#top))
    this.#top = scrollTop
  }

  // At the end, follow() alone moves it; elsewhere the browser keeps the lines in sight where they are.
  #stay(isAtEnd) {
    this.#isAtEnd = isAtEnd
    this.element.style.overflowAnchor = isAtEnd ? 'none' : 'auto'
    this.down.hidden = isAtEnd
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

    for (const view of [...this.#toBuild].reverse().slice(0, BUILT_MAX)) {
      this.#toBuild.delete(view)
      view.build()
      if (performance.now() > end) break
    }
    this.follow()
    if (this.#toBuild.size > 0) setTimeout(() => this.#buildSome())
  }
}
