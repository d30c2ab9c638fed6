/* SPDX-License-Identifier: Apache-2.0 */
#include "bound_samples.h"

/* A built-in kernel with two outputs. */
#define ATTENTION                                                                                  \
    "parameter %w1 : f32[64,64]\n"                                                                 \
    "parameter %w2 : f32[64,64]\n"                                                                 \
    "%p = linear %data %w1\n"                                                                      \
    "%q = linear %e %w2\n"                                                                         \
    "%p4 : f32[2,64,1,64] = reshape %p { shape = [2, 64, 1, 64] }\n"                               \
    "%q4 : f32[2,64,1,64] = reshape %q { shape = [2, 64, 1, 64] }\n"                               \
    "%o : f32[2,64,1,64], %m : f32[2,1,64] = attention %p4 %q4 %p4 { scale = 0.125 }\n"            \
    "%u = reshape %o { shape = [2, 64, 64] }\n"                                                    \
    "%z = gelu %u\n"

const struct bound_sample bound_samples[] = {
    /* a program reads %x before a built-in kernel does, and its clone is the one that is written */
    {.text = "parameter %b : f32[64]\n"
             "%x = add %e %b\n"
             "parameter %w : f32[64,64]\n"
             "%y = linear %x %w\n"
             "%z = mul %x %y\n"},
    /* what column reductions alone read of %x is made where the clone is, which is not written */
    {.text = "parameter %w : f32[64,64]\n"
             "%y = linear %e %w\n"
             "%x = add %data %data\n"
             "parameter %gain : f32[64]\n"
             "%n : f32[2,64,64], %rms : f32[2,64,1] = rms_norm %x %gain { epsilon = 1e-05 }\n"
             "%xy = mul %x %y\n"
             "%dy = mul %data %y\n"
             "%sum = add %n %xy\n"
             "%z = add %sum %dy\n"},
    /* %x and %y are written where arithmetic hides it */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %w2 : f32[64,64]\n"
             "%x = add %data %data\n"
             "%y = mul %x %data\n"
             "%p = linear %x %w1\n"
             "%q = linear %y %w2\n"
             "%u = add %x %y\n"
             "%t = add %u %e\n"
             "%g = gelu %t\n"
             "%s = add %p %q\n"
             "%z = add %g %s\n",
     .flops_per_ns = 0.1},
    /* what a column reduction reads is written where arithmetic hides it */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %gain : f32[64]\n"
             "%d : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%e2 : f32[128,64] = reshape %e { shape = [128, 64] }\n"
             "%u : f32[128,1] = row_sum %d\n"
             "%s : f32[128,64] = linear %e2 %w1\n"
             "%w : f32[128,64] = sigmoid %d\n"
             "%y : f32[128,64] = mul %u %gain\n"
             "%x : f32[128,64] = mul %y %w\n"
             "%t : f32[128,64] = gelu %s\n"
             "%m : f32[128,64] = mul %t %u\n"
             "%z2 : f32[128,64] = add %x %m\n"
             "%z = reshape %z2 { shape = [2, 64, 64] }\n",
     .flops_per_ns = 0.1},
    /* two column reductions are in one kernel only where %s is recomputed */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %w2 : f32[64,64]\n"
             "parameter %gain : f32[64]\n"
             "parameter %b : f32[64]\n"
             "%d : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%e2 : f32[128,64] = reshape %e { shape = [128, 64] }\n"
             "%s : f32[128,64] = sigmoid %d\n"
             "%x : f32[128,64] = tanh %d\n"
             "%l : f32[128,64] = linear %e2 %w2\n"
             "%v : f32[128,64] = add %l %b\n"
             "%u : f32[128,64] = mul %x %gain\n"
             "%q : f32[128,64] = linear %s %w1\n"
             "%y : f32[128,64] = add %u %v\n"
             "%r : f32[128,64] = mul %y %s\n"
             "%z2 : f32[128,64] = add %r %q\n"
             "%z = reshape %z2 { shape = [2, 64, 64] }\n",
     .launch_ns = 2e6},
    /* %u is made of %s, which is small beside what it is made of itself */
    {.text = "parameter %gain : f32[64]\n"
             "parameter %scale : f32[64]\n"
             "parameter %w1 : f32[64,64]\n"
             "%rows : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%r = embedding %rows %ids\n"
             "%s : f32[2,64,1] = row_sum %r\n"
             "%sg = mul %s %gain\n"
             "%u = tanh %sg\n"
             "%a = neg %u\n"
             "%rs = mul %r %scale\n"
             "%q = mul %rs %s\n"
             "%p = linear %a %w1\n"
             "%z = add %p %q\n"},
    /* what %s and %u are made of is read in any case where %w is made */
    {.text = "parameter %gain : f32[64]\n"
             "parameter %w1 : f32[64,64]\n"
             "%rows : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%r = embedding %rows %ids\n"
             "%s = sigmoid %r\n"
             "%rg = mul %r %gain\n"
             "%rs = mul %rg %s\n"
             "%u = tanh %rs\n"
             "%a = neg %u\n"
             "%l = linear %a %w1\n"
             "%lr = mul %l %r\n"
             "%w = add %lr %a\n"
             "%z = gelu %w\n"},
    /* %a reads what %s is made of, and %u is made of %s */
    {.text = "parameter %gain : f32[64]\n"
             "parameter %w1 : f32[64,64]\n"
             "%rows : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%r = embedding %rows %ids\n"
             "%s = sigmoid %r\n"
             "%rg = mul %r %gain\n"
             "%rs = mul %rg %s\n"
             "%u = tanh %rs\n"
             "%a = add %u %r\n"
             "%z = linear %a %w1\n"},
    /* %u and %v are made of %r in one kernel */
    {.text = "parameter %gain : f32[64]\n"
             "parameter %w1 : f32[64,64]\n"
             "%rows : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%r = embedding %rows %ids\n"
             "%s = sigmoid %r\n"
             "%rg = mul %r %gain\n"
             "%rs = mul %rg %s\n"
             "%u = tanh %rs\n"
             "%v = tanh %rg\n"
             "%a = neg %u\n"
             "%p = linear %a %w1\n"
             "%va = add %v %a\n"
             "%z = add %va %p\n"},
    /* the kernel of %a reads less anew of what %u is made of than that of %z */
    {.text = "parameter %gain : f32[64]\n"
             "parameter %w1 : f32[64,64]\n"
             "%rows : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%r = embedding %rows %ids\n"
             "%s : f32[2,64,1] = row_sum %data\n"
             "%sg = mul %s %gain\n"
             "%sr = mul %sg %r\n"
             "%u = tanh %sr\n"
             "%a = neg %u\n"
             "%l = linear %a %w1\n"
             "%lr = mul %l %r\n"
             "%w = add %lr %a\n"
             "%g = gelu %w\n"
             "%z = add %g %u\n"},
    /* what %u is made of is half as large, and arithmetic hides half of %u */
    {.text = "parameter %gain : f32[64]\n"
             "parameter %w1 : f32[1,64]\n"
             "%rows : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%half : i32[1,64] = slice %ids { axis = 0, begin = 0, end = 1 }\n"
             "%r : f32[1,64,64] = embedding %rows %half\n"
             "%v : f32[2,64,1] = row_sum %data\n"
             "%u = mul %r %v\n"
             "%a : f32[2,64,1] = row_sum %u\n"
             "%vg = mul %v %gain\n"
             "%rvg = mul %vg %r\n"
             "%m = mul %rvg %u\n"
             "%l = linear %a %w1\n"
             "%g = gelu %l\n"
             "%ga = mul %g %a\n"
             "%z = add %ga %m\n",
     .flops_per_ns = 0.24},
    /* %i is in one kernel with a program that reads %s */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %w2 : f32[64,64]\n"
             "%s = sigmoid %data\n"
             "%i = neg %s\n"
             "%m = linear %e %w2\n"
             "%p = linear %i %w1\n"
             "%ms = mul %m %s\n"
             "%mi = add %ms %i\n"
             "%z = add %mi %p\n",
     .launch_ns = 4e6},
    /* a column sum is in one kernel with another one that it is not connected with */
    {.text =
         "parameter %gain : f32[64]\n"
         "%rows : f32[128,64] = reshape %data { shape = [128, 64] }\n"
         "%x = embedding %rows %ids\n"
         "%c : f32[64] = column_sum %x\n"
         "%y = mul %x %x\n"
         "%d : f32[64] = column_sum %y\n"
         "%k : f32[1,1,1,64] = reshape %c { shape = [1, 1, 1, 64] }\n"
         "%q : f32[1,1,1,64] = reshape %d { shape = [1, 1, 1, 64] }\n"
         "%v : f32[1,1,1,64] = reshape %gain { shape = [1, 1, 1, 64] }\n"
         "%o : f32[1,1,1,64], %olse : f32[1,1,1] = attention %q %k %v { scale = 1.0, causal = 0 }\n"
         "%oo : f32[64] = reshape %o { shape = [64] }\n"
         "%z = mul %e %oo\n",
     .launch_ns = 4e6},
    /* a forward pass that goes on after a loss, which has no clone */
    {.text = "parameter %w1 : f32[64,64]\n"
             "%p : f32[2,64,512] = concat %data %data %data %data %data %data %data %data { axis = "
             "2 }\n"
             "%t : f32[2,64,1] = row_sum %p phase loss\n"
             "%et = mul %e %t\n"
             "%x = linear %et %w1\n"
             "%z = gelu %x\n"},
    /* saving %c, which is smaller than what it is made of, has %x, %a and %b made in one kernel */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %w2 : f32[64,64]\n"
             "parameter %w3 : f32[64,1]\n"
             "parameter %w4 : f32[64,64]\n"
             "%x = add %data %data\n"
             "%s = linear %x %w1\n"
             "%r = linear %x %w2\n"
             "%c = add %s %r\n"
             "%a = add %x %c\n"
             "%m : f32[2,64,1] = linear %a %w3\n"
             "%b = add %a %m\n"
             "%y = linear %b %w4\n"
             "%p : f32[2,64,512] = concat %data %data %data %data %data %data %data %data { axis = "
             "2 } phase loss\n"
             "%t : f32[2,64,1] = row_sum %p phase loss\n"
             "%z = add %y %t\n",
     .launch_ns = 1e7},
    /* the clone of %x reads %t, which the kernel of %x keeps to itself where everything is saved */
    {.text = "parameter %w1 : f32[1,64]\n"
             "%s : f32[2,64,1] = row_sum %e\n"
             "%p : f32[2,64,512] = concat %data %data %data %data %data %data %data %data { axis = "
             "2 } phase loss\n"
             "%t : f32[2,64,1] = row_sum %p phase loss\n"
             "%x : f32[2,64,1] = add %s %t\n"
             "%z = linear %x %w1\n",
     .profile = true},
    /* %v, saved, would lie in memory as %h, which is smaller than %e */
    {.text = "parameter %w1 : bf16[64,64]\n"
             "%h : bf16[2,64,64] = cast %e { dtype = 3 }\n"
             "%v = cast %h { dtype = 1 }\n"
             "%t = neg %v\n"
             "%x : bf16[2,64,64] = cast %t { dtype = 3 }\n"
             "%y : bf16[2,64,64] = linear %x %w1\n"
             "%f = cast %y { dtype = 1 }\n"
             "%p : f32[2,64,512] = concat %data %data %data %data %data %data %data %data { axis = "
             "2 } phase loss\n"
             "%t2 : f32[2,64,1] = row_sum %p phase loss\n"
             "%z = add %f %t2\n"},
    /* a row sum that is read for a column sum alone is in one kernel in every plan */
    {.text = "parameter %gain : f32[64]\n"
             "%v : f32[2,64,64], %n : f32[2,64,1] = rms_norm %data %gain { epsilon = 1e-05 }\n"
             "%s : f32[2,64,1] = row_sum %v\n"
             "%z = mul %s %data\n"},
    /* an output is stored and kept */
    {.text = "parameter %w1 : f32[64,64]\n"
             "%x : f32[2,64,64] output = tanh %e\n"
             "%y = add %x %data\n"
             "%z = linear %y %w1\n"
             "output %x\n"},
    /* %b, recomputed, needs %a and %e, which nothing else of the backward pass does */
    {.text = "%m : f32[64,128] = reshape %data { shape = [64, 128] }\n"
             "%a = neg %e\n"
             "%b : f32[2,64,128] = linear %a %m\n"
             "%g : f32[2,64,128] = gelu %b\n"
             "%s : f32[2,64,1] = row_sum %g\n"
             "%z = mul %data %s\n"},
    /* %x is made of %p, of a loss, which its kernel keeps to itself: it is not recomputed */
    {.text = "parameter %w1 : f32[64,64]\n"
             "%p : f32[2,64,64] = mul %data %data phase loss\n"
             "%x = add %e %p\n"
             "%y = linear %x %w1\n"
             "%z = gelu %y\n"},
    /* the rerun that makes %u loads half of %r, its kernel all of it */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %w2 : f32[64,64]\n"
             "%rows : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%r = embedding %rows %ids\n"
             "%h : f32[1,64,64] = slice %r { axis = 0, begin = 0, end = 1 }\n"
             "%m = mul %h %data\n"
             "%u = tanh %m\n"
             "%v = sigmoid %r\n"
             "%y = add %u %v\n"
             "%p = linear %u %w1\n"
             "%q = linear %y %w2\n"
             "%z = add %p %q\n"},
    /* a kernel that inlines %v loads half of %r, one that inlines %u all of it */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %w2 : f32[64,64]\n"
             "%rows : f32[128,64] = reshape %data { shape = [128, 64] }\n"
             "%r = embedding %rows %ids\n"
             "%h : f32[1,64,64] = slice %r { axis = 0, begin = 0, end = 1 }\n"
             "%rn = neg %r\n"
             "%u = tanh %rn\n"
             "%l = linear %data %w1\n"
             "%hl = add %h %l\n"
             "%v = tanh %hl\n"
             "%y = mul %u %v\n"
             "%z = linear %y %w2\n"},
    /* %x and %y are made with the same arithmetic */
    {.text = "parameter %b : f32[64]\n"
             "parameter %w1 : f32[64,64]\n"
             "%g = gelu %data\n"
             "%x = add %g %e\n"
             "%y = add %g %b\n"
             "%p = gelu %x\n"
             "%q = gelu %y\n"
             "%s = add %p %q\n"
             "%z = linear %s %w1\n",
     .flops_per_ns = 0.1,
     .launch_ns = 1e7},
    /* a built-in kernel reads %e eight times */
    {.text = "%p : f32[2,64,512] = concat %e %e %e %e %e %e %e %e { axis = 2 }\n"
             "%t : f32[2,64,1] = row_sum %p\n"
             "%z = mul %e %t\n"},
    /* %a and %b, made in one kernel, share a gelu */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %g1 : f32[64]\n"
             "parameter %g2 : f32[64]\n"
             "parameter %g3 : f32[64]\n"
             "%p = linear %e %w1\n"
             "%s = gelu %p\n"
             "%a = add %s %g1\n"
             "%b = add %s %g2\n"
             "%c = add %s %g3\n"
             "%l = matmul %c %data\n"
             "%t = mul %a %l\n"
             "%z = mul %t %b\n",
     .flops_per_ns = 0.1,
     .launch_ns = 1e7},
    /* %v loads a column of %u, %w all of it; a second output keeps their kernels apart */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %w2 : f32[64,64]\n"
             "parameter %w3 : f32[64,64]\n"
             "%u = linear %data %w1\n"
             "%m = linear %data %w2\n"
             "%n = linear %data %w3\n"
             "%c : f32[2,64,1] = slice %u { axis = 2, begin = 0, end = 1 }\n"
             "%v = mul %data %c\n"
             "%q = mul %v %m\n"
             "%o = matmul %q %data\n"
             "%w = add %u %data\n"
             "%t = mul %w %n\n"
             "%y = add %q %t\n"
             "%z = neg %y\n"
             "output %o\n"},
    /* the kernel of the loss writes %x, %y and %t in place of what they are made of */
    {.text = "parameter %w1 : f32[64,64]\n"
             "parameter %w2 : f32[64,64]\n"
             "parameter %w3 : f32[64,64]\n"
             "%p = linear %data %w1\n"
             "%q = linear %data %w2\n"
             "%r = linear %data %w3\n"
             "%x = tanh %p\n"
             "%y = tanh %q\n"
             "%t = tanh %r\n"
             "%xy = add %x %y phase loss\n"
             "%z = add %xy %t\n",
     .flops_per_ns = 0.1},
    /* outputs lie in persistent memory: %o as a view of %y, and %q, which nothing reads */
    {.text = "parameter %w : f32[64,64]\n"
             "%p = linear %data %w\n"
             "%x = tanh %p\n"
             "%y = neg %x\n"
             "%q = sigmoid %x\n"
             "%o : f32[128,64] = reshape %y { shape = [128, 64] }\n"
             "%u = linear %x %w\n"
             "%t = linear %y %w\n"
             "%z = add %u %t\n"
             "output %o\n"
             "output %q\n"},
    /* of two outputs pins decide none, save one, or save one and recompute the other */
    {.text = ATTENTION},
    {.text = ATTENTION, .saved = "o"},
    {.text = ATTENTION, .saved = "o", .recomputed = "m"},
    /* %old and %m, built-in, are of a state that is replaced: written and not recomputed */
    {.text = "state %state : f32[2,64,64]\n"
             "parameter %w1 : f32[64,64]\n"
             "%old = mul %state %data\n"
             "%m = matmul %state %data\n"
             "%new = assign %state %data\n"
             "%x = add %old %new\n"
             "%y = linear %x %w1\n"
             "%t = mul %y %old\n"
             "%z = mul %t %m\n"
             "update %state = %new\n"},
};

const uint32_t bound_sample_count = sizeof bound_samples / sizeof *bound_samples;
