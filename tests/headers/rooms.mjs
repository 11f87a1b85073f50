#!/usr/bin/env node
// rooms.mjs - the code keeps to its rooms
//
// A room is a folder of src/. Its README.md has a line "Uses: a, b." with the rooms that it may use; it may also use
// the rooms that those use. This test finds, in the checkout that it is given:
//
//   - an include of a room that may not be used, rooms that use each other, and a README that differs from the
//     libraries of src/CMakeLists.txt or is longer than 20 lines
//   - files of one room that call each other in a ring, so that none can be read or tested without the others
//   - an outside library that is included outside of its rooms
//   - a list of the rooms in docs/design.md that is not the list of these folders
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';

const root = process.argv[2];
const src = join(root, 'src');
let failed = false;
const fail = (text) => {
  console.log(text);
  failed = true;
};
const read = (path) => readFileSync(path, 'utf8');

/* The rooms, and what each may use. */

const rooms = readdirSync(src).filter((name) => statSync(join(src, name)).isDirectory());
const uses = new Map();
for (const room of rooms) {
  const path = join(src, room, 'README.md');
  const text = existsSync(path) ? read(path) : '';
  const line = /^Uses: ([^]*?)\.$/m.exec(text);
  if (!line) {
    fail(`src/${room}/README.md has no line 'Uses: a, b.' with the rooms that it may use ('Uses: nothing.')`);
    uses.set(room, []);
    continue;
  }
  if (text.split('\n').length > 21) fail(`src/${room}/README.md has more than 20 lines`);
  for (const [, name] of text.matchAll(/`([a-z_0-9]+\.(?:c|h|cpp))`/g))
    if (!existsSync(join(src, room, name))) fail(`src/${room}/README.md names ${name}, which is not in this folder`);
  uses.set(room, line[1] === 'nothing' ? [] : line[1].split(/,\s*/));
  for (const used of uses.get(room)) if (!rooms.includes(used)) fail(`src/${room}/README.md: there is no room '${used}'`);
}

const all = new Map(); // room: all rooms that it may use
const reach = (room, path) => {
  if (path.includes(room)) {
    fail(`these rooms use each other: ${[...path.slice(path.indexOf(room)), room].join(' -> ')}`);
    return new Set();
  }
  if (!all.has(room)) {
    const found = new Set();
    for (const used of uses.get(room) ?? []) {
      found.add(used);
      for (const further of reach(used, [...path, room])) found.add(further);
    }
    all.set(room, found);
  }
  return all.get(room);
};
for (const room of rooms) reach(room, []);

for (const [, room, rest] of read(join(src, 'CMakeLists.txt')).matchAll(/^hth_room\(([a-z]+)([^)]*)\)/gm)) {
  const linked = [...rest.matchAll(/\bhth_([a-z]+)/g)].map((match) => match[1]).sort();
  const told = [...(uses.get(room) ?? [])].sort();
  if (linked.join() !== told.join())
    fail(`src/CMakeLists.txt links ${room} with '${linked.join(' ')}'; src/${room}/README.md says '${told.join(' ')}'`);
}

const listed = [...read(join(root, 'docs/design.md')).matchAll(/^src\/([a-z]+)\/ /gm)].map((match) => match[1]);
if ([...listed].sort().join() !== [...rooms].sort().join())
  fail(`docs/design.md lists the rooms '${listed.join(' ')}'; src/ has '${rooms.join(' ')}'`);
for (const [i, room] of listed.entries())
  for (const used of uses.get(room) ?? [])
    if (listed.indexOf(used) <= i) fail(`docs/design.md lists ${used}/ above ${room}/, which uses it`);

/* The files. */

const files = rooms.flatMap((room) =>
  readdirSync(join(src, room))
    .filter((name) => /\.(c|cpp|h)$/.test(name))
    .map((name) => ({ room, name, is_source: !name.endsWith('.h'), text: read(join(src, room, name)) })));
if (files.length === 0) fail('there is nothing in src/');

const homes = {
  'lmdb.h': ['index'],
  'llama.h': ['llama', 'kernels'],
  'ggml.*': ['llama', 'kernels'],
  'gguf.h': ['llama'],
  'isa-l.h': ['base'],
  'openssl/evp.h': ['base', 'fleet'],
  'liburing.h': ['base'],
  'event2/.*': ['http', 'store', 'fleet', 'supervisor', 'worker', 'front'],
  'curl/.*': ['http'],
  'hiredis/.*': ['store'],
  'seccomp.h': ['worker'],
  'histedit.h': ['chat'],
  // Formats are bytes in and bytes out: no threads, no sockets.
  'pthread.h|threads.h|sys/socket.h|netinet/.*': rooms.filter((room) => room !== 'api' && room !== 'dialects'),
};
for (const { room, name, text } of files) {
  for (const [, used] of text.matchAll(/^# *include *"([a-z]+)\//gm))
    if (rooms.includes(used) && used !== room && !all.get(room).has(used))
      fail(`src/${room}/${name} includes from ${used}/, which src/${room}/README.md does not allow`);
  for (const [, header] of text.matchAll(/^# *include *<([^>]+)>/gm))
    for (const [pattern, allowed] of Object.entries(homes))
      if (new RegExp(`^(${pattern})$`).test(header) && !allowed.includes(room))
        fail(`src/${room}/${name} includes <${header}>, whose home is ${allowed.map((home) => `src/${home}`).join(', ')}`);
}

/* Comments name files that exist. */

const names = new Set(execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n').map((path) => basename(path)));
const others = new Set(['llama.cpp', 'llama.h', 'b.c', 'common.h']); // of the engine and the system
for (const { room, name, text } of files)
  for (const [comment] of text.matchAll(/\/\*[^]*?\*\/|\/\/[^\n]*/g))
    for (const [named] of comment.matchAll(/(?<![\w./<-])[a-z_0-9]+\.(?:c|h|cpp)\b(?!>)/g))
      if (!names.has(named) && !others.has(named)) fail(`src/${room}/${name}: a comment names ${named}, which does not exist`);

/* Rings: a file uses another when it has the name of a function that the other defines. */

// These are left; add none.
const known_rings = `
models: adapters.c draft_load.c embed.c events.c fit.c load.c load_start.c model.c needs.c runtime.c submit.c text.c
schema: schema_check.c schema_items.c schema_not.c
`.trim().split('\n').filter(Boolean);
const sources = files.filter((file) => file.is_source);
const owner = new Map();
for (const file of sources) {
  file.code = file.text.replace(/\/\*[^]*?\*\/|\/\/[^\n]*|"(?:\\.|[^"\\\n])*"/g, ' ');
  const definition = /^(?!static\b|typedef\b|#|\s|return\b|else\b)[A-Za-z_][\w\s*]*?\b((?:hth|hearth)_\w+)\s*\([^;{}]*\)\s*\{/gm;
  const data = /^(?!static\b|typedef\b|extern\b|#|\s)[A-Za-z_][\w\s*]*?\b(hth_\w+)(?:\[[^\]]*\])*\s*=/gm;
  for (const [pattern, is_data] of [[definition, false], [data, true]])
    for (const [, name] of file.code.matchAll(pattern)) if (!owner.has(name)) owner.set(name, { file, is_data });
}
for (const file of sources) {
  file.calls = new Set();
  for (const [name] of file.code.matchAll(/\b(?:hth|hearth)_\w+/g)) {
    const { file: other, is_data } = owner.get(name) ?? {};
    if (!other || other === file) continue;
    if (other.room === file.room) is_data || file.calls.add(other); // a table of functions and its users are no ring
    else if (!all.get(file.room).has(other.room))
      fail(`src/${file.room}/${file.name} uses ${name} of src/${other.room}/, which src/${file.room}/README.md does not allow`);
  }
}
// Tarjan, "Depth-first search and linear graph algorithms", 1972.
let n = 0;
const stack = [];
const rings = [];
const visit = (file) => {
  file.index = file.low = n++;
  stack.push(file);
  file.is_on_stack = true;
  for (const other of file.calls) {
    if (other.index === undefined) {
      visit(other);
      file.low = Math.min(file.low, other.low);
    } else if (other.is_on_stack) file.low = Math.min(file.low, other.index);
  }
  if (file.low !== file.index) return;
  const ring = [];
  for (;;) {
    const other = stack.pop();
    other.is_on_stack = false;
    ring.push(other.name);
    if (other === file) break;
  }
  if (ring.length > 1) rings.push(`${file.room}: ${ring.sort().join(' ')}`);
};
for (const file of sources) if (file.index === undefined) visit(file);
for (const ring of rings)
  if (!known_rings.includes(ring)) fail(`a ring of files that call each other, in src/${ring}; make it one way, or one file`);
for (const ring of known_rings)
  if (!rings.includes(ring)) fail(`this is no ring any more; take it off the list in rooms.mjs: ${ring}`);

process.exit(failed ? 1 : 0);
