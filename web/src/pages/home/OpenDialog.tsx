import { createContext, lazy, type ReactNode, Suspense, useContext, useState } from "react";
import type { Approval } from "@/api/types";
import type { EnvironmentKey } from "@/data/environments";
import type { EnvironmentAction } from "../environments/EnvironmentActions";

const HomeDialog = lazy(() => import("./HomeDialog"));

/** The dialog to open, with what its row knows. */
export type DialogRequest =
  | { kind: "approval"; approval: Approval; title: string; choice: "approve" | "reject" }
  | { kind: "retry"; deploymentId: string }
  | { kind: "deploy"; pipelineId: string; promote?: { commitId: string; to: string } }
  | { kind: "environment"; action: EnvironmentAction; where: EnvironmentKey };

const OpenDialog = createContext<(request: DialogRequest) => void>(() => {});

export function useOpenDialog() {
  return useContext(OpenDialog);
}

/** Opens the dialogs of Home's rows. A dialog stays open while live updates replace the rows. */
export function OpenDialogProvider({ children }: { children: ReactNode }) {
  const [request, setRequest] = useState<DialogRequest | null>(null);
  return (
    <OpenDialog value={setRequest}>
      {children}
      {request && (
        <Suspense fallback={null}>
          <HomeDialog request={request} onClose={() => setRequest(null)} />
        </Suspense>
      )}
    </OpenDialog>
  );
}
