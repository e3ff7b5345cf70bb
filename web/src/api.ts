// What the server says, and how it is asked.

export interface Grid {
  transform: number[];
  width: number;
  height: number;
  crs: string | null;
  geographic: boolean;
  words: string;
}

export interface MapFacts extends Grid {
  zooms: number;
  size: number;
  low: number;
  high: number;
}

export type Fields = Record<string, unknown>;

export interface Choices {
  records: Fields & { path?: string; leave_out?: string[] };
  layers: Fields & { sources?: string[]; categorical?: string[]; without?: string[]; align?: string };
  study: Fields & { polygons?: string; hull?: boolean; buffer?: number; ecoregions?: string };
  settings: Fields;
  species: string[];
  background: string;
  background_file: string | null;
  projections: string[];
  test: string | null;
  out: string;
}

export interface Draft {
  choices: Choices;
  command: string;
  script: string;
  lacks: string;
  edits: number; // how many the server has seen
}

export interface JobEvent {
  kind: "note" | "begin" | "stage" | "done";
  at: number;
  text?: string;
  species?: string | string[];
  stage?: string;
  status?: string;
  error?: string;
  auc?: number;
}

export interface Job {
  number: number;
  kind: string;
  command: string;
  out: string;
  started: number;
  status: "running" | "done" | "stopped" | "failed" | "lost";
  error: string;
  events: JobEvent[];
}

export interface Run {
  run: string;
  written: number;
  species: string | null;
  n_records: number | null;
  auc: number | null;
  test_auc: number | null;
  test_auc_of: string | null;
  gap: number | null;
}

export interface Option {
  help: string;
  group: string | null;
  default: unknown;
  choices: (string | null)[];
  least: number | null;
  most: number | null;
  kind: string;
}

export interface State {
  version: string;
  folders: string[];
  viewing: boolean;
  draft: Draft;
  options: Record<string, Option>;
  rules: string[];
  jobs: Job[];
  runs: Run[];
}

export interface Listing {
  folder: string;
  above: string | null;
  roots: string[];
  folders: { name: string; path: string; rasters: number }[];
  files: { name: string; path: string; bytes: number }[];
}

export interface SpeciesRecords {
  name: string;
  counts: Record<string, number>;
  x: (number | null)[];
  y: (number | null)[];
  row: number[];
  fate: string[];
  hidden: number;
  study: number[][][];
  notes: string[];
}

export interface RecordsAnswer {
  species: SpeciesRecords[];
  grid: Grid | null;
  notes: string[];
}

export interface LayerRow {
  name: string;
  label: string;
  file: string;
  band: number;
  crs: string;
  grid: string;
  difference: string;
  low: number | null;
  high: number | null;
  vif: number | null;
  vif_infinite: boolean;
  categorical: boolean;
  levels: number;
  drop: string;
}

export interface LayersAnswer {
  layers: LayerRow[];
  fits: boolean;
  grid: Grid | null;
  correlation: { variables: string[]; values: (number | null)[][] } | null;
  notes: string[];
}

export interface Share {
  variable: string;
  value: number | string;
  usual: number | null;
  share: number;
  low: number | null;
  high: number | null;
  outside: boolean;
}

export interface Why {
  known: boolean;
  said: string;
  x: number;
  y: number;
  outputs: Record<string, number>;
  exponent: number;
  base: number;
  shares: Share[];
  mess: number | null;
  most_dissimilar: string | null;
  exdet: number | null;
  curves: { variable: string; x: number | string; y: number | null }[];
}

export interface Response1 {
  variable: string;
  kind: string;
  categorical: boolean;
  x: (number | string)[];
  y: number[];
  low: number[] | null;
  high: number[] | null;
}

export interface ResultMap {
  file: string;
  kind: string;
  label: string;
  of: string;
  training: boolean;
  classes: Record<string, string> | null;
}

export interface Threshold {
  name: string;
  value: number;
  area: number;
  training_omission: number;
  test_omission: number | null;
}

export interface Result {
  run: string;
  species: string;
  created: string;
  version: string;
  command: string;
  script: string;
  notes: string[];
  cleaning: { what: string; records: number }[];
  bound: string;
  n_background: number;
  certificate: { said: string; gap: number; gain: number | null };
  grid: Grid | null;
  records: { x: number[]; y: number[]; test: boolean[] };
  study: number[][][];
  evaluation: {
    scores: Record<string, number | null>;
    test_scores: Record<string, number | null> | null;
    roc: Record<string, Record<string, number[]>>;
    omission: Record<string, number[] | null>;
    thresholds: Threshold[];
  };
  importance: { variables: string[]; contribution: number[]; permutation: number[] } | null;
  jackknife: {
    variables: string[];
    scores: Record<string, { all: number; only: number[]; without: number[] }>;
  } | null;
  responses: Response1[];
  variables: string[];
  categorical: string[];
  layers_reachable: boolean;
  maps: ResultMap[];
  changes: Record<string, number | string>[];
  default_rule: string;
  report: string | null;
  files: string[];
}

export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

async function ask<T>(address: string, init: RequestInit = {}): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(address, init);
  } catch {
    throw new Refused("The server does not answer. It may have been stopped.", 0);
  }
  const type = answer.headers.get("content-type") ?? "";
  if (!answer.ok) {
    const said = type.includes("json") ? (await answer.json()).error : await answer.text();
    throw new Refused(String(said).trim() || answer.statusText, answer.status);
  }
  return (await answer.json()) as T;
}

const query = (given: Record<string, string | number | undefined>): string => {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) made.set(name, String(value));
  }
  return made.toString();
};

function send<T>(address: string, body: unknown, method = "POST"): Promise<T> {
  const headers = { "content-type": "application/json", "x-maxent": "1" };
  return ask<T>(address, { method, headers, body: JSON.stringify(body) });
}

export const api = {
  state: () => ask<State>("/api/state"),
  files: (folder: string, kind: string) => ask<Listing>(`/api/files?${query({ folder, kind })}`),
  records: () => ask<RecordsAnswer>("/api/records"),
  layers: () => ask<LayersAnswer>("/api/layers"),
  draft: (changes: Partial<Choices>) => send<Draft>("/api/draft", changes, "PUT"),
  region: (rings: number[][][], crs: string | null) => send<Draft>("/api/region", { rings, crs }),
  fit: (resume: boolean) => send<Job>("/api/fit", { resume }),
  project: (run: string, layers: string) => send<Job>("/api/project", { run, layers }),
  change: (run: string, future: string, threshold: number) =>
    send<Job>("/api/change", { run, future, threshold }),
  stop: (number: number) => send<unknown>(`/api/jobs/${number}/stop`, {}),
  result: (run: string) => ask<Result>(`/api/result?${query({ run })}`),
  map: (file: string, band?: number) => ask<MapFacts>(`/api/map?${query({ file, band })}`),
  variable: (run: string, of: string, variable: string) =>
    ask<MapFacts>(`/api/map?${query({ run, of, variable })}`),
  why: (run: string, of: string, x: number, y: number) =>
    ask<Why>(`/api/why?${query({ run, of, x, y })}`),
  upload: (into: string, file: File) =>
    ask<{ path: string }>(
      `/api/upload/${encodeURIComponent(into)}/${encodeURIComponent(file.name)}`,
      { method: "PUT", headers: { "x-maxent": "1" }, body: file },
    ),
};

export type TileQuery = { file: string; band?: number } | { run: string; of: string; variable: string };

/** The numbers of a tile, from the server. */
export async function serverTile(
  asked: TileQuery,
  z: number,
  x: number,
  y: number,
  signal: AbortSignal,
): Promise<Float32Array> {
  const address = `/api/tile/${z}/${x}/${y}?${query(asked as Record<string, string>)}`;
  const answer = await fetch(address, { signal });
  if (!answer.ok) throw new Refused("a piece of the map cannot be read", answer.status);
  return new Float32Array(await answer.arrayBuffer());
}
