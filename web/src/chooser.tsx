// A chooser of files in the opened folders, and a place to drop files of one's own.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Listing } from "./api";
import { Trouble } from "./parts";
import { usePage } from "./store";

const megabytes = (bytes: number): string =>
  bytes < 1e5 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

export function Chooser({
  kind,
  label,
  folders,
  each,
  onChoose,
}: {
  kind: "records" | "layers";
  label: string;
  folders?: boolean;
  each?: boolean; // several files, one after the other
  onChoose: (path: string) => void;
}): JSX.Element {
  const { state } = usePage();
  const [open, setOpen] = useState(false);
  const [listing, setListing] = useState<Listing | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState("");
  const [over, setOver] = useState(false);
  const dialog = useRef<HTMLDialogElement>(null);

  const look = (folder: string): void => {
    api.files(folder, kind).then(setListing, (wrong: Error) => setError(wrong.message));
  };
  useEffect(() => {
    if (!open) return;
    dialog.current?.showModal();
    look(listing?.folder ?? ".");
  }, [open]);
  const choose = (path: string): void => {
    setOpen(false);
    onChoose(path);
  };
  const bring = async (files: FileList | null): Promise<void> => {
    if (!files?.length) return;
    setError("");
    const into = kind === "records" ? "records" : `layers-${Date.now().toString(36)}`;
    try {
      let path = "";
      for (const [at, file] of [...files].entries()) {
        setBusy(`copying ${file.name} (${at + 1} of ${files.length})`);
        path = (await api.upload(into, file)).path;
        if (each) onChoose(path);
      }
      if (!each) onChoose(kind === "layers" ? path.slice(0, path.lastIndexOf("/")) : path);
    } catch (wrong) {
      setError((wrong as Error).message);
    }
    setBusy("");
  };

  return (
    <div
      class={`chooser${over ? " over" : ""}`}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void bring(event.dataTransfer?.files ?? null);
      }}
    >
      <button type="button" onClick={() => setOpen(true)}>
        {label}
      </button>
      <label class="link">
        or bring {kind === "layers" ? "rasters" : "a file"} from elsewhere (or drop {kind === "layers" ? "them" : "it"} here)
        <input
          type="file"
          class="hidden"
          multiple={each || kind === "layers"}
          onChange={(event) => void bring(event.currentTarget.files)}
        />
      </label>
      {busy ? <p role="status">{busy} …</p> : null}
      <Trouble text={error} />
      {open ? (
        <dialog ref={dialog} class="files" onClose={() => setOpen(false)} aria-label={label}>
          <header>
            <strong>{listing?.folder === "." ? state?.folders[0] : listing?.folder}</strong>
            <button type="button" class="small" onClick={() => setOpen(false)}>
              close
            </button>
          </header>
          <ul>
            {(listing?.roots.length ?? 0) > 1
              ? listing!.roots
                  .filter((root) => root !== listing!.folder)
                  .map((root) => (
                    <li key={`root ${root}`}>
                      <button type="button" class="plain" onClick={() => look(root)}>
                        opened folder {root}
                      </button>
                    </li>
                  ))
              : null}
            {listing?.above != null ? (
              <li>
                <button type="button" class="plain" onClick={() => look(listing.above!)}>
                  ↑ one folder up
                </button>
              </li>
            ) : null}
            {listing?.folders.map((folder) => (
              <li key={folder.path}>
                <button type="button" class="plain" onClick={() => look(folder.path)}>
                  📁 {folder.name}
                </button>
                {folders && folder.rasters > 0 ? (
                  <button type="button" class="small" onClick={() => choose(folder.path)}>
                    use {folder.rasters} rasters
                  </button>
                ) : null}
              </li>
            ))}
            {listing?.files.map((file) => (
              <li key={file.path}>
                <button type="button" class="plain" onClick={() => choose(file.path)}>
                  {file.name}
                </button>
                <span class="soft">{megabytes(file.bytes)}</span>
              </li>
            ))}
          </ul>
          {folders && listing && listing.files.length > 0 ? (
            <button type="button" onClick={() => choose(listing.folder)}>
              use all {listing.files.length} rasters of this folder
            </button>
          ) : null}
          {listing && !listing.files.length && !listing.folders.length ? <p>Nothing of this kind here.</p> : null}
        </dialog>
      ) : null}
    </div>
  );
}
