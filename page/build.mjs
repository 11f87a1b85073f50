// build.mjs - make one HTML document of the page, and a C file of that
//
// usage: node build.mjs NODE_MODULES OUT
//
// Writes into OUT: page.html; page.c, with the document plain and compressed, and the policy that admits its script and
// its styles by their digests; notices.txt, the licences of the packages in it.
import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const GZIP_BYTES_MAX = 200_000

const [modules, out] = process.argv.slice(2)
const here = dirname(fileURLToPath(import.meta.url))
const { build } = createRequire(join(modules, '/'))('esbuild')

const result = await build({
  entryPoints: [join(here, 'main.js')],
  bundle: true,
  minify: true,
  metafile: true,
  write: false,
  outdir: out,
  absWorkingDir: here,
  nodePaths: [modules],
  format: 'esm',
  target: ['es2022'],
  legalComments: 'none',
  logLevel: 'warning',
})
const built = (ending) => result.outputFiles.find(({ path }) => path.endsWith(ending)).text.trim()
const script = built('.js')
const style = built('.css')
// A function as replacement, because "$&" in the script would mean something in a text.
const html = readFileSync(join(here, 'index.html'), 'utf8')
  .replace('/* style */', () => style)
  .replace('/* script */', () => script)

const sha256 = (text, form) => createHash('sha256').update(text).digest(form)
const policy = [
  "default-src 'none'",
  `script-src 'sha256-${sha256(script, 'base64')}'`,
  `style-src 'sha256-${sha256(style, 'base64')}'`,
  "connect-src 'self'",
  "img-src 'self' data: blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const gzip = gzipSync(html, { level: 9 })
if (gzip.length > GZIP_BYTES_MAX)
  throw new Error(`the page has ${gzip.length} bytes compressed, more than ${GZIP_BYTES_MAX}`)

// Texts compile many times faster than lists of numbers. Three digits each, so that no digit behind one belongs to it.
const literal = (bytes) => {
  const lines = []
  for (let i = 0; i < bytes.length; i += 1000)
    lines.push(`    "${[...bytes.subarray(i, i + 1000)].map((b) => '\\' + b.toString(8).padStart(3, '0')).join('')}"`)
  return lines.join('\n')
}
writeFileSync(join(out, 'page.html'), html)
writeFileSync(join(out, 'page.c'), `/* Made by page/build.mjs. */
#include "front/page.h"

static const char plain[] =
${literal(Buffer.from(html))};
static const char compressed[] =
${literal(gzip)};

const hth_page hth_page_built = {
    .plain = plain,
    .n_plain = sizeof(plain) - 1,
    .gzip = compressed,
    .n_gzip = sizeof(compressed) - 1,
    .etag = "W/\\"${sha256(html, 'hex').slice(0, 32)}\\"",
    .policy = "${policy}",
};
`)

// ---- notices ----

const packages = new Set()
for (const input of Object.keys(result.metafile.inputs)) {
  const found = input.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)\//)
  if (found) packages.add(found[1])
}
const notice = (name) => {
  const folder = join(modules, name)
  const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry))
  return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), 'utf8').trim() : ''}\n`
}
writeFileSync(join(out, 'notices.txt'), [...packages].sort().map(notice).join(`\n${'-'.repeat(80)}\n\n`))
