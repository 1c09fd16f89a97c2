"""Words of messages."""


def counted(number: int, noun: str) -> str:
    """Returns a number of things in words: 1 step, 2,000 steps."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
