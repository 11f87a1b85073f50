/* main.c - the main() of test programs that have none of their own: it runs all tests */
#include "support/cmocka_all.h"

int main(void)
{
    return hth_test_run("tests", NULL, NULL);
}
