// hub.mjs - a hub of models on loopback, with repositories that misbehave in one way each
//
//   node hub.mjs MODEL PORT_FILE LOG
//
// Two servers: the hub, which lists and redirects, and its storage on another port. PORT_FILE gets the hub's port. LOG
// gets one JSON object for each request: host, method, url, range, token. The name of a repository is what it does.
import { createHash } from "node:crypto";
import fs from "node:fs";
import http from "node:http";

const [, , modelFile, portFile, logFile] = process.argv;
const commit = "0123456789abcdef0123456789abcdef01234567";
const piece = 8 << 20;
const tiny = fs.readFileSync(modelFile);

// Bytes that differ everywhere, the same in each run.
function made(n, seed) {
  const out = Buffer.alloc(n);
  let x = seed;
  for (let i = 0; i + 4 <= n; i += 4) out.writeUInt32LE((x = (Math.imul(x, 1664525) + 1013904223) >>> 0), i);
  out.write("GGUF");
  return out;
}
const big = made(3 * piece + 12345, 1), second = made(piece + 7, 2);
const files = {
  "t/tiny": { "tiny-Q4_K_M.gguf": tiny, "tiny-Q8_0.gguf": second, "mmproj-tiny-Q4_K_M.gguf": second,
    "imatrix.gguf": second, "README.md": Buffer.from("x") },
  "t/split": { "Q8_0/big-Q8_0-00001-of-00002.gguf": big, "Q8_0/big-Q8_0-00002-of-00002.gguf": second },
  "t/small": { "small.gguf": tiny },
  "t/evil": { "../../evil-Q4_K_M.gguf": tiny },
};
const repo = (name) => files[name] ?? { "m-Q4_K_M.gguf": big };
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const sha1 = (bytes) => createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");

let storagePort;
const counts = {};
const count = (key) => (counts[key] = (counts[key] ?? 0) + 1);
function log(host, request) {
  const { authorization, range } = request.headers;
  fs.appendFileSync(logFile, JSON.stringify({ host, method: request.method, url: request.url, range: range ?? "",
    token: authorization ?? "" }) + "\n");
}
function refuse(reply, status, headers = {}) {
  reply.writeHead(status, headers);
  reply.end("no");
}

function list(name, reply) {
  const siblings = Object.entries(repo(name)).map(([rfilename, bytes]) => {
    const size = name === "t/lies" ? bytes.length + 1 : name === "t/over" ? bytes.length - 1 : bytes.length;
    return name === "t/small"
      ? { rfilename, size, blobId: sha1(bytes) }
      : { rfilename, size, blobId: sha1(bytes), lfs: { sha256: sha256(bytes), size, pointerSize: 134 } };
  });
  reply.writeHead(200, { "content-type": "application/json" });
  reply.end(JSON.stringify({ id: name, sha: commit, siblings }));
}

const hub = http.createServer((request, reply) => {
  log("hub", request);
  const path = decodeURIComponent(request.url.split("?")[0]);
  const [, name, revision] = path.match(/^\/api\/models\/([^/]+\/[^/]+)\/revision\/(.+)$/) ?? [];
  const [, from, file] = path.match(/^\/([^/]+\/[^/]+)\/resolve\/[0-9a-f]{40}\/(.+)$/) ?? [];
  const who = name ?? from, token = request.headers.authorization;
  if (who === "t/gated" && token !== "Bearer sesame") return refuse(reply, 403, { "x-error-code": "GatedRepo" });
  if (who === "t/private" && token !== "Bearer sesame") return refuse(reply, 401, { "x-error-code": "RepoNotFound" });
  if (who === "t/missing") return refuse(reply, 404, { "x-error-code": "RepoNotFound" });
  if (who === "t/limited" && count(path) === 1) return refuse(reply, 429, { "retry-after": "1" });
  if (who === "t/patient") return refuse(reply, 429, { "retry-after": "86400" });
  if (name && !["main", "refs/pr/1", commit].includes(revision))
    return refuse(reply, 404, { "x-error-code": "RevisionNotFound" });
  if (name) return list(name, reply);
  const bytes = from && repo(from)[file];
  if (!bytes) return refuse(reply, 404, { "x-error-code": "EntryNotFound" });
  if (from === "t/insecure") return refuse(reply, 302, { location: "http://storage.invalid/" });
  if (from === "t/circle") return refuse(reply, 302, { location: request.url });
  reply.writeHead(302, { location: `http://127.0.0.1:${storagePort}/${from}/${encodeURIComponent(file)}?signature=${count("signature")}`,
    "x-repo-commit": commit, "x-linked-size": from === "t/changed" ? 1 : bytes.length,
    "x-linked-etag": `"${from === "t/small" ? sha1(bytes) : sha256(bytes)}"` });
  reply.end();
});

const storage = http.createServer((request, reply) => {
  log("storage", request);
  const [, name, file] = decodeURIComponent(request.url.split("?")[0]).match(/^\/([^/]+\/[^/]+)\/(.+)$/);
  let bytes = repo(name)[file];
  if (name === "t/wrong") bytes = made(bytes.length, 99);
  if (name === "t/expires" && count(request.url) > 1) return refuse(reply, 403); // an address is good for one request
  const asked = (request.headers.range ?? "").match(/^bytes=(\d+)-(\d+)$/);
  const whole = !asked || name === "t/whole" || name === "t/stuck";
  const begin = whole ? 0 : Number(asked[1]), end = whole ? bytes.length : Math.min(Number(asked[2]) + 1, bytes.length);
  if (whole) reply.writeHead(200, { "content-length": bytes.length });
  else reply.writeHead(206, { "content-length": end - begin,
    "content-range": `bytes ${begin}-${end - 1}/${bytes.length}` });
  // The connection breaks after 3 MB, whatever is asked; in a whole file later, and only at the first time.
  if (["t/breaks", "t/expires"].includes(name) && end - begin > 3e6)
    return void reply.write(bytes.subarray(begin, begin + 3e6), () => reply.destroy());
  if (name === "t/stuck" || (name === "t/whole" && !asked && count(name) === 1))
    return void reply.write(bytes.subarray(0, 2 * piece + 5), () => reply.destroy());
  // The first piece comes, the others wait until there is a file LOG.go.
  if (name === "t/slow" && begin > 0 && !fs.existsSync(`${logFile}.go`)) return void reply.write(bytes.subarray(begin, begin + 1000));
  reply.end(bytes.subarray(begin, end));
});

storage.listen(0, "127.0.0.1", () => {
  storagePort = storage.address().port;
  hub.listen(0, "127.0.0.1", () => {
    fs.writeFileSync(`${portFile}.part`, String(hub.address().port));
    fs.renameSync(`${portFile}.part`, portFile);
  });
});
