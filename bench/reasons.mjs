// reasons.mjs - why Hearth is behind llama-server in a chart of `make bench`, for the report that draw.mjs writes
//
// A key is the id of a chart, or the id and a place as the report names it: 'pauses: longest beside it'. The value is
// a few whole sentences: the cause, the numbers that show it, and how they were measured.
export const reasons = {}
