"""Numbers as people read them."""


def shown_bytes(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.2f} TiB"


def shown_seconds(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    return ""


def shown_count(n: float) -> str:
    for unit in ("", "k", "M", "G", "T", "P"):
        if abs(n) < 1000 or unit == "P":
            break
        n /= 1000
    return f"{n:.3g} {unit}".rstrip()
