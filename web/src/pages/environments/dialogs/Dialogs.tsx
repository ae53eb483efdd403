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
/** Dialogs about a hold know whose it is from the moment they open. */
export type HoldDialogProps = DialogProps & { lock: NonNullable<Environment["lock"]> };

/** The dialog of what somebody is about to do. Loaded when the first one opens. */
export default function Dialogs({ doing, ...rest }: Props) {
  // The hold may end, by this very dialog or by others, while it is open: it stays the dialog of that hold.
  const [lock] = useState(rest.environment.lock);
  if (doing === "claim") return <ClaimDialog {...rest} />;
  if (doing === "wait") return <ClaimDialog {...rest} inLine />;
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
