import { OneTimeSecretDialog } from "@/ui/OneTimeSecretDialog";

/** Dialog that shows new recovery codes once. */
export function RecoveryCodesDialog({ codes, onClose }: { codes: string[]; onClose: () => void }) {
  return (
    <OneTimeSecretDialog
      title="Recovery codes"
      warning="Save them now. They won’t be shown again."
      note="If you lose your phone, log in with one of these codes instead. Each works once. Keep them in a password manager or print them."
      label="Recovery codes"
      text={codes.join("\n")}
      copy="Copy codes"
      onClose={onClose}
    />
  );
}
