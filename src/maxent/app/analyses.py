"""Addresses of what is done before and after a fit: comparing settings, judging what was fitted."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from maxent.app import models, schema, tuning
from maxent.app.draft import Draft
from maxent.app.folders import EVALUATIONS, OVERLAPS, SURVEYS, Folders, fresh
from maxent.app.jobs import Job, Jobs
from maxent.species.batch.outputs import RESULT

if TYPE_CHECKING:
    from maxent.app.answers import Answers

Answer = Callable[..., Awaitable[Response]]  # kind, work and its arguments


class Analyses:
    """Jobs beside the fit of the draft, and what came of them."""

    def __init__(
        self,
        folders: Folders,
        jobs: Jobs,
        draft: Callable[[], Draft],
        answer: Answer,
        body: Callable[[Request], Awaitable[bytes]],
        story: Callable[[Job], dict[str, Any]],
        answers: Callable[[], Answers],
    ) -> None:
        self.folders, self.jobs, self.draft = folders, jobs, draft
        self.answer, self.body, self.story, self.answers = answer, body, story, answers

    def routes(self) -> list[Route]:
        """Their addresses."""
        post = ["POST"]
        return [
            Route("/api/tunings", self.tunings),
            Route("/api/tuning", self.tuning),
            Route("/api/tune", self.tune, methods=post),
            Route("/api/tune/fit", self.fit_candidate, methods=post),
            Route("/api/afterwards", self.afterwards),
            Route("/api/evaluate", self.evaluate, methods=post),
            Route("/api/sites", self.sites, methods=post),
            Route("/api/overlaps", self.overlaps),
            Route("/api/overlap", self.overlap, methods=post),
        ]

    # -- comparing settings ------------------------------------------------------------------------

    async def tunings(self, request: Request) -> Response:
        """The comparisons of the opened folders."""
        return await self.answer(list[models.ListedTuning], tuning.listed, self.folders)

    async def tuning(self, request: Request) -> Response:
        """All of a comparison."""
        name = request.query_params.get("tuning", "")

        def told() -> dict[str, Any]:
            from maxent.app.surveys import grid_of_places

            species = tuning.describe(self.folders, name)
            job = self._tuned(name)
            draft = None if job is None else Draft.from_page(job.facts.draft)
            x, y = ([v for one in species for v in one["places"][k]] for k in ("x", "y"))
            grid = grid_of_places(draft, self.folders, x, y) if x else None
            command = "" if job is None else shlex.join(["maxent", *job.facts.argv])
            said = {"tuning": name, "species": species, "grid": grid}
            return {**said, "known": job is not None, "command": command}

        return await self.answer(models.Tuning, told)

    async def tune(self, request: Request) -> Response:
        """Compare settings for the data of the draft."""
        schema.asked(models.AskNothing, await self.body(request))

        def start() -> dict[str, Any]:
            draft = self.draft()
            draft.check_files(self.folders)
            out = self.folders.name(fresh(self.folders.find(f"{draft.out}-tuning")))
            return self.story(self.jobs.start(tuning.tune_words(draft, out), out, asdict(draft)))

        return await self.answer(models.Job, start)

    async def fit_candidate(self, request: Request) -> Response:
        """Fit the data of a comparison with the settings of one of its candidates."""
        given = schema.asked(models.AskCandidate, await self.body(request))

        def start() -> dict[str, Any]:
            row = tuning.candidate(self.folders, given.tuning, given.species, given.rank)
            job = self._tuned(given.tuning)
            if job is None:
                raise ValueError(
                    "the page did not make this comparison, so that it does not know its records "
                    "and layers; take the settings into the steps and fit there"
                )
            out = fresh(self.folders.find(f"{given.tuning}-fit"))
            draft = Draft.from_page(job.facts.draft)
            draft = tuning.chosen_candidate(draft, given.species, row, self.folders.name(out))
            draft.check_paths(self.folders)
            draft.check_files(self.folders)
            return self.story(self.jobs.start(draft.argv(), draft.out, asdict(draft)))

        return await self.answer(models.Job, start)

    def _tuned(self, name: str) -> Job | None:
        """The job that made a comparison, where it is still known and holds sound choices."""
        folder = self.folders.find(name)
        for job in self.jobs.all():
            facts = job.facts
            if facts.argv[0] == "tune" and facts.draft and self.folders.find(facts.out) == folder:
                try:
                    Draft.from_page(facts.draft).check_paths(self.folders)
                except (ValueError, TypeError, OSError):  # not as the page wrote it
                    continue
                return job
        return None

    # -- of results --------------------------------------------------------------------------------

    async def afterwards(self, request: Request) -> Response:
        """Scores on other records, and sites to visit, of a result."""
        run = request.query_params.get("run", "")

        def told() -> dict[str, Any]:
            from maxent.app import afterwards

            return afterwards.of_run(self.folders, run)

        return await self.answer(models.Afterwards, told)

    async def evaluate(self, request: Request) -> Response:
        """Score a result on other records."""
        given = schema.asked(models.AskEvaluation, await self.body(request))

        def start() -> dict[str, Any]:
            from maxent.app import afterwards

            self._check_there(given.records, given.absences)
            files = self.answers().layer_files(given.run)
            name = Path(given.records).stem

            def words(out: str) -> list[str]:
                return afterwards.evaluate_words(self.folders, given, files, out)

            return self._start(given.run, EVALUATIONS, name, words)

        return await self.answer(models.Job, start)

    async def sites(self, request: Request) -> Response:
        """Where to survey next."""
        given = schema.asked(models.AskSites, await self.body(request))

        def start() -> dict[str, Any]:
            from maxent.app import afterwards

            self._check_there(given.visited)
            files = self.answers().layer_files(given.run)

            def words(out: str) -> list[str]:
                return afterwards.sites_words(self.folders, given, files, out)

            return self._start(given.run, SURVEYS, "sites", words)

        return await self.answer(models.Job, start)

    async def overlaps(self, request: Request) -> Response:
        """What was found about two results."""
        one, other = (request.query_params.get(name, "") for name in ("one", "other"))

        def told() -> list[dict[str, Any]]:
            from maxent.app import afterwards

            return afterwards.overlaps_of(self.folders, one, other)

        return await self.answer(list[models.Overlap], told)

    async def overlap(self, request: Request) -> Response:
        """How alike the niches of two results are."""
        given = schema.asked(models.AskOverlap, await self.body(request))

        def start() -> dict[str, Any]:
            from maxent.app import afterwards

            for run in (given.one, given.other):
                if not (self.folders.find(run) / RESULT).is_file():
                    raise FileNotFoundError(f"{run!r} holds no result of `maxent fit`")

            def words(out: str) -> list[str]:
                return afterwards.overlap_words(given, out)

            name = afterwards.against(given.other)
            return self._start(given.one, OVERLAPS, name, words)

        return await self.answer(models.Job, start)

    def _check_there(self, *names: str | None) -> None:
        for name in names:
            if name is not None and not self.folders.find(name).is_file():
                raise FileNotFoundError(f"{name}: no such file; choose it again")

    def _start(
        self, run: str, what: str, name: str, words: Callable[[str], list[str]]
    ) -> dict[str, Any]:
        """A job that writes to a new folder of its own, which goes again if it cannot begin."""
        from maxent.app import afterwards

        out = afterwards.place_for(self.folders, run, what, name)
        try:
            return self.story(self.jobs.start(words(out), out))
        except BaseException:
            self.folders.find(out).rmdir()
            raise
