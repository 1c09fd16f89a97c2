"""The HTTP library, which is an extra."""

from types import ModuleType

from fathom.errors import FathomError


def aiohttp() -> ModuleType:
    """Imports aiohttp with its server.

    Raises:
        FathomError: it is not installed.
    """
    try:
        import aiohttp
        import aiohttp.web
    except ImportError as error:
        raise FathomError(
            "aiohttp is not installed: pip install 'fathom-workloads[serve]'"
        ) from error
    return aiohttp
