/* cmocka_all.h - cmocka and the headers it wants before it */
#ifndef HTH_TESTS_CMOCKA_ALL_H
#define HTH_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
