// history_test.mjs - the conversations of history_test.sh: history_test.mjs URL WHAT
//
// Seeds are tried until the model draws other tokens for its reply than the tokenizer makes of the text. Then the text
// goes back as a client sends it.
import assert from "node:assert/strict";

const [url, what] = process.argv.slice(2);

async function post(path, body, headers = {}) {
  const answer = await fetch(url + path, { method: "POST", body: JSON.stringify(body), headers });
  const text = await answer.text();
  assert.equal(answer.status, 200, `${path}: ${text}`);
  return { ...JSON.parse(text), ignored: answer.headers.get("x-hearth-ignored") };
}

const tokens = async content => (await post("/tokenize", { content })).tokens;
const biased = (await tokens("the")).map(token => [token, 1]);
const long = `${what}: ` +
  "Tell me, in as many words as you can, how the rain came to the valley and why the birds left it. ".repeat(3);

// A turn of a chat: usage, and the reply as the client keeps it.
async function turn(messages, more = {}) {
  const reply = await post("/v1/chat/completions",
    { messages, max_tokens: 40, temperature: 2, top_k: 0, top_p: 1, min_p: 0, seed: 1, ...more });
  const usage = reply.usage;
  return { text: reply.choices[0].message.content, prompt: usage.prompt_tokens, made: usage.completion_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0, ignored: reply.ignored };
}

async function odd_turn(messages, more) {
  for (let seed = 1; seed < 200; seed++) {
    const reply = await turn(messages, { ...more, seed });
    if (!reply.text.includes("\ufffd") && (await tokens(reply.text)).length !== reply.made)
      return reply;
  }
  assert.fail("the model draws the tokens of the tokenizer");
}

async function chat(n_turns, more) {
  const messages = [{ role: "user", content: long }];
  let before = 0;
  const shares = [];
  for (let i = 0; i < n_turns; i++) {
    const reply = await odd_turn(messages, more);
    if (i > 0)
      shares.push({ cached: reply.cached, expected: before });
    before = reply.prompt + reply.made - 1; // nothing is evaluated after the last token
    messages.push({ role: "assistant", content: reply.text }, { role: "user", content: `And then? ${i}` });
  }
  return { messages, shares };
}

if (what === "chat") {
  const { messages, shares } = await chat(5, {});
  for (const { cached, expected } of shares)
    assert.ok(cached >= expected, `${cached} tokens were cached of the ${expected} that the last turn evaluated`);
  console.log(JSON.stringify(messages));
} else if (what === "salts") {
  // What one tenant has said is unknown to another: the same prompt has the tokenizer's tokens there.
  const { messages } = await chat(2, { cache_salt: "one" });
  const mine = await turn(messages, { cache_salt: "one", max_tokens: 1 });
  const theirs = await turn(messages, { cache_salt: "two", max_tokens: 1 });
  const nobodys = await turn(messages, { max_tokens: 1 });
  const unread = await turn(messages, { cache_salt: "one", cache_prompt: false, max_tokens: 1 });
  assert.ok(mine.cached > 0);
  assert.equal(theirs.cached, 0);
  assert.notEqual(theirs.prompt, mine.prompt);
  assert.equal(nobodys.prompt, theirs.prompt);
  assert.equal(unread.prompt, theirs.prompt);
} else if (what === "resume") {
  // After a restart, the conversation of before is known.
  const messages = JSON.parse(process.argv[4]);
  const reply = await turn(messages, { max_tokens: 1 });
  const canonical = await turn(messages, { max_tokens: 1, cache_prompt: false });
  assert.ok(reply.cached > 0.9 * reply.prompt, `${reply.cached} of ${reply.prompt}`);
  assert.notEqual(canonical.prompt, reply.prompt);
} else if (what === "steered") {
  // A client that chooses among the tokens of a text does not choose them for others.
  const messages = [{ role: "user", content: long }];
  const reply = await odd_turn(messages, { logit_bias: biased, cache_salt: "steered" });
  messages.push({ role: "assistant", content: reply.text }, { role: "user", content: "And then?" });
  const next = await turn(messages, { max_tokens: 1, cache_salt: "steered" });
  const canonical = await turn(messages, { max_tokens: 1, cache_salt: "steered", cache_prompt: false });
  assert.equal(next.prompt, canonical.prompt);
} else if (what === "apart") {
  // A text that is no conversation gives conversations no tokens, though it has the text of one.
  const messages = [{ role: "user", content: long }];
  const { prompt } = await post("/apply-template", { messages });
  for (let seed = 1, found = false; !found; seed++) {
    assert.ok(seed < 200);
    const raw = await post("/completion",
      { prompt, n_predict: 40, temperature: 2, top_k: 0, top_p: 1, min_p: 0, seed });
    found = !raw.content.includes("\ufffd") && (await tokens(raw.content)).length !== raw.tokens_predicted;
    if (found)
      messages.push({ role: "assistant", content: raw.content }, { role: "user", content: "And then?" });
  }
  const next = await turn(messages, { max_tokens: 1 });
  const canonical = await turn(messages, { max_tokens: 1, cache_prompt: false });
  assert.equal(next.prompt, canonical.prompt);
} else if (what === "completion") {
  // A text that goes on with its reply, cut by its length.
  const ask = { prompt: long, n_predict: 30, temperature: 2, top_k: 0, top_p: 1, min_p: 0, seed: 5 };
  const first = await post("/completion", ask);
  const second = await post("/completion", { ...ask, prompt: long + first.content });
  const known = first.tokens_evaluated + first.tokens_predicted;
  assert.equal(second.tokens_evaluated, known);
  assert.ok(second.timings.cache_n >= known - 1, `${second.timings.cache_n} of ${known}`);
} else if (what === "reasoning") {
  // A template that drops the reasoning of earlier turns says so, and keeps it when it is told to.
  const messages = [{ role: "user", content: "Hello" },
    { role: "assistant", content: "Hi", reasoning_content: "A greeting deserves a greeting." },
    { role: "user", content: "Bye" }];
  const dropped = await turn(messages, { max_tokens: 1 });
  assert.match(dropped.ignored ?? "", /messages\[\]\.reasoning/);
  const kept = await turn(messages, { max_tokens: 1, chat_template_kwargs: { preserve_thinking: true } });
  assert.doesNotMatch(kept.ignored ?? "", /reasoning/);
  assert.ok(kept.prompt > dropped.prompt);
} else if (what === "off") {
  const { shares } = await chat(3, {});
  assert.ok(shares.some(({ cached, expected }) => cached < expected), JSON.stringify(shares));
}
