/* SPDX-License-Identifier: Apache-2.0 */
#include <remat/compile.h>

const char *remat_compiler_version(void)
{
    return REMAT_COMPILER_VERSION;
}
