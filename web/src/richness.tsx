// A run of many species: the sums of their maps, and what became of each.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, serverTile, type Run } from "./api";
import { styleOf } from "./colours";
import type { GridMap } from "./gridmap";
import { Legend, MapView } from "./mapview";
import { Field, Trouble, useAnswer } from "./parts";

/** The folder of the run of many that a result belongs to, if it does. */
export const batchOf = (run: string, runs: Run[]): string | null => {
  const folder = run.slice(0, run.lastIndexOf("/"));
  return run.includes("/") && runs.some((one) => one.run !== run && one.run.slice(0, one.run.lastIndexOf("/")) === folder) ? folder : null;
};

export function RichnessView({ batch, runs }: { batch: string; runs: Run[] }): JSX.Element {
  const written = runs.map((one) => one.written).reduce((a, b) => Math.max(a, b), 0);
  const { answer, error, busy } = useAnswer(`${batch} ${written}`, () => api.richness(batch), batch);
  const [chosen, setChosen] = useState("");
  const [map, setMap] = useState<GridMap | null>(null);
  const shown = answer?.maps.find((one) => one.file === chosen) ?? answer?.maps[0];
  const facts = useAnswer(shown?.file ?? null, () => api.map(shown!.file), shown?.file).answer;
  const style = useMemo(
    () => (shown && facts ? styleOf(shown.kind, 0, Math.max(facts.high, 1), null) : null),
    [shown?.kind, facts],
  );
  useEffect(() => {
    if (map && style && shown) map.show("main", (z, x, y, signal) => serverTile({ file: shown.file }, z, x, y, signal), style);
  }, [map, style, shown?.file]);
  return (
    <div class="result">
      <h2>Richness: {batch}</h2>
      {busy && !answer ? <p role="status">Reading the maps …</p> : null}
      <Trouble text={error} />
      {answer && shown ? (
        <div class="columns">
          <div>
            <Field label="Show">
              <select value={shown.file} onChange={(event) => setChosen(event.currentTarget.value)}>
                {answer.maps.map((one) => (
                  <option key={one.file} value={one.file}>
                    {one.label} · {one.of}
                  </option>
                ))}
              </select>
            </Field>
            {facts ? (
              <MapView grid={facts} zooms={facts.zooms} label={`map of ${shown.label}`} onWorld={api.world} onReady={setMap} tall>
                {style ? <Legend style={style} label={shown.label} /> : null}
              </MapView>
            ) : null}
            <p class="help">
              {shown.kind === "richness_presences"
                ? "How many of the species are at or above their own threshold."
                : "The richness to expect if suitability were the probability of presence."}{" "}
              Cells that any of the species has no value for are left out.
            </p>
          </div>
          <div class="scroll" role="group" aria-label="species of this run" tabIndex={0}>
            <table>
              <caption>Species of this run</caption>
              <thead>
                <tr>
                  <th scope="col">species</th>
                  <th scope="col" class="n">
                    records
                  </th>
                  <th scope="col" class="n">
                    AUC
                  </th>
                  <th scope="col">present from</th>
                </tr>
              </thead>
              <tbody>
                {answer.species.map((one) => {
                  const run = runs.find((other) => other.run === one.run);
                  return (
                    <tr key={one.species}>
                      <th scope="row">{one.run ? <a href={`#result=${encodeURIComponent(one.run)}`}>{one.species}</a> : one.species}</th>
                      <td class="n">{run?.n_records ?? ""}</td>
                      <td class="n">{run?.auc?.toFixed(3) ?? ""}</td>
                      <td>{one.summed ? <span title={one.rule}>{one.threshold?.toFixed(3)}</span> : <span class="tag">{one.said}</span>}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        </div>
      ) : null}
    </div>
  );
}
