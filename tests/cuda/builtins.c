/* SPDX-License-Identifier: Apache-2.0 */
/* libnvrtc-builtins.so.MAJOR.MINOR: what libnvrtc opens when it compiles. */
extern const int double_builtins;
__attribute__((visibility("default"))) const int double_builtins = 1;
