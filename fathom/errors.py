"""The one exception type for what a user can put right."""


class FathomError(Exception):
    """A user's mistake or an unusable input: one line that says what was wrong and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """
