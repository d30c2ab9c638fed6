/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a report, made of the files in report/ by report/embed.py. */
#ifndef REMAT_DUMP_REPORT_PAGE_H
#define REMAT_DUMP_REPORT_PAGE_H

/* Lines before the data and after it; NULL ends them. */
extern const char *const report_head[], *const report_tail[];

#endif
