/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of tables. */

const number = (title, key, text, width = 90) => ({ title, width, number: true, value: (r) => r[key], text: (r) => text(r[key]) });
const words = (title, key, width, choice) => ({ title, width, choice, value: (r) => r[key], text: (r) => r[key] ?? "" });
const orDash = (text) => (value) => (value === null || value === undefined ? "-" : text(value));
