"""Random kernels of plain control flow, which run as Python, too."""

import random

# Names that statements assign to.
_NAMES = ("a", "b", "c")


class Program:
    """The source of a module with a kernel `kernel(x, y)`, and device functions that it calls: all
    of it integers, bounded and without anything between threads but barriers."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._lines = ["from haulage import cuda", ""]
        self._functions = []
        for name in ("first", "second")[: self._random.randint(0, 2)]:
            self._function(name)
        self._kernel()
        self.text = "\n".join(self._lines) + "\n"

    def _write(self, depth, text):
        self._lines += [("    " * depth + line).rstrip() for line in text.split("\n")]

    def _function(self, name):
        self._write(0, "@cuda.jit(device=True)" if self._random.random() < 0.8 else "# plain")
        self._write(0, f"def {name}(a, b):")
        if self._random.random() < 0.5:
            self._write(1, '"""What it\nis for."""')
        self._write(1, "c = 1")
        self._body(1, 2, None)
        self._write(1, f"return {self._value()}")
        self._write(0, "\n")
        self._functions.append(name)

    def _kernel(self):
        self._write(0, self._random.choice(["@cuda.jit", "@cuda.jit(\n    fastmath=False\n)"]))
        self._write(
            0, self._random.choice(["def kernel(x, y):", "def kernel(\n    x,\n    y,\n):"])
        )
        self._write(1, "i = cuda.grid(1)")
        if self._random.random() < 0.7:
            self._write(1, "if i >= x.size:\n    return")
            bounded = True
        else:
            self._write(1, "i = min(i, x.size - 1)")
            bounded = False
        self._write(1, "a, b, c = x[i], i, 0")
        for _ in range(self._random.randint(1, 2)):
            self._body(1, 3, None)
            if not bounded and self._random.random() < 0.5:
                self._write(1, "cuda.syncthreads()")
        self._write(1, "y[i] = a + b + c")

    # ---- statements ------------------------------------------------------------------------------

    def _body(self, depth, left, loop, most=3):
        for _ in range(self._random.randint(1, min(most, left + 1))):
            self._statement(depth, left, loop)

    def _statement(self, depth, left, loop):
        kinds = [self._assignment] * 3
        if left:
            kinds += [self._if, self._if, self._for, self._while]
        if loop is not None:
            kinds += [self._leave]
        self._random.choice(kinds)(depth, left, loop)

    def _assignment(self, depth, left, loop):
        name = self._random.choice(_NAMES)
        form = self._random.randint(0, 5)
        if form == 0:
            self._write(depth, f"{name} = (\n    {self._value()}\n    + {self._value()}\n)")
        elif form == 1:
            value = f"{self._value()} if {self._condition()} else {self._value()}"
            self._write(depth, f"{name} = {value}")
        elif form == 2:
            self._write(
                depth,
                f"{name} = (\n    {self._value()}\n    if {self._condition()}\n"
                f"    else {self._value()}\n)",
            )
        elif form == 3 and self._functions:
            called = self._random.choice(self._functions)
            self._write(depth, f"{name} = {called}({self._value()}, {self._value()}) % 97")
        elif form == 4:
            self._write(depth, f"{name} += 1; b = b % 50")
        else:
            self._write(depth, f"{name} = {self._value()}")

    def _if(self, depth, left, loop):
        if self._random.random() < 0.1:
            self._write(depth, f"if {self._condition()}: {self._random.choice(_NAMES)} += 1")
            return
        self._write(depth, f"if {self._condition()}:")
        self._body(depth + 1, left - 1, loop)
        while self._random.random() < 0.3:
            self._write(depth, f"elif {self._condition()}:")
            self._body(depth + 1, left - 1, loop)
        if self._random.random() < 0.5:
            self._write(depth, "else:")
            self._body(depth + 1, left - 1, loop)

    def _for(self, depth, left, loop):
        name = f"k{depth}"
        stop = self._random.choice(["4", "a % 5", "(b + c) % 4"])
        self._write(depth, f"for {name} in range({stop}):")
        self._write(depth + 1, f"c = (c + {name}) % 31")
        self._body(depth + 1, left - 1, name)
        self._else(depth, left, loop)

    def _while(self, depth, left, loop):
        name = f"w{depth}"
        self._write(depth, f"{name} = {self._random.randint(0, 4)}")
        more = f" and ({self._condition()})" if self._random.random() < 0.4 else ""
        endless = self._random.random() < 0.2
        self._write(depth, "while True:" if endless else f"while {name} > 0{more}:")
        self._write(depth + 1, f"{name} -= 1")
        if endless:
            self._write(depth + 1, f"if {name} < 0:\n    break")
        self._body(depth + 1, left - 1, name)
        if not endless:
            self._else(depth, left, loop)

    def _else(self, depth, left, loop):
        if self._random.random() < 0.2:
            self._write(depth, "else:")
            self._body(depth + 1, left - 1, loop, most=1)

    def _leave(self, depth, left, loop):
        self._write(depth, f"if {self._condition()}:")
        self._write(depth + 1, self._random.choice(["break", "continue"]))

    # ---- expressions -----------------------------------------------------------------------------

    def _value(self):
        name = self._random.choice(_NAMES)
        number = self._random.randint(1, 9)
        return self._random.choice(
            [name, str(number), f"({name} + {number}) % 61", f"({name} * {number}) % 53"]
        )

    def _condition(self):
        name, number = self._random.choice(_NAMES), self._random.randint(0, 9)
        simple = self._random.choice(
            [f"{name} > {number}", f"{name} % 3 == {number % 3}", f"not {name} < {number}"]
        )
        kind = self._random.random()
        if kind < 0.6:
            return simple
        if kind < 0.7:
            return f"0 < {name} < {number}"
        if kind < 0.8:
            return f"({simple}\n        and {self._condition()})"
        return f"{simple} {self._random.choice(['and', 'or'])} {self._condition()}"
