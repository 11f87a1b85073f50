// chat.js - the view of conversations: the list, the messages, and the field to write in
import './chat.css'
import { Announcer } from './announcer.js'
import { Attachments } from './attachments.js'
import { Conversation } from './conversation.js'
import { askForText, confirm } from './dialogs.js'
import { fill, h } from './dom.js'
import { fileName, fromJson, saveFile, toJson, toMarkdown } from './files.js'
import { askForSettings } from './settings.js'
import { Sidebar } from './sidebar.js'
import * as store from './store.js'
import { Thread } from './thread.js'

const LAST = 'hearth.conversation'
const MODEL = 'hearth.model'
const DRAW_MS = 40

const isTouch = matchMedia('(pointer: coarse)').matches

class Chat {
  #conversation = null
  #opening = null // the conversation that will be seen
  #drawn = new Map() // what is to be drawn with the next frame, by message
  #isDrawing = false
  #end = new AbortController()

  constructor(element, api) {
    this.api = api
    this.announcer = new Announcer()
    this.sidebar = new Sidebar({
      open: (id) => this.#go(id),
      begin: () => this.#begin(),
      read: (file) => this.#read(file),
    })
    this.thread = new Thread({
      edit: (message, text) => this.#do(() => this.#conversation.edit(message, text)),
      again: (message) => this.#do(() => this.#conversation.again(message)),
      goOn: (message) => this.#do(() => this.#conversation.goOn(message)),
      choose: (message, step) => this.#do(() => this.#conversation.choose(message, step)),
      place: (message) => this.#conversation.place(message),
    })
    this.attachments = new Attachments({ failed: (text) => this.#complain(text) })
    this.#build(element)
    this.#start()
  }

  free() {
    this.#end.abort()
    if (this.#conversation) this.#conversation.view = null
    this.thread.free()
    this.sidebar.free()
    this.announcer.free()
  }

  #build(element) {
    const { signal } = this.#end
    const button = (label, onclick) => h('button.quiet', { type: 'button', onclick }, label)

    this.title = h('h1', {}, '')
    this.model = h('select', { 'aria-label': 'Model', onchange: () => this.#chooseModel() })
    this.menu = h('details.menu', {}, h('summary', {}, 'More'), h('div', {},
      button('Rename', () => this.#rename()),
      button('Export as Markdown', () => this.#export('md', 'text/markdown', toMarkdown)),
      button('Export as JSON', () => this.#export('json', 'application/json', (fields) =>
        toJson(fields, this.#conversation.tree.messages))),
      button('Delete', () => this.#remove())))
    this.toggle = h('button.quiet.toggle', { type: 'button', 'aria-expanded': 'false', 'aria-controls': 'conversations',
      onclick: () => this.#showList(!element.classList.contains('with-list')) }, 'Chats')
    this.words = h('textarea', { rows: '1', 'aria-label': 'Message', onkeydown: (event) => this.#key(event),
      onpaste: (event) => event.clipboardData.files.length > 0 && this.attachments.add(event.clipboardData.files) })
    this.send = h('button.primary', { type: 'submit' }, 'Send')
    this.problem = h('p.notice.bad', { role: 'alert', hidden: true })
    this.form = h('form.composer', { onsubmit: (event) => this.#submit(event) },
      this.attachments.list, this.words,
      h('div.buttons', {}, this.attachments.button, this.attachments.input, this.send))
    this.element = element
    element.append(this.sidebar.element, h('section.talk', { 'aria-label': 'Chat' },
      h('div.bar', {}, this.toggle, this.title, this.model, button('Settings', () => this.#settings()), this.menu),
      this.thread.element, this.thread.down,
      h('p.faint.hint', {}, 'Send a message. The line below each reply shows how much of the prompt was known.'),
      this.problem, this.form), this.announcer.element)
    this.attachments.acceptDrops(element)
    addEventListener('hashchange', () => this.#openFromAddress(), { signal })
    addEventListener('keydown', (event) => this.#globalKey(event), { signal })
    addEventListener('pointerdown', (event) => this.menu.contains(event.target) || (this.menu.open = false), { signal })
  }

  async #start() {
    this.words.focus()
    await this.#do(() => this.#openFromAddress())
    await this.#do(() => this.#listModels())
  }

  // ---- which conversation ----

  async #openFromAddress() {
    const [, view, id] = location.hash.split('/')

    if (view === 'dashboard' || (id && id === this.#conversation?.fields.id)) return
    const wanted = id ?? sessionStorage.getItem(LAST)
    const opening = wanted ? Conversation.open(this.api, wanted) : null
    this.#opening = opening
    const conversation = await opening
    if (opening === this.#opening && !this.#end.signal.aborted) this.#see(conversation ?? this.#newConversation())
  }

  #newConversation() {
    const settings = this.#conversation?.fields.settings
    return Conversation.begin(this.api, { ...settings, model: localStorage.getItem(MODEL) ?? settings?.model })
  }

  #see(conversation) {
    if (this.#conversation) this.#conversation.view = null
    this.#conversation = conversation
    this.#opening = null
    conversation.view = {
      branch: () => this.#branch(),
      message: (message, what) => this.#drawSoon(message, what),
    }
    sessionStorage.setItem(LAST, conversation.fields.id)
    this.#showList(false)
    this.#complain('')
    this.#branch({ isOther: true })
    this.#do(() => conversation.resume())
  }

  #go(id) {
    location.hash = `#/chat/${id}`
    this.#showList(false)
  }

  #begin() {
    this.#see(this.#newConversation())
    history.replaceState(null, '', '#/chat')
    this.words.focus()
  }

  async #read(file) {
    await this.#do(async () => {
      const { conversation, messages } = fromJson(await file.text())
      await store.save(conversation, messages)
      this.#go(conversation.id)
    })
  }

  // ---- what is seen ----

  #branch({ isOther = false } = {}) {
    const { fields, running, openCall } = this.#conversation

    this.title.textContent = fields.title
    this.thread.show(this.#conversation.path, { isOther })
    this.element.classList.toggle('empty', this.#conversation.isEmpty)
    this.send.textContent = running ? 'Stop' : 'Send'
    this.words.placeholder = openCall ? `The result of ${openCall.name}` : 'Message'
    if (fields.settings.model) this.model.value = fields.settings.model
    if (!this.#conversation.isEmpty) history.replaceState(null, '', `#/chat/${fields.id}`)
    this.#do(() => this.sidebar.refresh(fields.id))
  }

  // At most once a frame, and not at all while nobody sees it.
  #drawSoon(message, what) {
    this.#drawn.set(message, what)
    this.announcer.follow(message)
    if (this.#isDrawing) return
    this.#isDrawing = true
    setTimeout(() => requestAnimationFrame(() => this.#draw()), DRAW_MS)
  }

  #draw() {
    this.#isDrawing = false
    for (const [message, what] of this.#drawn) this.thread.view(message.id)?.update(what)
    this.#drawn.clear()
  }

  #showList(isShown) {
    this.element.classList.toggle('with-list', isShown)
    this.toggle.setAttribute('aria-expanded', String(isShown))
    if (isShown) this.sidebar.search.focus()
  }

  #complain(text) {
    this.problem.textContent = text
    this.problem.hidden = !text
  }

  async #do(work) {
    try {
      await work()
    } catch (error) {
      this.#complain(error.message || error.name)
    }
  }

  // ---- what is said ----

  #submit(event) {
    event.preventDefault()
    if (this.#conversation.running) {
      this.#conversation.stop()
      return
    }
    const text = this.words.value
    if (!text.trim() && this.attachments.files.length === 0) return
    this.words.value = ''
    this.#complain('')
    this.thread.toEnd()
    this.#do(() => this.#say(this.#conversation, text, this.attachments.take()))
  }

  async #say(conversation, text, files) {
    try {
      await conversation.say(text, files)
    } catch (error) {
      this.words.value = text + this.words.value
      this.attachments.putBack(files)
      throw error
    }
    await conversation.answer()
  }

  #key(event) {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && !isTouch) {
      event.preventDefault()
      if (!this.#conversation.running) this.form.requestSubmit()
    } else if (event.key === 'ArrowUp' && !this.words.value) {
      const last = this.#conversation.path.findLast(({ role }) => role === 'user')
      if (last) {
        event.preventDefault()
        this.thread.edit(last.id)
      }
    }
  }

  #globalKey(event) {
    const isTyping = event.target.closest?.('input, textarea, select, dialog')

    if (event.key === 'Escape' && this.#conversation.running && !document.querySelector('dialog[open]')) {
      this.#conversation.stop()
    } else if (event.key === '/' && !isTyping) {
      event.preventDefault()
      this.words.focus()
    } else if (event.altKey && event.code === 'KeyN') {
      event.preventDefault()
      this.#begin()
    }
  }

  // ---- of the conversation ----

  async #listModels() {
    const { data } = await this.api.get('/v1/models')
    const { settings } = this.#conversation.fields

    fill(this.model, data.map(({ id, status }) => {
      const state = status?.failed ? 'failed' : (status?.value ?? 'loaded')
      return h('option', { value: id }, state === 'loaded' ? id : `${id} (${state})`)
    }))
    if (!data.some(({ id }) => id === settings.model)) settings.model = data[0]?.id
    this.model.value = settings.model ?? ''
  }

  async #change(fields) {
    if (this.#conversation.isEmpty) Object.assign(this.#conversation.fields, fields)
    else await this.#conversation.change(fields)
  }

  #chooseModel() {
    localStorage.setItem(MODEL, this.model.value)
    const settings = { ...this.#conversation.fields.settings, model: this.model.value }
    return this.#do(() => this.#change({ settings }))
  }

  async #settings() {
    const settings = await askForSettings(this.#conversation.fields.settings)
    if (settings) await this.#do(() => this.#change({ settings }))
  }

  async #rename() {
    this.menu.open = false
    const title = await askForText('Rename the conversation', 'Title', this.#conversation.fields.title)
    if (!title) return
    await this.#do(() => this.#change({ title }))
    this.#branch()
  }

  #export(ending, type, write) {
    const { fields, path } = this.#conversation

    this.menu.open = false
    saveFile(fileName(fields.title, ending), type, write(fields, path))
  }

  async #remove() {
    const { title } = this.#conversation.fields

    this.menu.open = false
    const warning = `'${title}' is only in this browser. It cannot be brought back.`
    if (!(await confirm('Delete the conversation', warning, 'Delete'))) return
    await this.#do(() => this.#conversation.remove())
    this.#begin()
  }
}

let chat = null

export function mount(element, api) {
  chat = new Chat(element, api)
}

export function unmount() {
  chat.free()
  chat = null
}
