// dom.js - elements, made in one call
//
// h('button.quiet', { type: 'button', onclick: send, 'aria-label': 'Send' }, 'Send', otherNode)
//
// A child is a node, a text, a list of children, or nothing (null, undefined, false). A text stays a text, so none of
// a model's words becomes markup here; markdown.js alone makes markup of words.

const SVG = 'http://www.w3.org/2000/svg'

const present = (children) =>
  children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return
  if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
  else if (name in element && typeof value !== 'string' && !name.includes('-')) element[name] = value
  else element.setAttribute(name, value === true ? '' : value)
}

function create(namespace, selector, props, children) {
  const [name, ...classes] = selector.split('.')
  const element = namespace ? document.createElementNS(namespace, name) : document.createElement(name)
  if (classes.length > 0) element.setAttribute('class', classes.join(' '))
  for (const [key, value] of Object.entries(props ?? {})) set(element, key, value)
  element.append(...present(children))
  return element
}

export const h = (selector, props, ...children) => create(null, selector, props, children)
export const svg = (selector, props, ...children) => create(SVG, selector, props, children)

// Replaces all children of an element.
export const fill = (element, ...children) => element.replaceChildren(...present(children))
