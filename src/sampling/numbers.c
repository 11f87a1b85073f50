#include "sampling/numbers.h"

#include "base/status.h"
#include "base/structs.h"

#define NUMBER(field, name, config, kind, low, high, usual, flags, flag, ...) \
    { #field,                                                                 \
      name,                                                                   \
      config,                                                                 \
      flag,                                                                   \
      offsetof(hth_sampling_values, field),                                   \
      offsetof(hearth_sampling, field),                                       \
      low,                                                                    \
      high,                                                                   \
      usual,                                                                  \
      HTH_NUMBER_##kind,                                                      \
      flags },

const hth_sampling_number hth_sampling_numbers[HTH_SAMPLING_NUMBERS] = { HTH_SAMPLING_NUMBERS_EACH(NUMBER) };

bool hth_sampling_number_is_real(const hth_sampling_number *number)
{
    return number->kind == HTH_NUMBER_REAL || number->kind == HTH_NUMBER_OFF || number->kind == HTH_NUMBER_MINUS;
}

bool hth_sampling_number_takes_negatives(const hth_sampling_number *number)
{
    return number->kind == HTH_NUMBER_OFF || number->kind == HTH_NUMBER_MINUS || number->kind == HTH_NUMBER_SIGNED;
}

/* The raw value in the struct. */
static double value_in(const hth_sampling_number *number, const hearth_sampling *sampling)
{
    const void *at = (const char *)sampling + number->in_sampling;

    if (hth_sampling_number_is_real(number))
        return (double)*(const float *)at;
    return number->kind == HTH_NUMBER_SIGNED ? *(const int32_t *)at : (double)*(const uint32_t *)at;
}

double hth_sampling_get(const hth_sampling_number *number, const hearth_sampling *sampling)
{
    const double value = value_in(number, sampling);

    return number->kind == HTH_NUMBER_WINDOW && value == HTH_WHOLE_CONTEXT ? -1 : value;
}

void hth_sampling_set(const hth_sampling_number *number, double value, hearth_sampling *sampling)
{
    void *at = (char *)sampling + number->in_sampling;

    if (hth_sampling_number_is_real(number))
        *(float *)at = (float)value;
    else if (number->kind == HTH_NUMBER_SIGNED)
        *(int32_t *)at = (int32_t)value;
    else
        *(uint32_t *)at = value < 0 ? HTH_WHOLE_CONTEXT : (uint32_t)value;
}

double hth_sampling_low(const hth_sampling_number *number, const hearth_sampling *sampling)
{
    return number->flags & HTH_NUMBER_OF_DRY && !(sampling->dry_multiplier > 0) ? 0 : number->low;
}

void hth_sampling_cut_windows(hearth_sampling *sampling, uint32_t n_ctx)
{
    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++)
        if (hth_sampling_get(&hth_sampling_numbers[i], sampling) < 0 &&
            hth_sampling_numbers[i].kind == HTH_NUMBER_WINDOW)
            hth_sampling_set(&hth_sampling_numbers[i], n_ctx < HTH_LAST_N_MAX ? n_ctx : HTH_LAST_N_MAX, sampling);
}

hearth_status hth_sampling_check_numbers(const hearth_sampling *sampling, hearth_error *err)
{
    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
        const hth_sampling_number *number = &hth_sampling_numbers[i];
        const bool is_real = hth_sampling_number_is_real(number);
        const double value = value_in(number, sampling), low = hth_sampling_low(number, sampling);

        /* Floats are compared as floats: 0.99f is above 0.99. NaN is in no range. */
        if (is_real ? (float)value >= (float)low && (float)value <= (float)number->high
                    : value >= low && value <= number->high)
            continue;
        if (number->kind == HTH_NUMBER_COUNT || number->kind == HTH_NUMBER_WINDOW)
            return hth_fail(err, HEARTH_MISUSE, "sampling: %s is %.0f; it must be at most %.0f", number->field, value,
                            number->high);
        return hth_fail(err, HEARTH_MISUSE, "sampling: %s is %.*g; it must be %g to %.10g", number->field,
                        is_real ? 6 : 10, value, low, number->high);
    }
    return HEARTH_OK;
}

void hearth_sampling_init(hearth_sampling *sampling, size_t struct_size)
{
    hearth_sampling defaults = { .struct_size = sizeof(defaults), .seed = HEARTH_SEED_RANDOM, .thinking_budget = -1 };

    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++)
        hth_sampling_set(&hth_sampling_numbers[i], hth_sampling_numbers[i].usual, &defaults);
    hth_struct_init(sampling, struct_size, &defaults, sizeof(defaults));
}
