#include "llama/llama_plain_text.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <functional>

#include <json.h>

#include "llama/llama_guard.h"

namespace
{

using json = common_json;

constexpr char32_t private_first = 0xE000, private_last = 0xF8FF; /* three bytes of UTF-8 each */
constexpr size_t part_bytes_min = 2; /* part of a name at the end of a text, which what follows could complete */
constexpr char blanks[] = " \t\r\n";

enum class how {
    text,   /* whole names, and parts of one at both ends */
    answer, /* likewise, except names of reasoning */
    whole,  /* whole names only: templates write "<|" and "|>" around roles */
};

using replace = std::function<std::string(const std::string &)>;

std::string utf8_of(char32_t c)
{
    return { (char)(0xE0 | c >> 12), (char)(0x80 | (c >> 6 & 0x3F)), (char)(0x80 | (c & 0x3F)) };
}

std::string escape_of(char32_t c)
{
    static constexpr char digits[] = "0123456789abcdef";

    return { '\\', 'u', digits[c >> 12], digits[c >> 8 & 15], digits[c >> 4 & 15], digits[c & 15] };
}

/* Note the private-use characters in a text, including those written as JSON escapes. */
void note_private(const std::string &text, std::vector<bool> &is_used)
{
    auto note = [&](unsigned long c) {
        if (c >= private_first && c <= private_last)
            is_used[c - private_first] = true;
    };

    for (size_t i = 0; i < text.size(); i++) {
        unsigned char c = (unsigned char)text[i];

        if ((c == 0xEE || c == 0xEF) && i + 2 < text.size())
            note((c & 15u) << 12 | ((unsigned char)text[i + 1] & 63u) << 6 | ((unsigned char)text[i + 2] & 63u));
        else if (c == '\\' && i + 5 < text.size() && text[i + 1] == 'u')
            note(std::strtoul(text.substr(i + 2, 4).c_str(), nullptr, 16));
    }
}

/* One text of a client with its names replaced, including the partial names with which it begins and ends. */
std::string replaced(const control_names &names, const std::set<std::string> &reasoning, const std::string &text,
                     how how, const replace &by)
{
    size_t first = text.find_first_not_of(blanks), end = text.find_last_not_of(blanks) + 1, at = 0;
    std::string made;

    if (first == std::string::npos)
        return text;
    if (how != how::whole)
        for (size_t n = std::min(names.bytes_max(), end - first); n >= part_bytes_min; n--)
            if (names.ends_one(text.data() + first, n) && names.at(text.data() + first, end - first) == 0) {
                made = text.substr(0, first) + by(text.substr(first, n));
                at = first + n;
                break;
            }
    while (at < text.size()) {
        size_t n = names.at(text.data() + at, text.size() - at);

        if (n == 0 && how != how::whole && at + part_bytes_min <= end && end - at < names.bytes_max() &&
            names.begins_one(text.data() + at, end - at))
            n = end - at;
        else if (n > 0 && how == how::answer && reasoning.count(text.substr(at, n)))
            n = 0;
        made += n > 0 ? by(text.substr(at, n)) : text.substr(at, 1);
        at += n > 0 ? n : 1;
    }
    return made;
}

/* The values and the names of members of a JSON text, where escapes may hide a name. */
class json_texts
{
  public:
    json_texts(const control_names &names, const std::set<std::string> &reasoning, const replace &by)
        : names_(names), reasoning_(reasoning), by_(by)
    {
    }

    std::string replaced_in(const std::string &text)
    {
        std::string made = replaced(names_, reasoning_, text, how::whole, by_);

        if (!may_hide(made))
            return made;
        try {
            json with = walk(json::parse(made));

            return has_changed_ ? with.dump() : made;
        } catch (const common_json_error &) {
            return made;
        }
    }

  private:
    /* Can a string of this text contain a name, or part of one at its ends? */
    bool may_hide(const std::string &text) const
    {
        if (text.find("\\u") != std::string::npos)
            return true;
        for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 1)) {
            size_t begin = text.find_first_not_of(blanks, at + 1), end = text.find_last_not_of(blanks, at - (at > 0));

            for (size_t n = part_bytes_min; n <= names_.bytes_max(); n++)
                if ((begin != std::string::npos && begin + n <= text.size() && names_.ends_one(&text[begin], n)) ||
                    (end != std::string::npos && end + 1 >= n && names_.begins_one(&text[end + 1 - n], n)))
                    return true;
        }
        return false;
    }

    std::string walked(const std::string &text)
    {
        std::string made = replaced(names_, reasoning_, text, how::text, by_);

        has_changed_ = has_changed_ || made != text;
        return made;
    }

    json walk(const json &value)
    {
        if (value.is_string())
            return walked(value.get<std::string>());
        if (value.is_array()) {
            json made = json::array();

            for (const auto &item : value)
                made.push_back(walk(item));
            return made;
        }
        if (value.is_object()) {
            json made = json::object();

            for (const auto &[name, item] : value.items())
                made[walked(std::string(name))] = walk(item);
            return made;
        }
        return value;
    }

    const control_names &names_;
    const std::set<std::string> &reasoning_;
    const replace &by_;
    bool has_changed_ = false;
};

/* Call visit(text, how) for every text of the client, and visit_json(text) for those in JSON. */
template <typename Inputs, typename Visit, typename VisitJson>
void each_text(Inputs &inputs, Visit visit, VisitJson visit_json)
{
    for (auto &message : inputs.messages) {
        how how_content = message.role == "assistant" ? how::answer : how::text;

        visit(message.content, how_content);
        for (auto &part : message.content_parts)
            visit(part.text, how_content);
        visit(message.reasoning_content, how::text);
        visit(message.tool_name, how::text);
        visit(message.tool_call_id, how::text);
        for (auto &call : message.tool_calls) {
            visit(call.name, how::text);
            visit(call.id, how::text);
            visit_json(call.arguments);
        }
        visit(message.role, how::whole);
    }
    for (auto &tool : inputs.tools) {
        visit(tool.name, how::text);
        visit(tool.description, how::text);
        visit_json(tool.parameters);
    }
    visit_json(inputs.json_schema);
    for (auto &[name, value] : inputs.chat_template_kwargs)
        visit_json(value);
}

common_chat_templates_inputs all_replaced(const control_names &names, const std::set<std::string> &reasoning,
                                          common_chat_templates_inputs inputs, const replace &by)
{
    each_text(
        inputs, [&](std::string &text, how how) { text = replaced(names, reasoning, text, how, by); },
        [&](std::string &text) { text = json_texts(names, reasoning, by).replaced_in(text); });
    return inputs;
}

} /* namespace */

/* ---- names ---- */

control_names::control_names(const llama_vocab *vocab)
{
    for (llama_token i = 0; vocab && i < llama_vocab_n_tokens(vocab); i++) {
        const char *text = llama_vocab_get_attr(vocab, i) & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)
                             ? llama_vocab_get_text(vocab, i)
                             : nullptr;

        if (text && *text)
            names_.push_back({ text, i });
    }
    std::sort(names_.begin(), names_.end(), [](const name &a, const name &b) { return a.text < b.text; });
    for (const name &each : names_) {
        backwards_.emplace_back(each.text.rbegin(), each.text.rend());
        is_first_[(unsigned char)each.text[0]] = true;
        bytes_max_ = std::max(bytes_max_, each.text.size());
    }
    std::sort(backwards_.begin(), backwards_.end());
}

size_t control_names::at(const char *text, size_t n_bytes, llama_token *token) const
{
    size_t found = 0;
    auto low = names_.begin(), high = names_.end();

    if (n_bytes == 0 || !is_first_[(unsigned char)*text])
        return 0;
    for (size_t n = 1; n <= n_bytes && n <= bytes_max_; n++) {
        auto cut = [&](const name &each) { return each.text.compare(0, n, text, n); };

        low = std::partition_point(low, high, [&](const name &each) { return cut(each) < 0; });
        high = std::partition_point(low, high, [&](const name &each) { return cut(each) == 0; });
        if (low == high)
            break;
        if (low->text.size() == n) {
            found = n;
            if (token)
                *token = low->token;
        }
    }
    return found;
}

bool control_names::begins_one(const char *text, size_t n_bytes) const
{
    if (n_bytes == 0 || !is_first_[(unsigned char)*text])
        return false;
    auto at = std::partition_point(names_.begin(), names_.end(),
                                   [&](const name &each) { return each.text.compare(0, n_bytes, text, n_bytes) < 0; });

    return at != names_.end() && at->text.compare(0, n_bytes, text, n_bytes) == 0;
}

bool control_names::ends_one(const char *text, size_t n_bytes) const
{
    const std::string backwards(std::make_reverse_iterator(text + n_bytes), std::make_reverse_iterator(text));
    auto at = std::partition_point(backwards_.begin(), backwards_.end(),
                                   [&](const std::string &each) { return each.compare(0, n_bytes, backwards) < 0; });

    return at != backwards_.end() && at->compare(0, n_bytes, backwards) == 0;
}

/* ---- marks ---- */

plain_texts::plain_texts(const control_names &names, const std::set<std::string> &reasoning, const std::string &source,
                         const common_chat_templates_inputs &inputs)
    : names_(names), reasoning_(reasoning)
{
    std::set<std::string> found;
    std::vector<bool> is_used(private_last - private_first + 1);
    char32_t next = private_first;

    if (names.bytes_max() == 0)
        return;
    (void)all_replaced(names, reasoning, inputs, [&](const std::string &text) {
        found.insert(text);
        return text;
    });
    if (found.empty())
        return;
    note_private(source, is_used);
    each_text(
        inputs, [&](const std::string &text, how) { note_private(text, is_used); },
        [&](const std::string &text) { note_private(text, is_used); });
    for (const std::string &text : found) {
        while (next <= private_last && is_used[next - private_first])
            next++;
        if (next > private_last)
            throw hth_refused(
                "the conversation has names of control tokens and nearly all characters of the private area; "
                "leave one of both out");
        marks_[text] = utf8_of(next);
        texts_[utf8_of(next)] = texts_[escape_of(next)] = text;
        next++;
    }
}

common_chat_templates_inputs plain_texts::marked(const common_chat_templates_inputs &inputs) const
{
    return all_replaced(names_, reasoning_, inputs, [&](const std::string &text) {
        auto mark = marks_.find(text);

        return mark == marks_.end() ? text : mark->second;
    });
}

std::string plain_texts::undone(const std::string &text, std::vector<size_t> *places) const
{
    std::vector<std::pair<size_t, size_t>> put;
    std::string made;

    for (size_t i = 0; i < text.size();) {
        size_t n_mark = text[i] == '\\' ? 6 : text[i] == '\xEE' || text[i] == '\xEF' ? 3 : 0;
        auto mark = n_mark > 0 ? texts_.find(text.substr(i, n_mark)) : texts_.end();

        if (mark == texts_.end()) {
            made += text[i++];
            continue;
        }
        put.emplace_back(made.size(), made.size() + mark->second.size());
        made += mark->second;
        i += n_mark;
    }
    /* A name that overlaps a client's name, or part of one, is text: the template cannot have written it. */
    for (const auto &[begin, end] : put)
        for (size_t i = begin >= names_.bytes_max() ? begin - names_.bytes_max() + 1 : 0; places && i < end; i++)
            if (i + names_.at(made.data() + i, made.size() - i) > begin && (places->empty() || places->back() < i) &&
                names_.at(made.data() + i, made.size() - i) > 0)
                places->push_back(i);
    return made;
}

/* ---- tokens ---- */

namespace
{

bool has_attr(const llama_vocab *vocab, llama_token token, llama_token_attr attr)
{
    return token >= 0 && (llama_vocab_get_attr(vocab, token) & attr) != 0;
}

} /* namespace */

hearth_status hth_llama_marked_tokens(const hth_llama_slices *slices, int32_t n_slice, const llama_vocab *vocab,
                                      const control_names &names, const char *text, size_t n_bytes, bool add_special,
                                      std::vector<hearth_token> &out, const hth_tokenize_stop *stop, hearth_error *err)
{
    std::string bare;
    std::set<size_t> places;
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < n_bytes; i++)
        if (text[i] == HTH_PLAIN_MARK)
            places.insert(bare.size());
        else
            bare += text[i];
    bool adds = add_special; /* the tokens that begin and end a text */
    hearth_token last = -1;  /* ends the whole text */
    auto add = [&](size_t begin, size_t end, bool reads_controls) {
        const size_t n_before = out.size();

        if (begin == end && !adds)
            return HEARTH_OK;
        const hearth_status added = hth_llama_slices_append(slices, bare.data() + begin, end - begin, n_slice, adds,
                                                            reads_controls, out, stop, err);

        if (added == HEARTH_OK && adds && llama_vocab_get_add_eos(vocab) && out.size() > n_before) {
            last = out.back();
            out.pop_back();
        }
        adds = false;
        return added;
    };
    /* done: tokens have been made up to here; gap: start of the text after the last control token. */
    size_t done = 0, gap = 0, at = 0;
    llama_token before = -1;

    while (at <= bare.size() && status == HEARTH_OK) {
        llama_token token = -1;
        size_t n = at < bare.size() && !places.count(at) ? names.at(bare.data() + at, bare.size() - at, &token) : 0;

        if (n == 0 && at < bare.size()) {
            at++;
            continue;
        }
        if (places.lower_bound(gap) != places.lower_bound(at)) {
            size_t first = gap, end = at;

            while (has_attr(vocab, before, LLAMA_TOKEN_ATTR_RSTRIP) && first < end &&
                   isspace((unsigned char)bare[first]))
                first++;
            while (has_attr(vocab, token, LLAMA_TOKEN_ATTR_LSTRIP) && end > first &&
                   isspace((unsigned char)bare[end - 1]))
                end--;
            status = add(done, gap, true);
            if (status == HEARTH_OK)
                status = add(first, end, false);
            done = at;
        }
        before = token;
        gap = at + n;
        at += n > 0 ? n : 1;
    }
    if (status == HEARTH_OK)
        status = add(done, bare.size(), true);
    if (last >= 0)
        out.push_back(last);
    return status;
}
