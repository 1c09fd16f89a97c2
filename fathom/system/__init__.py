"""The machine of a run: devices, memory, processes, files and their description in results."""
