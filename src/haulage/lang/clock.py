"""Counters that tell a kernel how long something took."""

from typing import Any

from haulage.lang.word import Word, word


def _counter(name: str, which: str, kind: str, meaning: str) -> Word:
    def build(tools: Any) -> Any:
        result = getattr(tools.types, kind)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = context.haulage_target.counter(builder, which)
            narrow = context.get_value_type(result)
            return value if value.type == narrow else builder.trunc(value, narrow)

        return tools.signature(result), generate

    build.__doc__ = f"`{name}()`: {meaning}, {kind}."
    return word(name)(build)


clock64 = _counter(
    "clock64",
    "ticks",
    "int64",
    "a counter that grows at a steady rate, in the ticks of the processor that runs the thread",
)
clock = _counter("clock", "ticks", "uint32", "the lower half of `clock64()`, which wraps round")
globaltimer = _counter(
    "globaltimer",
    "nanoseconds",
    "uint64",
    "nanoseconds since some moment, the same one for all threads and launches",
)
