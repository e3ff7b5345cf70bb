"""Processes of other sessions: whether one is still the one that was started, and Ctrl-C for it.

Numbers of processes are used again, so one is known by its number and by when it began.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from ctypes import wintypes
from pathlib import Path
from typing import Any

# a group of its own: Ctrl-C at the server is not for it
OWN_GROUP: dict[str, Any] = (
    {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    if sys.platform == "win32"
    else {"start_new_session": True}
)
_QUERY, _WAIT, _STILL_RUNNING = 0x1000, 0x100000, 0x102  # of the Windows API
_PLAIN = {"LC_ALL": "C", "TZ": "UTC"}  # so that ps says the same to every server


def started_at(pid: int) -> str | None:
    """When a living process began, in the system's own words; None where nothing says so."""
    if pid <= 1:
        return None
    with suppress(OSError):
        if sys.platform == "win32":
            return _began_on_windows(pid, ctypes.WinDLL("kernel32", use_last_error=True))
        return _began_by_proc(pid) if Path("/proc/self/stat").exists() else _began_by_ps(pid)
    return None


def interrupt(pid: int) -> None:
    """Ctrl-C for a process and those that it started, which share its group."""
    with suppress(OSError):
        if sys.platform == "win32":
            os.kill(pid, signal.CTRL_BREAK_EVENT)  # Ctrl-C is for the group of the terminal
        else:
            os.killpg(pid, signal.SIGINT)


def _began_by_proc(pid: int) -> str | None:
    said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return None if said[0] == "Z" else f"{boot} {said[19]}"  # ticks since the boot


def _began_by_ps(pid: int) -> str | None:
    """To the second, as macOS and the BSDs tell it."""
    words = ["ps", "-o", "state=", "-o", "lstart=", "-p", str(pid)]
    told = subprocess.run(words, capture_output=True, text=True, env=os.environ | _PLAIN)
    state, _, began = told.stdout.strip().partition(" ")
    return None if not began or state.startswith("Z") else began.strip()


def _began_on_windows(pid: int, kernel32: Any) -> str | None:
    """In steps of 100 ns since 1601."""
    kernel32.OpenProcess.argtypes = [wintypes.DWORD, wintypes.BOOL, wintypes.DWORD]
    kernel32.OpenProcess.restype = wintypes.HANDLE  # an int would lose half of it
    kernel32.WaitForSingleObject.argtypes = [wintypes.HANDLE, wintypes.DWORD]
    kernel32.GetProcessTimes.argtypes = [wintypes.HANDLE, *[ctypes.POINTER(wintypes.FILETIME)] * 4]
    kernel32.CloseHandle.argtypes = [wintypes.HANDLE]
    handle = kernel32.OpenProcess(_QUERY | _WAIT, False, pid)
    if not handle:
        return None
    try:
        # one that has ended is found as long as anyone holds on to it
        if kernel32.WaitForSingleObject(handle, 0) != _STILL_RUNNING:
            return None
        began, *others = (wintypes.FILETIME() for _ in range(4))
        if not kernel32.GetProcessTimes(handle, *map(ctypes.byref, (began, *others))):
            return None
        return str(began.dwHighDateTime << 32 | began.dwLowDateTime)
    finally:
        kernel32.CloseHandle(handle)
