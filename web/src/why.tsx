// Why a place is suitable: what each variable adds there.

import type { JSX } from "preact";
import type { Why } from "./api";
import { short } from "./curves";

export function WhyPanel({ told, onVariable }: { told: Why; onVariable?: (name: string) => void }): JSX.Element {
  if (!told.known) return <p class="said">{told.said}</p>;
  const most = Math.max(...told.shares.map((part) => Math.abs(part.share)), 1e-9);
  const ends = told.intervals.cloglog;
  const beyond = told.shares.filter((part) => part.outside).map((part) => part.variable);
  return (
    <div class="why">
      <p class="said">
        <strong class="value">{told.outputs.cloglog?.toFixed(3)}</strong> suitability at ({short(told.x)}, {short(told.y)})
        {ends && `, 90% interval ${ends.map((end) => end.toFixed(3)).join(" to ")}`}
      </p>
      <p>{inWords(told)}</p>
      <table>
        <caption>
          What each variable does here, against the mean place: × is the factor on the density.
        </caption>
        <thead>
          <tr>
            <th scope="col">variable</th>
            <th scope="col" class="n">
              here
            </th>
            <th scope="col" class="n">
              mean place
            </th>
            <th scope="col">share</th>
            <th scope="col" class="n">
              factor
            </th>
          </tr>
        </thead>
        <tbody>
          {told.shares.map((part) => (
            <tr key={part.variable} class={part.outside ? "outside" : ""}>
              <th scope="row">
                {onVariable ? (
                  <button type="button" class="plain" onClick={() => onVariable(part.variable)}>
                    {part.variable}
                  </button>
                ) : (
                  part.variable
                )}
                {part.outside ? <span class="tag"> outside the fit</span> : null}
              </th>
              <td class="n">{typeof part.value === "number" ? short(part.value) : part.value}</td>
              <td class="n">{part.usual == null ? "" : short(part.usual)}</td>
              <td class="share">
                <span
                  class={part.share < 0 ? "down" : "up"}
                  style={{ width: `${(50 * Math.abs(part.share)) / most}%` }}
                />
              </td>
              <td class="n">× {short(Math.exp(part.share))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class={beyond.length ? "tag" : "soft"}>
        {beyond.length
          ? `This place extrapolates: ${beyond.join(", ")} lies outside what the model has seen.`
          : told.exdet != null && told.exdet > 1
            ? "Each variable is within its range, but their combination is new to the model."
            : "This place is like those that the model has seen."}
        {told.mess != null ? ` MESS ${short(told.mess)}${told.most_dissimilar ? ` (${told.most_dissimilar})` : ""}.` : ""}
        {told.exdet != null ? ` ExDet ${short(told.exdet)}.` : ""}
      </p>
    </div>
  );
}

function inWords(told: Why): string {
  const made = told.shares.filter((part) => Math.abs(part.share) >= 0.01);
  const names = (up: boolean): string =>
    made
      .filter((part) => part.share > 0 === up)
      .slice(0, 3)
      .map((part) => part.variable)
      .join(", ");
  const [up, down] = [names(true), names(false)];
  if (!up && !down) return "It is as suitable as the mean place.";
  const parts = [up ? `raised by ${up}` : "", down ? `lowered by ${down}` : ""].filter(Boolean);
  return `Compared with the mean place it is ${parts.join(" and ")}.`;
}
