// Where to survey next: sites on the map, and files to take along.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, type Result } from "./api";
import { Chooser } from "./chooser";
import { short } from "./curves";
import { useAfterwards } from "./evaluation";
import type { GridMap } from "./gridmap";
import { Entry, Field, Trouble } from "./parts";
import { start, usePage } from "./store";

const SITE = "#facc15";

export function Surveys({ result, map }: { result: Result; map: GridMap | null }): JSX.Element {
  const { job } = usePage();
  const { answer, error } = useAfterwards(result.run);
  const [count, setCount] = useState("20");
  const [apart, setApart] = useState("");
  const [visited, setVisited] = useState("");
  const [chosen, setChosen] = useState<string | null>(null);
  const surveys = answer?.surveys ?? [];
  const survey = chosen === "" ? undefined : (surveys.find((one) => one.name === chosen) ?? surveys[0]);
  useEffect(() => {
    const sites = survey?.sites ?? [];
    map?.setPoints(
      "sites",
      sites.map((site) => ({
        x: Number(site.x),
        y: Number(site.y),
        colour: SITE,
        edge: "#111",
        radius: 6.5,
        label: `site ${String(site.rank)}: suitability ${told(site.suitability)} ± ${told(site.deviation)}, gain ${percent(site.gain)}`,
      })),
    );
  }, [map, survey]);
  const asked = { run: result.run, count: Number(count), apart: Number(apart || 0), visited: apart && visited ? visited : null };
  const busy = job?.status === "running";
  return (
    <details class="analysis">
      <summary>Where to survey next</summary>
      <p>Places whose visit would make the map most certain, chosen one after another: two that tell the same are not both chosen.</p>
      <div class="options">
        <Field label="How many sites">
          <Entry type="number" min="1" max="1000" value={count} onEnter={(text) => setCount(text || "20")} />
        </Field>
        <Field label="At least so many km apart">
          <Entry type="number" min="0" max="5000" step="any" value={apart} placeholder="0" onEnter={setApart} />
        </Field>
      </div>
      {Number(apart) > 0 ? (
        <>
          <Chooser kind="records" label="Choose records to keep away from (if any)" onChoose={setVisited} />
          {visited ? (
            <p class="chosen">
              Away from: <code>{visited}</code>{" "}
              <button type="button" class="small" onClick={() => setVisited("")}>
                none
              </button>
            </p>
          ) : null}
        </>
      ) : null}
      <button type="button" disabled={busy} onClick={() => void start(() => api.sites(asked))}>
        Choose sites
      </button>
      <Trouble text={error} />
      {surveys.length ? (
        <Field label="On the map">
          <select value={survey?.name ?? ""} onChange={(event) => setChosen(event.currentTarget.value)}>
            {surveys.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
            <option value="">no sites</option>
          </select>
        </Field>
      ) : null}
      {survey ? (
        <>
          <p>
            {survey.files.map((file) => (
              <a key={file} class="download" href={`/results/${file}`} download={file.slice(file.lastIndexOf("/") + 1)}>
                {file.slice(file.lastIndexOf(".") + 1).toUpperCase()}
              </a>
            ))}
          </p>
          <div class="scroll" tabIndex={0} role="region" aria-label="sites">
            <table>
              <caption>Sites, the most telling first</caption>
              <thead>
                <tr>
                  {["", "longitude or x", "latitude or y", "suitability", "SD", "gain"].map((name) => (
                    <th scope="col" class="n" key={name}>
                      {name || "site"}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {survey.sites.map((site) => (
                  <tr key={String(site.rank)}>
                    <th scope="row" class="n">
                      {String(site.rank)}
                    </th>
                    <td class="n">{told(typeof site.longitude === "number" ? site.longitude : site.x, 7)}</td>
                    <td class="n">{told(typeof site.latitude === "number" ? site.latitude : site.y, 7)}</td>
                    <td class="n">{told(site.suitability)}</td>
                    <td class="n">{told(site.deviation)}</td>
                    <td class="n">{percent(site.gain)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      ) : null}
    </details>
  );
}

const told = (value: unknown, digits?: number): string =>
  typeof value !== "number" ? "" : digits ? String(Number(value.toPrecision(digits))) : short(value);
const percent = (value: unknown): string => (typeof value === "number" ? `${(100 * value).toFixed(2)} %` : "");
