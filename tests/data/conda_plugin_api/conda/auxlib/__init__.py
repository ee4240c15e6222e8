"""``NULL``: no value, where ``None`` is one."""


class _Null:
    def __bool__(self) -> bool:
        return False


NULL = _Null()
