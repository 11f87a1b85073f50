// thread.js - the messages of a branch, of which only those near the window are built
//
// So a conversation of thousands of messages costs as much as one of twenty. The end stays in sight, whatever gets
// longer or shorter, unless its reader has scrolled away.
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
  #inSight = null // observes the messages
  #sizes = null // observes what may move the end
  #toBuild = new Set()
  #isAtEnd = true
  #top = 0 // where the thread was put last, or scrolled to
  #timer = 0

  constructor(actions) {
    this.actions = actions
    this.space = h('div')
    this.list = h('div.messages', { onclick: ({ target }) => target.closest('summary') && this.#opened() })
    this.down = h('button.down', { type: 'button', hidden: true, onclick: () => this.toEnd() }, 'To the end')
    this.element = h('div.thread', { tabindex: '0', role: 'region', 'aria-label': 'Conversation',
      onscroll: () => this.#scrolled() }, this.space, this.list)
    this.#inSight = new IntersectionObserver((entries) => this.#moved(entries),
      { root: this.element, rootMargin: NEAR })
    // It is told after the layout of a frame, so the end is in sight before the frame is seen, and costs no layout.
    this.#sizes = new ResizeObserver(() => this.#follow())
    for (const element of [this.element, this.space, this.list]) this.#sizes.observe(element)
  }

  // Shows these messages, and the end of them when they are of another conversation.
  show(messages, { isOther = false } = {}) {
    const firstOther = messages.findIndex(({ id }, i) => id !== this.#path[i]?.id)
    const nSame = isOther ? 0 : firstOther < 0 ? messages.length : firstOther

    this.#cut(nSame)
    this.#path = messages
    if (isOther) {
      this.toEnd()
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

  // With the next frame: asking for the height now would cost a layout of its own.
  toEnd() {
    this.#stay(true)
    requestAnimationFrame(() => this.#follow())
  }

  free() {
    clearTimeout(this.#timer)
    this.#inSight.disconnect()
    this.#sizes.disconnect()
  }

  get #isWhole() {
    return this.#begin === 0 && this.#end === this.#path.length
  }

  // Only the first n messages of the path stay.
  #cut(n) {
    for (const { id } of this.#path.slice(Math.max(n, this.#begin), this.#end)) {
      const { element } = this.view(id)
      this.#inSight.unobserve(element)
      this.#toBuild.delete(element.view)
      element.remove()
      this.#views.delete(id)
    }
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
    for (const element of elements) this.#inSight.observe(element)
    this.#begin = Math.min(this.#begin, begin)
    this.#end = Math.max(this.#end, end)
    this.space.style.height =
      `${this.#path.slice(0, this.#begin).reduce((sum, message) => sum + guessHeight(message), 0)}px`

    this.element.setAttribute('aria-busy', String(!this.#isWhole))
    clearTimeout(this.#timer)
    if (!this.#isWhole) this.#timer = setTimeout(() => this.#showSome())
  }

  #follow() {
    if (!this.#isAtEnd) return
    this.element.scrollTop = this.element.scrollHeight
    this.#top = this.element.scrollTop
  }

  // A thread that is above the place where it was put was moved up by its reader, or by a list that got shorter: then
  // it is at the very end.
  #scrolled() {
    const { scrollTop } = this.element
    const below = this.#below
    const isUp = scrollTop < this.#top

    this.#stay(below <= 1 || (!isUp && (this.#isAtEnd || below < END_PX)))
    this.#top = scrollTop
  }

  get #below() {
    const { scrollTop, scrollHeight, clientHeight } = this.element
    return scrollHeight - scrollTop - clientHeight
  }

  // Its reader looks at the begin of a long text that opens.
  #opened() {
    this.#stay(false)
    requestAnimationFrame(() => this.#stay(this.#below <= 1))
  }

  // At the end, #follow() alone moves it; elsewhere the browser keeps the lines in sight where they are.
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
    if (this.#toBuild.size > 0) setTimeout(() => this.#buildSome())
  }
}
