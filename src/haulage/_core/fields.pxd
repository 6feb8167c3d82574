cdef extern from "fields.h":
    int haulage_as_member(object type, object one, const char *name, object mark) except -1


cdef inline int make_members(object kind, object one, tuple names) except -1:
    """Let Python read and write these fields of a class as fast as slots; `one` is an object of it,
    made for this."""
    cdef bytes name
    for name in names:
        mark = object()
        setattr(one, name.decode(), mark)
        haulage_as_member(kind, one, name, mark)
    return 0
