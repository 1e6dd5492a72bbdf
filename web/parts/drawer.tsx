"use client";
/** Where a record comes from, and why it was allowed at t. Its place stands in the address (`rec`). */
import { said, useGet } from "@/lib/api";
import { instant, ms, span } from "@/lib/format";
import type { DocumentAt, MarketAt, RunWhole } from "@/lib/schema";
import { useUrl } from "@/lib/url";
import { Dialog } from "./dialog";
import { CopyLink, Exports, Facts } from "./small";
import { Icon } from "./icons";

/** A record in the address: `document:ID`, `price`, `market`, or `leaks`. */
export function RecordDrawer({ archive, at, run, t }: {
  archive: string | null;
  at: MarketAt | undefined;
  run: RunWhole | undefined;
  t: string | null;
}) {
  const url = useUrl();
  const rec = url.get("rec");
  const close = () => url.set({ rec: null });
  const documentId = rec?.startsWith("document:") ? rec.slice(9) : null;
  const found = useGet(
    "/api/archives/{archive}/documents/{document_id}",
    archive && documentId ? { params: { path: { archive, document_id: documentId } } } : null,
  );
  return (
    <Dialog open={rec !== null} onClose={close} label="Provenance" className="drawer">
      <div className="mb-4 flex items-center justify-between">
        <span className="note font-semibold">{rec === "leaks" ? "Proof" : "Provenance"}</span>
        <button type="button" className="btn btn-bare" onClick={close} aria-label="Close">
          <Icon name="close" />
        </button>
      </div>
      {rec === "leaks" ? (
        <Proof run={run} />
      ) : documentId ? (
        found.error ? (
          <p>This record could not be read. {said(found.error)}</p>
        ) : found.data ? (
          <DocumentFacts found={found.data} t={t} archive={archive!} />
        ) : (
          <span className="skeleton h-80" />
        )
      ) : (
        at && rec && <StoredFacts kind={rec} at={at} />
      )}
      <div className="mt-5 flex gap-2">
        <CopyLink />
        {documentId && archive && <Exports path={`/api/archives/${archive}/documents/${encodeURIComponent(documentId)}`} name={documentId} forms={["json"]} />}
      </div>
    </Dialog>
  );
}

function When({ knownAt, t }: { knownAt: string; t: string | null }) {
  if (!t) return null;
  const before = (ms(t) - ms(knownAt)) / 1000;
  return before >= 0 ? (
    <p className="state mb-3 text-beats"><Icon name="check" /> known {span(before)} before t, {instant(knownAt)}</p>
  ) : (
    <p className="state mb-3 text-warn"><Icon name="lock" /> known {span(-before)} after t: hidden then</p>
  );
}

function DocumentFacts({ found, t, archive }: { found: DocumentAt; t: string | null; archive: string }) {
  const document = found.document;
  return (
    <>
      <h2 className="!text-20 !leading-tight">{document.title || document.id}</h2>
      <When knownAt={document.known_at} t={t} />
      <Facts
        rows={[
          ["id", <code key="id">{document.id}</code>],
          ["kind", "document"],
          ["source", document.source || "–"],
          ["url", document.url ? <a key="u" href={document.url} rel="noreferrer noopener" target="_blank">{document.url}</a> : "–"],
          ["published_at", document.published_at ?? "–"],
          ["known_at", document.known_at],
          ["digest", <code key="d">{found.provenance.digest.slice(0, 16)}</code>],
          ["archive", archive],
        ]}
      />
      {document.text && <blockquote className="mt-4 border-l-2 border-line-2 pl-3 whitespace-pre-line text-ink-2">{document.text}</blockquote>}
      <h3 className="mt-4">Why it was allowed</h3>
      <p className="text-ink-2">{t && ms(document.known_at) > ms(t) ? "It was not: its known_at lies after t. It is here because this page shows what came later too." : "Its known_at lies at or before t. That was checked at the wall, and again from the stored row."}</p>
    </>
  );
}

function StoredFacts({ kind, at }: { kind: string; at: MarketAt }) {
  const rows = at.provenance.filter((one) => one.kind === kind);
  const words: Record<string, string> = { price: "Last price", market: "Text of the market", resolution: "Resolution" };
  return (
    <>
      <h2 className="!text-20 !leading-tight">{words[kind] ?? kind}</h2>
      {rows.map((one) => (
        <div key={one.digest} className="mb-4">
          <When knownAt={one.known_at} t={at.t} />
          <Facts
            rows={[
              ["id", <code key="i">{one.id}</code>],
              ["kind", one.kind],
              ["source", one.source],
              ["known_at", one.known_at],
              ["digest", <code key="d">{one.digest.slice(0, 16)}</code>],
              ["archive", at.archive],
            ]}
          />
        </div>
      ))}
      {!rows.length && <p>There is none at this instant.</p>}
    </>
  );
}

function Proof({ run }: { run: RunWhole | undefined }) {
  const leaks = run?.scores?.leaks;
  if (!leaks) return <p>This run keeps no count of records: it scored a file.</p>;
  return (
    <>
      <h2 className="!text-20 !leading-tight">{leaks.admitted_after_t} records after t were shown</h2>
      <p className="mb-4 text-ink-2">
        Each of {leaks.rechecked.toLocaleString("en-US")} records in the stored rows carries the instant from which it was known; each was compared with its t again after the run.
      </p>
      <Facts
        rows={[
          ["checked at the wall", leaks.checked.toLocaleString("en-US")],
          ["refused there", leaks.refused.toLocaleString("en-US")],
          ["checked again", leaks.rechecked.toLocaleString("en-US")],
          ["evidence", leaks.evidence],
          ["canaries", leaks.canaries],
          ["detector", leaks.detector],
        ]}
      />
      <p className="note mt-3">{run!.scores!.leak_note}</p>
      <p className="mt-3"><code>beforehand runs verify {run!.run_id}</code> does it once more.</p>
    </>
  );
}
