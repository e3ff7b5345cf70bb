// Where records and layers come from: the page itself asks nobody.

import type { JSX } from "preact";

export function RecordSources(): JSX.Element {
  return (
    <details>
      <summary>Where to get records</summary>
      <ul class="help">
        <li>
          GBIF (gbif.org): look for the species, open its occurrences, choose <em>Download</em>, and take <em>Darwin Core Archive</em> or{" "}
          <em>Simple</em>. The zip is read as it is; its citation and licences go into the report, so keep it zipped.
        </li>
        <li>A table of your own: one row per record, with a species, a longitude and a latitude.</li>
      </ul>
      <p class="help">This page never goes to the network: download the file with your browser, then drop it above.</p>
    </details>
  );
}
