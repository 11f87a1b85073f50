/*
 * admin_pages.h - the pages of admin.h that are more than a line
 */
#ifndef HTH_SERVER_ADMIN_PAGES_H
#define HTH_SERVER_ADMIN_PAGES_H

#include "server/admin.h"

/* /admin/models: the server in a few numbers, and every worker. out->failed without memory. */
void hth_admin_write_models(const hth_admin *admin, const hth_http_numbers *http, hth_buffer *out);

#endif
