import { useState } from "react";
import type { Environment } from "@/api/types";
import type { Where } from "@/data/environments";
import type { Doing } from "../EnvironmentActions";
import { ClaimDialog } from "./ClaimDialog";
import { DeployDialog } from "./DeployDialog";
import { ExtendDialog } from "./ExtendDialog";
import { HandOverDialog } from "./HandOverDialog";
import { ReleaseDialog } from "./ReleaseDialog";
import { TakeOverDialog } from "./TakeOverDialog";

type Props = { doing: Doing; where: Where; environment: Environment; onClose: () => void };

export type DialogProps = { where: Where; environment: Environment; onClose: () => void };
/** Props of dialogs about a session. */
export type SessionDialogProps = DialogProps & { lock: NonNullable<Environment["lock"]> };

/** The dialog of an action. Lazy-loaded. */
export default function Dialogs({ doing, ...rest }: Props) {
  // The session may end while the dialog is open: keep the one it was opened for.
  const [lock] = useState(rest.environment.lock);
  if (doing === "claim") return <ClaimDialog {...rest} />;
  if (doing === "queue") return <ClaimDialog {...rest} isQueued />;
  if (!lock) return <ClaimDialog {...rest} />;
  switch (doing) {
    case "take-over":
      return <TakeOverDialog {...rest} lock={lock} />;
    case "deploy":
      return <DeployDialog {...rest} lock={lock} />;
    case "extend":
      return <ExtendDialog {...rest} lock={lock} />;
    case "hand-over":
      return <HandOverDialog {...rest} lock={lock} />;
    case "release":
      return <ReleaseDialog {...rest} lock={lock} />;
  }
}
