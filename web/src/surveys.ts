// The answers about records and layers that the steps share.

import { api, type Choices, type Extent, type Grid, type LayersAnswer, type RecordsAnswer, type VisitsAnswer } from "./api";
import { useAnswer } from "./parts";
import { choose } from "./store";

export const BY_HAND = "left out by hand";

export interface Surveyed {
  records: ReturnType<typeof useAnswer<RecordsAnswer>>;
  layers: ReturnType<typeof useAnswer<LayersAnswer>>;
  extent: ReturnType<typeof useAnswer<Extent>>; // of maps, where a file says it
  visits: ReturnType<typeof useAnswer<VisitsAnswer>>;
  grid: Grid | null;
}

export function useSurveys(choices: Choices): Surveyed {
  const layerKey = choices.layers.sources?.length ? JSON.stringify(choices.layers) : null;
  const { clean, thin, keep_duplicates, minimum, seed } = choices.settings; // that decide what becomes of a record
  const asked = [choices.records, choices.layers, choices.study, clean, thin, keep_duplicates, minimum, seed];
  const recordKey = choices.records.path ? JSON.stringify(asked) : null;
  const layers = useAnswer(layerKey, api.layers, JSON.stringify(choices.layers.sources));
  const records = useAnswer(recordKey, api.records, choices.records.path);
  const { extent = "layers" } = choices.settings;
  const cut = layerKey && extent !== "layers" && extent !== "region" ? JSON.stringify([choices.layers, extent]) : null;
  const drawn = useAnswer(cut, api.extent, String(extent));
  const { leave_out: _, ...columns } = choices.records;
  const read = [choices.surveys, choices.counts, choices.sources, columns, choices.layers];
  const visits = useAnswer(choices.surveys.length + choices.counts.length ? JSON.stringify(read) : null, api.visits);
  return { records, layers, extent: drawn, visits, grid: layers.answer?.grid ?? records.answer?.grid ?? null };
}

export const shownSpecies = (answer: RecordsAnswer, chosen: string[]): RecordsAnswer["species"] =>
  answer.species.filter((one) => !chosen.length || chosen.includes(one.name)).slice(0, 50);

export function fateColour(fate: string): string {
  if (fate === "used") return "#2dd4bf";
  if (fate === BY_HAND) return "#ef4444";
  if (fate.startsWith("duplicates")) return "#facc15";
  if (fate.startsWith("outside")) return "#fb923c";
  return "#a78bfa";
}

/** Of a visit that found the species, and of one in vain. */
export const visitColour = (found: boolean): string => (found ? "#f28e2b" : "#9ca3af");

export function setSetting(choices: Choices, name: string, value: unknown, usual: unknown = undefined): void {
  const { [name]: _, ...rest } = choices.settings;
  const same = value === usual || (value === undefined && usual === undefined);
  void choose({ settings: same ? rest : { ...rest, [name]: value } });
}

export const number = (text: string): number | undefined => (text === "" ? undefined : Number(text));
