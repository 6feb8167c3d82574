"""The kinds of thing a kernel can name: words to call, namespaces of words, index registers."""

from collections.abc import Callable
from typing import Any

from haulage.spelling import did_you_mean

Build = Callable[..., Any]


class _Signature:
    """The signature of a word, as `inspect.signature` and completion ask for it: that of its
    `build` without the tools; where that takes any arguments, what its docstring begins with.
    Made when it is asked for: there are hundreds of words."""

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            raise AttributeError("__signature__")
        import inspect
        import re

        empty = inspect.Parameter.empty
        own = list(inspect.signature(owner.build).parameters.values())[1:]
        told = re.match(r"`\w+\(([\w, :]*)\)`", owner.__doc__ or "")
        if told and any(parameter.kind is parameter.VAR_POSITIONAL for parameter in own):
            names = re.findall(r"(\w+)(?:: \w+)?(?:, )?", told[1])
            own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
        return inspect.Signature([parameter.replace(annotation=empty) for parameter in own])


class Word:
    """A function of the kernel language.

    `build(tools, *argument_types)` types a call and returns (signature, generate), as the function
    given to `numba.extending.intrinsic` does; `tools` is the module `haulage.lang.tools`.
    Return None for argument types that the word does not take.
    """

    __signature__ = _Signature()

    def __init__(self, name: str, build: Build) -> None:
        self.__name__ = name.rpartition(".")[2]
        self.__qualname__ = name
        self.__doc__ = build.__doc__
        self.build = build

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{self.__qualname__}() means something only inside a kernel")

    def __repr__(self) -> str:
        return f"<function {self.__qualname__} of kernels>"


def word(name: str) -> Callable[[Build], Word]:
    """Make a `Word` of the decorated `build` function; `name` is how users know it."""
    return lambda build: Word(name, build)


class Namespace:
    """Words under a common name, such as `shared` or `atomic`."""

    def __init__(self, name: str, **members: Any) -> None:
        self.__name__ = name
        self.__dict__.update(members)

    def __getattr__(self, attribute: str) -> Any:
        known = vars(self)
        raise AttributeError(
            f"{known['__name__']} has no {attribute!r}{did_you_mean(attribute, known)}",
            name=attribute,
        )

    def __repr__(self) -> str:
        return f"<kernel namespace {self.__name__}>"


class Register:
    """A number that a kernel reads, int32; `read(builder, target)` gives its LLVM value."""

    def __init__(self, name: str, read: Callable[[Any, Any], Any]) -> None:
        self.name = name
        self.read = read

    def __repr__(self) -> str:
        return f"<kernel register {self.name}>"


class Register3:
    """Three 32-bit index registers that a kernel reads as `.x`, `.y` and `.z`."""

    def __init__(self, name: str, meaning: str = "") -> None:
        self.__name__ = name
        self.__doc__ = meaning or type(self).__doc__

    @property
    def x(self) -> int:
        """Along the first axis, int32."""
        return self._read("x")

    @property
    def y(self) -> int:
        """Along the second axis, int32."""
        return self._read("y")

    @property
    def z(self) -> int:
        """Along the third axis, int32."""
        return self._read("z")

    def _read(self, axis: str) -> int:
        raise RuntimeError(f"{self.__name__}.{axis} means something only inside a kernel")

    def __getattr__(self, attribute: str) -> Any:
        raise AttributeError(
            f"{vars(self).get('__name__')} has no {attribute!r}; it has x, y and z", name=attribute
        )

    def __repr__(self) -> str:
        return f"<kernel registers {self.__name__}>"
