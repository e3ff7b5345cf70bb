// Many species: their colours, which are fitted, and how far each is.

import type { JSX } from "preact";
import type { Job, RecordsAnswer } from "./api";
import { CLASSES } from "./colours";
import { choose } from "./store";

const SHOWN = 200; // names in a list

/** The colour of a species by its place in the file; after sixteen they come again. */
export const speciesColour = (place: number): string => CLASSES[place % CLASSES.length]!;

export function SpeciesList({ answer, chosen }: { answer: RecordsAnswer; chosen: string[] }): JSX.Element {
  const names = answer.species.map((one) => one.name);
  const toggle = (name: string, on: boolean): void => {
    const now = chosen.length ? chosen : names;
    const next = on ? [...now, name] : now.filter((other) => other !== name);
    void choose({ species: next.length === names.length || !next.length ? [] : names.filter((n) => next.includes(n)) });
  };
  return (
    <fieldset class="species">
      <legend>{names.length} species; fit</legend>
      {names.slice(0, SHOWN).map((name, i) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={!chosen.length || chosen.includes(name)}
            onChange={(event) => toggle(name, event.currentTarget.checked)}
          />{" "}
          <span class="dot" style={{ background: speciesColour(i) }} /> {name}
        </label>
      ))}
      {names.length > SHOWN ? <p class="help">and {names.length - SHOWN} more, which are fitted too</p> : null}
    </fieldset>
  );
}

interface State {
  name: string;
  kind: "waiting" | "working" | "done" | "failed";
  said: string;
}

/** How far each species of a job is, in the order in which they were asked for. */
export function statesOf(job: Job): State[] {
  const asked = job.events.find((event) => event.kind === "begin")?.species ?? [];
  const names = typeof asked === "string" ? [asked] : asked;
  const states = new Map(names.map((name) => [name, { name, kind: "waiting", said: "waits" } as State]));
  for (const { kind, species, stage, status, error, auc } of job.events) {
    const name = String(species);
    if (!states.has(name)) continue;
    if (kind === "stage") states.set(name, { name, kind: "working", said: stage ?? "begun" });
    if (kind === "done" && status === "ok") {
      states.set(name, { name, kind: "done", said: auc == null ? "done" : `done, AUC ${auc.toFixed(3)}` });
    } else if (kind === "done") {
      states.set(name, { name, kind: "failed", said: error ?? "failed" });
    }
  }
  const over = job.status === "running" ? "" : "not fitted";
  return [...states.values()].map((one) => (over && (one.kind === "waiting" || one.kind === "working") ? { ...one, kind: "waiting", said: over } : one));
}

const MARKS: Record<State["kind"], string> = { waiting: "·", working: "…", done: "✓", failed: "✗" };

export function SpeciesStates({ job }: { job: Job }): JSX.Element | null {
  const states = statesOf(job);
  if (states.length < 2) return null;
  return (
    <div class="scroll states" role="group" aria-label="species" tabIndex={0}>
      <table>
        <caption>Species</caption>
        <tbody>
          {states.map(({ name, kind, said }) => (
            <tr key={name} class={kind}>
              <td aria-hidden="true">{MARKS[kind]}</td>
              <th scope="row">{name}</th>
              <td>{said}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
