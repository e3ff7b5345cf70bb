// The page of `maxent app`.

import { render, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import "leaflet/dist/leaflet.css";
import "@geoman-io/leaflet-geoman-free/dist/leaflet-geoman.css";
import "uplot/dist/uPlot.min.css";
import "./world.css";
import "./style.css";
import "./analyses.css";
import "leaflet";
import "@geoman-io/leaflet-geoman-free";
import { Guide, useGuide } from "./guide";
import { Notes, Trouble, Words } from "./parts";
import { RichnessView } from "./richness";
import { ResultView } from "./results";
import { FitStep, madeOf, Progress } from "./fit";
import { LayersStep } from "./layers";
import { RecordsStep } from "./records";
import { RegionStep } from "./region";
import { SettingsStep } from "./settings";
import { StepMap } from "./stepmap";
import { useSurveys } from "./surveys";
import { TuningStep, TuningView, useTunings } from "./tuning";
import { clearTrouble, follow, usePage } from "./store";
import type { State } from "./api";

const STEPS = ["records", "layers", "region", "settings", "tuning", "fit"] as const;
type Step = (typeof STEPS)[number];
const TITLES: Record<Step, string> = {
  records: "Records",
  layers: "Layers",
  region: "Study region and background",
  settings: "Settings",
  tuning: "Compare settings (if you like)",
  fit: "Fit",
};

/** Whether a job was done with a result: what it made lies in a folder of that name, as in surveys/RUN/. */

function App(): JSX.Element {
  const page = usePage();
  const [place, setPlace] = useState(() => location.hash.slice(1));
  useEffect(() => {
    const moved = (): void => setPlace(location.hash.slice(1));
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const { state } = page;
  const guide = useGuide(page.runs.length > 0);
  const batch = place.startsWith("richness=") ? decodeURIComponent(place.slice(9)) : null;
  const wanted = place.startsWith("result=") ? decodeURIComponent(place.slice(7)) : null;
  const tuning = place.startsWith("tuning=") ? decodeURIComponent(place.slice(7)) : null;
  const tunings = useTunings();
  const run = batch !== null || tuning !== null ? null : (wanted ?? (state?.viewing ? (page.runs[0]?.run ?? null) : null));
  const fresh = state !== null && run === null && batch === null && tuning === null && !state.viewing; // the path to a new run
  const go = (to: string): void => {
    location.hash = to;
  };
  return (
    <>
      <a class="skip" href="#work">
        to the content
      </a>
      <header class="top">
        <h1>maxent</h1>
        <nav aria-label="parts">
          {state && !state.viewing ? (
            <a href="#" aria-current={fresh ? "page" : undefined}>
              New run
            </a>
          ) : null}
          {page.runs.length ? (
            <a href={`#result=${encodeURIComponent(run ?? page.runs[0]!.run)}`} aria-current={fresh || tuning !== null ? undefined : "page"}>
              Results ({page.runs.length})
            </a>
          ) : null}
          {tunings.length ? (
            <a href={`#tuning=${encodeURIComponent(tuning ?? tunings[0]!.tuning)}`} aria-current={tuning === null ? undefined : "page"}>
              Comparisons ({tunings.length})
            </a>
          ) : null}
          {fresh && !guide.open ? (
            <button type="button" class="plain" onClick={() => guide.set(true)}>
              How it goes
            </button>
          ) : null}
        </nav>
        <span class="soft">{state ? `${state.folders.join(", ")} · version ${state.version}` : ""}</span>
      </header>
      {page.link === "down" ? (
        <div class="banner" role="alert">
          The server was stopped, or cannot be reached. Nothing is lost: start <code>maxent app</code> in the same folder again, and
          this page goes on by itself.
        </div>
      ) : null}
      {page.link === "refused" ? (
        <div class="banner" role="alert">
          This page is not known to the server. Open the link that <code>maxent app</code> printed.
        </div>
      ) : null}
      <main id="work" tabIndex={-1}>
        <Trouble text={page.trouble}>
          <button type="button" class="small" onClick={clearTrouble}>
            dismiss
          </button>
        </Trouble>
        <Notes notes={page.notes} title="Damaged files" />
        {!state ? <p role="status">Loading …</p> : null}
        {state && run !== null ? (
          <>
            {page.job && (page.job.status === "running" || madeOf(page.job, run)) ? <Progress onResult={(to) => go(`result=${encodeURIComponent(to)}`)} /> : null}
            <ResultView run={run} runs={page.runs} onRun={(to) => go(`result=${encodeURIComponent(to)}`)} />
          </>
        ) : null}
        {state && batch !== null ? <RichnessView key={batch} batch={batch} runs={page.runs} /> : null}
        {state && tuning !== null ? <TuningView key={tuning} tuning={tuning} tunings={tunings} state={state} go={go} /> : null}
        {state && run === null && batch === null && tuning === null && state.viewing ? <p>No results in this folder.</p> : null}
        {fresh && guide.open ? <Guide state={state} onClose={() => guide.set(false)} /> : null}
        {fresh ? <NewRun state={state} onResult={(to) => go(`result=${encodeURIComponent(to)}`)} /> : null}
      </main>
      {fresh ? <Words {...state.draft} /> : null}
    </>
  );
}

function NewRun({ state, onResult }: { state: State; onResult: (run: string) => void }): JSX.Element {
  const { choices } = state.draft;
  const { runs, settled } = usePage();
  const surveyed = useSurveys(settled ?? choices);
  const [shown, setShown] = useState<string | null>(null);
  const [drawing, setDrawing] = useState<"Polygon" | "Rectangle" | "drop" | null>(null);
  const done: Record<Step, boolean> = {
    records: Boolean(surveyed.records.answer),
    layers: Boolean(surveyed.layers.answer?.fits),
    region: Object.keys(choices.study).length > 0 || choices.background !== "random",
    settings: Object.keys(choices.settings).length > 0,
    tuning: false,
    fit: false,
  };
  const finished = (out: string): void => {
    const found = runs.find((one) => one.run === out) ?? runs.find((one) => one.run.startsWith(`${out}/`));
    onResult(found?.run ?? out);
  };
  return (
    <div class="columns">
      <ol class="steps">
        {STEPS.map((step, i) => (
          <li key={step} class={done[step] ? "done" : ""}>
            <details open={i < 2 || step === "fit"} id={step}>
              <summary>
                <span class="count" aria-hidden="true">
                  {done[step] ? "✓" : i + 1}
                </span>{" "}
                {TITLES[step]}
              </summary>
              <div class="step">
                {step === "records" ? (
                  <>
                    <RecordsStep choices={choices} surveyed={surveyed} options={state.source_options} />
                    {surveyed.records.answer ? (
                      <button type="button" class="small" onClick={() => setDrawing("drop")}>
                        leave out all in a rectangle
                      </button>
                    ) : null}
                  </>
                ) : null}
                {step === "layers" ? <LayersStep choices={choices} surveyed={surveyed} onShow={setShown} /> : null}
                {step === "region" ? <RegionStep choices={choices} surveyed={surveyed} onDraw={setDrawing} /> : null}
                {step === "settings" ? <SettingsStep choices={choices} surveyed={surveyed} options={state.options} rules={state.rules} /> : null}
                {step === "tuning" ? <TuningStep choices={choices} draft={state.draft} /> : null}
                {step === "fit" ? <FitStep choices={choices} draft={state.draft} onResult={finished} /> : null}
              </div>
            </details>
          </li>
        ))}
      </ol>
      <div class="beside">
        {drawing ? (
          <p class="hint" role="status">
            {drawing === "Polygon" ? "Click the corners on the map, and the first one again to end." : "Click two opposite corners on the map."}{" "}
            <button type="button" class="small" onClick={() => setDrawing(null)}>
              cancel
            </button>
          </p>
        ) : null}
        <StepMap choices={choices} surveyed={surveyed} shown={shown} drawing={drawing} onDrawn={() => setDrawing(null)} />
      </div>
    </div>
  );
}

render(<App />, document.getElementById("app")!);
void follow();
