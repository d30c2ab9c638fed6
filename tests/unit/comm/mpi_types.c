/* SPDX-License-Identifier: Apache-2.0 */
/* What runtime/comm/mpi.c says of Open MPI without its headers, held against them: a list that is
 * different does not compile. */
#include <mpi.h>
#include <stdlib.h>

#define MPI_FUNCTION(name, ...)                                                                    \
    _Static_assert(_Generic(&MPI_##name, int (*)(__VA_ARGS__) : 1, default : 0), #name);
#include "../../../runtime/comm/mpi.def"
#undef MPI_FUNCTION

_Static_assert(sizeof(MPI_Comm) == sizeof(void *) && sizeof(MPI_Datatype) == sizeof(void *) &&
                   sizeof(MPI_Request) == sizeof(void *) &&
                   sizeof(MPI_Errhandler) == sizeof(void *),
               "handles are pointers");
_Static_assert(MPI_ANY_SOURCE == -1 && MPI_SUCCESS == 0 && MPI_THREAD_SERIALIZED == 2, "numbers");

int main(void)
{
    return MPI_STATUSES_IGNORE == NULL && MPI_STATUS_IGNORE == NULL ? EXIT_SUCCESS : EXIT_FAILURE;
}
