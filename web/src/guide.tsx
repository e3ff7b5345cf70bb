// How it goes, for a first visit; and data to try it with.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, type State } from "./api";
import { tryExample } from "./store";

const SEEN = "maxent-guide"; // in the browser's own memory: that it was put away

const seen = (): boolean => {
  try {
    return localStorage.getItem(SEEN) !== null;
  } catch {
    return false; // no memory: it is shown again
  }
};

function keep(away: boolean): void {
  try {
    if (away) localStorage.setItem(SEEN, "seen");
    else localStorage.removeItem(SEEN);
  } catch {
    return; // a browser that keeps nothing
  }
}

/** Open on a first visit: nothing was fitted yet, and it was not put away; and whenever it is asked for. */
export function useGuide(fitted: boolean): { open: boolean; set: (open: boolean) => void } {
  const [asked, setOpen] = useState<boolean | null>(null);
  const open = asked ?? (!fitted && !seen());
  const set = (next: boolean): void => {
    keep(!next);
    setOpen(next);
  };
  return { open, set };
}

export function Guide({ state, onClose }: { state: State; onClose: () => void }): JSX.Element {
  const [busy, setBusy] = useState(false);
  const { choices, lacks, example } = state.draft;
  const empty = !choices.records.path && !choices.layers.sources?.length;
  const bring = async (): Promise<void> => {
    setBusy(true);
    await tryExample(api.example);
    setBusy(false);
  };
  return (
    <section class="guide" aria-label="how it goes">
      <h2>From records to a map</h2>
      <ol>
        <li>
          <strong>Records</strong>: where the species was seen, a table with coordinates.
        </li>
        <li>
          <strong>Layers</strong>: a folder of rasters, such as temperature and rain, that cover these places.
        </li>
        <li>
          <strong>Fit</strong>: what lies between has sensible values already. The command below the page is what runs.
        </li>
        <li>
          <strong>See the result</strong>: click a place on the map to be told why it is suitable or not.
        </li>
      </ol>
      {example ? (
        <p role="status">
          The example is chosen: records of a virtual species on an invented island, with six layers.{" "}
          {lacks ? "" : "Look at them on the map, then press Fit at the end of the steps."}
        </p>
      ) : null}
      <div class="row">
        {empty ? (
          <button type="button" class="main" disabled={busy} onClick={() => void bring()}>
            {busy ? "Writing the example …" : "Try it with example data"}
          </button>
        ) : null}
        <button type="button" onClick={onClose}>
          Put this away
        </button>
      </div>
    </section>
  );
}
