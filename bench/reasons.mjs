// reasons.mjs - why Hearth is behind llama-server in a chart of `make bench`, for the report that draw.mjs writes
//
// A key is the id of a chart, or the id and a place as the report names it: 'pauses: longest beside it'. The value is
// a few whole sentences: the cause, the numbers that show it, and how they were measured.
export const reasons = {
  'memory: after the start':
    'Hearth touches the first 64 MiB of its RAM tier while the model loads, because the first restores into memory that was never touched would ' +
    'wait for it, 2.2 ms for each MiB. Its server of tiny-llama had 67.9 MiB of PSS with a cache, and 21.5 MiB with --no-cache (2026-11-28).',
  'memory: at the end':
    'Both servers keep the KV cache of all conversations in RAM. What Hearth has beyond that is smaller than after its start (25 MiB against ' +
    '73 MiB, 2026-11-28), because rows fill the memory that was touched ahead. The rest was not taken apart.',
}
