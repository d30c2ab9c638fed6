/* SPDX-License-Identifier: Apache-2.0 */
/* Private to cuda/: the device object, what it enqueues, and waiting for it. */
#ifndef REMAT_CUDA_RUN_H
#define REMAT_CUDA_RUN_H

#include "cuda_code_load.h"
#include "cuda_gemm.h"
#include "cuda_groups.h"
#include "device.h"

struct cuda_entry { /* of the program's entry points */
    bool warm;      /* it has run to its end, launch by launch */
    void *graph;    /* executable; NULL before it was captured */
};

struct cuda_device {
    struct remat_device base; /* its memory is NULL: the host cannot address it */
    struct cuda_driver driver;
    struct cuda_nvtx nvtx;
    int ordinal, capability; /* capability: 90 for sm_90 */
    char name[128], arch[16];
    void *context;    /* retained; NULL before */
    void *stream;     /* that commands run on: the host's, or the own */
    void *own_stream; /* on which graphs are captured */
    bool is_legacy;   /* the host's is the legacy one: commands run on the own between two events */
    void *host_reached, *step_reached; /* these; NULL without */
    struct cuda_functions functions;
    struct remat_cuda_groups groups;
    bool grouped; /* since begin nobody looks at commands one by one */
    struct cuda_gemms *gemms;
    uint64_t in_use_bytes; /* of the GPU after loading: context, code, libraries, other processes */
    uint64_t gemm_workspace_bytes;
    uint64_t address, workspace; /* of the arena, and of what commands may use while they run */
    uint64_t owned;              /* address to free, 0 without */
    struct cuda_entry *entries;
    struct cuda_entry *warming, *capturing; /* since begin; NULL without */
    bool failed;                            /* a command since begin did */
    struct REMAT_LIST(void *) events;       /* by slot */
    /* For plans of several ranks, so that no call blocks in a driver whose queue is full: */
    void *paces[2];   /* events, recorded in turn; NULL before */
    uint32_t pace;    /* the one recorded last */
    uint32_t unpaced; /* commands since then */
    bool stuck;       /* the host gave up waiting: what is on the GPU stays */
    /* For transfers by an engine for the GPU's memory: */
    void *transfer_stream; /* their stream; NULL in a plan of one rank */
    void *transferred[2];  /* events, recorded after them in turn */
    uint64_t lent;         /* transfers so far */
    /* Those of captures: an event for each transfer, which no other capture has. */
    struct REMAT_LIST(void *) captured;
    uint64_t captured_first; /* number of the first one of this capture, */
    size_t captured_begin;   /* whose event is there */
};

/* Makes the context current, for work on the stream that comes after what the host has enqueued.
 * REMAT_ERROR_USAGE, and it is not, while the host captures the stream: a wait would break its
 * capture. */
remat_status cuda_enter(struct cuda_device *cuda);
void cuda_leave(struct cuda_device *cuda);
/* Until all is done that is on the stream. */
remat_status cuda_wait(struct cuda_device *cuda, const char *what);
remat_status cuda_wait_for_all(struct cuda_device *cuda); /* and on that of transfers */
remat_status cuda_begin(struct remat_device *device);
remat_status cuda_replay(struct remat_device *device, uint32_t entry, bool *done);
remat_status cuda_execute(struct remat_device *device, uint32_t command);
remat_status cuda_set(struct remat_device *device, uint64_t offset, uint32_t number);
remat_status cuda_end(struct remat_device *device);
remat_status cuda_mark(struct remat_device *device, uint32_t slot);
remat_status cuda_elapsed(struct remat_device *device, uint32_t from, uint32_t to, uint64_t *ns);
remat_status cuda_write(struct remat_device *device, uint64_t offset, const void *data,
                        uint64_t bytes);
remat_status cuda_read(struct remat_device *device, uint64_t offset, void *data, uint64_t bytes);
remat_status cuda_lend(struct remat_device *device, uint32_t slot, char **arena, void **stream);
remat_status cuda_take_back(struct remat_device *device, uint32_t slot, uint64_t *number);
remat_status cuda_await(struct remat_device *device, uint64_t number);
remat_status cuda_clear(struct remat_device *device, uint64_t offset, uint64_t bytes);
void cuda_drop_graphs(struct cuda_device *cuda);

#endif
