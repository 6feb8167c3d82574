cdef extern from "objects.h":
    object haulage_made(object kind)
    bint haulage_is_a(object thing, object kind) noexcept
