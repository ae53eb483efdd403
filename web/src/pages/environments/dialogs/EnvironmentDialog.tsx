import { useState } from "react";
import type { Environment } from "@/api/types";
import type { EnvironmentKey } from "@/data/environments";
import type { EnvironmentAction } from "../EnvironmentActions";
import { ClaimDialog } from "./ClaimDialog";
import { DeployToEnvironmentDialog } from "./DeployToEnvironmentDialog";
import { ExtendDialog } from "./ExtendDialog";
import { HandOverDialog } from "./HandOverDialog";
import { ReleaseDialog } from "./ReleaseDialog";
import { TakeOverDialog } from "./TakeOverDialog";

type Props = {
  action: EnvironmentAction;
  where: EnvironmentKey;
  environment: Environment;
  onClose: () => void;
};

export type EnvironmentDialogProps = { where: EnvironmentKey; environment: Environment; onClose: () => void };
/** Props of dialogs about a session. */
export type SessionDialogProps = EnvironmentDialogProps & { lock: NonNullable<Environment["lock"]> };

/** The dialog of an action. Lazy-loaded. */
export default function EnvironmentDialog({ action, ...rest }: Props) {
  // The session may end while the dialog is open: keep the one it was opened for.
  const [lock] = useState(rest.environment.lock);
  if (action === "claim") return <ClaimDialog {...rest} />;
  if (action === "queue") return <ClaimDialog {...rest} isQueued />;
  if (!lock) return <ClaimDialog {...rest} />;
  switch (action) {
    case "take-over":
      return <TakeOverDialog {...rest} lock={lock} />;
    case "deploy":
      return <DeployToEnvironmentDialog {...rest} lock={lock} />;
    case "extend":
      return <ExtendDialog {...rest} lock={lock} />;
    case "hand-over":
      return <HandOverDialog {...rest} lock={lock} />;
    case "release":
      return <ReleaseDialog {...rest} lock={lock} />;
  }
}
