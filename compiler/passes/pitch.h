/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_PITCH_H
#define REMAT_PITCH_H

#include "graph.h"

/* Gives rows a pitch of whole 64 elements where they are not aligned to 16 bytes and it adds at
 * most 1/16: matrix units load no others fast (logits over 50,257 ids: a pitch of 50,304). Those
 * are activations that a matmul reads or writes, and what is computed from them element by element.
 * Left as they are: what the host or another kernel but matmul and fused ones sees, and what has a
 * view that joins or splits the last axis. In place and after all passes: it decides sizes of
 * buffers and strides, no bit. */
void remat_pitch(struct remat_graph *graph);

#endif
