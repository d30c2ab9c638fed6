/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "suggest.h"

static const char *const models[] = {
    "gpt2",       "gpt2-tiny",   "gpt2-xl",     "gpt2-medium", "gpt2-1558m",  "gpt3-175b", "llama",
    "llama-tiny", "llama3.2-1b", "llama3.2-3b", "llama3-8b",   "llama3-70b",  "bert-base", "add",
    "a100-40",    "a100-80",     "h100-pcie",   "h200",        "batch_slice", "matmul"};
enum { COUNT = sizeof models / sizeof models[0] };

static const char *name_at(const void *user, uint32_t i)
{
    return ((const char *const *)user)[i];
}

int main(void)
{
    static const struct {
        const char *word, *nearest; /* NULL: there is none */
    } rows[] = {
        {"lama3-8b", "llama3-8b"},
        {"GPT2_XL", "gpt2-xl"},
        {"ber", "bert-base"},
        {"be", NULL},
        {"Llama-3.2-1B", "llama3.2-1b"},                /* other punctuation */
        {"Meta-Llama-3-8B-Instruct", "llama3-8b"},      /* it is in there */
        {"bert-large-uncased-whole-word", "bert-base"}, /* the family's nearest */
        {"gpt2-1.5b", "gpt2-1558m"},                    /* not gpt3-175b, which two edits make */
        {"gpt2-13b", "gpt2"},
        {"gpt2-medum", "gpt2-medium"}, /* not gpt2, which is in there */
        {"llama-3.1-8b", "llama3-8b"},
        {"meta-llama/Llama-3.2-1B-Instruct", "llama3.2-1b"},
        {"Llama-3.2-3B-Instruct", "llama3.2-3b"},
        {"Meta-Llama-3.1-70B-Instruct", "llama3-70b"}, /* not llama, which is in there */
        {"Llama-3.3-70B-Instruct", "llama3-70b"},
        {"Llama-2-7b", "llama"}, /* not llama3-8b: its numbers are others */
        {"A100-SXM4-80GB", "a100-80"},
        {"NVIDIA-A100-PCIE-40GB", "a100-40"},
        {"H100-80GB", "h100-pcie"}, /* numbers count within the family */
        {"h300", "h200"},
        {"batch_matmul", "matmul"},
        {"saddle", NULL}, /* short names are in many words */
        {"mistral-7b", NULL},
        {"", NULL},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        uint32_t i = remat_nearest(rows[k].word, name_at, models, COUNT);
        const char *found = i < COUNT ? models[i] : NULL;
        CHECK(found == rows[k].nearest ||
                  (found && rows[k].nearest && !strcmp(found, rows[k].nearest)),
              "%s: %s", rows[k].word, found ? found : "none");
    }
    CHECK(!strcmp(remat_suggest("--", "gpt-xl", name_at, models, COUNT).text,
                  ": did you mean '--gpt2-xl'?"),
          "text");
    CHECK(!*remat_suggest("--", "mistral", name_at, models, COUNT).text, "no text");
    return check_exit();
}
