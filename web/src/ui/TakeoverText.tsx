import type { Takeover } from "@/api/types";
import { RelativeTime } from "./RelativeTime";

/** An announced takeover: who, when and why. */
export function TakeoverText({ takeover }: { takeover: Takeover }) {
  return (
    <>
      {takeover.by.name} will take over{" "}
      {takeover.at ? <RelativeTime at={takeover.at} /> : "after the current deployment"}
      {takeover.reason ? `: “${takeover.reason}”` : ""}
    </>
  );
}
