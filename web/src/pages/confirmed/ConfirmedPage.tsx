import { useEffect } from "react";
import { announceConfirmation } from "@/data/providers";
import { EntryPage } from "@/ui/entry/EntryPage";

/** Page after a confirmation at the identity provider. The dashboard in the other tab continues. */
export function ConfirmedPage() {
  useEffect(announceConfirmation, []);
  return <EntryPage name="Confirmed" title="Confirmed" lead="Close this tab and continue in the other one" />;
}
