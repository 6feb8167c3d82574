from typing import Any, Self

from haulage._core.arrays import Header

class StridedBase(Header):
    def _set(
        self,
        block: Any,
        pointer: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: Any,
        stream: Any,
        readonly: bool,
    ) -> None: ...
    def _view(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        *,
        offset: int = 0,
        dtype: Any = None,
        stream: Any = None,
    ) -> Self: ...
    def _as(self, kind: type) -> Any: ...
    def __getitem__(self, key: Any) -> Any: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __delitem__(self, key: Any) -> None: ...
