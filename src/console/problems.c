#include "console/problems.h"

#include <stdarg.h>

#include "base/status.h"

static void add(hth_problems *problems, bool is_warning, const char *format, va_list arguments)
{
    problems->n_errors += !is_warning;
    if (problems->n == HTH_PROBLEMS_MAX)
        return;
    problems->list[problems->n].is_warning = is_warning;
    (void)vsnprintf(problems->list[problems->n].message, sizeof(problems->list[0].message), format,
                    arguments); /* cut */
    hth_end_at_character(problems->list[problems->n].message, sizeof(problems->list[0].message));
    problems->n++;
}

void hth_problems_add(hth_problems *problems, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(problems, false, format, arguments);
    va_end(arguments);
}

void hth_problems_warn(hth_problems *problems, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(problems, true, format, arguments);
    va_end(arguments);
}

void hth_problems_print(const hth_problems *problems, FILE *out)
{
    size_t n_listed = 0;

    for (size_t i = 0; i < problems->n; i++) {
        const bool is_warning = problems->list[i].is_warning;

        n_listed += !is_warning;
        (void)fprintf(out, "hearth: %s%s\n", is_warning ? "warning: " : "", problems->list[i].message);
    }
    if (problems->n_errors > n_listed)
        (void)fprintf(out, "hearth: and %zu errors more\n", problems->n_errors - n_listed);
}

const char *hth_problems_first(const hth_problems *problems)
{
    for (size_t i = 0; i < problems->n; i++)
        if (!problems->list[i].is_warning)
            return problems->list[i].message;
    return problems->n_errors > 0 ? "the configuration is wrong" : "";
}
