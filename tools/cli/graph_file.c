#include "graph_file.h"

#include "graph_text.h"
#include "ingest.h"

/* The text form begins with the word graph, after comments and empty lines. */
static bool is_text_form(const char *data)
{
    while (*data == '#' || (*data && strchr(" \t\r\n", *data)))
        data += *data == '#' ? strcspn(data, "\n") : 1;
    return strncmp(data, "graph", 5) == 0 && (data[5] == ' ' || data[5] == '\t');
}

remat_status graph_file_parse(remat_context *ctx, const char *name, const char *data, size_t bytes,
                              struct remat_arena *arena, struct remat_graph **out)
{
    return is_text_form(data) ? remat_graph_parse(ctx, name, data, bytes, arena, out)
                              : remat_graph_read(ctx, name, data, bytes, arena, out);
}
