/*
 * llama_slices.cpp - tokenizes a long text slice by slice
 */
#include "llama/llama_shim.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include <llama.h>

#include "base/utf8.h"
#include "llama/llama_guard.h"

namespace
{

constexpr size_t SLICE_BYTES = 4096;
constexpr size_t BYTES = 256; /* values of a byte */
constexpr size_t PAIR_BITS =
    size_t{ 1 } << 21; /* a pair that shares its bit with another one only costs a place to cut */

struct whole_text {
    std::string bytes;
    bool is_defined; /* user-defined: always read as a token */
};

using texts = std::vector<whole_text>;

size_t bit_of(uint32_t before, uint32_t behind)
{
    uint64_t mixed = (uint64_t{ before } << 32 | behind) * UINT64_C(0x9E3779B97F4A7C15);

    return (size_t)(mixed >> 43) % PAIR_BITS;
}

/* SPM writes spaces as U+2581, in pieces and in texts. */
uint32_t as_in_pieces(uint32_t character)
{
    return character == ' ' ? 0x2581 : character;
}

bool is_blank(char c)
{
    return std::isspace((unsigned char)c) != 0;
}

/*
 * Does every character have as many bytes as its first byte says, so that moving forwards and backwards finds the same
 * characters?
 */
bool has_whole_characters(const char *text, size_t n)
{
    static const uint8_t lengths[16] = { 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 3, 4 };

    for (size_t i = 0; i < n;) {
        size_t end = i + lengths[(unsigned char)text[i] >> 4];

        if (end == i++ || end > n)
            return false;
        for (; i < end; i++)
            if (!hth_utf8_goes_on(text[i]))
                return false;
    }
    return true;
}

bool is_stopped(const hth_tokenize_stop *stop)
{
    return stop && stop->is_asked(stop->user_data);
}

hearth_status stopped(hearth_error *err)
{
    return hth_fail(err, HEARTH_CANCELLED, "no client waits for the tokens of the text any more");
}

hearth_status too_many(size_t n_bytes, hearth_error *err)
{
    return hth_fail(err, HEARTH_TOO_LONG, "a text of %zu bytes has too many tokens", n_bytes);
}

/* Is this the text of a token for one byte, written as one character, as in byte-level vocabularies? */
bool is_byte(const char *piece)
{
    const char *at = piece, *end = piece + std::strlen(piece);
    uint32_t c = at < end && has_whole_characters(piece, (size_t)(end - at)) ? hth_utf8_next(&at, end) : 0;

    return at == end && ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 323));
}

/* Likewise, as written by vocabularies with pieces of characters: <0x0A>. */
bool is_escaped_byte(const char *piece)
{
    return std::strlen(piece) == 6 && std::strncmp(piece, "<0x", 3) == 0 && std::isxdigit((unsigned char)piece[3]) &&
           std::isxdigit((unsigned char)piece[4]) && piece[5] == '>';
}

/* One call of the engine. False: too many tokens. */
bool tokenize(const llama_vocab *vocab, const char *text, size_t n_bytes, bool add_special, bool parse_special,
              std::vector<hearth_token> &out)
{
    int32_t n;

    out.resize(n_bytes + 8);
    n = llama_tokenize(vocab, text, (int32_t)n_bytes, out.data(), (int32_t)out.size(), add_special, parse_special);
    if (n < 0 && n != INT32_MIN) {
        out.resize((size_t)-n);
        n = llama_tokenize(vocab, text, (int32_t)n_bytes, out.data(), (int32_t)out.size(), add_special, parse_special);
    }
    out.resize(n < 0 ? 0 : (size_t)n);
    return n >= 0;
}

} // namespace

struct hth_llama_slices {
    const llama_vocab *vocab = nullptr;
    bool cuts = true;   /* the tokenizer starts afresh after a control token */
    bool merges = true; /* an SPM vocabulary, whose pairs are known */
    bool strips = false;
    texts by_first[256];
    size_t longest = 0;
    uint32_t token_bytes_max = 0;
    std::vector<bool> pairs = std::vector<bool>(PAIR_BITS);

    /* The bytes of a slice of a text of n bytes; n: the text is not cut. */
    size_t slice_bytes(size_t n, int32_t n_slice) const
    {
        return !cuts ? n : n_slice > 0 ? (size_t)n_slice : SLICE_BYTES;
    }

    void read(const llama_model *model);
    void add_pairs(const char *piece);
    size_t end_of_whole(const char *text, size_t n, size_t at, bool parse_special) const;
    bool is_cut(const char *text, size_t n, size_t at, bool reads, bool merged, size_t *begin) const;
    bool is_pair(const char *text, size_t n, size_t at) const;
    size_t next_cut(const char *text, size_t n, size_t from, bool reads, bool merged, size_t *begin) const;
};

void hth_llama_slices::add_pairs(const char *piece)
{
    const char *at = piece, *end = piece + std::strlen(piece);
    uint32_t last = 0;

    if (!has_whole_characters(piece, (size_t)(end - at))) {
        merges = false;
        return;
    }
    while (at < end) {
        uint32_t next = as_in_pieces(hth_utf8_next(&at, end));

        if (last != 0)
            pairs[bit_of(last, next)] = true;
        last = next;
    }
}

void hth_llama_slices::read(const llama_model *model)
{
    constexpr unsigned WHOLE = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_UNKNOWN;
    constexpr unsigned STRIPS = LLAMA_TOKEN_ATTR_LSTRIP | LLAMA_TOKEN_ATTR_RSTRIP;
    char kind[32];
    size_t piece_bytes_max = 0;
    std::set<std::string> bytes, escaped_bytes;

    vocab = llama_model_get_vocab(model);
    merges = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_SPM;
    /* These carry a state from one piece of text to the next. */
    if (llama_model_meta_val_str(model, "tokenizer.ggml.model", kind, sizeof(kind)) > 0)
        cuts = std::strcmp(kind, "hybriddna") != 0 && std::strcmp(kind, "whitespace") != 0;
    for (hearth_token i = 0; i < llama_vocab_n_tokens(vocab); i++) {
        const char *piece = llama_vocab_get_text(vocab, i);
        auto attr = (unsigned)llama_vocab_get_attr(vocab, i);

        if (merges)
            add_pairs(piece);
        if (is_byte(piece))
            bytes.insert(piece);
        if (is_escaped_byte(piece))
            escaped_bytes.insert(piece);
        piece_bytes_max = std::max(piece_bytes_max, std::strlen(piece));
        if (!(attr & WHOLE) || !*piece)
            continue;
        strips |= (attr & STRIPS) != 0;
        by_first[(unsigned char)*piece].push_back(
            { piece, !(attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) });
        longest = std::max(longest, std::strlen(piece));
    }
    /* Other tokenizers change the text. Byte-level ones drop the bytes for which they have no token. */
    if (cuts && !strips &&
        (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_SPM ||
         (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_BPE && std::max(bytes.size(), escaped_bytes.size()) >= BYTES)))
        token_bytes_max = (uint32_t)piece_bytes_max;
    for (texts &list : by_first)
        std::stable_sort(list.begin(), list.end(),
                         [](const whole_text &a, const whole_text &b) { return a.bytes.size() > b.bytes.size(); });
}

/* The end of the longest text that is read as one token and begins here; 0: none. */
size_t hth_llama_slices::end_of_whole(const char *text, size_t n, size_t at, bool parse_special) const
{
    for (const whole_text &one : by_first[(unsigned char)text[at]])
        if ((parse_special || one.is_defined) && one.bytes.size() <= n - at &&
            std::memcmp(one.bytes.data(), text + at, one.bytes.size()) == 0)
            return at + one.bytes.size();
    return 0;
}

/* Is it certain that no piece has the characters before and after this position side by side? */
bool hth_llama_slices::is_pair(const char *text, size_t n, size_t at) const
{
    const char *before = text + at - 1, *behind = text + at;
    uint32_t first;

    while (hth_utf8_goes_on(*before))
        before--;
    first = hth_utf8_next(&before, text + n);
    return pairs[bit_of(as_in_pieces(first), as_in_pieces(hth_utf8_next(&behind, text + n)))];
}

/* May the text be cut here? *begin: where the next slice begins. merged: also between two characters. */
bool hth_llama_slices::is_cut(const char *text, size_t n, size_t at, bool reads, bool merged, size_t *begin) const
{
    size_t first = at > longest ? at - longest : 0, whole = n;

    if (hth_utf8_goes_on(text[at]) || (strips && (is_blank(text[at - 1]) || is_blank(text[at]))))
        return false;
    for (size_t i = first; i < at; i++) {
        size_t end = end_of_whole(text, n, i, reads);

        if (end > at)
            return false;
        if (end == at && whole == n)
            whole = i;
    }
    if (whole < n) { /* is it certain to be read as a whole, too? */
        for (size_t i = whole > longest ? whole - longest : 0; i < whole; i++)
            if (end_of_whole(text, n, i, reads) > whole)
                return false;
        *begin = at;
        return true;
    }
    if (!merged || is_pair(text, n, at))
        return false;
    for (*begin = at - 1; hth_utf8_goes_on(text[*begin]);)
        --*begin;
    return true;
}

/* The first position from here on where the text may be cut; n: none. */
size_t hth_llama_slices::next_cut(const char *text, size_t n, size_t from, bool reads, bool merged, size_t *begin) const
{
    for (size_t i = from > longest ? from - longest : 1; i < n; i++) {
        size_t end = end_of_whole(text, n, i, reads);

        if (i >= from && merged && !hth_utf8_goes_on(text[i]) && !is_pair(text, n, i) &&
            is_cut(text, n, i, reads, true, begin))
            return i;
        if (end >= from && end < n && is_cut(text, n, end, reads, false, begin))
            return end;
    }
    *begin = n;
    return n;
}

hth_llama_slices *hth_llama_slices_new(const llama_model *model)
{
    hth_llama_slices *made = nullptr;

    (void)hth_guarded(nullptr, "read the vocabulary", [&] {
        auto own = std::make_unique<hth_llama_slices>();

        own->read(model);
        made = own.release();
        return HEARTH_OK;
    });
    return made;
}

void hth_llama_slices_free(hth_llama_slices *slices)
{
    delete slices;
}

uint32_t hth_llama_slices_token_bytes_max(const hth_llama_slices *slices)
{
    return slices->token_bytes_max;
}

hearth_status hth_llama_slices_append(const hth_llama_slices *slices, const char *text, size_t n, int32_t n_slice,
                                      bool add_special, bool parse_special, std::vector<hearth_token> &out,
                                      const hth_tokenize_stop *stop, hearth_error *err)
{
    const llama_vocab *vocab = slices->vocab;
    const size_t size = slices->slice_bytes(n, n_slice);
    size_t begin = 0; /* of the slice; the tokens of [begin, anchor) are already known */
    size_t anchor = 0;
    bool merged = slices->merges && n > size && has_whole_characters(text, n);
    std::vector<hearth_token> made, ends;
    bool ok = true;
    auto give = [&](const std::vector<hearth_token> &from, size_t first, size_t last) {
        out.insert(out.end(), from.begin() + (ptrdiff_t)first, from.begin() + (ptrdiff_t)last);
    };

    if (is_stopped(stop))
        return stopped(err);
    if (n <= size) {
        ok = tokenize(vocab, text, n, add_special, parse_special, made);
        give(made, 0, made.size());
        return ok ? HEARTH_OK : too_many(n, err);
    }
    if (add_special)
        ok = tokenize(vocab, "", 0, true, parse_special, ends);
    /* The tokens at both ends of every text; a single one is the first, unless the vocabulary has no first token. */
    const size_t n_first = ends.size() >= 2 || (ends.size() == 1 && llama_vocab_get_add_bos(vocab)) ? 1 : 0;

    give(ends, 0, n_first);
    while (ok && anchor < n) {
        size_t next = n, n_known = 0;
        size_t end = n - anchor > size ? slices->next_cut(text, n, anchor + size, parse_special, merged, &next) : n;

        if (is_stopped(stop))
            return stopped(err);
        if (begin < anchor) {
            ok = tokenize(vocab, text + begin, anchor - begin, false, parse_special, made);
            n_known = made.size();
        }
        ok = ok && tokenize(vocab, text + begin, end - begin, false, parse_special, made);
        if (ok)
            give(made, n_known, made.size());
        begin = next;
        anchor = end;
    }
    give(ends, n_first, ends.size());
    return ok ? HEARTH_OK : too_many(n, err);
}

hearth_status hth_llama_slices_give(const std::vector<hearth_token> &made, size_t n_bytes, hearth_token *tokens,
                                    int32_t capacity, int32_t *n_out, hearth_error *err)
{
    if (made.size() > INT32_MAX)
        return too_many(n_bytes, err);
    *n_out = made.size() > (size_t)capacity ? -(int32_t)made.size() : (int32_t)made.size();
    if (*n_out > 0)
        std::memcpy(tokens, made.data(), made.size() * sizeof(*tokens));
    return HEARTH_OK;
}

hearth_status hth_llama_slices_tokenize(const hth_llama_slices *slices, const char *text, int32_t n_bytes,
                                        int32_t n_slice, bool add_special, bool parse_special, hearth_token *tokens,
                                        int32_t capacity, int32_t *n_out, const hth_tokenize_stop *stop,
                                        hearth_error *err)
{
    return hth_guarded(err, "tokenize the text", [&] {
        std::vector<hearth_token> made;

        if ((size_t)n_bytes <= slices->slice_bytes((size_t)n_bytes, n_slice)) { /* straight into the caller's room */
            if (is_stopped(stop))
                return stopped(err);
            const int32_t n =
                llama_tokenize(slices->vocab, text, n_bytes, tokens, capacity, add_special, parse_special);

            if (n == INT32_MIN)
                return too_many((size_t)n_bytes, err);
            *n_out = n;
            return HEARTH_OK;
        }
        hearth_status status = hth_llama_slices_append(slices, text, (size_t)n_bytes, n_slice, add_special,
                                                       parse_special, made, stop, err);

        return status == HEARTH_OK ? hth_llama_slices_give(made, (size_t)n_bytes, tokens, capacity, n_out, err)
                                   : status;
    });
}
