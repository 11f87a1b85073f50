/*
 * page.h - the web page for people, which the build makes from the folder page/
 *
 * It is one HTML document that contains its script and styles, so it loads nothing else. The build directory has its
 * source file, page/page.c.
 */
#ifndef HTH_FRONT_PAGE_H
#define HTH_FRONT_PAGE_H

#include <stddef.h>

typedef struct hth_page {
    const char *plain;
    size_t n_plain; /* 0: Hearth was built without a page */
    const char *gzip;
    size_t n_gzip;
    const char *etag;   /* weak: the same for both forms */
    const char *policy; /* its Content-Security-Policy, with the digests of script and styles */
} hth_page;

extern const hth_page hth_page_built;

#endif
