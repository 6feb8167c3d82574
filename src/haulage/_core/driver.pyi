from collections.abc import Callable

from haulage._core.starts import Start

ELSEWHERE: int

class DriverStart(Start):
    def __init__(
        self,
        device: int,
        handle: int,
        ask: int,
        launch: int,
        end: int,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        last: dict[int, int],
        again: Callable[[DriverStart, int, bytes, int], None],
    ) -> None: ...
    @property
    def device(self) -> int: ...
    @property
    def function(self) -> int: ...
    @property
    def grid(self) -> tuple[int, int, int]: ...
    @property
    def block(self) -> tuple[int, int, int]: ...
    @property
    def shared_bytes(self) -> int: ...
    def call(self, stream: int, launch: bytes) -> int: ...
