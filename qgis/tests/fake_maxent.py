"""Plays the command maxent in tests of how it is run."""

import json
import os
import sys
import time

said, code = sys.argv[1], 0
if said == "--version":
    print(os.environ.get("FAKE_VERSION", "maxent 9.9.9"))
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
    print("note: Bäume.csv: 3 records", file=sys.stderr)  # also an event
    print("note: on standard error alone", file=sys.stderr)
    print("the résult")
elif said == "fails":
    print("note: not this", file=sys.stderr)
    print("error: layers/bio.tif: No space left on device", file=sys.stderr)
    code = 1
elif said == "usage":
    print("Usage: maxent\n╭─ Error ─╮\n│ Invalid value: --buffer has │\n│ no effect │\n╰──╯", file=sys.stderr)
    code = 2
elif said == "partly":
    print("error: 1 of 2 species failed", file=sys.stderr)
    code = 3
elif said == "waits":
    try:
        open(sys.argv[2], "w").close()
        time.sleep(60)
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        code = 130
elif said == "environment":
    print(json.dumps({name: os.environ.get(name) for name in sys.argv[2:]}))
sys.exit(code)
