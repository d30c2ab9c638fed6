/* SPDX-License-Identifier: Apache-2.0 */
#include "lock.h"

#include <errno.h>
#include <sys/file.h>

bool lock_take(int descriptor)
{
    return flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}
