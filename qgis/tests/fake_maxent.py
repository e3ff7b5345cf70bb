"""Plays the command maxent in tests of how it is run."""

import json
import os
import sys
import time

CODES = {"done": 0, "failed": 1, "wrong usage": 2, "partly": 3, "interrupted": 130}


def answer(status, result=None, errors=(), number=1):
    """As maxent --json does."""
    told = {"maxent": "9.9.9", "format": number, "command": "", "status": status}
    told |= {
        "exit_code": CODES[status],
        "errors": errors,
        "notes": [],
        "files": [],
        "result": result,
    }
    print(json.dumps(told))
    sys.exit(CODES[status])


said = sys.argv[2]
if said == "info":
    kind = os.environ.get("FAKE", "")
    if kind == "older":
        print("│ No such option: --json │", file=sys.stderr)
        sys.exit(2)
    elif kind == "bash":
        print("GNU bash")
    else:
        lacking = {"geo": ["rasterio"]} if kind == "bare" else {}
        answer("done", {"lacking": lacking}, number=2 if kind == "newer" else 1)
elif said == "events":
    with open(os.environ["MAXENT_EVENTS"], "a", encoding="utf-8") as file:
        for event in (
            {"kind": "note", "text": "caution: half of the records lie in the sea"},
            {"kind": "note", "text": "Bäume.csv: 3 records"},
            {"kind": "begin", "species": ["a", "b"]},
            {"kind": "stage", "species": "a", "stage": "fit"},
            {"kind": "progress", "stage": "maps", "done": 1, "total": 2},
            {"kind": "done", "species": "a"},
        ):
            file.write(json.dumps(event) + "\n")
        file.write("half a li")
    answer("done", "the résult")
elif said == "fails":
    answer("failed", None, ["layers/bio.tif: No space left on device"])
elif said == "partly":
    answer("partly", "what is there", ["b: no records"])
elif said == "killed":
    print("Killed by the system", file=sys.stderr)
    sys.exit(9)
elif said == "waits":
    try:
        open(sys.argv[3], "w").close()
        time.sleep(60)
    except KeyboardInterrupt:
        answer("interrupted", None, ["interrupted"])
elif said == "environment":
    answer("done", {name: os.environ.get(name) for name in sys.argv[3:]})
