// The button, and how the work goes on.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Choices, type Draft, type Job } from "./api";
import { Entry, Field, Notes, Trouble } from "./parts";
import { SpeciesStates } from "./species";
import { choose, start, usePage } from "./store";

/** Whether a job is what the choices ask for: what it said is about them. */
const about = (job: Job, draft: Draft): boolean => job.command.replace(/ --resume$/, "") === draft.command;

/** Whether a job is about a finished run: what is made of one lies in a folder of its name, "evaluations/NAME/...". */
export const madeOf = (job: Job, run: string): boolean =>
  job.kind !== "fit" && job.out.split("/")[1] === (run.replaceAll("/", "_").replace(/^\.+/, "") || "result");

export function FitStep({ choices, draft, onResult }: { choices: Choices; draft: Draft; onResult: (run: string) => void }): JSX.Element {
  const { job } = usePage();
  const { lacks } = draft;
  const busy = job?.status === "running";
  return (
    <>
      <Field label="Name of the results' folder">
        <Entry value={choices.out} onEnter={(text) => void choose({ out: text || "maxent-results" })} />
      </Field>
      {lacks ? <p class="hint">Before a fit: {lacks}.</p> : null}
      <button type="button" class="main" disabled={Boolean(lacks) || busy} onClick={() => void start(() => api.fit(false))}>
        Fit
      </button>
      {job && job.kind !== "tune" && (busy || about(job, draft)) ? <Progress onResult={onResult} /> : null}
    </>
  );
}

export function Progress({ onResult }: { onResult: (run: string) => void }): JSX.Element | null {
  const { job } = usePage();
  const [now, setNow] = useState(Date.now());
  const running = job?.status === "running";
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [running]);
  const place = useRef<HTMLElement>(null);
  const before = useRef(running ? "" : `${job?.number} ${job?.status}`); // the page may open on an old job
  useEffect(() => {
    const now = `${job?.number} ${job?.status}`;
    if (now !== before.current) place.current?.scrollIntoView({ block: "nearest" });
    before.current = now;
  }, [job?.number, job?.status]);
  if (!job) return null;
  const total = job.events.find((event) => event.kind === "begin")?.species?.length ?? 1;
  const done = job.events.filter((event) => event.kind === "done");
  const stage = job.events.filter((event) => event.kind === "stage").at(-1);
  const within = job.events.filter((event) => event.kind === "progress").at(-1);
  const failed = done.filter((event) => event.status !== "ok");
  const seconds = Math.max(0, Math.round(now / 1000 - job.started));
  return (
    <section class="progress" aria-label="progress" ref={place}>
      {running ? (
        <>
          <progress max={total} value={total > 1 ? done.length : undefined} />
          <p role="status">
            {job.kind}: {stage ? `${String(stage.species)}: ${stage.stage}` : "reading files"} · {seconds} s
            {within ? ` · ${within.stage}: ${within.done} of ${within.total}` : ""}
            {total > 1 ? ` · ${done.length} of ${total} species` : ""}
          </p>
          <button type="button" class="stop" onClick={() => void api.stop(job.number)}>
            Stop
          </button>
        </>
      ) : null}
      {job.status === "done" ? (
        <p role="status">
          {job.kind} is done.{" "}
          {job.kind === "fit" ? (
            <button type="button" onClick={() => onResult(job.out)}>
              See the result
            </button>
          ) : (
            <code>{job.out}</code>
          )}
        </p>
      ) : null}
      {job.status === "stopped" ? (
        <p role="status">
          Stopped. Nothing was lost: your choices are kept{done.length ? ", and so are the species that were finished" : ""}.{" "}
          {job.kind === "fit" ? (
            <button type="button" onClick={() => void start(() => api.fit(true))}>
              Go on
            </button>
          ) : null}
        </p>
      ) : null}
      {job.status === "failed" ? <Trouble text={job.error || "The command failed."} /> : null}
      {job.status === "lost" ? <Trouble text="The process was ended from outside; fit again." /> : null}
      {total > 1 ? (
        <SpeciesStates job={job} />
      ) : (
        failed.map((event) => <Trouble key={String(event.species)} text={`${String(event.species)}: ${event.error ?? "failed"}`} />)
      )}
      <JobNotes job={job} />
    </section>
  );
}

/** What a command has said so far, each once. */
export function JobNotes({ job }: { job: Job }): JSX.Element {
  const said = job.events.filter((event) => event.kind === "note").map((event) => event.text ?? "");
  return <Notes notes={[...new Set(said)]} title="What the program assumed" />;
}
