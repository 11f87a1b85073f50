// main.js - the frame of the page: two views, chosen by the part of the address after '#', and the dialog for the key
//
// A view is a module with mount(element, api) and unmount(). The view that is not seen is unmounted.
import './style.css'
import { api } from './api.js'
import * as chat from './chat.js'
import * as dashboard from './dashboard.js'
import { ask } from './dialogs.js'
import { h, fill } from './dom.js'

const views = [
  { name: 'chat', title: 'Chat', view: chat },
  { name: 'dashboard', title: 'Dashboard', view: dashboard },
]

const main = h('main', { id: 'main', tabindex: '-1' })
const links = views.map(({ name, title }) => h('a', { href: `#/${name}` }, title))
const flame = h('span.flame', { 'aria-hidden': 'true' })
// Servers without keys never ask for one.
const keyButton = h('button.quiet', { type: 'button', hidden: !api.key, onclick: () => api.wantKey('') }, 'API key')
let shown = null

function show() {
  const name = location.hash.slice(2).split('/')[0]
  const wanted = views.find((entry) => entry.name === name) ?? views[0]

  if (wanted === shown) return
  shown?.view.unmount()
  shown = wanted
  document.title = `${wanted.title} - Hearth`
  views.forEach((entry, i) => {
    if (entry === wanted) links[i].setAttribute('aria-current', 'page')
    else links[i].removeAttribute('aria-current')
  })
  main.className = wanted.name
  fill(main)
  wanted.view.mount(main, api)
}

// Resolves to { key, isKept }, or to null when the user closes the dialog.
function askForKey(why) {
  const key = h('input', { type: 'password', id: 'key', autocomplete: 'off', value: api.key, spellcheck: 'false' })
  const keep = h('input', { type: 'checkbox' })

  keyButton.hidden = false
  return ask({
    kind: 'key',
    title: 'API key',
    content: [
      h('p', {}, why ? `The server says: ${why}` : 'The key that this page shows to the server.'),
      h('label', { for: 'key' }, 'Key'), key,
      h('label.check', {}, keep, ' Keep it in this browser. Otherwise it is forgotten with this tab.'),
    ],
    accept: 'Use this key',
    read: () => ({ key: key.value.trim(), isKept: keep.checked }),
  })
}

api.askForKey = askForKey
document.body.append(
  h('a.skip', { href: '#main', onclick: (event) => { event.preventDefault(); main.focus() } }, 'Skip to the content'),
  h('header', {}, h('span.brand', {}, flame, 'Hearth'), h('nav', { 'aria-label': 'Views' }, links), keyButton),
  main)
addEventListener('hashchange', show)
show()
