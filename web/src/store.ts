// The state of the page: what the server last said, and who wants to know.

import { useEffect, useState } from "preact/hooks";
import { api, draft as draftCheck, job as jobCheck, notes, runs, type Choices, type Draft, type Job, type Run, type State } from "./api";
import { maybe, Unfit, type Check } from "./schema";

export interface Page {
  state: State | null;
  settled: Choices | null; // as the server has them: what questions about files are about
  job: Job | null;
  runs: Run[];
  notes: string[]; // of files of the page's own that were damaged
  link: "up" | "down" | "refused";
  trouble: string;
}

let page: Page = { state: null, settled: null, job: null, runs: [], notes: [], link: "up", trouble: "" };
const listeners = new Set<() => void>();

function set(changes: Partial<Page>): void {
  page = { ...page, ...changes };
  for (const tell of listeners) tell();
}

export function usePage(): Page {
  const [, again] = useState(0);
  useEffect(() => {
    const tell = (): void => again((n) => n + 1);
    listeners.add(tell);
    return () => void listeners.delete(tell);
  }, []);
  return page;
}

function setDraft(draft: Draft): void {
  if (page.state) set({ state: { ...page.state, draft }, settled: draft.choices });
}

// changes go to the server one after the other; until the last has arrived, what is on the page rules
let waiting = 0;
let last: Promise<unknown> = Promise.resolve();

async function change(send: () => Promise<Draft>): Promise<boolean> {
  waiting++;
  const mine = last.then(send);
  last = mine.catch(() => undefined);
  try {
    const draft = await mine;
    waiting--;
    if (!waiting) setDraft(draft);
    set({ trouble: "" });
    return true;
  } catch (error) {
    waiting--;
    set({ trouble: (error as Error).message });
    if (!waiting) api.state().then((state) => setDraft(state.draft), () => undefined);
    return false;
  }
}

/** Changes some of the choices; the command follows from them. */
export function choose(changes: Partial<Choices>): Promise<boolean> {
  const draft = page.state?.draft;
  if (page.state && draft) {
    const choices = { ...draft.choices, ...changes };
    set({ state: { ...page.state, draft: { ...draft, choices } } });
  }
  return change(() => api.draft(changes));
}

/** Another file of a survey or of counts; the server looks which of them it is. */
export const addVisits = (path: string): Promise<boolean> => change(() => api.addVisits(path));

export const drawRegion = (rings: number[][][], crs: string | null): Promise<boolean> =>
  change(() => api.region(rings, crs));

export async function start(work: () => Promise<Job>): Promise<void> {
  try {
    set({ job: await work(), trouble: "" });
  } catch (error) {
    set({ trouble: (error as Error).message });
  }
}

/** Writes the data of the example into the folder and chooses them. */
export const tryExample = (write: () => Promise<Draft>): Promise<boolean> => change(write);

export const clearTrouble = (): void => set({ trouble: "" });

/** Follows the folder; the browser connects again by itself after a pause. */
export async function follow(): Promise<void> {
  try {
    const state = await api.state();
    set({ state, settled: state.draft.choices, job: state.jobs[0] ?? null, runs: state.runs, notes: state.notes, link: "up" });
  } catch (error) {
    if (error instanceof Unfit) set({ trouble: error.message });
    set({ link: (error as { status?: number }).status === 403 ? "refused" : "down" });
    setTimeout(() => void follow(), 1500);
    return;
  }
  const events = new EventSource("/api/events");
  const read = <T,>(check: Check<T>, act: (value: T) => unknown) => (event: MessageEvent<string>) => {
    try {
      act(check(JSON.parse(event.data), event.type));
    } catch (error) {
      set({ trouble: (error as Error).message });
    }
  };
  events.addEventListener("draft", read(draftCheck, (draft) => {
    const late = draft.edits < (page.state?.draft.edits ?? 0); // told before a change that was answered already
    if (!waiting && !late) setDraft(draft);
  }));
  events.addEventListener("job", read(maybe(jobCheck), (job) => set({ job })));
  events.addEventListener("runs", read(runs, (found) => set({ runs: found })));
  events.addEventListener("notes", read(notes, (told) => set({ notes: told })));
  events.onopen = () => set({ link: "up" });
  events.onerror = () => {
    set({ link: "down" });
    events.close();
    setTimeout(() => void follow(), 1500);
  };
}
