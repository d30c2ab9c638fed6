/* SPDX-License-Identifier: Apache-2.0 */
/* Names the files that people give by mistake, by their first bytes. */
#include "file_kind.h"

#include "reader.h"

static const struct {
    uint32_t at, length;
    const char *magic, *what;
} magics[] = {
    {4, 4, "TFL3",
     "this is a TensorFlow Lite model; graphs come from remat-graph or export_torch.py"},
    {4, 4, "ET12",
     "this is an ExecuTorch program; graphs come from remat-graph or export_torch.py"},
    {0, 4, "PK\3\4", "this is a zip archive (.pt, .pt2, .npz); export it with export_torch.py"},
    {0, 4, "GGUF", "this is a GGUF file, which holds weights and no graph"},
    {0, 4, "\x89HDF", "this is an HDF5 file, which holds weights and no graph"},
    {0, 4,
     "\x7f"
     "ELF",
     "this is an executable or object file"},
    {0, 2, "\x80\x02", "this is a Python pickle; export it with export_torch.py"},
    {0, 2, "\x1f\x8b", "this is gzip-compressed; unpack it first"},
};

static bool is_text(const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < 512; i++)
        if (data[i] < 0x20 && data[i] != '\n' && data[i] != '\r' && data[i] != '\t')
            return false;
    return true;
}

static bool has_word(const unsigned char *data, size_t bytes, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= bytes && i < 4096; i++)
        if (memcmp(data + i, word, length) == 0)
            return true;
    return false;
}

static const char *foreign_text(const unsigned char *data, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && strchr(" \t\r\n", data[i]) && data[i])
        i++;
    if (i < bytes && (data[i] == '{' || data[i] == '['))
        return "this is JSON; convert it with flatc --binary schemas/graph.fbs FILE";
    if (has_word(data, bytes, "table ") || has_word(data, bytes, "root_type"))
        return "this is a FlatBuffers schema, not a graph";
    return "this is text";
}

/* 8 bytes of header length, then the header, a JSON object. */
static bool is_safetensors(const unsigned char *data, size_t bytes)
{
    uint64_t length;
    if (bytes < 9)
        return false;
    memcpy(&length, data, sizeof length);
    return data[8] == '{' && length >= 2 && length < 100000000;
}

/* Protobuf: field 1 (ir_version), a small number, then field 2 (producer_name) or 7 or 8. */
static bool is_onnx(const unsigned char *data, size_t bytes)
{
    return bytes >= 8 && data[0] == 0x08 && data[1] > 0 && data[1] < 0x20 &&
           (data[2] == 0x12 || data[2] == 0x3a || data[2] == 0x42);
}

const char *remat_foreign_file(const void *data, size_t bytes)
{
    for (size_t k = 0; k < sizeof magics / sizeof *magics; k++)
        if (bytes >= magics[k].at + magics[k].length &&
            memcmp((const char *)data + magics[k].at, magics[k].magic, magics[k].length) == 0)
            return magics[k].what;
    if (is_safetensors(data, bytes))
        return "this is a safetensors file, which holds weights and no graph";
    if (is_onnx(data, bytes))
        return "this is an ONNX model; graphs come from remat-graph or export_torch.py";
    return bytes && is_text(data, bytes) ? foreign_text(data, bytes) : "";
}
