// markdown.js - the words of a model as elements: the only place where words become markup
//
// markdown-it takes HTML in words as words, and DOMPurify removes from its result all that could run or load something.
// While a reply streams, only the blocks that changed are made anew: a block is known by its source.
import DOMPurify from 'dompurify'
import hljs from 'highlight.js/lib/core'
import bash from 'highlight.js/lib/languages/bash'
import c from 'highlight.js/lib/languages/c'
import cpp from 'highlight.js/lib/languages/cpp'
import css from 'highlight.js/lib/languages/css'
import diff from 'highlight.js/lib/languages/diff'
import go from 'highlight.js/lib/languages/go'
import java from 'highlight.js/lib/languages/java'
import javascript from 'highlight.js/lib/languages/javascript'
import json from 'highlight.js/lib/languages/json'
import python from 'highlight.js/lib/languages/python'
import rust from 'highlight.js/lib/languages/rust'
import sql from 'highlight.js/lib/languages/sql'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import yaml from 'highlight.js/lib/languages/yaml'
import markdownIt from 'markdown-it'
import math from 'markdown-it-math/no-default-renderer'
import temml from 'temml'
import { copyButton } from './copy.js'
import { h } from './dom.js'

const languages = { bash, c, cpp, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml }
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language)

const FORMULA_CHARACTERS_MAX = 4000
// With definitions, a short formula can become one of millions of characters.
const DEFINITION = /\\(?:[egx]?def|(?:future)?let|(?:new|renew|provide)command)(?![A-Za-z])/

// A formula that TeX refuses, or that costs too much, is shown as its source.
const formula = (displayMode) => (source) => {
  try {
    if (source.length <= FORMULA_CHARACTERS_MAX && !DEFINITION.test(source))
      return temml.renderToString(source, { displayMode, throwOnError: true, trust: false })
  } catch {
    // Deep nesting overflows the stack of its parser.
  }
  const code = `<code>${md.utils.escapeHtml(source)}</code>`
  return displayMode ? `<pre>${code}</pre>` : code
}

const md = markdownIt({
  html: false,
  linkify: true,
  highlight: (code, name) => (hljs.getLanguage(name) ? hljs.highlight(code, { language: name }).value : ''),
}).use(math, {
  inlineDelimiters: ['$', ['\\(', '\\)']],
  blockDelimiters: ['$$', ['\\[', '\\]']],
  inlineRenderer: formula(false),
  blockRenderer: formula(true),
})

// A picture would be loaded from elsewhere, with what the model puts into its address.
md.renderer.rules.image = (tokens, i, options, env) => {
  const source = md.utils.escapeHtml(tokens[i].attrGet('src') ?? '')
  const title = md.renderer.renderInlineAsText(tokens[i].children, options, env)
  return `<a href="${source}">${md.utils.escapeHtml(title || source)}</a>`
}

// The page's policy refuses inline styles, and complains of each. Quotes in words are escaped, so only tags have these.
const withoutStyles = (html) =>
  html.replaceAll(/ style="text-align:(\w+)"/g, ' align="$1"').replaceAll(/ style="[^"]*"/g, '')

function purify(html) {
  const fragment = DOMPurify.sanitize(withoutStyles(html), {
    USE_PROFILES: { html: true, mathMl: true },
    FORBID_TAGS: ['style', 'form', 'input', 'button', 'textarea', 'select', 'img', 'audio', 'video', 'source'],
    FORBID_ATTR: ['style', 'id', 'name'],
    RETURN_DOM_FRAGMENT: true,
  })
  for (const link of fragment.querySelectorAll('a[href]')) {
    link.target = '_blank'
    link.rel = 'noopener noreferrer'
  }
  for (const code of fragment.querySelectorAll('pre > code')) {
    const name = /language-(\S+)/.exec(code.className)?.[1] ?? ''
    const pre = code.parentElement
    const copy = copyButton(() => code.textContent, 'Copy code')
    const box = h('div.code', {}, h('div.code-head', {}, h('span', {}, name), copy))
    pre.tabIndex = 0 // so that the keyboard can scroll it
    pre.replaceWith(box)
    box.append(pre)
  }
  for (const table of fragment.querySelectorAll('table')) {
    const box = h('div.wide', { tabindex: '0', role: 'region', 'aria-label': 'Table' })
    table.replaceWith(box)
    box.append(table)
  }
  return fragment
}

// The blocks of a text: [{ key, source, tokens }]. A link like [this] also depends on definitions elsewhere.
function blocksOf(text, env) {
  const lines = text.split('\n')
  const blocks = []
  const parsed = md.parse(text, env)
  const references = JSON.stringify(env.references ?? {})
  let tokens = []

  for (const token of parsed) {
    tokens.push(token)
    if (token.level > 0 || token.nesting > 0) continue
    const [begin, end] = tokens[0].map ?? [0, lines.length]
    const source = lines.slice(begin, end).join('\n')
    blocks.push({ key: source.includes('[') ? source + references : source, source, tokens })
    tokens = []
  }
  return blocks
}

// A block that cannot be rendered is shown as its source, so that it hides no other one.
function render({ source, tokens }, env) {
  try {
    return purify(md.renderer.render(tokens, md.options, env))
  } catch {
    return h('pre', { tabindex: '0' }, source)
  }
}

// Shows the text in the element, which shows an earlier state of it, or nothing.
export function show(element, text) {
  const env = {}
  const blocks = blocksOf(text, env)

  blocks.forEach((block, i) => {
    const old = element.children[i]
    if (old?.key === block.key) return
    const shown = h('div.block', {}, render(block, env))
    shown.key = block.key
    if (old) old.replaceWith(shown)
    else element.append(shown)
  })
  while (element.children.length > blocks.length) element.lastElementChild.remove()
}
