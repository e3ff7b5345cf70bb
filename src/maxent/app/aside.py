"""Files of the page's own folder that are damaged: put aside, with a note, so that it goes on."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from maxent.app.folders import Folders, fresh


class Aside:
    """What was put aside since the server started."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.notes: list[str] = []
        self._lock = threading.Lock()

    def put(self, path: Path, why: str) -> None:
        """Give a damaged file or folder another name, which nothing reads, and tell of it."""
        with self._lock:
            name = self.folders.name(path)
            other = fresh(path.with_name(f"{path.name}.damaged"))
            said = "it is not read"
            if not self.folders.viewing:
                with suppress(OSError):  # where nothing may be written
                    path.rename(other)
                    said = f"it was put aside as {other.name}"
            note = self.folders.without_paths(f"{name} is damaged ({why}); {said}")
            if note not in self.notes:
                self.notes.append(note)
