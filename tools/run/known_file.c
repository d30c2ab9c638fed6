/* SPDX-License-Identifier: Apache-2.0 */
#include "known_file.h"

#define UNPACK     "unpack it first"
#define TO_IDS     "write its ids with NumPy's tofile()"
#define TO_WEIGHTS "load it and write safetensors, as save_pretrained() of transformers does"
#define NO_WEIGHTS "the weights are in other files"
#define PULL       "it stands for the file, which \"git lfs pull\" brings"
#define AGAIN      "download the file itself"

/* clang-format off */
const struct known_file known_files[] = {
    {0, "1f8b08 0? ???????? 0? 0?", "gzip", UNPACK, UNPACK},
    {0, "1f8b08 0? ???????? 0? ff", "gzip", UNPACK, UNPACK},
    {0, "425a68 3? 314159265359", "bzip2", UNPACK, UNPACK},
    {0, "fd377a585a00", "xz", UNPACK, UNPACK},
    {0, "28b52ffd", "zstd", UNPACK, UNPACK},
    {0, "04224d18 ?? ?0", "LZ4", UNPACK, UNPACK},
    {0, "377abcaf271c", "7z", UNPACK, UNPACK},
    {257, "7573746172", "tar", UNPACK, UNPACK},
    {0, "504b0304 ??00 ???? 0?00", "a zip archive, as PyTorch's .pt and .bin and NumPy's .npz are", TO_IDS, TO_WEIGHTS},
    {0, "80028a0a6cfc9c46f9206aa85019", "PyTorch's older format, a pickle", TO_IDS, TO_WEIGHTS},
    {0, "800? 95 ????????00000000", "a Python pickle", TO_IDS, TO_WEIGHTS},
    {0, "800? 7d7100", "a Python pickle", TO_IDS, TO_WEIGHTS},
    {0, "800? 5d7100", "a Python pickle", TO_IDS, TO_WEIGHTS},
    {0, "934e554d5059", "a NumPy array with a header", TO_IDS, TO_WEIGHTS},
    {0, "50415231 15 0?", "Parquet", TO_IDS, NO_WEIGHTS},
    {0, "4152524f57310000", "Arrow, or Feather", TO_IDS, NO_WEIGHTS},
    {0, "ffffffff ????0000 ??000000", "an Arrow stream", TO_IDS, NO_WEIGHTS},
    {0, "46454131", "Feather", TO_IDS, NO_WEIGHTS},
    {0, "4f626a01 0?", "Avro", TO_IDS, NO_WEIGHTS},
    {0, "??????0?00000000 7b22", "safetensors", TO_IDS, NULL},
    {0, "4d4d49444944580000", "an index of Megatron-LM", "its ids are in the .bin beside it", NO_WEIGHTS},
    {0, "544e5449445800", "an index of fairseq", "its ids are in the .bin beside it", NO_WEIGHTS},
    {0, "4c4954504b4453", "LitGPT's packed data, with a header", TO_IDS, NO_WEIGHTS},
    {0, "894844460d0a1a0a", "HDF5", TO_IDS, TO_WEIGHTS},
    {0, "53514c69746520666f726d6174203300", "SQLite", TO_IDS, NO_WEIGHTS},
    {16, "dec0efbe 01000000", "LMDB", TO_IDS, NO_WEIGHTS},
    {0, "47475546 0?000000", "GGUF", "it has weights", "take the safetensors that it was made from"},
    {0, "c6d73401 0?000000", "a checkpoint of llm.c", "it has weights", TO_WEIGHTS},
    {0, "080? 12 0? 7079746f726368", "ONNX", "it has weights", TO_WEIGHTS},
    {0, "0a??0a??3c756e6b3e", "a SentencePiece tokenizer", "write the ids that it gives", NO_WEIGHTS},
    {0, "524d5489 524d4731", "a graph of remat", "it has no ids", "it has no weights"},
    {0, "524d5489 524d5031", "a plan of remat", "it has no ids", "it has no weights"},
    {0, "255044462d", "PDF", "take its text", NO_WEIGHTS},
    {0, "76657273696f6e2068747470733a2f2f6769742d6c6673", "a pointer of Git LFS", PULL, PULL},
    {0, "3c21444f4354595045", "a page in HTML", AGAIN, AGAIN},
    {0, "3c21646f6374797065", "a page in HTML", AGAIN, AGAIN},
};
/* clang-format on */
const size_t known_file_count = sizeof known_files / sizeof *known_files;

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static bool matches(const struct known_file *known, const unsigned char *begin, uint64_t bytes)
{
    uint64_t nibble = 2 * (uint64_t)known->offset;
    for (const char *c = known->pattern; *c; c++) {
        if (*c == ' ')
            continue;
        if (nibble / 2 >= bytes)
            return false;
        int found = begin[nibble / 2] >> (nibble % 2 ? 0 : 4) & 15;
        if (*c != '?' && digit(*c) != found)
            return false;
        nibble++;
    }
    return true;
}

const struct known_file *known_file_of(const unsigned char *begin, uint64_t bytes)
{
    for (size_t k = 0; k < known_file_count; k++)
        if (matches(&known_files[k], begin, bytes))
            return &known_files[k];
    return NULL;
}

bool is_text(const unsigned char *data, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if ((data[i] < ' ' && data[i] != '\t' && data[i] != '\n' && data[i] != '\f' &&
             data[i] != '\r') ||
            data[i] == 0x7f)
            return false;
    return true;
}

bool is_ascii(const unsigned char *data, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (data[i] > 0x7f)
            return false;
    return is_text(data, bytes);
}
