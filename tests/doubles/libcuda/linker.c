/* The driver's linker, for PTX: the texts one behind the other, with one head. */
#define _GNU_SOURCE
#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct linker {
    char *text;
    size_t bytes;
    char *log;
    size_t log_bytes;
};

EXPORT CUresult cuLinkCreate(
    unsigned count, int *options, void **values, struct linker **state)
{
    ENTER(1);
    struct linker *made = calloc(1, sizeof *made);
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == 5) made->log = values[i];
        if (options[i] == 6) made->log_bytes = (size_t)values[i];
    }
    *state = made;
    return 0;
}

EXPORT CUresult cuLinkAddData(
    struct linker *state, int kind, void *data, size_t bytes, const char *name, unsigned count,
    int *options, void **values)
{
    (void)count, (void)options, (void)values;
    ENTER(1);
    /* PTX; whether the zero at its end counts is nowhere said, and others do not count it. */
    char *own = strndup(data, bytes), *text = own;
    if (kind != 1 || !strstr(text, ".version")) {
        if (state->log) snprintf(state->log, state->log_bytes, "%s is no PTX", name);
        free(own);
        return INVALID_VALUE;
    }
    if (state->bytes) text = strchr(strstr(text, ".address_size"), '\n');
    size_t more = strlen(text);
    state->text = realloc(state->text, state->bytes + more + 1);
    memcpy(state->text + state->bytes, text, more + 1);
    state->bytes += more;
    free(own);
    return 0;
}

EXPORT CUresult cuLinkComplete(struct linker *state, void **made, size_t *bytes)
{
    ENTER(1);
    *made = state->text;
    *bytes = state->bytes;
    return 0;
}

EXPORT CUresult cuLinkDestroy(struct linker *state)
{
    ENTER(1);
    /* What it made is gone with it. */
    if (state->text) memset(state->text, '?', state->bytes);
    free(state->text);
    free(state);
    return 0;
}
