// hub.mjs - a hub of models on loopback, with repositories that misbehave in one way each
//
//   node hub.mjs MODEL PORT_FILE LOG
//
// Two servers: the hub, which lists and redirects, and its storage on another port. PORT_FILE gets the hub's port. LOG
// gets one JSON object for each request: host, method, url, range, token. The name of a repository is what it does.
// The hub is a registry of Ollama's kind, too (/v2/OWNER/NAME): NAME is what it does, its storage as that of t/NAME.
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
  "t/long": { ["n".repeat(250) + ".gguf"]: tiny },
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

// ---- the registry ----

const blobs = {};
const image = "application/vnd.ollama.image.", docker = "application/vnd.docker.distribution.manifest.v2+json";
function blob(text) {
  const bytes = Buffer.from(text), digest = `sha256:${sha256(bytes)}`;
  blobs[digest] = bytes;
  return { digest, size: bytes.length };
}
const small = ["tiny", "copy", "direct", "model"];
function manifest(name) {
  const layers = [{ mediaType: `${image}license`, ...blob("free for all\n") },
    { mediaType: `${image}model`, ...blob(small.includes(name) ? tiny : big) },
    { mediaType: `${image}params`, ...blob('{"temperature":0}') }];
  const config = { mediaType: "application/vnd.docker.container.image.v1+json", ...blob('{"model_format":"gguf"}') };
  const model = layers[1];
  if (name === "evil") model.digest = "sha256:../../../../../../tmp/0123456789abcdef0123456789abcdef012345678";
  if (name === "upper") model.digest = model.digest.toUpperCase().replace("SHA", "sha");
  if (name === "huge") model.size = 2 ** 52;
  if (name === "negative") model.size = -1;
  if (name === "larger") model.size++;
  if (name === "smaller") model.size--;
  if (name === "two") layers.push({ ...model, size: 1 });
  if (name === "control") layers.push({ ...model, mediaType: "application/vnd.ollama.image.\u001b]0;x\u0007" });
  if (name === "strange") layers.push({ ...model, mediaType: "application/x-sh" });
  if (name === "none") layers.splice(1, 1);
  const mediaType = name === "list" ? "application/vnd.docker.distribution.manifest.list.v2+json" : docker;
  return { schemaVersion: 2, mediaType, config: name === "bare" ? undefined : config, layers };
}

function serveRegistry(request, reply) {
  const [, name, kind, what] = request.url.match(/^\/v2\/[^/]+\/([^/]+)\/(manifests|blobs)\/([^/?]+)$/) ?? [];
  if (!name || name === "missing") return refuse(reply, 404);
  if (name === "private") return refuse(reply, 401);
  if (name === "limited" && count(request.url) === 1) return refuse(reply, 429, { "retry-after": "1" });
  if (name === "patient") return refuse(reply, 429, { "retry-after": "86400" });
  if (kind === "manifests" && name === "endless") return reply.end(Buffer.alloc(2 << 20, " "));
  if (kind === "manifests" && name === "page") return reply.end("<html>Hello</html>");
  if (kind === "manifests") {
    if (!request.headers.accept?.includes(docker)) return refuse(reply, 406);
    reply.writeHead(200, { "content-type": docker });
    return reply.end(JSON.stringify(manifest(name)));
  }
  const bytes = blobs[what];
  if (!bytes) return refuse(reply, 404);
  if (name === "direct") return sendPart(request, reply, bytes);
  if (name === "insecure") return refuse(reply, 307, { location: "http://storage.invalid/" });
  if (name === "circle") return refuse(reply, 307, { location: request.url });
  return refuse(reply, 307, { location: `http://127.0.0.1:${storagePort}/t/${name}/${what}?signature=${count("signature")}` });
}

// The asked bytes, or all of them.
function sendPart(request, reply, bytes) {
  const asked = (request.headers.range ?? "").match(/^bytes=(\d+)-(\d+)$/);
  if (!asked) return reply.end(bytes);
  const begin = Number(asked[1]), end = Math.min(Number(asked[2]) + 1, bytes.length);
  reply.writeHead(206, { "content-range": `bytes ${begin}-${end - 1}/${bytes.length}` });
  return reply.end(bytes.subarray(begin, end));
}

// ---- the servers ----

const hub = http.createServer((request, reply) => {
  log("hub", request);
  if (request.url.startsWith("/v2/")) return serveRegistry(request, reply);
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
  let bytes = blobs[file] ?? repo(name)[file];
  if (name === "t/wrong") bytes = made(bytes.length, 99);
  if (name === "t/expires" && count(request.url) > 1) return refuse(reply, 403); // an address is good for one request
  const asked = (request.headers.range ?? "").match(/^bytes=(\d+)-(\d+)$/);
  const whole = !asked || name === "t/whole" || name === "t/stuck";
  const begin = whole ? 0 : Number(asked[1]), end = whole ? bytes.length : Math.min(Number(asked[2]) + 1, bytes.length);
  if (whole) reply.writeHead(200, { "content-length": bytes.length });
  else reply.writeHead(206, { "content-length": end - begin,
    "content-range": `bytes ${name === "t/unsaid" ? "*" : `${begin}-${end - 1}`}/${bytes.length}` });
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
