"""The text of experiments.language_head: Debian's documentation packages, as tokens.

Packages are fetched with ``apt-get download``, so they are the versions of this machine's mirror,
which meta.json names, and unpacked with ``dpkg-deb``. Pages of HTML become text; pages and long
lines that are there twice, and navigation that comes back on page after page, are dropped. A
hundredth of the pages, by their hash, is for validation. Nothing of the text is in the repository.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[1] / ".cache" / "language_head"
CLASSES = 1 << 15
END = "<|end|>"  # after each page; token 0
MEGABYTES = 40  # of the tokens, compressed: what does not fit is left out from the end of the list
VALIDATION = 100  # one page of so many
LONG = 80  # letters of a line that is taken once

# what may be done with each, in short (the package's own file has the terms); prose first
LICENCES = {
    "debian-handbook": "GPL-2+ or CC-BY-SA-3.0",
    "debian-reference-en": "GPL-2+",
    "developers-reference": "GPL-2",
    "debian-policy": "GPL-2+",
    "installation-guide-amd64": "GPL-2+",
    "jargon-text": "public domain",
    "dict-gcide": "GPL-3+",
    "linux-doc-6.1": "GPL-2",
    "python3.11-doc": "PSF-2",
    "perl-doc": "GPL-1+ or Artistic",
    "postgresql-doc-15": "PostgreSQL",
    "sqlite3-doc": "public domain",
    "vim-doc": "Vim",
    "git-doc": "GPL-2",
    "python-django-doc": "BSD-3-clause",
    "python-sqlalchemy-doc": "MIT",
    "bash-doc": "GFDL-1.3+, GPL-3+",
    "bind9-doc": "MPL-2.0",
    "exim4-doc-html": "GPL-2+",
    "libreoffice-help-en-us": "MPL-2.0",
    "octave-doc": "GPL-3+",
    "maxima-doc": "GPL-2+",
    "cmake-doc": "BSD-3-clause",
    "nodejs-doc": "MIT",
    "llvm-14-doc": "Apache-2.0 with LLVM exception",
    "libboost1.74-doc": "BSL-1.0",
}

_KINDS = re.compile(r"\.(x?html?|html\.en|txt|pod|dict)(\.gz|\.dz)?$")
_LEFT_OUT = re.compile(
    r"/(_sources|translations|_static|_modules)/|/(genindex|py-modindex|search|changelog|copyright|"
    r"news|todo|acknowledg|all_index|index-all|doc-index|classes-index)[^/]*$",
    re.IGNORECASE,
)
_TRANSLATED = re.compile(
    r"/((?!en-)[a-z]{2}-[A-Z]{2}|ca|cs|da|de|el|es|eu|fi|fr|hu|it|ja|ko|nb|nl|nn|pl|pt|pt-br|ro|ru|sk|"
    r"sl|sv|tl|tr|uk|vi|zh-cn|zh-tw)/"
)
_HIDDEN = {"script", "style", "head", "nav", "svg", "noscript", "form", "button", "template"}
_ASIDE = {  # classes, ids and roles of what is beside the text
    *("sphinxsidebar", "related", "navheader", "navfooter", "footer", "headerlink", "sidebar"),
    *("wy-nav-side", "wy-breadcrumbs", "rst-footer-buttons", "leftnav", "navigation", "search"),
    *("bd-sidebar", "bd-toc", "navbar", "tocset", "navsettop", "navsetbottom", "contentinfo"),
    *("document-languages", "column2", "panel", "package-header", "footnav", "headnav"),
}
_BLOCKS = {
    *("p", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "br", "dt", "dd", "pre", "table"),
    *("ul", "ol", "dl", "section", "article", "title", "hr", "blockquote", "caption", "details"),
}


def html_lines(raw: bytes) -> list[tuple[str, bool]]:
    """The lines of a page, and which of them are running text rather than code."""
    from lxml import etree

    head = raw[:2000].lower()
    encoding = "iso-8859-1" if b"iso-8859-1" in head else "utf-8"
    tree = etree.fromstring(raw, etree.HTMLParser(encoding=encoding, remove_comments=True))
    lines: list[tuple[str, bool]] = []
    words: list[str] = []

    def end_line(code: bool) -> None:
        if words:
            text = "".join(words)
            words.clear()
            if code:
                lines.extend((line.rstrip(), False) for line in text.strip("\n").split("\n"))
            elif text := " ".join(text.split()):
                lines.append((text, True))

    def walk(element: Any, code: bool) -> None:
        tag, given = element.tag, element.attrib
        names = f"{given.get('class', '')} {given.get('id', '')} {given.get('role', '')}".split()
        if isinstance(tag, str) and tag not in _HIDDEN and _ASIDE.isdisjoint(names):
            block = tag in _BLOCKS
            if block:
                end_line(code)
            elif tag in ("td", "th"):
                words.append(" ")
            inside = code or tag == "pre"
            if element.text:
                words.append(element.text)
            for child in element:
                walk(child, inside)
            if block:
                end_line(inside)
        if element.tail:
            words.append(element.tail)

    if tree is not None:
        walk(tree, False)
        end_line(False)
    return lines


def lines_of(name: str, raw: bytes) -> list[tuple[str, bool]]:
    """The lines of a file, and which of them are running text."""
    if "htm" in name:
        return html_lines(raw) if raw.strip() else []
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return [(line.rstrip(), False) for line in text.splitlines()]


def pages(folder: Path) -> Iterator[list[tuple[str, bool]]]:
    """The lines of each page of an unpacked package, in the order of their names.

    Plain text is read where there is no HTML, of which it is mostly a copy.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        name = f"/{path.relative_to(folder)}"
        kind = _KINDS.search(name)
        other = path.is_symlink() or _LEFT_OUT.search(name) or _TRANSLATED.search(name)
        if kind and not other and path.is_file():
            found[path] = kind[1], kind[2]
    kinds = {kind for kind, _ in found.values()}
    plain = kinds <= {"txt", "pod", "dict"}
    for path, (kind, zipped) in found.items():
        if kind == "txt" and not plain:
            continue
        raw = path.read_bytes()
        lines = lines_of(path.name, gzip.decompress(raw) if zipped else raw)
        if kind != "dict":
            yield lines
            continue
        for first in range(0, len(lines), 400):
            yield lines[first : first + 400]


def texts(package: list[list[tuple[str, bool]]], seen: set[bytes]) -> Iterator[str]:
    """Pages without navigation, and without long lines and pages whose hashes are in ``seen``."""
    often = Counter(line for page in package for line, prose in set(page) if prose)
    limit = max(20, len(package) // 5)
    for page in package:
        kept = []
        for line, prose in page:
            if prose and often[line] > limit:
                continue
            if len(line) >= LONG:
                mark = hashlib.sha256(line.encode()).digest()[:12]
                if mark in seen:
                    continue
                seen.add(mark)
            kept.append(line)
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip() + "\n"
        letters = sum(map(text.count, "etaoinshr"))
        if len(text) < 400 or letters < len(text) / 4:  # tables of numbers, other alphabets
            continue
        mark = hashlib.sha256(re.sub(r"\W+", " ", text).encode()).digest()
        if mark not in seen:
            seen.add(mark)
            yield text


def for_validation(text: str) -> bool:
    """One page in a hundred."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % VALIDATION == 0


def download(name: str, folder: Path) -> Path | None:
    """The package's file, fetched unless it is there."""
    found = sorted(folder.glob(f"{name}_*.deb"))
    if not found:
        subprocess.run(
            ["apt-get", "-q", "download", name], cwd=folder, check=False, capture_output=True
        )
        found = sorted(folder.glob(f"{name}_*.deb"))
    return found[-1] if found else None


def stream(raw: bytes) -> bytes:
    """Compressed; streams one after the other are a file again."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 2, "lp": 1, "pb": 1}]
    return lzma.compress(raw, lzma.FORMAT_XZ, filters=filters)


def packed(path: Path, number: int, streams: list[bytes]) -> int:
    """Write an array of so many tokens as .npy.xz; how many bytes that are."""
    head = io.BytesIO()
    shape = {"descr": "<u2", "fortran_order": False, "shape": (number,)}
    np.lib.format.write_array_header_1_0(head, shape)
    part = path.with_suffix(".part")
    part.write_bytes(b"".join([stream(head.getvalue()), *streams]))
    part.replace(path)
    return path.stat().st_size


def unpacked(path: Path) -> NDArray[np.uint16]:
    """The tokens of a file that ``packed`` has written."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is not there: python -m experiments.language_head corpus makes it"
        )
    with lzma.open(path) as file:
        tokens: NDArray[np.uint16] = np.load(file)
    return tokens


def byte_alphabet() -> dict[str, int]:
    """The byte of each character in the vocabulary of a byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): b for i, b in enumerate(others)}


def vocabulary(path: Path) -> list[bytes]:
    """What each token stands for; the end of a page for nothing."""
    alphabet = byte_alphabet()
    words = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    found = [b""] * len(words)
    for word, number in words.items():
        found[number] = b"" if word == END else bytes(alphabet[letter] for letter in word)
    return found


def tokenizer_of(given: Iterator[str], classes: int) -> Any:
    """A byte-level BPE of so many tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=classes,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(given, trainer)
    return made


def make(folder: Path = FOLDER, debs: Path | None = None, megabytes: float = MEGABYTES) -> Path:
    """Write tokenizer.json, train.npy.xz, validation.npy.xz and meta.json."""
    folder.mkdir(parents=True, exist_ok=True)
    debs = folder / "packages" if debs is None else debs
    debs.mkdir(parents=True, exist_ok=True)
    seen: set[bytes] = set()
    read: dict[str, list[str]] = {}
    versions = {}
    for name in LICENCES:
        file = download(name, debs)
        if file is None:
            print(f"{name}: apt-get has no such package and it is left out", flush=True)
            continue
        with tempfile.TemporaryDirectory() as place:
            subprocess.run(["dpkg-deb", "-x", str(file), place], check=True)
            read[name] = list(texts(list(pages(Path(place))), seen))
        versions[name] = file.name.split("_")[1].replace("%3a", ":")
        size = sum(map(len, read[name]))
        print(f"{name}: {len(read[name])} pages, {size / 1e6:.1f} million letters", flush=True)
    return _written(folder, read, versions, megabytes)


def _written(
    folder: Path, read: dict[str, list[str]], versions: dict[str, str], megabytes: float
) -> Path:
    """The files, of as many packages as fit."""
    train = (
        text
        for package in read.values()
        for number, text in enumerate(page for page in package if not for_validation(page))
        if number % 6 == 0  # enough for a vocabulary
    )
    tokenizer = tokenizer_of(train, CLASSES)
    part = folder / "tokenizer.part"
    tokenizer.save(str(part))
    os.replace(part, folder / "tokenizer.json")
    letters = np.array([len(word) for word in vocabulary(folder / "tokenizer.json")])
    names = ("train", "validation")
    streams: dict[str, list[bytes]] = {name: [] for name in names}
    sizes = {name: {"tokens": 0, "bytes": 0} for name in names}
    used: dict[str, dict[str, Any]] = {}
    total = 0
    for package, found in read.items():
        made: dict[str, list[int]] = {name: [] for name in names}
        for first in range(0, len(found), 500):
            some = found[first : first + 500]
            for text, coded in zip(some, tokenizer.encode_batch(some), strict=True):
                made[names[for_validation(text)]] += [*coded.ids, 0]
        both = {name: np.array(made[name], "<u2") for name in names}
        coded_as = {name: stream(both[name].tobytes()) for name in names}
        size = sum(map(len, coded_as.values()))
        used[package] = {
            "version": versions[package],
            "licence": LICENCES[package],
            "pages": len(found),
            "bytes": sum(len(text.encode()) for text in found),
            "tokens": len(both["train"]),
            "validation_tokens": len(both["validation"]),
            "compressed": size,
            "used": total + size <= 1e6 * megabytes - 1000,
        }
        print(f"{package}: {used[package]}", flush=True)
        if used[package]["used"]:
            total += size
            for name in names:
                streams[name].append(coded_as[name])
                sizes[name]["tokens"] += len(both[name])
                sizes[name]["bytes"] += int(letters[both[name]].sum())
    meta: dict[str, Any] = {"classes": CLASSES}
    for name in names:
        written = packed(folder / f"{name}.npy.xz", sizes[name]["tokens"], streams[name])
        each = sizes[name]["bytes"] / max(sizes[name]["tokens"], 1)
        meta[name] = sizes[name] | {"bytes_per_token": round(each, 4), "compressed": written}
        print(f"{name}: {meta[name]}", flush=True)
    part = folder / "meta.part"
    part.write_text(json.dumps(meta | {"packages": used}, indent=1) + "\n")
    part.replace(folder / "meta.json")
    return folder
