#include "wire/exposition.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 32 };

void hth_observations_add(hth_observations *observations, const hth_scale *scale, double value, uint64_t n)
{
    size_t i = 0;

    if (!isfinite(value) || value < 0)
        value = 0;
    while (i < scale->n && value > scale->upper[i])
        i++;
    observations->n[i] += n;
    observations->sum += value * (double)n;
}

/* The shortest text that reads back as the same number. */
static const char *number_text(double value, char text[NUMBER_BYTES])
{
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, NUMBER_BYTES, "%.*g", digits, value); /* fits: 17 digits, sign, point and exponent */
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

static void add_escaped(hth_buffer *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\\')
            hth_buffer_add_text(out, "\\\\");
        else if (*c == '"')
            hth_buffer_add_text(out, "\\\"");
        else if (*c == '\n')
            hth_buffer_add_text(out, "\\n");
        else
            hth_buffer_add(out, c, 1);
    }
}

static void add_label(hth_buffer *out, bool is_first, const char *name, const char *value)
{
    hth_buffer_add_text(out, is_first ? "{" : ",");
    hth_buffer_add_text(out, name);
    hth_buffer_add_text(out, "=\"");
    add_escaped(out, value);
    hth_buffer_add_text(out, "\"");
}

/* Write a line up to the value. le is the bound of a bucket, or NULL. */
static void begin_sample(hth_buffer *out, const char *name, const char *suffix, hth_labels labels, const char *le)
{
    hth_buffer_add_text(out, name);
    hth_buffer_add_text(out, suffix);
    for (size_t i = 0; i < labels.n; i++)
        add_label(out, i == 0, labels.labels[i].name, labels.labels[i].value);
    if (le)
        add_label(out, labels.n == 0, "le", le);
    hth_buffer_add_text(out, labels.n > 0 || le ? "} " : " ");
}

static void end_sample(hth_buffer *out, const char *value)
{
    hth_buffer_add_text(out, value);
    hth_buffer_add(out, "\n", 1);
}

static void end_with_count(hth_buffer *out, uint64_t value)
{
    char text[NUMBER_BYTES];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value); /* fits */
    end_sample(out, text);
}

void hth_exposition_family(hth_buffer *out, const char *name, const char *type, const char *help)
{
    const char *const texts[] = { "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n" };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        hth_buffer_add_text(out, texts[i]);
}

void hth_exposition_count(hth_buffer *out, const char *name, hth_labels labels, uint64_t value)
{
    begin_sample(out, name, "", labels, NULL);
    end_with_count(out, value);
}

void hth_exposition_number(hth_buffer *out, const char *name, hth_labels labels, double value)
{
    char text[NUMBER_BYTES];

    begin_sample(out, name, "", labels, NULL);
    end_sample(out, number_text(value, text));
}

void hth_exposition_histogram(hth_buffer *out, const char *name, hth_labels labels, const hth_scale *scale,
                              const hth_observations *observations)
{
    char text[NUMBER_BYTES];
    uint64_t count = 0;

    for (size_t i = 0; i <= scale->n; i++) {
        count += observations->n[i];
        begin_sample(out, name, "_bucket", labels, i < scale->n ? number_text(scale->upper[i], text) : "+Inf");
        end_with_count(out, count);
    }
    begin_sample(out, name, "_sum", labels, NULL);
    end_sample(out, number_text(observations->sum, text));
    begin_sample(out, name, "_count", labels, NULL);
    end_with_count(out, count);
}
